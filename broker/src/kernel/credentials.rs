//! What decides what a process may do: user, groups, capabilities and filters (credentials(7)).

use rustix::fs::{Gid, Uid};
use rustix::thread::CapabilitySet;

/// User, groups and capabilities, as the kernel prints them; and how many filters there are. One that
/// has more than the command started with is in a sandbox of its own, the rules of which, Landlock's
/// too, the broker does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    lines: Vec<(&'static str, String)>,
    filters: u64,
}

impl Credentials {
    /// By the lines of a status, name and value each.
    pub(crate) fn new(lines: Vec<(&'static str, String)>, filters: u64) -> Self {
        Self { lines, filters }
    }

    /// The same with the filter that the command has, and the broker does not.
    pub(crate) fn filtered(self) -> Self {
        Self { filters: self.filters + 1, ..self }
    }

    /// Whether there are at least as many filters as with `other`.
    pub(crate) fn is_filtered_as(&self, other: &Self) -> bool {
        self.filters >= other.filters
    }

    /// Whether these are the same user, groups and capabilities, whatever filters there are.
    pub(crate) fn has_rights_of(&self, other: &Self) -> bool {
        self.lines == other.lines
    }

    /// Real, effective and saved user.
    pub(crate) fn users(&self) -> Option<[Uid; 3]> {
        self.ids("Uid:").map(|ids| ids.map(Uid::from_raw))
    }

    /// Real, effective and saved group.
    pub(crate) fn groups(&self) -> Option<[Gid; 3]> {
        self.ids("Gid:").map(|ids| ids.map(Gid::from_raw))
    }

    /// The supplementary groups.
    pub(crate) fn more_groups(&self) -> Option<Vec<Gid>> {
        self.numbers("Groups:")?.map(|id| id.parse().ok().map(Gid::from_raw)).collect()
    }

    /// The permitted and the effective capabilities.
    pub(crate) fn capabilities(&self) -> Option<(CapabilitySet, CapabilitySet)> {
        let set = |name| u64::from_str_radix(self.numbers(name)?.next()?, 16).ok();
        let of = CapabilitySet::from_bits_retain;
        Some((of(set("CapPrm:")?), of(set("CapEff:")?)))
    }

    /// Of the four in a line, the last is that of the file system, which follows the effective one.
    fn ids(&self, name: &str) -> Option<[u32; 3]> {
        let ids: Option<Vec<u32>> = self.numbers(name)?.map(|id| id.parse().ok()).collect();
        ids?.first_chunk().copied()
    }

    fn numbers(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        let (_, value) = self.lines.iter().find(|(line, _)| *line == name)?;
        Some(value.split_ascii_whitespace())
    }
}
