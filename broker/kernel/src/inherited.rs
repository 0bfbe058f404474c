//! Descriptors that the process which started this one left open: those that it names by their
//! numbers, and those that nobody asked for.

#![allow(unsafe_code)]

use super::errno;
use super::identity::{Identity, identity};
use super::object::{Name, Object};
use super::terminal::streams;
use nix::libc;
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::fs::{self, FileType, OFlags};
use rustix::io::{self, Errno, FdFlags};

/// What the command can hold that nothing in the sandbox has opened.
#[derive(Debug)]
pub struct Inherited {
    streams: Vec<Identity>,
    gets_more: bool,
}

impl Inherited {
    /// The standard streams, which are the command's too; and whether it `gets_more` later, by a socket
    /// (unix(7), SCM_RIGHTS), as it can by a stream that is one.
    pub fn look(gets_more: bool) -> Self {
        let found = streams().map(fs::fstat);
        let is_socket = |stat: &fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
        let gets_more = gets_more || found.iter().flatten().any(is_socket);
        Self { streams: found.iter().flatten().map(identity).collect(), gets_more }
    }

    /// Whether a descriptor of `object` may have come from outside.
    pub fn may_hold(&self, object: Identity) -> bool {
        self.gets_more || self.streams.contains(&object)
    }
}

/// The standard input, if it is a pipe without a name that was opened for reading alone.
///
/// # Errors
/// Returns what fstat(2) or the look at its name in proc(5) does.
pub fn input_pipe() -> io::Result<Option<Identity>> {
    let stdin = std::io::stdin();
    let mode = fs::fcntl_getfl(&stdin)?;
    let input = Object::of(io::fcntl_dupfd_cloexec(&stdin, 3)?)?;
    let is_pipe = input.kind() == FileType::Fifo
        && mode & OFlags::RWMODE == OFlags::RDONLY
        && matches!(input.name()?, Name::Nameless(_));
    Ok(is_pipe.then_some(input.identity()))
}

/// Takes over the descriptor `number`, which was left open for this program and nothing else of it.
///
/// # Errors
/// Returns [`Errno::BADF`] if it is not open.
pub fn take_over(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only looked at; whether it is open is just what is asked.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    io::fcntl_setfd(given, FdFlags::CLOEXEC)?;
    // SAFETY: open, as was just seen, and nobody else's, as the caller says.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Duplicates the descriptor `number`, which stays open.
///
/// # Errors
/// Returns [`Errno::BADF`] if it is not open, or was not when this program began: what it opens itself is closed on exec.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: only looked at; whether it is open is just what is asked.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    match io::fcntl_getfd(given)?.contains(FdFlags::CLOEXEC) {
        true => Err(Errno::BADF),
        false => io::fcntl_dupfd_cloexec(given, 3),
    }
}

/// Keeps every descriptor but the standard streams from what is executed from now on.
pub fn keep_from_children() -> io::Result<()> {
    /// linux/close_range.h
    const CLOEXEC: libc::c_uint = 1 << 2;
    // SAFETY: the call takes three numbers; it closes nothing, and nothing here relies on descriptors
    // that survive an execve.
    errno::result(unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOEXEC) })
}
