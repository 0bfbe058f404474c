//! Repositories further down that git enters by itself: what the index at the top names as submodules is asked about by
//! `git status` there, and runs what settings of its own name. Nothing keeps a command from making one, so it is told.
//! It reads the index where that was changed during the run, and changes nothing. Source: gitformat-index(5).

use super::suggest::{list, quote};
use policy::repositories::contents;
use rules::paths::covers;
use rules::policy::Policy;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How much of an index and of a file `.git` is read.
const INDEX_MAX: u64 = 1 << 28;
const LINK_MAX: u64 = 1 << 12;
/// What the clock of files is behind by at most, and more.
const SLACK: Duration = Duration::from_secs(1);
/// The lengths of names of objects: SHA-1, SHA-256.
const HASHES: [usize; 2] = [20, 32];

/// What to say at the end of a run in `work` that began at `since`, if a policy protects the settings of the repository
/// there, and git would enter others outside whose settings it does not protect.
pub fn entered(policy: &Policy, work: &Path, since: SystemTime) -> Option<String> {
    let git = work.join(".git");
    if !covers(&policy.files.deny_write, &git.join("config")) {
        return None;
    }
    let git = directory(&git)?;
    let index = git.join("index");
    let changed = fs::metadata(&index).ok()?.ctime();
    let since = since.checked_sub(SLACK)?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    if u64::try_from(changed).is_ok_and(|changed| changed < since) {
        return None;
    }
    let index = contents(&index, INDEX_MAX);
    let Some(links) = HASHES.into_iter().find_map(|hash| gitlinks(&index, hash)) else {
        return Some(
            "the index of git cannot be read: see what \"git ls-files --stage\" shows with mode 160000 before other \
             commands of git"
                .to_owned(),
        );
    };
    let own = git.join("modules");
    let links = links.iter().map(|name| Path::new(OsStr::from_bytes(name)));
    let links =
        links.filter(|name| name.components().all(|part| matches!(part, Component::Normal(_))));
    let is_foreign = |name: &&Path| {
        let repository = directory(&work.join(name).join(".git"));
        repository.is_some_and(|repository| !repository.starts_with(&own))
    };
    let names: Vec<_> =
        links.filter(is_foreign).map(|name| quote(&name.to_string_lossy())).collect();
    (!names.is_empty()).then(|| {
        format!(
            "git status outside obeys the settings of repositories that the index names as submodules and the command \
             may have written: {} (look at .git/config there, or git rm --cached them)",
            list(&names)
        )
    })
}

/// The directory that is called `git`, or that a file of this name leads to.
fn directory(git: &Path) -> Option<PathBuf> {
    if fs::metadata(git).ok()?.is_dir() {
        return git.canonicalize().ok();
    }
    let text = contents(git, LINK_MAX);
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    git.parent()?.join(OsStr::from_bytes(target)).canonicalize().ok()
}

/// The paths of submodules in an index whose objects have names of `hash` bytes; none if it is no such index, or only a
/// part of one.
fn gitlinks(index: &[u8], hash: usize) -> Option<Vec<Vec<u8>>> {
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
            links.push(name.clone());
        }
    }
    let last = index.len().checked_sub(hash)?;
    while at < last {
        // The rest of one that is split lies elsewhere.
        if index.get(at..at + 4)? == b"link" {
            return None;
        }
        at = number(at + 4)?
            .try_into()
            .ok()
            .and_then(|length: usize| (at + 8).checked_add(length))?;
    }
    (at == last).then_some(links)
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
            assert_eq!(found, Some(vec![b"deep/sub".to_vec()]));
            let tree = gitlinks(&index(&entries, b"TREE\0\0\0\x02ab", hash), hash);
            assert_eq!(tree, Some(vec![b"deep/sub".to_vec()]));
            assert_eq!(gitlinks(&index(&entries, b"link\0\0\0\x02ab", hash), hash), None);
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
