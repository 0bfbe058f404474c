//! The symbolic links at and inside of what presets protect: a program that obeys the directory obeys what they lead to. It
//! reads directories and changes nothing.

use super::path_memory::Memory;
use kernel::locate::Located;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// How far down they are looked for: a program has its files there, or a directory for each; what lies deeper can be work
/// trees of their own.
pub(super) const DEPTH: usize = 2;
/// Most entries that are looked at.
const ENTRIES_MAX: usize = 1024;

/// Those in `directory`, down to `deepest`.
pub(super) fn of(directory: &Path, deepest: usize) -> Vec<PathBuf> {
    let (mut links, mut seen) = (Vec::new(), 0);
    let mut pending = VecDeque::from([(directory.to_owned(), 1)]);
    while let Some((directory, depth)) = pending.pop_front() {
        let Ok(entries) = directory.read_dir() else { continue };
        for entry in entries.flatten().take(ENTRIES_MAX - seen) {
            seen += 1;
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => links.push(entry.path()),
                Ok(kind) if kind.is_dir() && depth < deepest => {
                    pending.push_back((entry.path(), depth + 1));
                }
                _ => {}
            }
        }
    }
    links
}

/// Where `links` lead, and by which links.
pub(super) fn followed(links: &[PathBuf], memory: &mut Memory) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for link in links {
        let (Located { path, links, .. }, _) = memory.locate_as_far(link);
        found.extend(links.into_iter().map(|link| link.path).chain([path]));
    }
    found
}
