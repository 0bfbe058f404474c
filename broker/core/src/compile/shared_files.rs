//! Files in what may be written that are changed under other names too (hard links, link(2)), which rules by path do not
//! see: told by `--check`. It looks at directories and changes nothing.

use super::hard_links::open;
use kernel::identity::{Identity, identity};
use nix::libc;
use rustix::fs::{self, AtFlags, Dir, FileType};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Most entries that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// Files in some trees that have names outside of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SharedFiles {
    pub(super) count: usize,
    /// The first by name.
    pub(super) example: PathBuf,
}

/// Looks for them; none if there is none, or too much to look at.
pub(super) fn find(trees: &[PathBuf]) -> Option<SharedFiles> {
    let mut missing: HashMap<Identity, (libc::nlink_t, PathBuf)> = HashMap::new();
    let mut left = ENTRIES_MAX;
    // A tree in another would have its names counted twice.
    let is_outermost =
        |tree: &&PathBuf| !trees.iter().any(|other| other != *tree && tree.starts_with(other));
    let mut pending: Vec<PathBuf> = trees.iter().filter(is_outermost).cloned().collect();
    while let Some(path) = pending.pop() {
        let Some(Some((directory, _))) = open(&path) else { continue };
        for entry in Dir::read_from(&directory).ok()?.flatten() {
            left = left.checked_sub(1)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let found = fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let Ok(found) = found else { continue };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => pending.push(path.join(name)),
                FileType::RegularFile if found.st_nlink > 1 => {
                    let first = || (found.st_nlink, path.join(name));
                    missing.entry(identity(&found)).or_insert_with(first).0 -= 1;
                }
                _ => {}
            }
        }
    }
    let outside = missing.into_values().filter(|(missing, _)| *missing > 0);
    let paths: Vec<PathBuf> = outside.map(|(_, path)| path).collect();
    Some(SharedFiles { count: paths.len(), example: paths.into_iter().min()? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_directory::TestDirectory;

    #[test]
    fn files_with_names_outside_of_the_trees_are_counted() {
        let dir = TestDirectory::new();
        dir.directory("tree/a");
        dir.directory("other");
        let [store, own, second] =
            ["store", "tree/own", "tree/second"].map(|name| dir.file(name, ""));
        std::fs::hard_link(&own, dir.path("tree/a/own")).unwrap();
        assert_eq!(find(&[dir.path("tree"), dir.path("tree/a")]), None);
        std::fs::hard_link(&store, dir.path("tree/a/package")).unwrap();
        std::fs::hard_link(&second, dir.path("other/second")).unwrap();
        let found = SharedFiles { count: 2, example: dir.path("tree/a/package") };
        assert_eq!(find(&[dir.path("tree")]), Some(found));
        let found = SharedFiles { count: 1, example: dir.path("tree/a/package") };
        assert_eq!(find(&[dir.path("tree"), dir.path("other")]), Some(found));
    }
}
