//! The submodules that indexes of git name: `git status` at the top enters each that is there, and runs what the settings of
//! its repository name. Reads the file system, changes nothing. Source: gitformat-index(5), gitsubmodules(7).

use super::repositories::contents;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// How much of an index and of a file `.git` is read.
const INDEX_MAX: u64 = 1 << 28;
const LINK_MAX: u64 = 1 << 12;
/// Most submodules that are looked for: in submodules there are others.
const SUBMODULES_MAX: usize = 1024;
/// The lengths of names of objects: SHA-1, SHA-256.
const HASHES: [usize; 2] = [20, 32];

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
    let mut found = Vec::new();
    while let Some((top, git)) = pending.pop() {
        for name in names(&git)? {
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
fn names(repository: &Path) -> Option<Vec<Vec<u8>>> {
    let index = contents(&repository.join("index"), INDEX_MAX);
    if index.is_empty() {
        return Some(Vec::new());
    }
    let read = |index: &[u8]| HASHES.into_iter().find_map(|hash| gitlinks(index, hash));
    let (mut names, base) = read(&index)?;
    if let Some(base) = base {
        let hexadecimal: String = base.iter().map(|byte| format!("{byte:02x}")).collect();
        let shared = repository.join(format!("sharedindex.{hexadecimal}"));
        names.extend(read(&contents(&shared, INDEX_MAX))?.0);
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

/// The paths of submodules, and the index that the rest is in.
type Links = (Vec<Vec<u8>>, Option<Vec<u8>>);

/// Those in an index whose objects have names of `hash` bytes; none if it is no such index.
fn gitlinks(index: &[u8], hash: usize) -> Option<Links> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    let version =
        number(4).filter(|version| index.starts_with(b"DIRC") && (2..=4).contains(version))?;
    let (mut at, mut name, mut links) = (12, Vec::new(), Vec::new());
    for _ in 0..number(8)? {
        let mode = number(at + 24)?;
        let mut end = at + 40 + hash + 2;
        let is_extended = index.get(end - 2)? & 0x40 != 0;
        end += if version > 2 && is_extended { 2 } else { 0 };
        if version == 4 {
            let (cut, length) = offset(index.get(end..)?)?;
            name.truncate(name.len().checked_sub(cut)?);
            end += length;
        } else {
            name.clear();
        }
        let rest = index.get(end..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&rest[..length]);
        end += length;
        at = if version == 4 { end + 1 } else { at + ((end - at + 8) & !7) };
        if mode >> 12 == 0o16 {
            // In one that is split, an entry without a name stands for one of the other.
            links.push(Some(name.clone()).filter(|name| !name.is_empty())?);
        }
    }
    let last = index.len().checked_sub(hash)?;
    let mut base = None;
    while at < last {
        let length: usize = number(at + 4)?.try_into().ok()?;
        if index.get(at..at + 4)? == b"link" {
            let hash = index.get(at + 8..at + 8 + hash).filter(|hash| hash.len() <= length);
            base = Some(hash?.to_vec());
        }
        at = (at + 8).checked_add(length)?;
    }
    (at == last).then_some((links, base))
}

/// A number of variable length, and its length: gitformat-pack(5), offset encoding.
fn offset(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (at, &byte) in bytes.iter().enumerate().take(4) {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of version 2 with an entry of each mode and name.
    fn index(entries: &[(u32, &str)], extension: &[u8], hash: usize) -> Vec<u8> {
        let count = u32::try_from(entries.len()).unwrap();
        let mut index = [&b"DIRC"[..], &2_u32.to_be_bytes(), &count.to_be_bytes()].concat();
        for (mode, name) in entries {
            let mut entry = vec![0; 24];
            entry.extend(mode.to_be_bytes());
            entry.resize(40 + hash + 2, 0);
            entry.extend(name.as_bytes());
            entry.resize((entry.len() + 8) & !7, 0);
            index.extend(entry);
        }
        index.extend(extension);
        index.resize(index.len() + hash, 7);
        index
    }

    #[test]
    fn submodules_are_found_in_an_index() {
        for hash in HASHES {
            let entries = [(0o100_644, "a"), (0o160_000, "deep/sub"), (0o120_000, "link")];
            let found = gitlinks(&index(&entries, b"", hash), hash);
            assert_eq!(found, Some((vec![b"deep/sub".to_vec()], None)));
            let tree = gitlinks(&index(&entries, b"TREE\0\0\0\x02ab", hash), hash);
            assert_eq!(tree, Some((vec![b"deep/sub".to_vec()], None)));
            assert_eq!(gitlinks(&index(&entries, b"link\0\0\0\x02ab", hash), hash), None);
            let base = vec![9; hash];
            let size = u32::try_from(hash).unwrap().to_be_bytes();
            let split = [&b"link"[..], &size, &base].concat();
            let found = gitlinks(&index(&entries, &split, hash), hash);
            assert_eq!(found, Some((vec![b"deep/sub".to_vec()], Some(base))));
            let whole = index(&entries, b"TREE\0\0\0\x02ab", hash);
            // Without its extension it is whole.
            for length in 0..whole.len() - 10 {
                assert_eq!(gitlinks(&whole[..length], hash), None, "{length}");
            }
        }
        assert_eq!(gitlinks(b"", 20), None);
        assert_eq!(gitlinks(&[0xff; 99], 20), None);
    }

    #[test]
    fn offsets_are_read_as_git_writes_them() {
        for (bytes, expected) in [
            (&[0_u8][..], Some((0, 1))),
            (&[127, 1], Some((127, 1))),
            (&[0x80, 0], Some((128, 2))),
            (&[0x81, 0x02], Some((258, 2))),
            (&[0x80], None),
            (&[0xff; 9], None),
        ] {
            assert_eq!(offset(bytes), expected, "{bytes:?}");
        }
    }
}
