//! System V objects as the kernel keeps them: found by key, used by id (sysvipc(7), shmget(2), semget(2),
//! msgget(2) and the calls that end in ctl).

#![allow(unsafe_code)] // no crate in use here has these calls

use super::errno;
use nix::libc;
use rustix::io::{self, Errno};
use std::mem::MaybeUninit;

/// What kind of object it is: ids and keys of one kind mean nothing to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Shared memory.
    Segment,
    /// A set of semaphores.
    Semaphores,
    /// A message queue.
    Queue,
}

/// The key of an object that is found by its id alone.
pub(crate) const PRIVATE: i32 = libc::IPC_PRIVATE;

impl Kind {
    /// The id of the object with `key`, which is made if `flags` say so; `size` is that of a segment, or
    /// the number of semaphores.
    ///
    /// # Errors
    /// Returns what the kernel returns. Without a size and without flags that is [`Errno::NOENT`] only,
    /// whoever owns the object: nothing is asked for that would need a permission.
    pub(crate) fn get(self, key: i32, size: usize, flags: i32) -> io::Result<i32> {
        let id = match self {
            // SAFETY: three numbers, and nothing of this process is concerned.
            Self::Segment => unsafe { libc::shmget(key, size, flags) },
            Self::Semaphores => {
                let number = i32::try_from(size).map_err(|_| Errno::INVAL)?;
                // SAFETY: as above.
                unsafe { libc::semget(key, number, flags) }
            }
            // SAFETY: two numbers.
            Self::Queue => unsafe { libc::msgget(key, flags) },
        };
        if id < 0 { Err(errno::last()) } else { Ok(id) }
    }

    /// Removes the object; a segment goes with the last process that has it attached.
    pub(crate) fn remove(self, id: i32) -> io::Result<()> {
        let result = match self {
            // SAFETY: with this command the kernel takes no third argument; the broker has no segment
            // attached.
            Self::Segment => unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) },
            // SAFETY: as above; there is no fourth argument either.
            Self::Semaphores => unsafe { libc::semctl(id, 0, libc::IPC_RMID) },
            // SAFETY: as above.
            Self::Queue => unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) },
        };
        if result < 0 { Err(errno::last()) } else { Ok(()) }
    }
}

/// SHM_DEST of a segment's mode (shmctl(2)).
const DESTROYED: u32 = 0o1000;
/// Looks at a segment whatever its mode permits (shmctl(2), Linux 4.17); libc lacks it.
const SHM_STAT_ANY: i32 = 15;

/// Whether `id` is a segment that this process made, and that was removed while processes had it
/// attached: it has no key any more, and goes with the last of them.
///
/// # Errors
/// Returns what the kernel returns, unless it says that there is none: then that is not known.
pub(crate) fn is_lingering(id: i32) -> io::Result<bool> {
    let mut status = MaybeUninit::<libc::shmid_ds>::zeroed();
    // The kernel takes the row of its table off the id, and returns the id that stands there.
    // SAFETY: the kernel writes one such structure, or nothing.
    let found = unsafe { libc::shmctl(id, SHM_STAT_ANY, status.as_mut_ptr()) };
    if found < 0 {
        return match errno::last() {
            Errno::INVAL | Errno::IDRM => Ok(false),
            errno => Err(errno),
        };
    }
    // SAFETY: zeroes are a value of it, and the kernel has filled it in.
    let status = unsafe { status.assume_init() };
    let creator = u32::try_from(status.shm_cpid);
    let is_removed = u32::from(status.shm_perm.mode) & DESTROYED != 0;
    Ok(found == id && is_removed && creator == Ok(std::process::id()))
}
