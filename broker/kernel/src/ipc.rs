//! Segments of shared memory as the kernel keeps them: shmget(2), shmat(2), shmctl(2).

#![allow(unsafe_code)] // no crate in use here has these calls

use super::errno;
use nix::libc::{self, c_void};
use rustix::io::{self, Errno};
use rustix::process::{getegid, geteuid};
use std::mem::MaybeUninit;

/// A segment that this process has attached. While it has, the id is that of no other: the kernel gives it away only
/// after the segment, which is removed already, has gone with the last of those that have it attached.
#[derive(Debug)]
pub struct Attachment(usize);

/// What the kernel knows of a segment (shmctl(2)).
#[derive(Clone, Copy, Debug)]
pub struct SegmentStatus(pub libc::shmid_ds);

/// The permission to read that an owner needs to attach a segment.
const OWNER_READS: i32 = 0o400;
/// SHM_DEST of a segment's mode: removed (shmctl(2)).
const REMOVED: u32 = 0o1000;
/// Looks at a segment whatever its mode permits (shmctl(2), Linux 4.17); libc lacks it.
const SHM_STAT_ANY: i32 = 15;

/// Largest segment, in bytes: all that there can be fit into this process's addresses.
const SIZE_MAX: usize = 1 << 36;

/// Makes a segment without a key, attaches and removes it, so that it goes when nobody has it attached any more,
/// whatever becomes of this process.
///
/// # Errors
/// Returns what the kernel returns; [`Errno::NOMEM`] for one that is too large.
pub fn make_segment(size: usize, flags: i32) -> io::Result<(i32, Attachment)> {
    if size > SIZE_MAX {
        return Err(Errno::NOMEM);
    }
    // SAFETY: takes three numbers.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, size, flags | OWNER_READS) };
    if id < 0 {
        return Err(errno::last());
    }
    let attachment = Attachment::of(id);
    // SAFETY: with this command the kernel takes no third argument.
    errno::result(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) })?;
    let attachment = attachment?;
    if flags & OWNER_READS == 0 {
        // Whose it is already: this thread's.
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        set_segment(id, user, group, flags.cast_unsigned())?;
    }
    Ok((id, attachment))
}

/// Gives segment `id`, which is attached, another owner and mode.
///
/// # Errors
/// Returns what the kernel returns.
pub fn set_segment(id: i32, user: u32, group: u32, mode: u32) -> io::Result<()> {
    let mut status = MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: it consists of numbers.
    let status = unsafe { status.assume_init_mut() };
    (status.shm_perm.uid, status.shm_perm.gid) = (user, group);
    // Its type differs between architectures and C libraries; nine bits fit in each.
    status.shm_perm.mode = (mode & 0o777).try_into().map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads one such structure.
    errno::result(unsafe { libc::shmctl(id, libc::IPC_SET, status) })
}

impl Attachment {
    /// Attaches segment `id`, to read.
    ///
    /// # Errors
    /// Returns what shmat(2) returns.
    pub fn of(id: i32) -> io::Result<Self> {
        // SAFETY: the kernel chooses an address where nothing is; nothing here looks at it.
        let address = unsafe { libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY) };
        match address.addr() {
            usize::MAX => Err(errno::last()),
            address => Ok(Self(address)),
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: nothing else uses what shmat(2) put there.
        unsafe { libc::shmdt(std::ptr::with_exposed_provenance::<c_void>(self.0)) };
    }
}

impl SegmentStatus {
    /// Of the segment with this id, if there is one that this process made and removed. No other process makes
    /// such a one as long as this lives.
    ///
    /// # Errors
    /// Returns what the kernel returns, unless it says that there is none: then that is not known.
    pub fn of(id: i32) -> io::Result<Option<Self>> {
        let mut status = MaybeUninit::<libc::shmid_ds>::zeroed();
        // The kernel takes the row of its table off the id, and returns the id that stands there.
        // SAFETY: the kernel writes one such structure, or nothing.
        let found = unsafe { libc::shmctl(id, SHM_STAT_ANY, status.as_mut_ptr()) };
        if found < 0 {
            return match errno::last() {
                Errno::INVAL | Errno::IDRM => Ok(None),
                errno => Err(errno),
            };
        }
        // SAFETY: zeroes are a value of it, and the kernel has filled it in.
        let status = Self(unsafe { status.assume_init() });
        let is_own = status.0.shm_cpid.cast_unsigned() == std::process::id();
        let is_removed = status.mode() & REMOVED != 0;
        Ok((found == id && is_own && is_removed).then_some(status))
    }

    /// Permissions and other bits.
    pub fn mode(&self) -> u32 {
        self.0.shm_perm.mode.into()
    }
}
