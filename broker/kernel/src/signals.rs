//! Signals that the broker sends for a target, with the information that says they are the target's:
//! pidfd_send_signal(2), rt_sigqueueinfo(2), sigaction(2).

#![allow(unsafe_code)]

use super::credentials::Credentials;
use super::errno;
use super::target::{Target, TargetAddress};
use nix::libc;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{self, Errno};

/// The size of `siginfo_t` (uapi/asm-generic/siginfo.h).
const SIZE: usize = 128;
/// Where `si_code` is, and after it, aligned to 8, what is sent: process, user, value.
const CODE: usize = 8;
const SENDER: usize = 16;
const USER: usize = 20;
/// The highest number (signal(7)).
const LAST: i32 = 64;

/// A signal, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    number: i32,
    info: [u8; SIZE],
    /// The kernel takes the broker for it.
    pub(super) sender: Credentials,
}

impl Signal {
    /// One that `process` of the `sender` sends. The kernel lets nobody say for another that it was
    /// sent by kill(2): it is told as one of sigqueue(3), with the value 0.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] if there is no such signal.
    pub fn of(number: i32, process: i32, sender: Credentials) -> io::Result<Self> {
        if !(0..=LAST).contains(&number) {
            return Err(Errno::INVAL);
        }
        let mut info = [0; SIZE];
        info[..4].copy_from_slice(&number.to_ne_bytes());
        info[CODE..][..4].copy_from_slice(&libc::SI_QUEUE.to_ne_bytes());
        info[SENDER..][..4].copy_from_slice(&process.to_ne_bytes());
        info[USER..][..4].copy_from_slice(&sender.users[0].as_raw().to_ne_bytes());
        Ok(Self { number, info, sender })
    }

    /// Has it say what `target` has at `address`.
    ///
    /// # Errors
    /// Returns [`Errno::PERM`] for what only the kernel may say to others, and what reading memory returns.
    pub fn copy(&mut self, target: Target, address: TargetAddress) -> io::Result<()> {
        let info: [u8; SIZE] = target.read_array(address)?;
        let code = info[CODE..].first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
        // As rt_sigqueueinfo(2).
        if code >= 0 || code == libc::SI_TKILL {
            return Err(Errno::PERM);
        }
        self.info[4..].copy_from_slice(&info[4..]);
        Ok(())
    }

    pub fn number(&self) -> i32 {
        self.number
    }

    /// Sends it to the process or the thread that `handle` stands for; to the whole process of a thread if
    /// `to_process` is set, which kernels know that have handles of threads (Linux 6.9).
    pub fn send(&self, handle: BorrowedFd<'_>, to_process: bool) -> io::Result<()> {
        const THREAD_GROUP: u32 = 1 << 1;
        let flags = if to_process { THREAD_GROUP } else { 0 };
        send_by(handle, self.number, self.info.as_ptr(), flags)
    }

    /// Sends it to a thread of the process that has the id `process`.
    pub fn send_to_thread(&self, process: i32, thread: i32) -> io::Result<()> {
        let number = libc::SYS_rt_tgsigqueueinfo;
        let info = self.info.as_ptr();
        // SAFETY: the pointer is to a live `siginfo_t`.
        errno::result(unsafe { libc::syscall(number, process, thread, self.number, info) })
    }
}

/// Whether the process that `handle` stands for has not been reaped: its id is no other's.
pub fn has_its_id(handle: BorrowedFd<'_>) -> bool {
    send_by(handle, 0, std::ptr::null(), 0) != Err(Errno::SRCH)
}

fn send_by(handle: BorrowedFd<'_>, signal: i32, info: *const u8, flags: u32) -> io::Result<()> {
    let number = libc::SYS_pidfd_send_signal;
    // SAFETY: the pointer is null or to a live `siginfo_t`.
    errno::result(unsafe { libc::syscall(number, handle.as_raw_fd(), signal, info, flags) })
}
