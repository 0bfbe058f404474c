//! The other names of files. Rules go by path, but a file with several names (hard links, link(2))
//! is written through any of them. It looks at directories and changes nothing.

use kernel::identity::{Identity, identity};
use kernel::mounts::Mount;
use kernel::self_proc::own_link;
use nix::libc;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Access, AtFlags, Dir, DirEntry, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most directory entries that are looked at in all, about a second's worth, and near a file.
const ENTRIES_MAX: usize = 500_000;
const NEARBY_MAX: usize = 20_000;

/// The other names of some files, as far as they were found.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) found: Vec<PathBuf>,
    /// Those of the trees that were asked about in which there may be more.
    pub(crate) may_be_in: Vec<PathBuf>,
}

/// Finds the names that `files`, canonical paths, have in `trees` beside their own. Files with one
/// name cost a stat(2) each.
pub(crate) fn other_names(files: &[PathBuf], trees: &[PathBuf], mounts: &[Mount]) -> Names {
    let mut search = Search::of(files, |_, _| true, ENTRIES_MAX);
    // A whole machine has more than ENTRIES_MAX entries, and nobody waits a second to be told so.
    if trees.iter().any(|tree| tree == Path::new("/")) {
        let may_be_in = if search.missing > 0 { trees.to_vec() } else { Vec::new() };
        return Names { found: Vec::new(), may_be_in };
    }
    let is_incomplete =
        search.missing > 0 && search.look_through(&roots(trees, mounts), |_| false).is_none();
    let may_be_in = if is_incomplete { search.may_be_in(trees, mounts) } else { Vec::new() };
    Names { found: search.found_beside(files), may_be_in }
}

/// Finds the names that `files` have where build tools and installers make them: in the same directory, or
/// in one that is in it. What this user could not change by any name is left out.
pub(crate) fn names_nearby(files: &[PathBuf], trees: &[PathBuf], mounts: &[Mount]) -> Names {
    let mut search = Search::of(files, may_change, NEARBY_MAX);
    if search.missing > 0 {
        for directory in search.directories.clone() {
            // What cannot be read here, the names that are still missing tell of.
            let inner = search.look_at(&directory).unwrap_or_default();
            inner.iter().for_each(|path| drop(search.look_at(path)));
        }
    }
    let may_be_in = search.may_be_in(trees, mounts);
    Names { found: search.found_beside(files), may_be_in }
}

/// Those of `files`, canonical paths, that are known to have no other name in `trees`, but for what is beneath the
/// directories that are `apart`.
pub(super) fn without_names_in(
    (trees, is_apart): (&[PathBuf], impl Fn(&Path) -> bool),
    files: &[PathBuf],
    mounts: &[Mount],
) -> HashSet<Identity> {
    let mut search = Search::of(files, |_, _| true, ENTRIES_MAX);
    if search.missing > 0 && search.look_through(&roots(trees, mounts), is_apart).is_none() {
        return HashSet::new();
    }
    let mut without = search.files.clone();
    for path in search.found_beside(files) {
        // One that has gone was there.
        let Ok(found) = fs::lstat(&path) else { return HashSet::new() };
        without.remove(&identity(&found));
    }
    without
}

/// The trees with what is mounted in them: the files' device may be mounted below another one.
fn roots(trees: &[PathBuf], mounts: &[Mount]) -> Vec<PathBuf> {
    let inside = |path: &&PathBuf| trees.iter().any(|tree| path.starts_with(tree));
    let mounted = mounts.iter().map(|mount| &mount.point).filter(inside);
    trees.iter().chain(mounted).cloned().collect()
}

/// Whether this user can change the file, or its mode so that it can.
fn may_change(file: &Path, found: &Stat) -> bool {
    let user = rustix::process::geteuid();
    user.is_root()
        || found.st_uid == user.as_raw()
        || fs::access(file, Access::WRITE_OK) != Err(Errno::ACCESS)
}

#[derive(Default)]
struct Search {
    files: HashSet<Identity>,
    /// The devices of the directories that the files are in. Overlayfs gives files another one.
    devices: HashSet<u64>,
    /// Where they are.
    directories: HashSet<PathBuf>,
    /// Names by their directory, so that one seen at two mounts counts once.
    known: HashSet<(Identity, OsString)>,
    /// How many names are not known yet.
    missing: libc::nlink_t,
    found: Vec<PathBuf>,
    entries_left: usize,
}

