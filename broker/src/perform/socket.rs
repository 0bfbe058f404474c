//! connect and bind, done on a duplicate of the target's socket with the broker's own copy of the
//! address: connect(2), bind(2), pidfd_getfd(2).
//!
//! The target may meanwhile rewrite its memory or put another descriptor in the place of the socket:
//! the address was judged as copied here, and is permitted for any socket that passes
//! [`Socket::take`].

#![allow(unsafe_code)] // to pass an address of any family to the kernel as it was copied

use crate::decide::address::{ADDRESS_MAX, Endpoint};
use crate::notify::listener::Listener;
use crate::notify::target::Target;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, OFlags};
use rustix::io::{self, Errno};
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::sockopt::Timeout;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::os::fd::RawFd;
use std::time::Instant;

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

/// A socket that stands for one of the target's.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    /// The target waits in connect(2).
    blocking: bool,
    /// Where to put the socket: it is the broker's own, not a duplicate.
    replaces: Option<Place>,
}

/// How often a wait looks whether it is still wanted.
const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// A descriptor of the target and its flag.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: RawFd,
    close_on_exec: bool,
}

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
        let blocking = !fs::fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK);
        if known {
            Ok(Self { descriptor: socket, blocking, replaces: None })
        } else {
            Err(Errno::ACCESS)
        }
    }

    /// Makes a TCP socket to put in the place of the one at descriptor `number`, where the platform
    /// refuses pidfd_getfd(2), as Docker's default seccomp profile does. Flags of the descriptor
    /// carry over; socket options and other descriptors of the same socket do not.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] and [`Errno::NOTSOCK`] as the call does, [`Errno::ACCESS`] if the
    /// socket there is not a TCP one.
    pub(crate) fn replace(target: Target, number: RawFd) -> io::Result<Self> {
        let family = match target.socket_protocol(number)?.as_slice() {
            b"TCP" => AddressFamily::INET,
            b"TCPv6" => AddressFamily::INET6,
            _ => return Err(Errno::ACCESS),
        };
        let flags = target.descriptor_flags(number)?;
        let blocking = !flags.contains(OFlags::NONBLOCK);
        let mode = if blocking { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
        let descriptor = net::socket_with(
            family,
            SocketType::STREAM,
            mode | SocketFlags::CLOEXEC,
            Some(ipproto::TCP),
        )?;
        let place = Place { number, close_on_exec: flags.contains(OFlags::CLOEXEC) };
        Ok(Self { descriptor, blocking, replaces: Some(place) })
    }

    /// bind(2) to `address`.
    ///
    /// # Errors
    /// Returns what the kernel returns; [`Errno::PERM`] if the socket is not the target's own.
    pub(crate) fn bind(&self, address: &Address) -> io::Result<()> {
        match self.replaces {
            None => net::bind(&self.descriptor, address),
            Some(_) => Err(Errno::PERM),
        }
    }

    /// connect(2) to `address`. A target that waits in its call is waited for as long as `wanted`
    /// says that it is still there.
    ///
    /// The wait is a poll instead of a blocking connect, so that it ends with the target. The flag
    /// that says so is shared with the target: if that changes it at the wrong moment, this blocks
    /// after all, on a thread that nothing else depends on.
    ///
    /// # Errors
    /// Returns what the kernel returns; [`Errno::INPROGRESS`] if the target does not wait itself, or
    /// when its SO_SNDTIMEO has run out (socket(7)).
    pub(crate) fn connect(&self, address: &Address, wanted: impl Fn() -> bool) -> io::Result<()> {
        if !self.blocking {
            return net::connect(&self.descriptor, address);
        }
        let flags = fs::fcntl_getfl(&self.descriptor)?;
        fs::fcntl_setfl(&self.descriptor, flags | OFlags::NONBLOCK)?;
        let result = net::connect(&self.descriptor, address);
        fs::fcntl_setfl(&self.descriptor, flags - OFlags::NONBLOCK)?;
        match result {
            Err(Errno::INPROGRESS | Errno::ALREADY) => self.wait(wanted),
            decided => decided,
        }
    }

    /// Waits until a connect that is under way is decided (connect(2), EINPROGRESS).
    fn wait(&self, wanted: impl Fn() -> bool) -> io::Result<()> {
        let limit = sockopt::socket_timeout(&self.descriptor, Timeout::Send)?;
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let mut fds = [PollFd::new(&self.descriptor, PollFlags::OUT)];
            match poll(&mut fds, Some(&LOOK_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return sockopt::socket_error(&self.descriptor)?,
                Err(errno) => return Err(errno),
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Errno::INPROGRESS);
            }
            if !wanted() {
                return Err(Errno::INTR);
            }
        }
    }

    /// Puts a socket of the broker's own in the place of the target's. A duplicate needs nothing.
    ///
    /// # Errors
    /// Returns what the ioctl returns.
    pub(crate) fn put_in_place(&self, listener: &Listener, id: u64) -> io::Result<()> {
        let Some(Place { number, close_on_exec }) = self.replaces else { return Ok(()) };
        listener.replace(id, self.descriptor.as_fd(), number, close_on_exec)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
