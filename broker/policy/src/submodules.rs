//! The submodules that indexes of git name: `git status` at the top enters each that is there, and runs what the settings of
//! its repository name. Reads the file system, changes nothing. Source: gitformat-index(5), gitsubmodules(7).

use super::callers::Caller;
use super::git_index::{Links, links};
use super::git_settings::Settings;
use super::linked_trees;
use super::repositories::{self, LENGTH_MAX, contents, regular};
use kernel::threads::lock;
use rules::files::push_new;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

/// How much of all indexes together is read. A run can leave indexes of any size in many work trees, which later ones
/// would read for minutes.
pub const INDEXES_MAX: u64 = 1 << 28;
/// Most submodules that are looked for: in submodules there are others.
const SUBMODULES_MAX: usize = 1024;

/// A submodule.
#[derive(Debug, PartialEq, Eq)]
pub struct Submodule {
    pub top: PathBuf,
    /// The directories of its repository, canonical paths, that of its index first; none if it is not there.
    pub directories: Vec<PathBuf>,
    /// They lie where git puts those of submodules, in a repository around it.
    pub(super) is_usual: bool,
}

/// What was read of indexes, for as long as they stay what they are: each is asked about as a run begins and as it ends.
#[derive(Debug, Default)]
pub struct Indexes {
    read: Mutex<Vec<(Version, Vec<Vec<u8>>)>>,
    /// The tops of the work trees that were asked about.
    tops: Mutex<Vec<PathBuf>>,
}

/// What changes with what is in a file: its device, inode, size and time of change.
type Version = (u64, u64, u64, i64, i64);

/// How long ago a file must have changed that its time tells whether it does again: file systems count in ticks, and
/// some in seconds.
const TICK: Duration = Duration::from_secs(2);

impl Submodule {
    /// One whose repository is in `directories`, where git puts those of submodules in the `usual` places.
    fn of(directories: Vec<PathBuf>, top: PathBuf, usual: &[PathBuf]) -> Self {
        let is_in_usual = |git: &PathBuf| usual.iter().any(|place| git.starts_with(place));
        let is_usual = !directories.is_empty() && directories.iter().all(is_in_usual);
        Self { top, directories, is_usual }
    }
}

impl Indexes {
    /// What `index` names, which `read` tells.
    fn names(&self, index: &File, read: impl FnOnce() -> Option<Links>) -> Option<Links> {
        let found = index.metadata().ok()?;
        let version = (found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec());
        let known = |(known, _): &&(Version, _)| *known == version;
        if let Some((_, names)) = lock(&self.read).iter().find(known) {
            return Some(Links { names: names.clone(), base: None });
        }
        let links = read()?;
        let changed = Duration::new(found.ctime().try_into().unwrap_or(0), 0);
        let is_old = UNIX_EPOCH.elapsed().is_ok_and(|now| now > changed + TICK);
        // The names of one that is split lie in another file too.
        if is_old && links.base.is_none() {
            lock(&self.read).push((version, links.names.clone()));
        }
        Some(links)
    }
}

/// The submodules of the work tree at `top`, with theirs; nothing if an index of these, or what leads to it, cannot be read,
/// or is larger than what is `left` to be read, at first [`INDEXES_MAX`]. `indexes` are those that were read before.
pub fn find(top: &Path, indexes: &Indexes, left: &mut u64) -> Option<Vec<Submodule>> {
    push_new(&mut lock(&indexes.tops), top.to_owned());
    let Some(git) = directories(top)?.into_iter().next() else { return Some(Vec::new()) };
    let mut usual = vec![git.join("modules")];
    let mut pending = vec![(top.to_owned(), git)];
    let mut found = Vec::new();
    while let Some((top, git)) = pending.pop() {
        for name in names(&git, indexes, left)? {
            if found.len() == SUBMODULES_MAX {
                return None;
            }
            let top = top.join(OsStr::from_bytes(&name));
            // Of what is in a directory that should not be there, only objects tell.
            if name.ends_with(b"/") {
                if top.exists() {
                    return None;
                }
                continue;
            }
            let submodule = Submodule::of(directories(&top)?, top, &usual);
            if let Some(git) = submodule.directories.first() {
                usual.push(git.join("modules"));
                pending.push((submodule.top.clone(), git.clone()));
            }
            found.push(submodule);
        }
    }
    Some(found)
}

