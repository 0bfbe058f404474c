//! The other names of files. Rules go by path, but a file with several names (hard links, link(2))
//! is written through any of them. It looks at directories and changes nothing.

use crate::kernel::identity::{Identity, identity};
use crate::kernel::object::own_link;
use nix::libc;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Access, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Most directory entries that are looked at, about a second's worth.
const ENTRIES_MAX: usize = 500_000;

/// Why the other names are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SearchError {
    /// There are too many entries to look at.
    #[error("allowWrite holds more than {ENTRIES_MAX} entries, too many to look for the others")]
    TooMany,
    /// A directory hides what is in it, until its owner changes the mode.
    #[error("{} cannot be searched for the others: {}", .0.display(), crate::report::errno::strerror(*.1))]
    Hidden(PathBuf, Errno),
}

/// Finds the names that `files`, canonical paths, have in `trees` beside their own. Files with one
/// name, as an installation copies them, cost a stat(2) each.
///
/// # Errors
/// Returns a [`SearchError`] if there may be names that were not found.
pub(crate) fn other_names(
    files: &[PathBuf],
    trees: &[PathBuf],
) -> Result<Vec<PathBuf>, SearchError> {
    let mut search = Search::of(files, ENTRIES_MAX);
    if search.missing == 0 {
        return Ok(Vec::new());
    }
    let mut roots = trees.to_vec();
    // The files' device may be mounted further inside, below another one.
    let inside = |path: &PathBuf| trees.iter().any(|tree| path.starts_with(tree));
    roots.extend(mount_points().into_iter().filter(inside));
    search.look_through(&roots)?;
    Ok(search.found)
}

struct Search {
    files: HashSet<Identity>,
    /// The devices of the directories that the files are in. Overlayfs gives files another one.
    devices: HashSet<u64>,
    /// Names by their directory, so that one seen at two mounts counts once.
    known: HashSet<(Identity, OsString)>,
    /// How many names are not known yet.
    missing: libc::nlink_t,
    found: Vec<PathBuf>,
    entries_left: usize,
}

impl Search {
    fn of(files: &[PathBuf], entries_left: usize) -> Self {
        let mut search = Self {
            files: HashSet::new(),
            devices: HashSet::new(),
            known: HashSet::new(),
            missing: 0,
            found: Vec::new(),
            entries_left,
        };
        for file in files {
            let Some(found) = stat(file) else { continue };
            if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink < 2
            {
                continue;
            }
            let Some(parent) = file.parent().and_then(stat) else { continue };
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

    fn look_through(&mut self, roots: &[PathBuf]) -> Result<(), SearchError> {
        let all: HashSet<&Path> = roots.iter().map(PathBuf::as_path).collect();
        for root in &all {
            let Some(root_stat) = stat(root) else { continue };
            if !self.devices.contains(&root_stat.st_dev) {
                continue;
            }
            // Of a root that is a file the directory is not looked through.
            if self.files.contains(&identity(&root_stat)) {
                self.found.push(root.to_path_buf());
            }
            let mut pending = vec![root.to_path_buf()];
            while let Some(path) = pending.pop() {
                if self.missing == 0 {
                    return Ok(());
                }
                let Some((directory, stat)) = open(&path)? else { continue };
                if stat.st_dev == root_stat.st_dev {
                    let inner = self.look_into(&directory, &stat, &path)?;
                    pending.extend(inner.into_iter().filter(|path| !all.contains(path.as_path())));
                }
            }
        }
        Ok(())
    }

    /// Notes the names in one directory; returns the directories in it.
    fn look_into(
        &mut self,
        directory: &OwnedFd,
        directory_stat: &Stat,
        path: &Path,
    ) -> Result<Vec<PathBuf>, SearchError> {
        let hidden = |errno| SearchError::Hidden(path.to_owned(), errno);
        let mut inner = Vec::new();
        for entry in Dir::read_from(directory).map_err(hidden)? {
            let entry = entry.map_err(hidden)?;
            self.entries_left = self.entries_left.checked_sub(1).ok_or(SearchError::TooMany)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let mut file_type = entry.file_type();
            if matches!(file_type, FileType::RegularFile | FileType::Unknown) {
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
        Ok(inner)
    }
}

/// Opens a directory; none if it has gone, or holds nothing that the command could come at.
fn open(path: &Path) -> Result<Option<(OwnedFd, Stat)>, SearchError> {
    let hidden = |errno| SearchError::Hidden(path.to_owned(), errno);
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match fs::open(path, OFlags::PATH | flags, Mode::empty()) {
        Ok(held) => held,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(hidden(errno)),
    };
    let stat = fs::fstat(&held).map_err(hidden)?;
    let searchable = fs::access(own_link(&held), Access::EXEC_OK);
    match searchable.and_then(|()| fs::openat(&held, c".", flags, Mode::empty())) {
        Ok(directory) => Ok(Some((directory, stat))),
        // Another user's directory stays closed; its own user's could be opened again by the command.
        Err(_) if searchable.is_err() && stat.st_uid != rustix::process::geteuid().as_raw() => {
            Ok(None)
        }
        Err(errno) => Err(hidden(errno)),
    }
}

fn stat(path: &Path) -> Option<Stat> {
    fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()
}

/// Every mount point of this mount namespace (proc_pid_mountinfo(5)).
fn mount_points() -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = table.split(|&byte| byte == b'\n');
    lines.filter_map(|line| line.split(|&byte| byte == b' ').nth(4)).map(unescape).collect()
}

/// Blanks, newlines and backslashes are written as `\ooo`.
fn unescape(written: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(written.len());
    let mut rest = written;
    while let [first, after @ ..] = rest {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        let escaped = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(plain).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::policy::test_directory::TestDirectory;

    #[test]
    fn every_other_name_is_found_and_nothing_else() {
        let dir = TestDirectory::new();
        let file = dir.file("own/program", "");
        dir.directory("tree/a/b");
        dir.file("tree/a/program", "");
        std::os::unix::fs::symlink(&file, dir.path("tree/symbolic")).unwrap();
        let trees = [dir.path("tree"), dir.path("tree/a"), dir.path("gone")];
        assert_eq!(
            other_names(std::slice::from_ref(&file), &trees).unwrap(),
            [""; 0].map(PathBuf::from)
        );
        for name in ["tree/one", "tree/a/b/two", "outside"] {
            std::fs::hard_link(&file, dir.path(name)).unwrap();
        }
        let mut found = other_names(&[file], &trees).unwrap();
        found.sort();
        assert_eq!(found, [dir.path("tree/a/b/two"), dir.path("tree/one")]);
    }

    #[test]
    fn a_search_that_is_too_long_is_an_error() {
        let dir = TestDirectory::new();
        let file = dir.file("own/program", "");
        std::fs::hard_link(&file, dir.path("other")).unwrap();
        for number in 0..100 {
            dir.file(&format!("tree/{number}"), "");
        }
        for (limit, enough) in [(50, false), (200, true)] {
            let mut search = Search::of(std::slice::from_ref(&file), limit);
            assert_eq!(search.look_through(&[dir.path("tree")]).is_ok(), enough, "{limit}");
        }
    }

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescape(br"/a\040b\134c\0"), Path::new(r"/a b\c\0"));
        assert!(mount_points().contains(&PathBuf::from("/")));
    }
}
