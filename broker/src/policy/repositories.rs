//! Where git keeps what `.git` stands for, if not in a directory of that name at the top of a work tree: linked work
//! trees and submodules have a file there, and a bare repository is one by itself. Reads the file system, changes
//! nothing. Source: gitrepository-layout(5).

use super::locate::locate;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What presets call the directory of a repository.
pub(super) const GIT: &str = ".git/";
/// With it a directory is a repository by itself.
pub(super) const HEAD: &str = "HEAD";

/// What a file that leads elsewhere is read of.
const LENGTH_MAX: u64 = 4096;

/// The directories that hold the repository of `tree`, or around it, `.git` in it not among them.
pub(super) fn directories(tree: &Path) -> Vec<PathBuf> {
    let named = target(tree, ".git", "gitdir: ");
    let around = tree.ancestors().filter(|directory| is_repository(directory));
    let mut found: Vec<_> = named.into_iter().chain(around.map(Path::to_owned)).collect();
    let common: Vec<_> = found.iter().filter_map(|found| target(found, "commondir", "")).collect();
    found.extend(common);
    found
}

/// Whether git takes `directory` for a repository, whatever it is called.
pub(super) fn is_repository(directory: &Path) -> bool {
    let has = |name: &str| directory.join(name).symlink_metadata().is_ok();
    has(HEAD) && (has("refs") || has("commondir"))
}

/// Where the file `name` in `directory` leads to, if it is there.
fn target(directory: &Path, name: &str, before: &str) -> Option<PathBuf> {
    let path = directory.join(name);
    // Who opens a FIFO waits.
    if !fs::metadata(&path).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(LENGTH_MAX).read_to_end(&mut text).ok()?;
    let named = text.strip_prefix(before.as_bytes())?;
    let length = named.iter().rposition(|byte| !b"\r\n".contains(byte))? + 1;
    Some(locate(&directory.join(OsStr::from_bytes(&named[..length]))).ok()?.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::test_directory::TestDirectory;

    #[test]
    fn linked_work_trees_submodules_and_bare_repositories_are_found() {
        let dir = TestDirectory::new();
        dir.file("main/.git/HEAD", "ref: refs/heads/main\n");
        dir.directory("main/.git/refs");
        dir.file("main/.git/worktrees/tree/HEAD", "ref: refs/heads/tree\n");
        dir.file("main/.git/worktrees/tree/commondir", "../..\n");
        dir.file("tree/.git", "gitdir: ../main/.git/worktrees/tree\n");
        dir.file("bare/HEAD", "ref: refs/heads/main\n");
        dir.directory("bare/refs");
        dir.file("other/HEAD", "a text");
        dir.file("other/.git", "a text");
        let found = |tree: &str| directories(&dir.path(tree));
        let paths = |names: &[&str]| names.iter().map(|name| dir.path(name)).collect::<Vec<_>>();
        assert_eq!(found("main"), paths(&[]));
        assert_eq!(found("main/.git/refs"), paths(&["main/.git"]));
        assert_eq!(found("tree"), paths(&["main/.git/worktrees/tree", "main/.git"]));
        assert_eq!(found("bare"), paths(&["bare"]));
        assert_eq!(found("other"), paths(&[]));
        assert_eq!(found("missing"), paths(&[]));
    }
}
