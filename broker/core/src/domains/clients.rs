//! Which of the connections to the proxy's ports are the sandbox's.
//!
//! Everybody on this host can connect to a port on loopback. The broker makes all connections of its
//! sandbox: it knows the local address of each when it accepts it, on which port it arrives, and
//! holds the socket until then, so that nobody else can have that address. Whatever else is accepted
//! is a stranger's and closed at once: it takes nobody's place.
//! What a connection is for the proxy goes with it: it was noted before the connect began, and not a byte of the
//! command's decides on it.
//!
//! A connect gets its local address as it begins, and may be accepted before who began it can say so: of those that
//! are just being begun, the sockets themselves are asked.

use super::ports::Port;
use crate::sockets::dial::{Led, ready};
use common::passing;
use common::proxy::Client;
use rules::address::canonical;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, SendFlags, SocketAddrAny};
use std::collections::{HashMap, VecDeque};
use std::iter;
use std::net::{SocketAddr, SocketAddrV4};

/// Most connections that are accepted at a time: strangers keep nobody busy for long.
const ACCEPTED_MAX: usize = 1024;

/// How many connections that are expected are left alone.
const EXPECTED_MAX: usize = 64;

/// A connection of the sandbox's, for the proxy.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    /// One end of it, held.
    pub(super) socket: OwnedFd,
    /// What the proxy gets beside that: see [`Client`].
    pub(super) others: Vec<OwnedFd>,
}

/// The sandbox's connections between connect(2) and the proxy.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// Those whose sockets are about to connect, and to which port.
    beginning: HashMap<u64, (Client, Connection)>,
    /// What the next one gets.
    next: u64,
    /// By where they come from and go to.
    expected: HashMap<(SocketAddrV4, Client), Connection>,
    /// How many there may be before it is looked which have failed.
    room: usize,
    /// Accepted, for a proxy that is to read.
    accepted: VecDeque<Connection>,
    /// Those that a proxy is to answer.
    led: Vec<Led>,
}

impl Clients {
    /// Takes note of a connection that the sandbox is about to begin to the port of `language`.
    pub(super) fn begin(&mut self, language: Client, connection: Connection) -> u64 {
        let begun = self.next;
        self.next += 1;
        self.beginning.insert(begun, (language, connection));
        begun
    }

    /// Takes one that needs no connect.
    pub(super) fn add(&mut self, connection: Connection) {
        self.accepted.push_back(connection);
    }

    /// Takes note of one that the proxy is to answer.
    pub(super) fn lead(&mut self, led: Led) {
        self.led.push(led);
    }

    /// Ends those that no proxy answers any more, and forgets them with those that one has answered.
    pub(super) fn end_unanswered(&mut self) {
        self.led.retain(|led| !led.is_over());
    }

    /// It was begun, and is still to be accepted if it `is_under_way` and that was not done meanwhile.
    pub(super) fn settle(&mut self, begun: u64, is_under_way: bool) {
        if let Some((language, connection)) = self.beginning.remove(&begun)
            && is_under_way
            && let Some(local) = address(net::getsockname(&connection.socket).ok())
        {
            self.expect(local, language, connection);
        }
    }

    fn expect(&mut self, local: SocketAddrV4, language: Client, connection: Connection) {
        if self.expected.len() >= self.room.max(EXPECTED_MAX) {
            self.expected.retain(|_, connection| !has_failed(&connection.socket));
            // What is left is under way: the next look is worth it once there are twice as many.
            self.room = self.expected.len() * 2;
        }
        self.expected.insert((local, language), connection);
    }

    /// Takes what waits on `ports`; whether there was no descriptor or memory left for some of it.
    pub(super) fn accept(&mut self, ports: &[Port]) -> bool {
        let ends = ports.iter().map(|port| self.accept_at(port));
        ends.filter(|end| end.is_err_and(|errno| errno != Errno::AGAIN)).count() > 0
    }

    fn accept_at(&mut self, port: &Port) -> io::Result<()> {
        for _ in 0..ACCEPTED_MAX {
            let (stream, peer) = port.accept()?;
            let begun = self.begun_from(peer, port);
            let expected = self.expected.remove(&(peer, port.language));
            // One that has failed meanwhile has left its address to anybody.
            let expected = expected.filter(|one| is_from(&one.socket, peer, port));
            if let Some(connection) = expected.or(begun) {
                self.accepted.push_back(Connection { socket: stream, ..connection });
            }
        }
        Ok(())
    }

