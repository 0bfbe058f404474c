//! Who may do what with an object: svipc(7), and `ipcperms` in the kernel's ipc/util.c.

use crate::halves;
use rustix::io::{self, Errno};

/// To read, and to change, in each of the three classes.
pub const READ: i32 = 0o444;
pub const WRITE: i32 = 0o222;
/// The permission bits of a mode, or of the flags of a call that ends in get.
const BITS: u32 = 0o777;

/// Capabilities (linux/capability.h).
pub(crate) const IPC_OWNER: u64 = 1 << 15;
const SYS_ADMIN: u64 = 1 << 21;
pub(crate) const SYS_RESOURCE: u64 = 1 << 24;

/// Who makes a call: by what decides about objects.
#[derive(Debug, PartialEq, Eq)]
pub struct Actor {
    /// The effective user.
    pub user: u32,
    /// The effective group, and after it the others.
    pub groups: Vec<u32>,
    /// In effect, by their numbers.
    pub capabilities: u64,
}

impl Actor {
    pub fn has(&self, capability: u64) -> bool {
        self.capabilities & capability != 0
    }
}

/// Whose an object is, and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// By which it is found.
    pub key: i32,
    user: u32,
    group: u32,
    creator: [u32; 2],
    mode: u32,
}

impl Permissions {
    /// Of an object that `actor` makes.
    pub fn new(actor: &Actor, key: i32, flags: i32) -> Self {
        let (user, group) = (actor.user, actor.groups.first().copied().unwrap_or(u32::MAX));
        let mode = flags.cast_unsigned() & BITS;
        Self { key, user, group, creator: [user, group], mode }
    }

    /// Checks that what `wanted` asks for in any of its three classes is permitted.
    ///
    /// # Errors
    /// Returns [`Errno::ACCESS`] if it is not.
    pub fn allow(&self, actor: &Actor, wanted: i32) -> io::Result<()> {
        let wanted = wanted.cast_unsigned();
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 0o7;
        let granted = match () {
            () if [self.user, self.creator[0]].contains(&actor.user) => self.mode >> 6,
            () if [self.group, self.creator[1]].iter().any(|g| actor.groups.contains(g)) => {
                self.mode >> 3
            }
            () => self.mode,
        };
        let is_allowed = wanted & !granted == 0 || actor.has(IPC_OWNER);
        is_allowed.then_some(()).ok_or(Errno::ACCESS)
    }

    /// Checks that `actor` may remove the object, or change whose it is.
    ///
    /// # Errors
    /// Returns [`Errno::PERM`] if not.
    pub fn must_own(&self, actor: &Actor) -> io::Result<()> {
        let owns = [self.user, self.creator[0]].contains(&actor.user) || actor.has(SYS_ADMIN);
        owns.then_some(()).ok_or(Errno::PERM)
    }

    /// Takes on what IPC_SET gives.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] if user or group is none.
    pub fn set(&mut self, given: &Given) -> io::Result<()> {
        if [given.user, given.group].contains(&u32::MAX) {
            return Err(Errno::INVAL);
        }
        (self.user, self.group, self.mode) = (given.user, given.group, given.mode & BITS);
        Ok(())
    }

    /// `struct ipc64_perm` (asm-generic/ipcbuf.h), with `more` bits in the mode.
    pub fn words(&self, id: i32, more: u32) -> [u64; WORDS] {
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
pub const WORDS: usize = 6;

/// What IPC_SET takes of `struct ipc64_perm`.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub user: u32,
    pub group: u32,
    pub mode: u32,
}

impl Given {
    /// The structure begins `bytes`; none if those are too short.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self { user: number(4)?, group: number(8)?, mode: number(20)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(user: u32, groups: &[u32], capabilities: u64) -> Actor {
        Actor { user, groups: groups.to_vec(), capabilities }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let none = 0;
        let mut object = Permissions::new(&actor(1, &[10], none), 5, 0o1640);
        object.set(&Given { user: 2, group: 20, mode: 0o461 }).unwrap();
        for (actor, read, write) in [
            (actor(1, &[10], none), true, false),
            (actor(2, &[20], none), true, false),
            (actor(3, &[10], none), true, true),
            (actor(3, &[30, 20], none), true, true),
            (actor(3, &[30], none), false, false),
            (actor(3, &[30], IPC_OWNER), true, true),
        ] {
            assert_eq!(object.allow(&actor, READ).is_ok(), read, "{actor:?}");
            assert_eq!(object.allow(&actor, WRITE).is_ok(), write, "{actor:?}");
            assert_eq!(object.must_own(&actor).is_ok(), actor.user < 3, "{actor:?}");
        }
        assert!(object.must_own(&actor(3, &[30], SYS_ADMIN)).is_ok());
    }
}
