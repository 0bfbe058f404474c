//! What presets deny along with a path: something on the way to it, and what links at it lead to.

use super::inner_links;
use super::path_memory::{is_beneath, is_in};
use super::paths::{Grant, Paths};
use super::without::plain;
use kernel::locate::Found;
use rules::pattern::{Component, Pattern};
use std::path::{Path, PathBuf};

impl Paths<'_> {
    /// What a preset denies with a path, or with the one name in it that `text` spells as a glob: something on the way, and
    /// what links lead to.
    pub(super) fn also_denied(
        &mut self,
        (path, tree): (&Path, &Path),
        (rest, text): (&[Component], &str),
        beside: Option<&Pattern>,
        writable: &[Grant],
    ) -> Vec<Pattern> {
        let name = text.rsplit('/').next().unwrap_or(text);
        let (above, linked) = match rest {
            [] => (self.above((path, tree), beside, writable), self.linked(path, writable)),
            [_] => (None, self.linked(&path.join(plain(name)), writable)),
            _ => return Vec::new(),
        };
        above.into_iter().chain(linked.iter().map(|path| Pattern::literal(path))).collect()
    }

    /// What is not a directory yet on the way to `path` and must not become a file, which it could only in what is
    /// `writable`: on the way to an allowed path nothing but directories are made, and that itself can become either.
    /// Nor is what is relative to `tree` a reason to deny that, if it is allowed.
    fn above(
        &mut self,
        (path, tree): (&Path, &Path),
        by: Option<&Pattern>,
        writable: &[Grant],
    ) -> Option<Pattern> {
        let first = self.memory.beneath_directory(path);
        let is_missing = |it: &&Path| it.as_os_str().len() >= first.as_os_str().len();
        let is_met = |it: &&Path| writable.iter().any(|by| is_beneath(it, &by.path));
        let is_tree = |it: &Path| is_in(tree, it) && holds_allowed(it, writable);
        let is_inside = |it: &&Path| is_missing(it) && is_met(it) && !is_tree(it);
        let above = path.ancestors().skip(1).take_while(is_inside).last()?;
        let pattern = Pattern::beside(by, above, Vec::new());
        Some(pattern.naming_no_file(self.memory.is_no_file(above)))
    }

    /// Where `path` leads, and links in it if it leads to a directory, and by which links, as far as that is `writable`:
    /// nothing that holds all that an allowed path does.
    fn linked(&mut self, path: &Path, writable: &[Grant]) -> Vec<PathBuf> {
        let end = match self.memory.look(path) {
            Ok(Found::Link(_)) => self.memory.locate_as_far(path).0.path,
            Ok(Found::Directory) => path.to_owned(),
            _ => return Vec::new(),
        };
        let mut links = vec![path.to_owned()];
        if !holds_allowed(&end, writable) {
            links.extend(inner_links::of(&end, inner_links::DEPTH));
        }
        let mut found = inner_links::followed(&links, &mut self.memory);
        found.retain(|end| {
            let is_writable = writable.iter().any(|it| is_in(end, &it.path));
            is_writable && !is_in(end, path) && !holds_allowed(end, writable)
        });
        found
    }
}

/// Whether all of an allowed path lies in `path`.
fn holds_allowed(path: &Path, writable: &[Grant]) -> bool {
    writable.iter().any(|it| is_in(&it.path, path))
}

/// Whether to deny `path` would take away all of an allowed path, and it lies in no other.
pub(super) fn is_all<'a>(path: &Path, mut allowed: impl Iterator<Item = &'a Path> + Clone) -> bool {
    allowed.clone().any(|it| is_in(it, path)) && !allowed.any(|it| is_beneath(path, it))
}
