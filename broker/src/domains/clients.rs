//! Which of the connections to the proxy's ports are the sandbox's.
//!
//! Everybody on this host can connect to a port on loopback. The broker makes all connections of its
//! sandbox: it knows the local address of each before it accepts it, on which port it arrives, and
//! holds the socket until then, so that nobody else can have that address. Whatever else is accepted
//! is a stranger's and closed at once: it takes nobody's place.

use super::ports::Port;
use crate::kernel::passing;
use common::proxy::{Client, Language};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::SendFlags;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddrV4;

/// Most connections that are accepted at a time: strangers keep nobody busy for long.
const ACCEPTED_MAX: usize = 1024;

/// How many connections that are expected are left alone.
const EXPECTED_MAX: usize = 64;

/// The sandbox's connections between connect(2) and the proxy.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// By where they come from and go to: their sockets, held.
    expected: HashMap<(SocketAddrV4, Language), OwnedFd>,
    /// How many there may be before it is looked which have failed.
    room: usize,
    /// Accepted, for a proxy that is to read.
    accepted: VecDeque<(Language, OwnedFd)>,
}

impl Clients {
    /// Takes note of a connection that the sandbox has begun from `local` by `socket`.
    pub(super) fn expect(&mut self, local: SocketAddrV4, language: Language, socket: OwnedFd) {
        if self.expected.len() >= self.room.max(EXPECTED_MAX) {
            self.expected.retain(|_, socket| !has_failed(socket));
            // What is left is under way: the next look is worth it once there are twice as many.
            self.room = self.expected.len() * 2;
        }
        self.expected.insert((local, language), socket);
    }

    /// Takes what waits on `ports`; whether there was no descriptor or memory left for some of it.
    pub(super) fn accept(&mut self, ports: &[Port]) -> bool {
        let ends = ports.iter().map(|port| self.accept_at(port));
        ends.filter(|end| end.is_err_and(|errno| errno != Errno::AGAIN)).count() > 0
    }

    fn accept_at(&mut self, port: &Port) -> io::Result<()> {
        for _ in 0..ACCEPTED_MAX {
            let (stream, peer) = port.accept()?;
            if self.expected.remove(&(peer, port.language)).is_some() {
                self.accepted.push_back((port.language, stream));
            }
        }
        Ok(())
    }

    /// Hands over what was accepted, as far as the proxy takes it without being waited for; whether
    /// that is all.
    ///
    /// # Errors
    /// Returns what sendmsg(2) returns: the proxy has ended.
    pub(super) fn hand_over(&mut self, control: &OwnedFd) -> io::Result<bool> {
        while let Some((language, stream)) = self.accepted.front() {
            let packet = Client(*language).encode();
            match passing::send(control, &packet, Some(stream.as_fd()), SendFlags::DONTWAIT) {
                Ok(()) => drop(self.accepted.pop_front()),
                // Too many descriptors are on their way: it has to take some first.
                Err(Errno::AGAIN | Errno::TOOMANYREFS) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }

    /// Forgets those that a proxy that has ended was to get: they are closed.
    pub(super) fn drop_accepted(&mut self) {
        self.accepted.clear();
    }
}

/// Whether a connect was refused or given up: nobody will accept it.
fn has_failed(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok()
        && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    #[test]
    fn connects_that_failed_are_not_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let mut clients = Clients::default();
        let held = TcpStream::connect(there).unwrap();
        let SocketAddr::V4(local) = held.local_addr().unwrap() else { unreachable!("IPv4") };
        clients.expect(local, Language::Http, held.into());
        for port in 1..=1000 {
            let (flags, kind) = (net::SocketFlags::CLOEXEC, net::SocketType::STREAM);
            let failed = net::socket_with(net::AddressFamily::INET, kind, flags, None).unwrap();
            clients.expect(SocketAddrV4::new(*local.ip(), port), Language::Socks, failed);
        }
        assert!(clients.expected.len() <= EXPECTED_MAX + 1, "{}", clients.expected.len());
        assert!(clients.expected.contains_key(&(local, Language::Http)));
    }
}