impl Search {
    fn of(
        files: &[PathBuf],
        is_wanted: impl Fn(&Path, &Stat) -> bool,
        entries_left: usize,
    ) -> Self {
        let mut search = Self { entries_left, ..Self::default() };
        for file in files {
            let Ok(found) = fs::lstat(file) else { continue };
            let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
            if !is_file || found.st_nlink < 2 || !is_wanted(file, &found) {
                continue;
            }
            let Some(directory) = file.parent() else { continue };
            let Ok(parent) = fs::lstat(directory) else { continue };
            search.directories.insert(directory.to_owned());
            search.devices.insert(parent.st_dev);
            if search.files.insert(identity(&found)) {
                search.missing += found.st_nlink;
            }
            search.note(&parent, file.file_name().unwrap_or_default());
        }
        search
    }

    /// Counts a name of one of the files.
    fn note(&mut self, directory: &Stat, name: &OsStr) {
        if self.known.insert((identity(directory), name.to_owned())) {
            self.missing = self.missing.saturating_sub(1);
        }
    }

    /// Those of `trees` where the names can be that are not known yet: no file has names on two devices.
    fn may_be_in(&self, trees: &[PathBuf], mounts: &[Mount]) -> Vec<PathBuf> {
        let can_be = |tree: &&PathBuf| {
            let roots = || roots(std::slice::from_ref(*tree), mounts);
            self.missing > 0 && roots().iter().any(|root| self.may_be_beneath(root))
        };
        trees.iter().filter(can_be).cloned().collect()
    }

    /// Whether `root` is on the device of one of the files, or one is beneath: a subvolume of Btrfs has a device
    /// of its own, and is no mount.
    fn may_be_beneath(&self, root: &Path) -> bool {
        fs::lstat(root).is_ok_and(|stat| self.devices.contains(&stat.st_dev))
            || self.directories.iter().any(|directory| directory.starts_with(root))
    }

    /// What was found but these, which have been named already.
    fn found_beside(self, named: &[PathBuf]) -> Vec<PathBuf> {
        self.found.into_iter().filter(|path| !named.contains(path)).collect()
    }

    /// Looks through trees, but for what `is_apart`, until all names are known; none if something could not be looked at.
    fn look_through(&mut self, roots: &[PathBuf], is_apart: impl Fn(&Path) -> bool) -> Option<()> {
        let all: HashSet<&Path> = roots.iter().map(PathBuf::as_path).collect();
        for root in &all {
            let Ok(root_stat) = fs::lstat(*root) else { continue };
            // Of a root that is a file the directory is not looked through.
            if self.files.contains(&identity(&root_stat)) {
                self.found.push(root.to_path_buf());
            }
            if !self.may_be_beneath(root) {
                continue;
            }
            let mut pending = vec![root.to_path_buf()];
            while let Some(path) = pending.pop() {
                if self.missing == 0 {
                    return Some(());
                }
                let Some((directory, stat)) = open(&path)? else { continue };
                if stat.st_dev == root_stat.st_dev || self.devices.contains(&stat.st_dev) {
                    let is_file = |_: &DirEntry| true;
                    let inner = self.look_into(&directory, &stat, &path, is_file)?;
                    let is_here = |path: &PathBuf| !all.contains(path.as_path()) && !is_apart(path);
                    pending.extend(inner.into_iter().filter(is_here));
                }
            }
        }
        Some(())
    }

    /// Notes the names in the directory `path`, of those entries that have the number of one of the files;
    /// returns the directories in it.
    fn look_at(&mut self, path: &Path) -> Option<Vec<PathBuf>> {
        let numbers: HashSet<u64> = self.files.iter().map(|file| file.1).collect();
        let (directory, stat) = open(path)??;
        self.look_into(&directory, &stat, path, |entry| numbers.contains(&entry.ino()))
    }

