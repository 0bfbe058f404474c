//! Where the rules in force come from: kept for who asks (`--explain`), never for a run.

use super::error::Origin;
use super::keys::{Item, Written};
use rules::paths::List;
use rules::pattern::Pattern;
use std::path::{Path, PathBuf};

/// Why there is a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It was written here.
    Written(Origin),
    /// landstrip added it, for this reason.
    Own(&'static str),
}

/// A rule for paths, as it was resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    pub list: &'static str,
    pub pattern: Pattern,
    pub cause: Cause,
}

/// What is known of the rules in force.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Origins {
    /// The policies, each after those that it extends.
    pub files: Vec<PathBuf>,
    /// All of them merged, as written.
    pub written: Written,
    /// The rules for paths, sockets among them.
    pub paths: Vec<PathRule>,
    /// Directories of which a lone `*` allows what is there at launch.
    pub stars: Vec<PathBuf>,
}

/// The key of sockets, which are paths as well.
pub const SOCKETS: &str = "network.allowUnixSockets";

/// The key of a list of rules for files; none of what landstrip alone decides.
pub fn key(list: List) -> Option<&'static str> {
    match list {
        List::AllowWrite => Some("filesystem.allowWrite"),
        List::AllowWriteInside => Some("filesystem.allowWriteInside"),
        List::DenyWrite => Some("filesystem.denyWrite"),
        List::DenyRead => Some("filesystem.denyRead"),
        List::AllowRead => Some("filesystem.allowRead"),
        List::Controls => None,
    }
}

impl Origins {
    /// The rule of a list that stands for `pattern`.
    pub fn of_path(&self, list: &str, pattern: &Pattern) -> Option<&PathRule> {
        self.paths.iter().find(|rule| rule.list == list && rule.pattern == *pattern)
    }

    /// What was written for the rule of a list of denials that stands for `pattern`.
    pub fn item_of(&self, list: &str, pattern: &Pattern) -> Option<&Item> {
        let Cause::Written(origin) = &self.of_path(list, pattern)?.cause else { return None };
        let lists = [&self.written.deny_write, &self.written.deny_read];
        lists.into_iter().flatten().find(|item| item.origin == *origin)
    }

    /// The rule of [`SOCKETS`] that permits `path`.
    pub fn of_socket(&self, path: &Path) -> Option<&PathRule> {
        let mut sockets = self.paths.iter().filter(|rule| rule.list == SOCKETS);
        let permits = |listed: PathBuf| path.starts_with(listed);
        sockets.find(|rule| rule.pattern.as_path().is_some_and(permits))
    }

    /// Where the value of `key`, which is no list, was written.
    pub fn of_value(&self, key: &str) -> Option<&Origin> {
        let mut places = self.written.places.iter();
        places.find(|(known, _)| *known == key).map(|(_, origin)| origin)
    }

    /// Where an item of `items` was written that is `text`.
    pub fn of_item<'a>(items: &'a [Item], text: &str) -> Option<&'a Origin> {
        items.iter().find(|item| item.text.trim() == text).map(|item| &item.origin)
    }
}
