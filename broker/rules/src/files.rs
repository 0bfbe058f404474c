//! What a resolved policy says of files: the lists that the matcher is made of.

use super::git_links::GitLinks;
use super::paths::Rules;
use super::pattern::Pattern;
use std::path::{Path, PathBuf};

/// What of the file system may be used. Each entry stands for a path with all beneath.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Files {
    /// Canonical paths that may be written.
    pub allow_write: Vec<PathBuf>,
    /// Not writable, wherever they lie.
    pub deny_write: Vec<Pattern>,
    /// Canonical paths writable again inside `deny_write`, where `allow_write` reaches.
    pub allow_write_inside: Vec<PathBuf>,
    /// Not readable; everything else is.
    pub deny_read: Vec<Pattern>,
    /// Canonical paths readable again inside `deny_read`.
    pub allow_read: Vec<PathBuf>,
    /// Canonical paths that are not writable because something above is, only if they or something
    /// inside is allowed itself: the kernel's own controls.
    pub controls: Vec<PathBuf>,
    /// Of processes outside nothing may be read in proc(5).
    pub hides_processes: bool,
    /// All that is read is notified for reports: of processes outside nothing may be read there either.
    pub watches_reads: bool,
    /// Rules may be added during the run.
    pub grow: bool,
    /// What may be done for linked work trees all the same.
    pub git_links: GitLinks,
}

impl Files {
    /// An allowed path with one in it that a rule of known depth denies, unless `**` can deny one anywhere
    /// in it: directories in it could be granted as a whole, but it cannot. The matcher is `rules`.
    pub fn carved_root(&self, rules: &Rules) -> Option<&Path> {
        let denied = || self.deny_write.iter().chain(&self.deny_read);
        let is_carved = |root: &&PathBuf| {
            let root = Pattern::literal(root);
            denied().any(|pattern| pattern.leads_into(&root))
        };
        let root = self.allow_write.iter().find(is_carved)?;
        let is_open = !rules.cursor(root)?.any_depth();
        is_open.then_some(root)
    }
}

/// Adds `item` unless it is there.
pub fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_root_is_carved_by_what_is_denied_in_it_at_a_known_depth() {
        let carved = |write: &[&str], deny: &[&str]| {
            let files = Files {
                allow_write: write.iter().map(PathBuf::from).collect(),
                deny_write: deny.iter().map(|text| Pattern::of_globs(text)).collect(),
                ..Files::default()
            };
            files.carved_root(&Rules::new(&files)).map(Path::to_owned)
        };
        assert_eq!(carved(&["/a", "/w"], &["/w/.env"]), Some("/w".into()));
        assert_eq!(carved(&["/w"], &["/w/*/key"]), Some("/w".into()));
        assert_eq!(carved(&["/w"], &["/w/.env", "/w/d/**/x"]), Some("/w".into()));
        assert_eq!(carved(&["/w"], &["/w/.env", "/w/**/x"]), None);
        assert_eq!(carved(&["/w"], &["/w", "/v/.env", "/w/d/**/x"]), None);
        assert_eq!(carved(&["/w"], &[]), None);
    }
}
