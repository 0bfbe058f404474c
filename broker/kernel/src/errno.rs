//! The error of a system call that was made by libc, which leaves it in errno(3).

use nix::libc::c_long;
use rustix::io::{self, Errno};

/// Of the call that this thread made last.
pub(super) fn last() -> Errno {
    let errno = std::io::Error::last_os_error().raw_os_error();
    errno.map_or(Errno::IO, Errno::from_raw_os_error)
}

/// What a call tells that returns a negative number if it fails: as soon as it has returned.
pub(super) fn result(returned: impl Into<c_long>) -> io::Result<()> {
    if returned.into() < 0 { Err(last()) } else { Ok(()) }
}
