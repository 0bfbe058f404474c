//! The listener: the ioctl(2)s by which notifications are received and answered (seccomp_unotify(2)).
//!
//! What answers or acts is for [`Request`](super::request::Request) alone, which sees to it that it is
//! done once, and only for a call that still waits.

#![allow(unsafe_code)]

use super::repetition::{IsSame, Repetitions};
use super::target::{TargetAddress, TargetFd};
use super::{errno, features};
use nix::libc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{self, Errno};
use rustix::ioctl::{Opcode, opcode};
use rustix::process::Pid;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};

/// `struct seccomp_notif` with `struct seccomp_data` (linux/seccomp.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawNotification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    instruction_pointer: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawAnswer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    number: u32,
    number_flags: u32,
}

// The size is part of the number: a kernel with larger structures refuses it instead of
// writing past ours.
const RECEIVE: Opcode = opcode::read_write::<RawNotification>(b'!', 0);
const SEND: Opcode = opcode::read_write::<RawAnswer>(b'!', 1);
const ID_VALID: Opcode = opcode::write::<u64>(b'!', 2);
const ADD_DESCRIPTOR: Opcode = opcode::write::<RawDescriptor>(b'!', 3);
const SET_FLAGS: Opcode = opcode::write::<u64>(b'!', 4);

const FLAG_CONTINUE: u32 = 1;
/// The new descriptor's number is the answer (Linux 5.14).
const FLAG_SEND: u32 = 1 << 1;
/// The number of the new descriptor is given.
const FLAG_SET_NUMBER: u32 = 1 << 0;
const SYNC_WAKE_UP: usize = 1;

/// A notified system call: the registers of the target at its entry.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// Names the call to the kernel while it waits.
    pub id: u64,
    /// The target's thread (not its process).
    pub thread: Pid,
    /// Number of the system call.
    pub number: i32,
    /// Its arguments as they are in the registers, which nothing can change while it waits.
    pub arguments: [u64; 6],
}

impl Notification {
    /// An `int` argument: the kernel ignores the upper half of the register.
    pub fn int(&self, index: usize) -> i32 {
        self.unsigned(index).cast_signed()
    }

    /// A file descriptor.
    pub fn descriptor(&self, index: usize) -> TargetFd {
        TargetFd::new(self.int(index))
    }

    /// A pointer.
    pub fn address(&self, index: usize) -> TargetAddress {
        TargetAddress::new(self.arguments[index])
    }

    /// An `unsigned int` argument.
    #[allow(clippy::cast_possible_truncation)] // as the kernel does
    pub fn unsigned(&self, index: usize) -> u32 {
        self.arguments[index] as u32
    }
}

/// Which number a descriptor gets in the target.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// A free one; the call is still to be answered.
    Free,
    /// A free one, which the call returns. If it fails, the call is still to be answered.
    Answer,
    /// This one, as by dup2(2); the call is still to be answered.
    Given(TargetFd),
}

/// The descriptor of the filter's listener.
#[derive(Clone, Debug)]
pub struct Listener(Arc<OwnedFd>, Arc<Callers>, Option<Arc<Repetitions>>);

/// Whose calls came last.
#[derive(Debug, Default)]
struct Callers {
    thread: AtomicU32,
    /// A bit for each of the last calls: whether another thread's came before.
    changes: AtomicU16,
    are_mixed: AtomicBool,
}

impl Callers {
    /// Of the last sixteen calls, how many follow one of another thread where several run side by side.
    const MIXED: u32 = 6;

    /// Notes a call. Returns whether several threads call in turn, if that was otherwise before.
    fn note(&self, thread: u32) -> Option<bool> {
        let is_change = self.thread.swap(thread, Ordering::Relaxed) != thread;
        let changes = self.changes.load(Ordering::Relaxed) << 1 | u16::from(is_change);
        self.changes.store(changes, Ordering::Relaxed);
        let are_mixed = changes.count_ones() >= Self::MIXED;
        let was_so = self.are_mixed.swap(are_mixed, Ordering::Relaxed);
        (are_mixed != was_so).then_some(are_mixed)
    }
}

impl Listener {
    /// Takes the descriptor over.
    pub fn new(descriptor: OwnedFd, is_same: IsSame) -> Self {
        let repetitions = (!features::signals_wait()).then(|| Arc::new(Repetitions::new(is_same)));
        let listener = Self(Arc::new(descriptor), Arc::default(), repetitions);
        listener.wake(SYNC_WAKE_UP);
        listener
    }

