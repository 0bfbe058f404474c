//! The two ports that the command's environment names, one for each language of the proxy.
//!
//! Where hosts are permitted, they are bound at launch, and on the numbers that the policy gives. Where all are
//! refused, few commands ever connect: the environment names numbers that are usual for proxies, nothing is
//! bound, and the first connect, which the broker makes in any case, is led to a port that is bound then.

use crate::report::failure::Failure;
use common::proxy::Client;
use kernel::threads::once;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::OnceLock;

/// Connections that may wait for the broker, which takes them at once.
const BACKLOG: i32 = 1024;

/// A port of 127.0.0.1.
#[derive(Debug)]
pub(super) struct Port {
    /// As the command knows it.
    pub(super) number: u16,
    /// What is spoken there.
    pub(super) language: Client,
    bound: OnceLock<Bound>,
}

/// A listening socket.
#[derive(Debug)]
struct Bound {
    listener: OwnedFd,
    number: u16,
}

impl Port {
    /// Binds port `number`, or a free one.
    ///
    /// # Errors
    /// Returns [`Failure::Internal`], which names `field`, if it cannot be bound.
    pub(super) fn bind(
        language: Client,
        number: Option<u16>,
        field: &str,
    ) -> Result<Self, Failure> {
        listen(number.unwrap_or(0))
            .map(|bound| Self { number: bound.number, language, bound: bound.into() })
            .map_err(|errno| {
                let port = number.map_or("a free port".to_owned(), |number| {
                    format!("port {number}, as network.{field} or the environment says,")
                });
                let error = std::io::Error::from(errno);
                Failure::Internal("proxy", format!("{port} cannot be bound on 127.0.0.1: {error}"))
            })
    }

    /// One that nothing listens on before [`Port::listener`] is asked for.
    pub(super) fn promised(language: Client) -> Self {
        let number = match language {
            Client::Http => 3128,
            _ => 1080,
        };
        Self { number, language, bound: OnceLock::new() }
    }

    /// What listens, on any free port if nothing did so far.
    pub(super) fn listener(&self) -> io::Result<BorrowedFd<'_>> {
        once(&self.bound, || listen(0)).map(|bound| bound.listener.as_fd())
    }

    /// Where its connections arrive, if anything listens.
    pub(super) fn bound(&self) -> Option<SocketAddrV4> {
        self.bound.get().map(|bound| SocketAddrV4::new(Ipv4Addr::LOCALHOST, bound.number))
    }

    /// Where the command connects to.
    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }

    /// The next connection that waits, and who made it.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if there is none.
    pub(super) fn accept(&self) -> io::Result<(OwnedFd, SocketAddrV4)> {
        let bound = self.bound.get().ok_or(Errno::AGAIN)?;
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match net::acceptfrom_with(&bound.listener, flags) {
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

fn listen(number: u16) -> io::Result<Bound> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    if number != 0 {
        // Connections of an earlier sandbox may still be ending there.
        sockopt::set_socket_reuseaddr(&listener, true)?;
    }
    net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, number))?;
    net::listen(&listener, BACKLOG)?;
    let number = SocketAddrV4::try_from(net::getsockname(&listener)?)?.port();
    Ok(Bound { listener, number })
}
