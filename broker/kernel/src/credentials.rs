//! What decides what a process may do: user, groups, capabilities and filters (credentials(7)).

use rustix::fs::{Gid, Uid};
use rustix::thread::CapabilitySet;

/// User, groups and capabilities; and how many filters there are. One that
/// has more than the command started with is in a sandbox of its own, the rules of which the broker
/// does not know; who is in one of Landlock's, `nested_landlock` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Real, effective and saved one, and that of the file system, which follows the effective one.
    pub users: [Uid; 4],
    pub groups: [Gid; 4],
    /// The supplementary ones.
    pub more_groups: Vec<Gid>,
    permitted: CapabilitySet,
    pub effective: CapabilitySet,
    no_new_privs: bool,
    filters: u32,
}

impl Credentials {
    /// By the lines of a status; none if one is missing.
    pub(super) fn read<'a>(line: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let ids = |name| -> Option<Vec<u32>> {
            line(name)?.split_ascii_whitespace().map(|id| id.parse().ok()).collect()
        };
        let four = |name| <[u32; 4]>::try_from(ids(name)?).ok();
        let set =
            |name| u64::from_str_radix(line(name)?, 16).ok().map(CapabilitySet::from_bits_retain);
        Some(Self {
            users: four("Uid:")?.map(Uid::from_raw),
            groups: four("Gid:")?.map(Gid::from_raw),
            more_groups: ids("Groups:")?.into_iter().map(Gid::from_raw).collect(),
            permitted: set("CapPrm:")?,
            effective: set("CapEff:")?,
            no_new_privs: line("NoNewPrivs:")? == "1",
            filters: line("Seccomp_filters:")?.parse().ok()?,
        })
    }

    /// The same with the filter that the command has, and the broker does not; and without what the
    /// broker alone has permitted (see `ptrace_capability`).
    pub fn of_command(self) -> Self {
        let permitted = self.permitted - CapabilitySet::SYS_PTRACE;
        Self { permitted, filters: self.filters + 1, ..self }
    }

    /// Whether what a thread with these does is decided as it is for `other`. Which user it really is,
    /// and what it may put in effect, decides on nothing that it does.
    pub fn act_as(&self, other: &Self) -> bool {
        let ([real, _, saved, _], [_, effective, _, of_files]) = (other.users, self.users);
        let users = [real, effective, saved, of_files];
        Self { users, permitted: other.permitted, ..self.clone() } == *other
    }

    /// Whether real, effective and saved user of both are one, and so the groups.
    pub fn are_one_user_with(&self, other: &Self) -> bool {
        let ([user, ..], [group, ..]) = (self.users, self.groups);
        [self, other].iter().all(|it| it.users[..3] == [user; 3] && it.groups[..3] == [group; 3])
    }

    /// Whether there are at least as many filters as with `other`.
    pub fn is_filtered_as(&self, other: &Self) -> bool {
        self.filters >= other.filters
    }

    /// Whether these are the same user, groups and capabilities, whatever filters there are.
    pub fn has_rights_of(&self, other: &Self) -> bool {
        Self { filters: other.filters, ..self.clone() } == *other
    }

    /// Whether the kernel lets who has these signal who has those of `other` (kill(2)).
    pub fn may_signal(&self, other: &Self) -> bool {
        let ([real, effective, ..], [theirs, _, saved, _]) = (self.users, other.users);
        [real, effective].iter().any(|own| [theirs, saved].contains(own))
            || self.effective.contains(CapabilitySet::KILL)
    }

    /// Whether the kernel lets who has these say that it is this user, of this group (SCM_CREDENTIALS in unix(7)).
    pub fn may_claim(&self, user: u32, group: u32) -> bool {
        let is_user = self.users[..3].iter().any(|own| own.as_raw() == user);
        let is_group = self.groups[..3].iter().any(|own| own.as_raw() == group);
        (is_user || self.effective.contains(CapabilitySet::SETUID))
            && (is_group || self.effective.contains(CapabilitySet::SETGID))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Of these users, with these capabilities in effect.
    fn of(users: &str, effective: &str) -> Credentials {
        let line = |name: &str| {
            Some(match name {
                "Uid:" => users,
                "Gid:" => "7 7 7 7",
                "Groups:" => "",
                "CapEff:" => effective,
                _ => "0",
            })
        };
        Credentials::read(line).unwrap()
    }

    #[test]
    fn who_may_signal_whom_is_as_kill_has_it() {
        for (by, capabilities, other, expected) in [
            ("1 1 1 1", "0", "1 1 1 1", true),
            ("1 1 1 1", "0", "0 0 0 0", false),
            ("0 0 0 0", "0", "1 1 1 1", false),
            ("0 0 0 0", "20", "1 1 1 1", true),
            ("1 1 1 1", "1f", "0 0 0 0", false),
            // Their real or saved one, by the own real or effective one.
            ("1 2 3 2", "0", "2 9 9 9", true),
            ("1 2 3 2", "0", "9 9 1 9", true),
            ("1 2 3 2", "0", "9 1 9 2", false),
            ("1 2 3 2", "0", "3 3 3 3", false),
        ] {
            assert_eq!(of(by, capabilities).may_signal(&of(other, "0")), expected, "{by} {other}");
        }
    }

    #[test]
    fn one_user_is_one_in_all_that_counts() {
        let is_one = |by, other| of(by, "0").are_one_user_with(&of(other, "0"));
        assert!(is_one("1 1 1 1", "1 1 1 1"));
        assert!(is_one("1 1 1 2", "1 1 1 3"), "those of file systems follow");
        for other in ["2 1 1 1", "1 2 1 1", "1 1 2 1", "2 2 2 2"] {
            assert!(!is_one("1 1 1 1", other) && !is_one(other, "1 1 1 1"), "{other}");
            assert_eq!(is_one(other, other), other == "2 2 2 2", "{other}");
        }
    }
}
