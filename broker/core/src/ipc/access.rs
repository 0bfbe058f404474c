//! Who may do what with an object: svipc(7), and `ipcperms` in the kernel's ipc/util.c.

use super::halves;
use kernel::credentials::Credentials;
use rustix::io::{self, Errno};
use rustix::thread::CapabilitySet;

/// To read, and to change, in each of the three classes.
pub(super) const READ: i32 = 0o444;
pub(super) const WRITE: i32 = 0o222;
/// The permission bits of a mode, or of the flags of a call that ends in get.
const BITS: u32 = 0o777;

/// Who makes a call: by what decides about objects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Actor {
    user: u32,
    groups: Vec<u32>,
    capabilities: CapabilitySet,
}

impl Actor {
    /// By the effective user and group, the other groups, and the capabilities in effect.
    ///
    /// # Errors
    /// Returns [`Errno::IO`] if they are not known.
    pub(super) fn new(credentials: &Credentials) -> io::Result<Self> {
        let parts = || {
            let [_, user, _] = credentials.users()?;
            let [_, group, _] = credentials.groups()?;
            let more = credentials.more_groups()?;
            let groups = std::iter::once(group).chain(more).map(|group| group.as_raw()).collect();
            let capabilities = credentials.effective_capabilities()?;
            Some(Self { user: user.as_raw(), groups, capabilities })
        };
        parts().ok_or(Errno::IO)
    }

    pub(super) fn has(&self, capability: CapabilitySet) -> bool {
        self.capabilities.contains(capability)
    }
}

/// Whose an object is, and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Permissions {
    /// By which it is found.
    pub(super) key: i32,
    user: u32,
    group: u32,
    creator: [u32; 2],
    mode: u32,
}

impl Permissions {
    /// Of an object that `actor` makes.
    pub(super) fn new(actor: &Actor, key: i32, flags: i32) -> Self {
        let (user, group) = (actor.user, actor.groups.first().copied().unwrap_or(u32::MAX));
        let mode = flags.cast_unsigned() & BITS;
        Self { key, user, group, creator: [user, group], mode }
    }

    /// Checks that what `wanted` asks for in any of its three classes is permitted.
    ///
    /// # Errors
    /// Returns [`Errno::ACCESS`] if it is not.
    pub(super) fn allow(&self, actor: &Actor, wanted: i32) -> io::Result<()> {
        let wanted = wanted.cast_unsigned();
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 0o7;
        let granted = match () {
            () if [self.user, self.creator[0]].contains(&actor.user) => self.mode >> 6,
            () if [self.group, self.creator[1]].iter().any(|g| actor.groups.contains(g)) => {
                self.mode >> 3
            }
            () => self.mode,
        };
        let is_allowed = wanted & !granted == 0 || actor.has(CapabilitySet::IPC_OWNER);
        is_allowed.then_some(()).ok_or(Errno::ACCESS)
    }

    /// Checks that `actor` may remove the object, or change whose it is.
    ///
    /// # Errors
    /// Returns [`Errno::PERM`] if not.
    pub(super) fn must_own(&self, actor: &Actor) -> io::Result<()> {
        let owns = [self.user, self.creator[0]].contains(&actor.user)
            || actor.has(CapabilitySet::SYS_ADMIN);
        owns.then_some(()).ok_or(Errno::PERM)
    }

    /// Takes on what IPC_SET gives.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] if user or group is none.
    pub(super) fn set(&mut self, given: &Given) -> io::Result<()> {
        if [given.user, given.group].contains(&u32::MAX) {
            return Err(Errno::INVAL);
        }
        (self.user, self.group, self.mode) = (given.user, given.group, given.mode & BITS);
        Ok(())
    }

    /// `struct ipc64_perm` (asm-generic/ipcbuf.h), with `more` bits in the mode.
    pub(super) fn words(&self, id: i32, more: u32) -> [u64; WORDS] {
        let [creator, creator_group] = self.creator;
        [
            halves(self.key.cast_unsigned(), self.user),
            halves(self.group, creator),
            halves(creator_group, self.mode | more),
            u64::from(id.cast_unsigned() >> 15),
            0,
            0,
        ]
    }
}

/// The length of `struct ipc64_perm`, in words.
pub(super) const WORDS: usize = 6;

/// What IPC_SET takes of `struct ipc64_perm`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) mode: u32,
}

impl Given {
    /// The structure begins `bytes`; none if those are too short.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self { user: number(4)?, group: number(8)?, mode: number(20)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(user: u32, groups: &[u32], capabilities: CapabilitySet) -> Actor {
        Actor { user, groups: groups.to_vec(), capabilities }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let none = CapabilitySet::empty();
        let mut object = Permissions::new(&actor(1, &[10], none), 5, 0o1640);
        object.set(&Given { user: 2, group: 20, mode: 0o461 }).unwrap();
        for (actor, read, write) in [
            (actor(1, &[10], none), true, false),
            (actor(2, &[20], none), true, false),
            (actor(3, &[10], none), true, true),
            (actor(3, &[30, 20], none), true, true),
            (actor(3, &[30], none), false, false),
            (actor(3, &[30], CapabilitySet::IPC_OWNER), true, true),
        ] {
            assert_eq!(object.allow(&actor, READ).is_ok(), read, "{actor:?}");
            assert_eq!(object.allow(&actor, WRITE).is_ok(), write, "{actor:?}");
            assert_eq!(object.must_own(&actor).is_ok(), actor.user < 3, "{actor:?}");
        }
        assert!(object.must_own(&actor(3, &[30], CapabilitySet::SYS_ADMIN)).is_ok());
    }
}
