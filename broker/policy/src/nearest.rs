//! The known word or entry nearest to a mistyped one, for error messages. It reads directories and changes nothing.

use std::path::Path;

/// How many entries of a directory are compared with a name that is missing there.
const SIBLINGS_MAX: usize = 10_000;

/// The word of `known` that takes the fewest edits to reach from `word`; the earlier one of two equally near.
///
/// Returns `None` only if `known` is empty: naming a far word still shows what kind of word is expected.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|candidate| distance(word, candidate))
}

/// As [`nearest`], if the word found is so near that it may be meant.
pub fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    nearest(word, known).filter(|found| distance(word, found) <= (length / 3).max(1))
}

/// The entry beside `path` whose name is so near that it may be meant.
pub(crate) fn nearest_sibling(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let entries = path.parent()?.read_dir().ok()?.flatten().take(SIBLINGS_MAX);
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    near(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Optimal string alignment distance in characters: insertions, deletions, replacements and swaps of
/// neighbours count one each. A mere change of case costs nothing, because it is the likeliest mistake.
fn distance(from: &str, to: &str) -> usize {
    // A hostile key may be a megabyte long; beyond the longest known word no precision is needed.
    let from: Vec<char> = from.to_lowercase().chars().take(64).collect();
    let to: Vec<char> = to.to_lowercase().chars().take(64).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut cost = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_counted_by_hand() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("allowWrite", "allowWrite", 0),
            ("allowwrite", "allowWrite", 0),
            ("allowWrites", "allowWrite", 1),
            ("alowWrite", "allowWrite", 1),
            ("allowWriet", "allowWrite", 1),
            ("denyRaed", "denyRead", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), expected, "{from} -> {to}");
        }
    }

    #[test]
    fn the_nearest_word_is_named() {
        let keys = ["allowWrite", "denyWrite", "denyRead", "allowRead"];
        assert_eq!(nearest("denywrites", keys), Some("denyWrite"));
        assert_eq!(nearest("AllowRaed", keys), Some("allowRead"));
        assert_eq!(nearest("x", []), None);
        assert_eq!(near("denywrites", keys), Some("denyWrite"));
        assert_eq!(near(".shh", [".aws", ".ssh"]), Some(".ssh"));
        assert_eq!(near(".env", [".npm", ".aws"]), None);
        assert!(nearest(&"x".repeat(1 << 20), keys).is_some());
    }
}
