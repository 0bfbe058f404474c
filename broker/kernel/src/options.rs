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
pub fn keep_on_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the kernel reads one number.
    unsafe { set(socket, (libc::SOL_SOCKET, SO_BINDTOIFINDEX), &LOOPBACK) }
}

/// Whether that was done.
pub fn is_kept_on_loopback(socket: BorrowedFd<'_>) -> bool {
    number(socket, SO_BINDTOIFINDEX) == Ok(LOOPBACK)
}

/// getsockopt(2) of the socket level, of what is a number.
pub(super) fn number(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<libc::c_int> {
    let (value, length) = get(socket, libc::SOL_SOCKET, option).ok_or_else(errno::last)?;
    match (value.first_chunk(), length) {
        (Some(&bytes), 4) => Ok(libc::c_int::from_ne_bytes(bytes)),
        _ => Err(Errno::INVAL),
    }
}

/// By level, the options that tune a socket of UDP and can be set before it is bound.
#[rustfmt::skip]
const TUNING: [(libc::c_int, &[libc::c_int]); 3] = {
    use nix::libc::*;
    [
        (SOL_SOCKET, &[
            SO_DONTROUTE, SO_BROADCAST, SO_PRIORITY, SO_RCVLOWAT, SO_RCVTIMEO, SO_SNDTIMEO, SO_TIMESTAMP, SO_TIMESTAMPNS,
            SO_TIMESTAMPING, SO_RXQ_OVFL, SO_PEEK_OFF,
        ]),
        (IPPROTO_IP, &[IP_TOS, IP_TTL, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTTL, IP_RECVTOS]),
        (IPPROTO_IPV6, &[
            IPV6_V6ONLY, IPV6_UNICAST_HOPS, IPV6_MTU_DISCOVER, IPV6_RECVERR, IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT,
            IPV6_RECVTCLASS, IPV6_TCLASS, IPV6_MULTICAST_HOPS,
        ]),
    ]
};

/// Sets on `to` what is set on `from`, a socket of UDP of the same family. What the kernel does not know, or
/// does not let be set, is left out.
pub fn carry_over(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let options =
        TUNING.iter().flat_map(|(level, names)| names.iter().map(move |name| (*level, *name)));
    for (level, name) in options {
        if let (Some(wanted), Some(there)) = (get(from, level, name), get(to, level, name))
            && wanted != there
        {
            let (value, length) = wanted;
            // SAFETY: the kernel reads the bytes that it has written for this option.
            let _ = unsafe { set(to, (level, name), &value[..length]) };
        }
    }
    for name in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
        // The kernel tells twice what was asked for.
        if let Some((value, 4)) = get(from, libc::SOL_SOCKET, name)
            && get(to, libc::SOL_SOCKET, name) != Some((value, 4))
            && let Some(&[a, b, c, d]) = value.first_chunk()
        {
            let half = libc::c_int::from_ne_bytes([a, b, c, d]) / 2;
            // SAFETY: the kernel reads one number.
            let _ = unsafe { set(to, (libc::SOL_SOCKET, name), &half) };
        }
    }
}

/// The longest value is a `struct timeval`.
type Value = ([u8; 16], usize);

fn get(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> Option<Value> {
    let mut value = [0; 16];
    let mut length = libc::socklen_t::try_from(value.len()).ok()?;
    let to = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes no more than `length` bytes, and how many it wrote.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut length) };
    (result == 0).then_some((value, usize::try_from(length).ok()?))
}

/// setsockopt(2) of a level and an option.
///
/// # Safety
/// `value` is what the option takes.
pub(super) unsafe fn set<T: ?Sized>(
    socket: BorrowedFd<'_>,
    (level, option): (libc::c_int, libc::c_int),
    value: &T,
) -> io::Result<()> {
    let size = libc::socklen_t::try_from(size_of_val(value)).map_err(|_| Errno::INVAL)?;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the kernel reads no more than the value, which is what the caller says.
    errno::result(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, size) })
}
