//! Whom the kernel signals of what happens on an open file, and whether: F_SETOWN, O_ASYNC and FIOASYNC (fcntl(2),
//! ioctl_tty(2)).

#![allow(unsafe_code)]

use super::errno;
use nix::libc;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io;

/// `struct f_owner_ex`, and its command (uapi/asm-generic/fcntl.h).
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    id: libc::c_int,
}
const F_GETOWN_EX: libc::c_int = 16;
/// uapi/asm-generic/ioctls.h; C libraries differ about its type.
pub const FIOASYNC: u32 = 0x5452;

/// Whether there is somebody to signal, whom this process knows.
pub fn is_set(file: BorrowedFd<'_>) -> io::Result<bool> {
    let mut owner = Owner { kind: 0, id: 0 };
    // SAFETY: the kernel writes one structure of this layout.
    errno::result(unsafe { libc::fcntl(file.as_raw_fd(), F_GETOWN_EX, &raw mut owner) })?;
    Ok(owner.id != 0)
}

/// Makes `process` whom it signals, and nobody if that is 0.
pub fn set(file: BorrowedFd<'_>, process: i32) -> io::Result<()> {
    // SAFETY: takes integers.
    errno::result(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETOWN, process) })
}

/// FIOASYNC, of the number `on`.
pub fn signal_what_happens(file: BorrowedFd<'_>, on: i32) -> io::Result<()> {
    // SAFETY: the kernel reads one number.
    errno::result(unsafe { libc::ioctl(file.as_raw_fd(), FIOASYNC as _, &raw const on) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{self, OFlags};
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_owner_comes_and_goes_and_is_signalled_if_asked_for() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let socket = socket.as_fd();
        assert_eq!(is_set(socket), Ok(false));
        set(socket, std::process::id().cast_signed()).unwrap();
        assert_eq!(is_set(socket), Ok(true));
        set(socket, 0).unwrap();
        assert_eq!(is_set(socket), Ok(false));
        let signals = OFlags::from_bits_retain(libc::O_ASYNC.cast_unsigned());
        for on in [true, false] {
            signal_what_happens(socket, on.into()).unwrap();
            assert_eq!(fs::fcntl_getfl(socket).unwrap().contains(signals), on);
        }
    }
}
