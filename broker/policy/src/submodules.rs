//! The submodules that indexes of git name: `git status` at the top enters each that is there, and runs what the settings of
//! its repository name. Reads the file system, changes nothing. Source: gitformat-index(5), gitsubmodules(7).

use super::git_index::{Links, links};
use super::git_settings::Settings;
use super::repositories::{LENGTH_MAX, contents, regular};
use kernel::threads::lock;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

/// How much of all indexes together, and of a file `.git`, is read. A run can leave indexes of any size in many work
/// trees, which later ones would read for minutes.
pub const INDEXES_MAX: u64 = 1 << 28;
const LINK_MAX: u64 = 1 << 12;
/// Most submodules that are looked for: in submodules there are others.
const SUBMODULES_MAX: usize = 1024;

/// A submodule.
#[derive(Debug, PartialEq, Eq)]
pub struct Submodule {
    pub top: PathBuf,
    /// Its repository, a canonical path; none if it is not there.
    pub git: Option<PathBuf>,
    /// That lies where git puts those of submodules, in a repository around it.
    pub(super) is_usual: bool,
}

/// What was read of indexes, for as long as they stay what they are: each is asked about as a run begins and as it ends.
#[derive(Debug, Default)]
pub struct Indexes(Mutex<Vec<(Version, Vec<Vec<u8>>)>>);

/// What changes with what is in a file: its device, inode, size and time of change.
type Version = (u64, u64, u64, i64, i64);

/// How long ago a file must have changed that its time tells whether it does again: file systems count in ticks, and
/// some in seconds.
const TICK: Duration = Duration::from_secs(2);

impl Indexes {
    /// What `index` names, which `read` tells.
    fn names(&self, index: &File, read: impl FnOnce() -> Option<Links>) -> Option<Links> {
        let found = index.metadata().ok()?;
        let version = (found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec());
        let known = |(known, _): &&(Version, _)| *known == version;
        if let Some((_, names)) = lock(&self.0).iter().find(known) {
            return Some(Links { names: names.clone(), base: None });
        }
        let links = read()?;
        let changed = Duration::new(found.ctime().try_into().unwrap_or(0), 0);
        let is_old = UNIX_EPOCH.elapsed().is_ok_and(|now| now > changed + TICK);
        // The names of one that is split lie in another file too.
        if is_old && links.base.is_none() {
            lock(&self.0).push((version, links.names.clone()));
        }
        Some(links)
    }
}

/// The submodules of the work tree at `top`, with theirs; nothing if an index of these cannot be read, or is larger than
/// what is `left` to be read, at first [`INDEXES_MAX`]. `indexes` are those that were read before.
pub fn find(top: &Path, indexes: &Indexes, left: &mut u64) -> Option<Vec<Submodule>> {
    let Some(git) = directory(&top.join(".git")) else { return Some(Vec::new()) };
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
            let git = directory(&top.join(".git"));
            let is_usual =
                git.as_ref().is_some_and(|git| usual.iter().any(|place| git.starts_with(place)));
            if let Some(git) = &git {
                usual.push(git.join("modules"));
                pending.push((top.clone(), git.clone()));
            }
            found.push(Submodule { top, git, is_usual });
        }
    }
    Some(found)
}

/// The submodules that `.gitmodules` of the work tree at `top` names: a command can take them out of the index.
pub(super) fn registered(top: &Path) -> Vec<Submodule> {
    let own = directory(&top.join(".git")).map(|git| git.join("modules"));
    let text = contents(&top.join(".gitmodules"), LENGTH_MAX);
    let named =
        Settings::of(&text).filter(|(key, name)| key == b"submodule.path" && is_beneath(name));
    let submodule = |(_, name): (_, Vec<u8>)| {
        let top = top.join(OsStr::from_bytes(&name));
        let git = directory(&top.join(".git"));
        let is_usual =
            git.as_ref().zip(own.as_ref()).is_some_and(|(git, own)| git.starts_with(own));
        Submodule { top, git, is_usual }
    };
    named.take(SUBMODULES_MAX).map(submodule).collect()
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

/// The directory that is called `git`, or that a file of this name leads to.
fn directory(git: &Path) -> Option<PathBuf> {
    if git.metadata().ok()?.is_dir() {
        return git.canonicalize().ok();
    }
    let text = contents(git, LINK_MAX);
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    git.parent()?.join(OsStr::from_bytes(target)).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_directory::TestDirectory;
    use std::time::SystemTime;

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