/// The submodules that `.gitmodules` of the work tree at `top` names beside those that were `found`: a command can take them
/// out of the index. None if they are too many.
pub(super) fn registered(top: &Path, found: &[Submodule]) -> Option<Vec<Submodule>> {
    let text = contents(&top.join(".gitmodules"), LENGTH_MAX);
    let is_name = |(key, name): &(Vec<u8>, Vec<u8>)| key == b"submodule.path" && is_beneath(name);
    let names = Settings::of(&text).filter(is_name).take(SUBMODULES_MAX + 1);
    let tops: Vec<_> = names.map(|(_, name)| top.join(OsStr::from_bytes(&name))).collect();
    if tops.len() > SUBMODULES_MAX || text.len() as u64 >= LENGTH_MAX {
        return None;
    }
    let known: HashSet<_> = found.iter().map(|it| it.top.as_path()).collect();
    let mut others = tops.into_iter().filter(|it| !known.contains(it.as_path())).peekable();
    let own = others.peek().and_then(|_| directories(top)?.into_iter().next());
    let usual: Vec<_> = own.into_iter().map(|git| git.join("modules")).collect();
    let submodule =
        |top: PathBuf| Submodule::of(directories(&top).unwrap_or_default(), top, &usual);
    Some(others.map(submodule).collect())
}

/// The tops of the work trees whose indexes a run of `caller`, which may write to `writable`, may have changed: those around
/// its directories and those asked about before, with what shares a repository with these now.
pub fn tops(caller: &Caller, writable: &[PathBuf]) -> Vec<PathBuf> {
    let trees = [&caller.cwd].into_iter().chain(writable);
    let mut all: Vec<_> = repositories::tops(trees.map(PathBuf::as_path)).collect();
    let before = lock(&caller.indexes.tops).clone();
    before.into_iter().for_each(|top| push_new(&mut all, top));
    let mut directories = Vec::new();
    all.iter()
        .flat_map(|top| repositories::of(top))
        .for_each(|git| push_new(&mut directories, git));
    linked_trees::beside(&directories).into_iter().for_each(|top| push_new(&mut all, top));
    all
}

/// The names of the submodules in the index of `repository`, as far as git would go there.
fn names(repository: &Path, indexes: &Indexes, left: &mut u64) -> Option<Vec<Vec<u8>>> {
    let read = |name: &str| {
        let file = regular(&repository.join(name))?;
        file.metadata().is_ok_and(|found| found.len() > 0).then_some(file)
    };
    // What git could not read either names none.
    let Some(index) = read("index") else { return Some(Vec::new()) };
    let Links { mut names, base } = indexes.names(&index, || links(&index, left))?;
    if let Some(base) = base {
        let hexadecimal: String = base.iter().map(|byte| format!("{byte:02x}")).collect();
        names.extend(links(&read(&format!("sharedindex.{hexadecimal}"))?, left)?.names);
    }
    names.retain(|name| is_beneath(name));
    Some(names)
}

