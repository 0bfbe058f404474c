//! The existing paths that an allow glob matches. It reads directories and changes nothing.

use std::fs::FileType;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rules::pattern::{Component, Pattern};

/// How many entries all globs of a policy may look at together; beyond it the launch would take noticeable time.
pub const MAX_ENTRIES: usize = 100_000;

/// What a glob matches.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expansion {
    /// The matching paths, sorted. Nothing beneath one of them is listed, since it stands for all beneath.
    pub matches: Vec<PathBuf>,
    /// The directories that could not be read, where matches may be missing.
    pub unreadable: Vec<PathBuf>,
}

/// There are more than [`MAX_ENTRIES`] entries to look at.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the glob has to look at more than {MAX_ENTRIES} files; name the paths instead")]
pub struct TooManyEntries;

/// Matches `rest` against what exists beneath the canonical directory `prefix`. A symbolic link may match like
/// any entry, but `**` does not go into one. `budget` is what remains of [`MAX_ENTRIES`].
///
/// # Errors
/// Returns [`TooManyEntries`] when the budget is used up.
pub fn expand(
    prefix: &Path,
    rest: Vec<Component>,
    budget: &mut usize,
) -> Result<Expansion, TooManyEntries> {
    let pattern = Pattern::new(Path::new("/"), rest);
    let mut expansion = Expansion::default();
    let mut positions = Vec::new();
    reach(&pattern, 0, &mut positions);
    if positions.contains(&pattern.length()) && prefix.symlink_metadata().is_ok() {
        expansion.matches.push(prefix.to_owned());
        return Ok(expansion);
    }
    let mut pending = vec![(prefix.to_owned(), positions)];
    while let Some((directory, positions)) = pending.pop() {
        let entries = match entries_that_may_match(&directory, &pattern, &positions, budget)? {
            Ok(entries) => entries,
            Err(_) => {
                expansion.unreadable.push(directory);
                continue;
            }
        };
        for (name, file_type) in entries {
            let path = directory.join(std::ffi::OsStr::from_bytes(&name));
            let mut next = Vec::new();
            for position in &positions {
                match pattern.component(*position) {
                    Some(Component::AnyDepth) if file_type.is_symlink() => {}
                    Some(Component::AnyDepth) => reach(&pattern, *position, &mut next),
                    Some(component) if component.matches(&name) => {
                        reach(&pattern, position + 1, &mut next);
                    }
                    _ => {}
                }
            }
            if next.contains(&pattern.length()) {
                expansion.matches.push(path);
            } else if !next.is_empty() && (file_type.is_dir() || leads_to_directory(&path)) {
                pending.push((path, next));
            }
        }
    }
    expansion.matches.sort();
    expansion.matches.dedup();
    Ok(expansion)
}

/// Adds `position`, and what follows a `**` there, which may stand for nothing.
fn reach(pattern: &Pattern, position: usize, positions: &mut Vec<usize>) {
    let any_depth = pattern.component(position) == Some(&Component::AnyDepth);
    for reached in [position, position + 1].into_iter().take(1 + usize::from(any_depth)) {
        if !positions.contains(&reached) {
            positions.push(reached);
        }
    }
}

type Entries = Vec<(Vec<u8>, FileType)>;

/// The entries to try: only the named ones if every live component is a name, so that a directory which may be
/// searched but not listed works, and a large one costs nothing.
fn entries_that_may_match(
    directory: &Path,
    pattern: &Pattern,
    positions: &[usize],
    budget: &mut usize,
) -> Result<io::Result<Entries>, TooManyEntries> {
    let mut spend = || {
        *budget = budget.checked_sub(1).ok_or(TooManyEntries)?;
        Ok(())
    };
    let name = |position: &usize| match pattern.component(*position) {
        Some(Component::Literal(name)) => Some(name.to_vec()),
        _ => None,
    };
    let mut entries = Vec::new();
    if let Some(names) = positions.iter().map(name).collect::<Option<Vec<_>>>() {
        for name in names {
            spend()?;
            let path = directory.join(std::ffi::OsStr::from_bytes(&name));
            if let Ok(metadata) = path.symlink_metadata() {
                entries.push((name, metadata.file_type()));
            }
        }
        return Ok(Ok(entries));
    }
    let listing = match directory.read_dir() {
        Ok(listing) => listing,
        // A prefix that does not exist matches nothing, which is told as such.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(entries)),
        Err(error) => return Ok(Err(error)),
    };
    for entry in listing {
        spend()?;
        match entry.and_then(|entry| Ok((entry.file_name().into_vec(), entry.file_type()?))) {
            Ok(entry) => entries.push(entry),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(entries))
}

fn leads_to_directory(path: &Path) -> bool {
    path.is_dir()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;
    use kernel::test_directory::TestDirectory;

    fn components(text: &str) -> Vec<Component> {
        text.split('/').map(|part| Component::parse(part.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn globs_find_what_exists() {
        let dir = TestDirectory::new();
        for file in ["a/x.log", "a/.y.log", "a/d/x.log", "a/d/e/x.log", "b/x.log", "c.log/x.log"] {
            dir.file(file, "");
        }
        symlink("a/d", dir.path("link")).unwrap();
        for (glob, expected) in [
            ("*.log", &["c.log"][..]),
            ("*/*.log", &["a/.y.log", "a/x.log", "b/x.log", "c.log/x.log", "link/x.log"]),
            ("?/x.log", &["a/x.log", "b/x.log"]),
            ("**/x.log", &["a/d/e/x.log", "a/d/x.log", "a/x.log", "b/x.log", "c.log/x.log"]),
            ("**/e", &["a/d/e"]),
            ("**/*", &["a", "b", "c.log", "link"]),
            ("**", &[""]),
            ("a/**/e/x.log", &["a/d/e/x.log"]),
            ("[ab]/d", &["a/d"]),
            ("link/*", &["link/e", "link/x.log"]),
            ("*/nothing", &[]),
            ("x.log/*", &[]),
        ] {
            let mut budget = MAX_ENTRIES;
            let found = expand(&dir.path("."), components(glob), &mut budget).unwrap();
            let expected: Vec<PathBuf> = expected.iter().map(|path| dir.path(path)).collect();
            let found: Vec<PathBuf> =
                found.matches.iter().map(|path| path.components().collect()).collect();
            let expected: Vec<PathBuf> =
                expected.iter().map(|path| path.components().collect()).collect();
            assert_eq!(found, expected, "{glob}");
        }
    }

    #[test]
    fn a_loop_of_links_ends_and_a_large_tree_is_refused() {
        let dir = TestDirectory::new();
        dir.directory("a");
        symlink("..", dir.path("a/up")).unwrap();
        let mut budget = MAX_ENTRIES;
        let found = expand(&dir.path(""), components("**/x"), &mut budget).unwrap();
        assert_eq!(found, Expansion::default());
        assert!(budget > MAX_ENTRIES - 10);
        for number in 0..20 {
            dir.file(&format!("f{number}"), "");
        }
        let mut budget = 10;
        assert_eq!(expand(&dir.path(""), components("**/x"), &mut budget), Err(TooManyEntries));
    }

    #[test]
    fn a_missing_prefix_matches_nothing() {
        let dir = TestDirectory::new();
        let mut budget = MAX_ENTRIES;
        for glob in ["*", "**", "**/x"] {
            let found = expand(&dir.path("gone"), components(glob), &mut budget).unwrap();
            assert_eq!(found, Expansion::default(), "{glob}");
        }
    }
}