    /// Has the target woken on the broker's own CPU, where the kernel can (Linux 6.6): that is several times faster, but
    /// threads of the target that run side by side would come to share that CPU.
    fn wake(&self, flags: usize) {
        // SAFETY: SET_FLAGS takes an integer. Its failure only costs time.
        let _ = unsafe { self.ioctl(SET_FLAGS, ptr::without_provenance_mut::<u8>(flags)) };
    }

    /// The next notification, or `None` if its target died first.
    pub fn receive(&self) -> io::Result<Option<Notification>> {
        let mut raw = RawNotification::default();
        // SAFETY: RECEIVE reads and writes one zeroed structure of this type.
        match unsafe { self.ioctl(RECEIVE, &raw mut raw) } {
            Ok(_) => {}
            Err(Errno::NOENT | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        if let Some(are_mixed) = self.1.note(raw.pid) {
            self.wake(if are_mixed { 0 } else { SYNC_WAKE_UP });
        }
        let thread = i32::try_from(raw.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        Ok(Some(Notification { id: raw.id, thread, number: raw.number, arguments: raw.arguments }))
    }

    /// The calls that signals interrupted, where these do not wait for the answer.
    pub(super) fn repetitions(&self) -> Option<&Repetitions> {
        self.2.as_deref()
    }

    /// Whether the target still waits. Only then did what was read under its thread id before belong
    /// to it: the id of a dead thread can be another's.
    pub(super) fn is_waiting(&self, mut id: u64) -> bool {
        // SAFETY: ID_VALID reads one u64.
        io::retry_on_intr(|| unsafe { self.ioctl(ID_VALID, &raw mut id) }).is_ok()
    }

    /// Whether no task has the filter any more.
    pub fn is_orphaned(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Lets the call through. Returns whether the target was still there.
    pub(super) fn let_through(&self, id: u64) -> bool {
        self.send(RawAnswer { id, value: 0, error: 0, flags: FLAG_CONTINUE })
    }

    /// Makes the call return the number in `result`. Returns whether the target was still there.
    pub(super) fn complete(&self, id: u64, result: io::Result<i32>) -> bool {
        let (value, error) = match result {
            Ok(value) => (i64::from(value), 0),
            Err(errno) => (0, -errno.raw_os_error()),
        };
        self.send(RawAnswer { id, value, error, flags: 0 })
    }

    /// Puts a duplicate of `descriptor` into the target, and returns its number there.
    ///
    /// # Errors
    /// Returns [`Errno::MFILE`] if the target may have no more, [`Errno::NOENT`] if it is gone.
    pub(super) fn add(
        &self,
        id: u64,
        descriptor: BorrowedFd<'_>,
        number: Number,
        close_on_exec: bool,
    ) -> io::Result<TargetFd> {
        let (flags, number) = match number {
            Number::Free => (0, 0),
            Number::Answer => (FLAG_SEND, 0),
            Number::Given(number) => (FLAG_SET_NUMBER, number.raw().cast_unsigned()),
        };
        let number_flags = if close_on_exec { OFlags::CLOEXEC.bits() } else { 0 };
        let source = descriptor.as_raw_fd().cast_unsigned();
        let mut descriptor = RawDescriptor { id, flags, source, number, number_flags };
        // SAFETY: ADD_DESCRIPTOR reads one structure of this type; its result is the number there.
        unsafe { self.ioctl(ADD_DESCRIPTOR, &raw mut descriptor) }.map(TargetFd::new)
    }

    fn send(&self, mut answer: RawAnswer) -> bool {
        // SAFETY: SEND reads one structure of this type. ENOENT says that the target died meanwhile.
        unsafe { self.ioctl(SEND, &raw mut answer) }.is_ok()
    }

    /// # Safety
    /// `argument` is what the operation takes.
    unsafe fn ioctl<T>(&self, operation: Opcode, argument: *mut T) -> io::Result<i32> {
        // SAFETY: by the caller's contract.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), operation as _, argument) };
        errno::result(result).map(|()| result)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_call_in_turn_are_told_from_one_that_calls_alone() {
        let callers = Callers::default();
        assert!((0..40).all(|_| callers.note(7).is_none()));
        let turns: Vec<_> = (0..40).filter_map(|call| callers.note(7 + call % 2)).collect();
        assert_eq!(turns, [true]);
        let alone: Vec<_> = (0..40).filter_map(|_| callers.note(9)).collect();
        assert_eq!(alone, [false]);
        // One program after the other, each with some calls.
        assert!((0..400).all(|call| callers.note(10 + call / 4).is_none()));
    }
}
