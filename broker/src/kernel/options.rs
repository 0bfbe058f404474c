//! Options of sockets that rustix does not know (socket(7)).

#![allow(unsafe_code)]

use super::errno;
use nix::libc;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{self, Errno};

/// The loopback interface, which has this number everywhere (LOOPBACK_IFINDEX).
const LOOPBACK: libc::c_int = 1;
/// linux/socket.h (Linux 5.0); libc lacks it on some targets.
const SO_BINDTOIFINDEX: libc::c_int = 62;

/// Has `socket` send and receive by the loopback interface alone, which what is of this host goes by. Who
/// has no capability can do that once, and not undo it (SO_BINDTODEVICE in socket(7)).
///
/// # Errors
/// Returns what setsockopt(2) returns.
pub(crate) fn keep_on_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the kernel reads one number.
    unsafe { set(socket, SO_BINDTOIFINDEX, &LOOPBACK) }
}

/// Whether that was done.
pub(crate) fn is_kept_on_loopback(socket: BorrowedFd<'_>) -> bool {
    let (socket, mut number) = (socket.as_raw_fd(), 0);
    let size = libc::socklen_t::try_from(size_of::<libc::c_int>());
    let Ok(mut size) = size else { return false };
    let value = (&raw mut number).cast();
    // SAFETY: the kernel writes one number, and its size.
    let result = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, SO_BINDTOIFINDEX, value, &raw mut size)
    };
    result == 0 && number == LOOPBACK
}

/// Has `socket` receive nothing from now on: a filter drops it, which nobody can take off (SO_LOCK_FILTER in
/// socket(7)).
///
/// # Errors
/// Returns what setsockopt(2) returns.
pub(crate) fn deafen(socket: BorrowedFd<'_>) -> io::Result<()> {
    // BPF_RET: no byte is passed on.
    let mut drop_all = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut drop_all };
    // SAFETY: the kernel copies the program, and the instruction that it points to.
    match unsafe { set(socket, libc::SO_ATTACH_FILTER, &program) } {
        // It is locked: this was done before.
        Err(Errno::PERM) => return Ok(()),
        result => result?,
    }
    let locked: libc::c_int = 1;
    // SAFETY: the kernel reads one number.
    unsafe { set(socket, libc::SO_LOCK_FILTER, &locked) }
}

/// setsockopt(2) of the socket level.
///
/// # Safety
/// `value` is what the option takes.
unsafe fn set<T>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Errno::INVAL)?;
    let (socket, value) = (socket.as_raw_fd(), std::ptr::from_ref(value).cast());
    // SAFETY: the kernel reads no more than the value, which is what the caller says.
    errno::result(unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, option, value, size) })
}
