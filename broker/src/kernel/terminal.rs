//! Terminals: which one a descriptor leads to, and its foreground process group (ioctl_tty(2)).
//!
//! A group outside this PID namespace has the number 0.

#![allow(unsafe_code)]

use super::errno;
use nix::libc::{self, c_int};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io;

/// include/uapi/asm-generic/ioctls.h; C libraries differ about the type.
const TIOCGDEV: u32 = 0x8004_5432;

/// The device number of the terminal that a descriptor leads to, also by /dev/tty or from the other end.
///
/// # Errors
/// Returns [`Errno::NOTTY`](rustix::io::Errno::NOTTY) if it is none.
pub(crate) fn device(descriptor: BorrowedFd<'_>) -> io::Result<u32> {
    let mut device = 0_u32;
    // SAFETY: the kernel writes one number.
    errno::result(unsafe { libc::ioctl(descriptor.as_raw_fd(), TIOCGDEV as _, &raw mut device) })?;
    Ok(device)
}

/// The group in the foreground of this process's controlling terminal.
///
/// # Errors
/// Returns [`Errno::NOTTY`](rustix::io::Errno::NOTTY) if the descriptor does not lead to that.
pub(crate) fn foreground(terminal: BorrowedFd<'_>) -> io::Result<c_int> {
    let mut group = 0;
    // SAFETY: the kernel writes one number.
    errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGPGRP, &raw mut group) })?;
    Ok(group)
}

/// Puts `group`, which must be of this process's session, into the foreground. The broker, which blocks SIGTTOU, may
/// do so from the background (tcsetpgrp(3)).
pub(crate) fn set_foreground(terminal: BorrowedFd<'_>, group: c_int) -> io::Result<()> {
    // SAFETY: the kernel reads one number.
    errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSPGRP, &raw const group) })
}

/// The first of this process's standard streams that leads to its controlling terminal.
pub(crate) fn controlling() -> Option<BorrowedFd<'static>> {
    streams().into_iter().find(|stream| foreground(*stream).is_ok())
}

/// The devices of the terminals that this process's standard streams lead to.
pub(crate) fn inherited() -> Vec<u32> {
    streams().into_iter().filter_map(|stream| device(stream).ok()).collect()
}

/// The standard streams, which stay open as long as this process runs.
pub(crate) fn streams() -> [BorrowedFd<'static>; 3] {
    // SAFETY: `fill_standard_streams` opened what was closed, and nothing here closes them.
    [0, 1, 2].map(|number| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Sets the size, of the bytes of a `struct winsize`.
pub(crate) fn set_size(terminal: BorrowedFd<'_>, size: [u8; 8]) -> io::Result<()> {
    // SAFETY: the kernel reads a structure of this size.
    errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, size.as_ptr()) })
}
