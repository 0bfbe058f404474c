//! Files in what may be written that are changed under other names too (hard links, link(2)), which rules by path do not
//! see. It looks at directories and changes nothing.

use std::collections::HashMap;
use std::fs::read_dir;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Most entries that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// What there is to say of files in some trees that have names outside of them; none if there is none, or too much to
/// look at.
pub fn note(trees: &[PathBuf]) -> Option<String> {
    let (count, example) = find(trees)?;
    let example = example.display();
    Some(format!(
        "files that may be written have names elsewhere too (hard links): {count}, such as {example}; what is written to \
         them changes there as well"
    ))
}

/// How many there are, and the first by name.
fn find(trees: &[PathBuf]) -> Option<(usize, PathBuf)> {
    let mut missing: HashMap<(u64, u64), (u64, PathBuf)> = HashMap::new();
    let mut left = ENTRIES_MAX;
    // A tree in another would have its names counted twice.
    let is_outermost =
        |tree: &&PathBuf| !trees.iter().any(|other| other != *tree && tree.starts_with(other));
    let mut pending: Vec<PathBuf> = trees.iter().filter(is_outermost).cloned().collect();
    while let Some(path) = pending.pop() {
        for entry in read_dir(&path).into_iter().flatten().flatten() {
            left = left.checked_sub(1)?;
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                pending.push(entry.path());
            } else if found.is_file() && found.nlink() > 1 {
                let first = || (found.nlink(), entry.path());
                let (missing, _) = missing.entry((found.dev(), found.ino())).or_insert_with(first);
                // It can get more names meanwhile.
                *missing = missing.saturating_sub(1);
            }
        }
    }
    let outside = missing.into_values().filter(|(missing, _)| *missing > 0);
    let paths: Vec<PathBuf> = outside.map(|(_, path)| path).collect();
    Some((paths.len(), paths.into_iter().min()?))
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
        let found = (2, dir.path("tree/a/package"));
        assert_eq!(find(&[dir.path("tree")]), Some(found));
        let found = (1, dir.path("tree/a/package"));
        assert_eq!(find(&[dir.path("tree"), dir.path("other")]), Some(found));
    }
}
