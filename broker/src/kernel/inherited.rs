//! Descriptors that the process which started this one names by their numbers.

#![allow(unsafe_code)]

use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::{self, Errno, FdFlags};

/// Takes over the descriptor `number`, which was left open for this program and nothing else of it.
///
/// # Errors
/// Returns [`Errno::BADF`] if it is not open.
pub(crate) fn take_over(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only looked at; whether it is open is just what is asked.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    io::fcntl_setfd(given, FdFlags::CLOEXEC)?;
    // SAFETY: open, as was just seen, and nobody else's, as the caller says.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Duplicates the descriptor `number`, which stays open.
///
/// # Errors
/// Returns [`Errno::BADF`] if it is not open.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: only looked at; whether it is open is just what is asked.
    io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(number) }, 3)
}
