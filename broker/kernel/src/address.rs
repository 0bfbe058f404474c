//! Socket addresses and messages as bytes, for calls that take them of any family: connect(2), bind(2),
//! sendmsg(2).

#![allow(unsafe_code)] // to pass them to the kernel as they were copied

use super::errno;
use super::target::{Target, TargetAddress};
use nix::libc;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{self, Errno};
use rustix::net::AddressFamily;
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use std::net::SocketAddrV4;

/// `sizeof(struct sockaddr_storage)`: a longer address is refused by the kernel.
pub const ADDRESS_MAX: usize = 128;

/// The broker's own copy of an address argument, in the length that the target gave.
#[derive(Debug)]
pub struct Address(Vec<u8>);

impl Address {
    /// Copies the argument.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] for a length that the kernel refuses, [`Errno::FAULT`] for memory
    /// that is not there.
    pub fn copy(target: Target, address: TargetAddress, length: u32) -> io::Result<Self> {
        let length = usize::try_from(length).ok().filter(|&length| length <= ADDRESS_MAX);
        let mut bytes = vec![0; length.ok_or(Errno::INVAL)?];
        target.read(address, &mut bytes)?;
        Ok(Self(bytes))
    }

    /// The address of a pathname socket.
    pub fn of_path(path: &[u8]) -> Self {
        let mut bytes = AddressFamily::UNIX.as_raw().to_ne_bytes().to_vec();
        bytes.extend_from_slice(path);
        // The longest path there can be has none.
        if path.len() < SUN_PATH_MAX {
            bytes.push(0);
        }
        Self(bytes)
    }

    /// These bytes as an address.
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The unspecified address with a port of the kernel's choice.
    pub fn unspecified(family: AddressFamily) -> Self {
        let mut bytes = vec![0; if family == AddressFamily::INET { 16 } else { 28 }];
        bytes[..2].copy_from_slice(&family.as_raw().to_ne_bytes());
        Self(bytes)
    }

    /// The same address of the internet with another port.
    pub fn at_port(&self, port: u16) -> Self {
        let mut bytes = self.0.clone();
        if let Some(old) = bytes.get_mut(2..4) {
            old.copy_from_slice(&port.to_be_bytes());
        }
        Self(bytes)
    }

    /// `address` in the form that this one of the internet has.
    pub fn at(&self, address: SocketAddrV4) -> Self {
        let mut bytes = self.at_port(address.port()).0;
        let ip = address.ip();
        let is_v4 = bytes.starts_with(&AddressFamily::INET.as_raw().to_ne_bytes());
        let (place, octets) = match is_v4 {
            true => (4..8, &ip.octets()[..]),
            false => (8..24, &ip.to_ipv6_mapped().octets()[..]),
        };
        if let Some(old) = bytes.get_mut(place) {
            old.copy_from_slice(octets);
        }
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

// SAFETY: the pointer is to that many readable bytes, which live as long as the closure runs.
unsafe impl SocketAddrArg for Address {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        // At most ADDRESS_MAX bytes.
        f(self.0.as_ptr().cast(), SocketAddrLen::try_from(self.0.len()).unwrap_or(0))
    }
}

/// `sizeof(sun_path)` (unix(7)).
const SUN_PATH_MAX: usize = 108;

/// `struct user_msghdr` (linux/socket.h): what the kernel takes, which C libraries pad differently.
#[repr(C)]
struct Message {
    name: *const u8,
    name_length: u32,
    parts: *const libc::iovec,
    parts_count: usize,
    control: *const u8,
    control_length: usize,
    flags: u32,
}

/// sendmsg(2). Descriptors in `control` are the broker's own.
pub fn send(
    socket: BorrowedFd<'_>,
    name: &[u8],
    data: &[u8],
    control: &[u8],
    flags: u32,
) -> io::Result<usize> {
    let part = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let message = Message {
        name: name.as_ptr(),
        // At most ADDRESS_MAX.
        name_length: u32::try_from(name.len()).map_err(|_| Errno::INVAL)?,
        parts: &raw const part,
        parts_count: 1,
        control: control.as_ptr(),
        control_length: control.len(),
        flags: 0,
    };
    let (number, socket) = (libc::SYS_sendmsg, socket.as_raw_fd());
    // SAFETY: the message and all that it points to live during the call, which only reads them, and
    // for MSG_ZEROCOPY, with which the kernel would read the data later, nobody asks.
    let sent = unsafe { libc::syscall(number, socket, &raw const message, flags) };
    usize::try_from(sent).map_err(|_| errno::last())
}