    /// Notes the names in one directory, of the entries that `may_be` one of the files; returns the
    /// directories in it.
    fn look_into(
        &mut self,
        directory: &OwnedFd,
        directory_stat: &Stat,
        path: &Path,
        may_be: impl Fn(&DirEntry) -> bool,
    ) -> Option<Vec<PathBuf>> {
        let mut inner = Vec::new();
        for entry in Dir::read_from(directory).ok()? {
            let entry = entry.ok()?;
            self.entries_left = self.entries_left.checked_sub(1)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let mut file_type = entry.file_type();
            let is_looked_at = match file_type {
                FileType::RegularFile => may_be(&entry),
                other => other == FileType::Unknown,
            };
            if is_looked_at {
                let found = fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                let Ok(found) = found else { continue };
                file_type = FileType::from_raw_mode(found.st_mode);
                if self.files.contains(&identity(&found)) {
                    self.note(directory_stat, name);
                    self.found.push(path.join(name));
                }
            }
            if file_type == FileType::Directory {
                inner.push(path.join(name));
            }
        }
        Some(inner)
    }
}

/// Opens a directory; `Some(None)` if it has gone, or holds nothing that the command could reach, and none
/// if it hides what is in it, until its owner changes the mode.
#[allow(clippy::option_option, reason = "to look on, or not to know")]
fn open(path: &Path) -> Option<Option<(OwnedFd, Stat)>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match fs::open(path, OFlags::PATH | flags, Mode::empty()) {
        Ok(held) => held,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Some(None),
        Err(_) => return None,
    };
    let stat = fs::fstat(&held).ok()?;
    let searchable = fs::access(own_link(&held), Access::EXEC_OK);
    match searchable.and_then(|()| fs::openat(&held, c".", flags, Mode::empty())) {
        Ok(directory) => Some(Some((directory, stat))),
        // Another user's directory stays closed; its own user's could be opened again by the command.
        Err(_) if searchable.is_err() && stat.st_uid != rustix::process::geteuid().as_raw() => {
            Some(None)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_directory::TestDirectory;

    #[test]
    fn every_other_name_is_found_and_nothing_else() {
        let dir = TestDirectory::new();
        let file = dir.file("own/program", "");
        dir.directory("tree/a/b");
        dir.file("tree/a/program", "");
        std::os::unix::fs::symlink(&file, dir.path("tree/symbolic")).unwrap();
        let trees = [dir.path("tree"), dir.path("tree/a"), dir.path("gone")];
        let names = || other_names(std::slice::from_ref(&file), &trees, &[]);
        assert!(names().found.is_empty());
        for name in ["tree/one", "tree/a/b/two", "outside"] {
            std::fs::hard_link(&file, dir.path(name)).unwrap();
        }
        let Names { mut found, may_be_in } = names();
        found.sort();
        assert_eq!(found, [dir.path("tree/a/b/two"), dir.path("tree/one")]);
        assert!(may_be_in.is_empty());
    }

    #[test]
    fn names_nearby_are_found_without_a_search() {
        let dir = TestDirectory::new();
        let file = dir.file("own/program", "");
        dir.directory("own/deps/deeper");
        dir.directory("tree");
        let trees = [dir.path("tree")];
        let names = || names_nearby(std::slice::from_ref(&file), &trees, &[]);
        assert!(names().found.is_empty());
        for name in ["own/one", "own/deps/two"] {
            std::fs::hard_link(&file, dir.path(name)).unwrap();
        }
        let Names { mut found, may_be_in } = names();
        found.sort();
        assert_eq!(found, ["own/deps/two", "own/one"].map(|name| dir.path(name)));
        assert!(may_be_in.is_empty());
        std::fs::hard_link(&file, dir.path("own/deps/deeper/three")).unwrap();
        let trees = [dir.path("tree"), "/proc".into()];
        assert_eq!(names_nearby(&[file], &trees, &[]).may_be_in, [dir.path("tree")]);
    }

    #[test]
    fn a_search_that_is_too_long_is_given_up() {
        let dir = TestDirectory::new();
        let file = dir.file("own/program", "");
        std::fs::hard_link(&file, dir.path("other")).unwrap();
        for number in 0..100 {
            dir.file(&format!("tree/{number}"), "");
        }
        for (limit, enough) in [(50, false), (200, true)] {
            let mut search = Search::of(std::slice::from_ref(&file), |_, _| true, limit);
            assert_eq!(
                search.look_through(&[dir.path("tree")], |_| false).is_some(),
                enough,
                "{limit}"
            );
        }
    }
}