    /// That of those that are just being begun which was accepted on `port` from `peer`; then it has begun. While it is
    /// connected, its two addresses are nobody else's. Where several connect one socket at the same time, this is it for
    /// all of them.
    fn begun_from(&mut self, peer: SocketAddrV4, port: &Port) -> Option<Connection> {
        let begun = self.beginning.extract_if(|_, (_, one)| is_from(&one.socket, peer, port));
        begun.map(|(_, (_, connection))| connection).last()
    }

    /// Hands over what was accepted, as far as the proxy takes it without being waited for; whether
    /// that is all.
    ///
    /// # Errors
    /// Returns what sendmsg(2) returns: the proxy has ended.
    pub(super) fn hand_over(&mut self, control: &OwnedFd) -> io::Result<bool> {
        while let Some(Connection { client, socket, others }) = self.accepted.front() {
            let descriptors: Vec<_> = iter::once(socket).chain(others).map(AsFd::as_fd).collect();
            match passing::send(control, &client.encode(), &descriptors, SendFlags::DONTWAIT) {
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

/// Whether `socket` is connected to `port` from `peer`.
fn is_from(socket: &OwnedFd, peer: SocketAddrV4, port: &Port) -> bool {
    let there = port.bound();
    address(net::getsockname(socket).ok()) == Some(peer)
        && there.is_some()
        && address(net::getpeername(socket).ok().flatten()) == there
}

/// A socket's address, which is mapped if its family is that of IPv6.
fn address(name: Option<SocketAddrAny>) -> Option<SocketAddrV4> {
    match canonical(SocketAddr::try_from(name?).ok()?) {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    }
}

/// Whether a connect was refused or given up: nobody will accept it.
fn has_failed(socket: &OwnedFd) -> bool {
    ready(socket).is_ok_and(|ready| ready.intersects(PollFlags::HUP | PollFlags::ERR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connects_that_failed_are_not_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let mut clients = Clients::default();
        let held = TcpStream::connect(there).unwrap();
        let SocketAddr::V4(local) = held.local_addr().unwrap() else { unreachable!("IPv4") };
        let connection = |socket| Connection { client: Client::Http, socket, others: Vec::new() };
        clients.expect(local, Client::Http, connection(held.into()));
        for port in 1..=1000 {
            let (flags, kind) = (net::SocketFlags::CLOEXEC, net::SocketType::STREAM);
            let failed = net::socket_with(net::AddressFamily::INET, kind, flags, None).unwrap();
            clients.expect(SocketAddrV4::new(*local.ip(), port), Client::Socks, connection(failed));
        }
        assert!(clients.expected.len() <= EXPECTED_MAX + 1, "{}", clients.expected.len());
        assert!(clients.expected.contains_key(&(local, Client::Http)));
    }

    #[test]
    fn of_connects_of_one_socket_at_the_same_time_one_is_accepted() {
        let port = Port::bind(Client::Socks, None, "").unwrap();
        let there = port.bound().unwrap();
        let (flags, kind) = (net::SocketFlags::CLOEXEC, net::SocketType::STREAM);
        let socket = net::socket_with(net::AddressFamily::INET, kind, flags, None).unwrap();
        let mut clients = Clients::default();
        let [first, second, third] = [(); 3].map(|()| {
            let held = socket.try_clone().unwrap();
            let client = Client::Direct(there.into());
            let connection = Connection { client, socket: held, others: Vec::new() };
            clients.begin(Client::Socks, connection)
        });
        net::connect(&socket, &there).unwrap();
        clients.settle(first, true);
        assert_eq!(clients.accept_at(&port), Err(Errno::AGAIN));
        clients.settle(second, true);
        clients.settle(third, false);
        assert_eq!((clients.accepted.len(), clients.expected.len()), (1, 0));
    }

    #[test]
    fn the_address_of_a_connect_that_failed_is_nobody_s() {
        let port = Port::bind(Client::Http, None, "").unwrap();
        let there = port.bound().unwrap();
        let (flags, kind) = (net::SocketFlags::CLOEXEC, net::SocketType::STREAM);
        let socket = || net::socket_with(net::AddressFamily::INET, kind, flags, None).unwrap();
        let mut clients = Clients::default();
        for fails in [true, false] {
            let stranger = socket();
            net::bind(&stranger, &SocketAddrV4::new(*there.ip(), 0)).unwrap();
            let held = if fails { socket() } else { stranger.try_clone().unwrap() };
            let from = address(net::getsockname(&stranger).ok()).unwrap();
            let connection = Connection { client: Client::Http, socket: held, others: Vec::new() };
            clients.expect(from, Client::Http, connection);
            net::connect(&stranger, &there).unwrap();
            assert_eq!(clients.accept_at(&port), Err(Errno::AGAIN));
            assert_eq!((clients.accepted.len(), clients.expected.len()), (usize::from(!fails), 0));
        }
    }
}
