//! Terminals: which one a descriptor leads to, and its foreground process group (ioctl_tty(2)).
//!
//! A group outside this PID namespace has the number 0.

#![allow(unsafe_code)]

use super::errno;
use super::self_proc::own_link;
use super::target::{Target, TargetFd};
use nix::libc::{self, c_int};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno};
use std::ops::RangeInclusive;

/// include/uapi/asm-generic/ioctls.h; C libraries differ about the type.
const TIOCGDEV: u32 = 0x8004_5432;

/// Major numbers of pseudoterminals (Documentation/admin-guide/devices.txt).
const SLAVES: RangeInclusive<u32> = 136..=143;

/// The device number of the terminal that a descriptor leads to, also by /dev/tty or from the other end.
///
/// # Errors
/// Returns [`Errno::NOTTY`](rustix::io::Errno::NOTTY) if it is none.
pub fn device(descriptor: BorrowedFd<'_>) -> io::Result<u32> {
    let mut device = 0_u32;
    // SAFETY: the kernel writes one number.
    errno::result(unsafe { libc::ioctl(descriptor.as_raw_fd(), TIOCGDEV as _, &raw mut device) })?;
    Ok(device)
}

/// The terminal that descriptor `number` of `target` leads to. Where duplicates are refused, as by Docker's default
/// seccomp profile, it is opened anew: the device itself, or the one at the other end of its master.
///
/// # Errors
/// Returns [`Errno::NOTTY`] if it is none that can be opened so, and what open(2) returns.
pub fn of(target: Target, number: TargetFd) -> io::Result<OwnedFd> {
    let duplicate = target.duplicate(number);
    if !matches!(duplicate, Err(Errno::PERM)) {
        return duplicate;
    }
    let open =
        |path| fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty());
    let index = target.terminal_index(number)?;
    let held = target.descriptor(number)?;
    let stat = fs::fstat(&held)?;
    if let Some(index) = index {
        let terminal = open(format!("/dev/pts/{index}"))?;
        // Another devpts(5) has another terminal of that number.
        let is_it = fs::fstat(&terminal)?.st_dev == stat.st_dev;
        return if is_it { Ok(terminal) } else { Err(Errno::NOTTY) };
    }
    // Another device may do something when it is opened.
    if !SLAVES.contains(&fs::major(stat.st_rdev)) {
        return Err(Errno::NOTTY);
    }
    open(own_link(&held))
}

/// The group in the foreground of this process's controlling terminal.
///
/// # Errors
/// Returns [`Errno::NOTTY`](rustix::io::Errno::NOTTY) if the descriptor does not lead to that.
pub fn foreground(terminal: BorrowedFd<'_>) -> io::Result<c_int> {
    let mut group = 0;
    // SAFETY: the kernel writes one number.
    errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGPGRP, &raw mut group) })?;
    Ok(group)
}

/// Puts `group`, which must be of this process's session, into the foreground. The broker, which blocks SIGTTOU, may
/// do so from the background (tcsetpgrp(3)).
pub fn set_foreground(terminal: BorrowedFd<'_>, group: c_int) -> io::Result<()> {
    // SAFETY: the kernel reads one number.
    errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSPGRP, &raw const group) })
}

/// The first of this process's standard streams that leads to its controlling terminal.
pub fn controlling() -> Option<BorrowedFd<'static>> {
    streams().into_iter().find(|stream| foreground(*stream).is_ok())
}

/// The devices of the terminals that this process's standard streams lead to.
pub fn inherited() -> Vec<u32> {
    streams().into_iter().filter_map(|stream| device(stream).ok()).collect()
}

/// The standard streams, which stay open as long as this process runs.
pub fn streams() -> [BorrowedFd<'static>; 3] {
    // SAFETY: `fill_standard_streams` opened what was closed, and nothing here closes them.
    [0, 1, 2].map(|number| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Sets the size, of the bytes of a `struct winsize`.
pub fn set_size(terminal: BorrowedFd<'_>, size: [u8; 8]) -> io::Result<()> {
    // SAFETY: the kernel reads a structure of this size.
    errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, size.as_ptr()) })
}