fn is_beneath(name: &[u8]) -> bool {
    let mut parts = Path::new(OsStr::from_bytes(name)).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// The directories of the repository of the work tree at `top`, as git finds them; nothing if what leads there is too long
/// to be read.
fn directories(top: &Path) -> Option<Vec<PathBuf>> {
    let is_read = |name: PathBuf| {
        name.metadata().map_or(true, |found| !found.is_file() || found.len() < LENGTH_MAX)
    };
    let all = repositories::of(top).into_iter().filter(|path| path.is_dir());
    let all: Vec<_> = all.filter_map(|path| path.canonicalize().ok()).collect();
    let mut ways = all.iter().map(|git| git.join("commondir")).chain([top.join(".git")]);
    ways.all(is_read).then_some(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_directory::TestDirectory;
    use std::time::SystemTime;

    #[test]
    fn the_repository_of_a_submodule_is_the_one_that_git_takes() {
        let dir = TestDirectory::new();
        for name in ["m ", "m", "common"] {
            dir.directory(&format!("d/{name}"));
        }
        dir.directory("t/s");
        let long = format!("gitdir: {}../../d/m\n", "./".repeat(3000));
        for (text, expected) in [
            ("gitdir: ../../d/m\r\n", &["d/m"][..]),
            ("gitdir: ../../d/m \n", &["d/m "]),
            ("gitdir: ../../d/m\0 ", &["d/m"]),
            (&long, &["d/m"]),
            ("gitdir:../../d/m\n", &[]),
            ("gitdir: ../../d/missing\n", &[]),
        ] {
            dir.file("t/s/.git", text);
            let expected = expected.iter().map(|name| dir.path(name)).collect();
            assert_eq!(directories(&dir.path("t/s")), Some(expected), "{text:?}");
        }
        // Its settings may lie elsewhere.
        dir.file("t/s/.git", "gitdir: ../../d/m\n");
        dir.file("d/m/commondir", "../common\n");
        let both = ["d/m", "d/common"].map(|name| dir.path(name)).to_vec();
        assert_eq!(directories(&dir.path("t/s")), Some(both));
        dir.file("t/s/.git", &format!("gitdir: ../../d/m{}", "\n".repeat(1 << 20)));
        assert_eq!(directories(&dir.path("t/s")), None);
    }

    #[test]
    fn each_work_tree_of_a_repository_is_one_whose_index_may_change() {
        let dir = TestDirectory::new();
        dir.directory("main/src");
        for (name, tree) in [("in", "main/trees/in"), ("out", "out")] {
            let git = format!("main/.git/worktrees/{name}");
            let way = format!("gitdir: {}\n", dir.path(&git).display());
            dir.file(&format!("{tree}/.git"), &way);
            dir.file(&format!("{git}/commondir"), "../..\n");
            let back = format!("{}/.git\n", dir.path(tree).display());
            dir.file(&format!("{git}/gitdir"), &back);
        }
        let expected = ["main", "main/trees/in", "out"].map(|name| dir.path(name));
        for cwd in ["main", "main/src", "main/trees/in", "out"] {
            let mut found = tops(&Caller::new(dir.path(cwd), []), &[]);
            found.sort();
            assert_eq!(found, expected, "{cwd}");
        }
        // Whatever became of what led there.
        let caller = Caller::new(dir.path("main"), []);
        find(&dir.path("out"), &caller.indexes, &mut 1);
        std::fs::remove_dir_all(dir.path("main/.git/worktrees")).unwrap();
        assert_eq!(tops(&caller, &[]), [dir.path("main"), dir.path("out")]);
    }

    #[test]
    fn indexes_are_read_as_far_as_is_left_for_all_of_them() {
        let dir = TestDirectory::new();
        // Without an entry, and with a name of an object at the end.
        let index = [b"DIRC", &2_u32.to_be_bytes()[..], &[0; 4 + 20]].concat();
        let tops = ["one", "two"].map(|name| {
            std::fs::write(dir.directory(&format!("{name}/.git")).join("index"), &index).unwrap();
            dir.path(name)
        });
        let found = |left: usize| {
            let mut left = left as u64;
            tops.each_ref().map(|top| find(top, &Indexes::default(), &mut left))
        };
        assert_eq!(found(2 * index.len()), [Some(Vec::new()), Some(Vec::new())]);
        assert_eq!(found(2 * index.len() - 1), [Some(Vec::new()), None]);
    }

    #[test]
    fn an_index_is_read_again_once_it_changed() {
        let dir = TestDirectory::new();
        let path = dir.file("index", "one");
        let ctime = || path.metadata().unwrap().ctime();
        // The time of change can be set by nobody.
        let wait = || {
            let old = |now: SystemTime| now.duration_since(UNIX_EPOCH).unwrap().as_secs();
            while old(SystemTime::now()).cast_signed() <= ctime() + TICK.as_secs().cast_signed() {
                std::thread::sleep(Duration::from_millis(100));
            }
        };
        let indexes = Indexes::default();
        let names = |index: &str| {
            let read = || Some(Links { names: vec![index.into()], base: None });
            indexes.names(&File::open(&path).unwrap(), read).unwrap().names
        };
        // It could change within the tick.
        let (new, newer) = (names("new"), names("newer"));
        let is_new = UNIX_EPOCH.elapsed().unwrap().as_secs().cast_signed() <= ctime() + 1;
        assert!(new == [b"new"] && (newer == [b"newer"] || !is_new));
        wait();
        let old = names("old");
        assert_eq!(names("not read"), old);
        std::fs::write(&path, "two").unwrap();
        let unread = |base| indexes.names(&File::open(&path).unwrap(), || base);
        assert_eq!(unread(None), None);
        wait();
        let split = Links { names: Vec::new(), base: Some(vec![1]) };
        assert!(unread(Some(split)).unwrap().base.is_some());
        assert_eq!(names("with another base"), [b"with another base"]);
        std::fs::write(&path, "one").unwrap();
        assert_eq!(names("changed"), [b"changed"]);
    }
}
