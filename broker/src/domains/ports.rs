//! The two ports that the command's environment names, one for each language of the proxy.

use crate::report::failure::Failure;
use common::proxy::Language;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Connections that may wait for the broker, which takes them at once.
const BACKLOG: i32 = 1024;

/// A listening socket on 127.0.0.1.
#[derive(Debug)]
pub(super) struct Port {
    listener: OwnedFd,
    pub(super) number: u16,
    pub(super) language: Language,
}

impl Port {
    /// Binds port `number`, or a free one.
    ///
    /// # Errors
    /// Returns [`Failure::Internal`], which names `field`, if it cannot be bound.
    pub(super) fn bind(
        language: Language,
        number: Option<u16>,
        field: &str,
    ) -> Result<Self, Failure> {
        listen(number.unwrap_or(0))
            .map(|(listener, number)| Self { listener, number, language })
            .map_err(|errno| {
                let port = number.map_or("a free port".to_owned(), |number| {
                    format!("port {number}, as network.{field} or the environment says,")
                });
                let error = std::io::Error::from(errno);
                Failure::Internal("proxy", format!("{port} cannot be bound on 127.0.0.1: {error}"))
            })
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }

    /// The next connection that waits, and who made it.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if there is none.
    pub(super) fn accept(&self) -> io::Result<(OwnedFd, SocketAddrV4)> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match net::acceptfrom_with(&self.listener, flags) {
                Ok((stream, peer)) => {
                    if let Some(Ok(peer)) = peer.map(SocketAddrV4::try_from) {
                        return Ok((stream, peer));
                    }
                }
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn listen(number: u16) -> io::Result<(OwnedFd, u16)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    if number != 0 {
        // Connections of an earlier sandbox may still be ending there.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, number))?;
    net::listen(&socket, BACKLOG)?;
    let bound = SocketAddrV4::try_from(net::getsockname(&socket)?)?;
    Ok((socket, bound.port()))
}
