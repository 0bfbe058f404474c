//! What decides what a process may do: user, groups, capabilities and filters (credentials(7)).

use rustix::fs::{Gid, Uid};
use rustix::thread::CapabilitySet;

/// User, groups and capabilities, as the kernel prints them; and how many filters there are. One that
/// has more than the command started with is in a sandbox of its own, the rules of which the broker
/// does not know; who is in one of Landlock's, `nested_landlock` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    lines: Vec<(&'static str, String)>,
    filters: u64,
}

const USERS: &str = "Uid:";
const GROUPS: &str = "Gid:";
const PERMITTED: &str = "CapPrm:";

impl Credentials {
    /// By the lines of a status, name and value each.
    pub fn new(lines: Vec<(&'static str, String)>, filters: u64) -> Self {
        Self { lines, filters }
    }

    /// The same with the filter that the command has, and the broker does not; and without what the
    /// broker alone has permitted (see `sight`).
    pub fn of_command(mut self) -> Self {
        for (name, value) in &mut self.lines {
            if *name == PERMITTED
                && let Ok(set) = u64::from_str_radix(value, 16)
            {
                *value = format!("{:016x}", set & !CapabilitySet::SYS_PTRACE.bits());
            }
        }
        Self { filters: self.filters + 1, ..self }
    }

    /// Whether what a thread with these does is decided as it is for `other`. Which user it really is,
    /// and what it may put in effect, decides on nothing that it does.
    pub fn act_as(&self, other: &Self) -> bool {
        let acting = |of: &Self| {
            let lines = of.lines.iter().filter(|(name, _)| ![USERS, PERMITTED].contains(name));
            let users = of.numbers(USERS)?.map(str::to_owned).collect::<Vec<_>>();
            let [_, effective, _, file_system] = <[String; 4]>::try_from(users).ok()?;
            Some((lines.cloned().collect::<Vec<_>>(), effective, file_system))
        };
        self.filters == other.filters && acting(self).is_some() && acting(self) == acting(other)
    }

    /// Whether real, effective and saved user are one, and so the groups.
    pub fn is_one_user(&self) -> bool {
        let are_one = |ids: Option<[u32; 3]>| ids.is_some_and(|[a, b, c]| a == b && b == c);
        are_one(self.ids(USERS)) && are_one(self.ids(GROUPS))
    }

    /// Whether users and groups are those of `other`.
    pub fn has_ids_of(&self, other: &Self) -> bool {
        self.ids(USERS) == other.ids(USERS) && self.ids(GROUPS) == other.ids(GROUPS)
    }

    /// Whether there are at least as many filters as with `other`.
    pub fn is_filtered_as(&self, other: &Self) -> bool {
        self.filters >= other.filters
    }

    /// Whether these are the same user, groups and capabilities, whatever filters there are.
    pub fn has_rights_of(&self, other: &Self) -> bool {
        self.lines == other.lines
    }

    /// Whether the kernel lets who has these say that it is this user, of this group (SCM_CREDENTIALS in unix(7)).
    pub fn may_claim(&self, user: u32, group: u32) -> bool {
        let may_set = |capability| {
            self.effective_capabilities().is_some_and(|effective| effective.contains(capability))
        };
        let is_one = |name, id| self.ids(name).is_some_and(|ids| ids.contains(&id));
        (is_one(USERS, user) || may_set(CapabilitySet::SETUID))
            && (is_one(GROUPS, group) || may_set(CapabilitySet::SETGID))
    }

    /// Real, effective and saved user.
    pub fn users(&self) -> Option<[Uid; 3]> {
        self.ids(USERS).map(|ids| ids.map(Uid::from_raw))
    }

    /// Real, effective and saved group.
    pub fn groups(&self) -> Option<[Gid; 3]> {
        self.ids(GROUPS).map(|ids| ids.map(Gid::from_raw))
    }

    /// The supplementary groups.
    pub fn more_groups(&self) -> Option<Vec<Gid>> {
        self.numbers("Groups:")?.map(|id| id.parse().ok().map(Gid::from_raw)).collect()
    }

    /// The capabilities in effect.
    pub fn effective_capabilities(&self) -> Option<CapabilitySet> {
        let set = u64::from_str_radix(self.numbers("CapEff:")?.next()?, 16).ok();
        set.map(CapabilitySet::from_bits_retain)
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
