//! Everything there is to know about a tree of files, to compare before and after an attack.

use crate::ESCAPED;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file as the kernel sees it. The change time is the strictest witness: every change of content,
/// links, owner, mode, flags or attributes moves it.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    content: Vec<u8>,
    attributes: Vec<u8>,
}

/// All files below a directory, itself included.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot {
    root: PathBuf,
    entries: BTreeMap<PathBuf, Entry>,
}

impl Snapshot {
    /// Takes a snapshot of `root`.
    pub fn of(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref().to_owned();
        let mut entries = BTreeMap::new();
        let mut open = vec![root.clone()];
        while let Some(path) = open.pop() {
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            if meta.is_dir() {
                let children = fs::read_dir(&path).expect("readable tree");
                open.extend(children.map(|child| child.expect("entry").path()));
            }
            let content = if meta.is_file() {
                fs::read(&path).expect("readable file")
            } else if meta.is_symlink() {
                fs::read_link(&path).expect("link").into_os_string().into_encoded_bytes()
            } else {
                Vec::new()
            };
            let entry = Entry {
                inode: meta.ino(),
                mode: meta.mode(),
                owner: (meta.uid(), meta.gid()),
                links: meta.nlink(),
                modified: (meta.mtime(), meta.mtime_nsec()),
                changed: (meta.ctime(), meta.ctime_nsec()),
                content,
                attributes: attributes(&path),
            };
            entries.insert(path, entry);
        }
        Self { root, entries }
    }

    /// What has changed since, if anything has.
    pub fn change(&self) -> Option<String> {
        let now = Self::of(&self.root);
        for (path, entry) in &self.entries {
            let found = now.entries.get(path);
            if found != Some(entry) {
                let path = path.display();
                return Some(format!("{path} changed\n    from {entry:?}\n    to   {found:?}"));
            }
        }
        let new = now.entries.keys().find(|path| !self.entries.contains_key(*path));
        new.map(|path| format!("{} appeared", path.display()))
    }

    /// Asserts that nothing has changed since.
    #[track_caller]
    pub fn unchanged(&self) {
        let change = self.change();
        assert!(change.is_none(), "{ESCAPED}{}", change.unwrap_or_default());
    }
}

/// The names of the extended attributes.
fn attributes(path: &Path) -> Vec<u8> {
    let mut names = vec![0u8; 4096];
    let size = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    names.truncate(size);
    names
}
