//! connect and bind, done on a duplicate of the target's socket with the broker's own copy of the
//! address: connect(2), bind(2), pidfd_getfd(2).
//!
//! The target may meanwhile rewrite its memory or put another descriptor in the place of the socket:
//! the address was judged as copied here, and is permitted for any socket that passes
//! [`Socket::take`].

#![allow(unsafe_code)] // to pass an address of any family to the kernel as it was copied

use crate::decide::address::{ADDRESS_MAX, Endpoint};
use crate::decide::call::AddressUse;
use crate::notify::target::Target;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, OFlags};
use rustix::io::{self, Errno};
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{self, AddressFamily, SocketType, ipproto, sockopt};
use std::os::fd::RawFd;

/// The broker's own copy of an address argument, in the length that the target gave.
#[derive(Debug)]
pub(crate) struct Address(Vec<u8>);

impl Address {
    /// Copies the argument.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] for a length that the kernel refuses, [`Errno::FAULT`] for memory
    /// that is not there.
    pub(crate) fn copy(target: Target, address: u64, length: u32) -> io::Result<Self> {
        let length = usize::try_from(length).ok().filter(|&length| length <= ADDRESS_MAX);
        let mut bytes = vec![0; length.ok_or(Errno::INVAL)?];
        target.read(address, &mut bytes)?;
        Ok(Self(bytes))
    }

    /// What it names.
    ///
    /// # Errors
    /// As [`Endpoint::parse`].
    pub(crate) fn endpoint(&self) -> io::Result<Endpoint> {
        Endpoint::parse(&self.0)
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

/// A duplicate of a socket of the target.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Takes the socket at descriptor `number`. Without `allow_network` only what the filter lets the
    /// command create is acted on: descriptors that it inherited may be anything.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] and [`Errno::NOTSOCK`] as the call does, [`Errno::ACCESS`] for
    /// another kind of socket, [`Errno::PERM`] if the target may not be traced.
    pub(crate) fn take(target: Target, number: RawFd, allow_network: bool) -> io::Result<Self> {
        let socket = target.duplicate(number)?;
        let family = sockopt::socket_domain(&socket)?;
        let kind = sockopt::socket_type(&socket)?;
        let known = match family {
            AddressFamily::INET | AddressFamily::INET6 => {
                allow_network
                    || kind == SocketType::STREAM
                        && sockopt::socket_protocol(&socket)? == Some(ipproto::TCP)
            }
            // NETLINK_ROUTE is protocol 0.
            AddressFamily::NETLINK => sockopt::socket_protocol(&socket)?.is_none(),
            _ => false,
        };
        if known { Ok(Self(socket)) } else { Err(Errno::ACCESS) }
    }

    /// Whether connect(2) returns at once.
    ///
    /// # Errors
    /// Returns what fcntl(2) returns.
    pub(crate) fn is_nonblocking(&self) -> io::Result<bool> {
        Ok(fs::fcntl_getfl(&self.0)?.contains(OFlags::NONBLOCK))
    }

    /// Makes the call with `address`.
    ///
    /// # Errors
    /// Returns what the kernel returns.
    pub(crate) fn perform(&self, call: AddressUse, address: &Address) -> io::Result<()> {
        match call {
            AddressUse::Connect => net::connect(&self.0, address),
            AddressUse::Bind => net::bind(&self.0, address),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
