//! The submodules that indexes of git name: `git status` at the top enters each that is there, and runs what the settings of
//! its repository name. Reads the file system, changes nothing. Source: gitformat-index(5), gitsubmodules(7).

use super::git_index::{Links, links};
use super::repositories::{contents, regular};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// How much of all indexes together, and of a file `.git`, is read.
const INDEX_MAX: u64 = 1 << 28;
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

/// The submodules of the work tree at `top`, with theirs; nothing if an index of these cannot be read.
pub fn find(top: &Path) -> Option<Vec<Submodule>> {
    let Some(git) = directory(&top.join(".git")) else { return Some(Vec::new()) };
    let mut usual = vec![git.join("modules")];
    let mut pending = vec![(top.to_owned(), git)];
    let (mut found, mut left) = (Vec::new(), INDEX_MAX);
    while let Some((top, git)) = pending.pop() {
        for name in names(&git, &mut left)? {
            if found.len() == SUBMODULES_MAX {
                return None;
            }
            let top = top.join(OsStr::from_bytes(&name));
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

/// The names of the submodules in the index of `repository`, as far as git would go there.
fn names(repository: &Path, left: &mut u64) -> Option<Vec<Vec<u8>>> {
    let read = |name: &str| {
        let file = regular(&repository.join(name))?;
        file.metadata().is_ok_and(|found| found.len() > 0).then_some(file)
    };
    // What git could not read either names none.
    let Some(index) = read("index") else { return Some(Vec::new()) };
    let Links { mut names, base } = links(&index, left)?;
    if let Some(base) = base {
        let hexadecimal: String = base.iter().map(|byte| format!("{byte:02x}")).collect();
        names.extend(links(&read(&format!("sharedindex.{hexadecimal}"))?, left)?.names);
    }
    let is_beneath = |name: &Vec<u8>| {
        Path::new(OsStr::from_bytes(name))
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    names.retain(is_beneath);
    Some(names)
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
