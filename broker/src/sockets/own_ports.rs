//! The loopback ports that the sandbox itself listens on.
//!
//! Whether a port is the sandbox's own is asked of the kernel at every connect, never remembered:
//! the listening socket is looked for among the descriptors of the sandbox's processes, compared by
//! the cookie that it had when the broker made it listen (SO_COOKIE, unique until reboot), and held
//! while the connect is under way. As long as it is held and listens, no other socket can be bound
//! to the address: the filter refuses SO_REUSEPORT, and what ends listening other than the last
//! close, shutdown(2) and connect(2) to AF_UNSPEC, is the broker's to perform. Nor is a connect put
//! off until later: the filter refuses TCP_FASTOPEN_CONNECT. HeldListener only for that
//! long, so that a port is free again when the sandbox closes it.
//!
//! Sources: tcp(7), socket(7), sock_diag(7), inet_csk_get_port in net/ipv4/inet_connection_sock.c.

use super::socket::{Connecting, Socket};
use super::stand_ins::StandIns;
use crate::kernel::address::Address;
use crate::kernel::holders;
use crate::kernel::request::Confirmed;
use crate::kernel::target::{Target, TargetFd};
use crate::rules::address::{canonical, is_reached_at};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::net::{
    self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, netlink,
    sockopt,
};
use rustix::process::Pid;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Most ports that are known at a time; the oldest is forgotten for another.
const PORTS_MAX: usize = 4096;
/// Most connects under way that no target waits for: each takes a thread.
const UNATTENDED_MAX: usize = 128;

/// What the broker made listen, and the connects to that which are under way.
///
/// Whoever makes a socket listen, starts a connect to one, or ends its listening, has this to itself
/// meanwhile.
#[derive(Debug, Default)]
pub(crate) struct OwnPorts {
    known: VecDeque<Listening>,
    under_way: Vec<UnderWay>,
}

/// A connect whose first packet may be sent again: it must find nobody but the sandbox's own socket.
#[derive(Debug)]
struct UnderWay {
    cookie: u64,
    socket: Arc<Socket>,
    /// The target has its answer, and does not wait.
    unattended: bool,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    cookie: u64,
    inode: u64,
    /// Who holds it, under which number: a hint where to look.
    holder: Pid,
    number: TargetFd,
}

/// A listening socket of the sandbox that cannot be closed as long as this lives.
#[derive(Debug)]
pub(crate) struct HeldListener {
    address: SocketAddr,
    cookie: u64,
    socket: OwnedFd,
}

impl OwnPorts {
    /// Remembers that `socket`, descriptor `number` of `target`, listens.
    pub(crate) fn add(
        &mut self,
        target: Target,
        number: TargetFd,
        socket: &Socket,
    ) -> io::Result<()> {
        let cookie = sockopt::socket_cookie(socket)?;
        let address = canonical(socket.reached_at()?);
        let inode = fs::fstat(socket)?.st_ino;
        // No two sockets listen on one address: what is known of it is out of date.
        self.known.retain(|known| known.address != address && known.cookie != cookie);
        if self.known.len() >= PORTS_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Listening { address, cookie, inode, holder: target.thread(), number });
        Ok(())
    }

    /// Starts a connect of `socket` to what is held. Returns whether it is under way, to be ended by
    /// [`OwnPorts::finish`].
    ///
    /// # Errors
    /// As [`Socket::start`]; [`Errno::CONNREFUSED`] if it does not listen any more, or too many that
    /// nobody waits for are under way.
    pub(crate) fn start(
        &mut self,
        by: Confirmed<'_>,
        held: &HeldListener,
        socket: &Arc<Socket>,
        address: &Address,
    ) -> io::Result<Connecting> {
        if Socket::listening_cookie(&held.socket) != Some(held.cookie) {
            return Err(Errno::CONNREFUSED);
        }
        let result = socket.start(by, address);
        let unattended = result == Err(Errno::INPROGRESS);
        if unattended && self.too_many_unattended() {
            socket.give_up();
            return Err(Errno::CONNREFUSED);
        }
        if unattended || result == Ok(Connecting::Handshake) {
            let (cookie, socket) = (held.cookie, Arc::clone(socket));
            self.under_way.push(UnderWay { cookie, socket, unattended });
        }
        result
    }

    /// Says that a signal has taken the target out of its wait for this connect, which goes on.
    /// Returns whether it may.
    pub(crate) fn leave_unattended(&mut self, socket: &Arc<Socket>) -> bool {
        if self.too_many_unattended() {
            return false;
        }
        let one = self.under_way.iter_mut().find(|one| Arc::ptr_eq(&one.socket, socket));
        one.map(|one| one.unattended = true).is_some()
    }

    fn too_many_unattended(&self) -> bool {
        self.under_way.iter().filter(|one| one.unattended).count() >= UNATTENDED_MAX
    }

    /// Forgets a connect that is decided, or ends it if it is not `wanted` any more. Returns false if
    /// it was ended before.
    pub(crate) fn finish(&mut self, socket: &Arc<Socket>, wanted: bool) -> bool {
        let before = self.under_way.len();
        self.under_way.retain(|one| !Arc::ptr_eq(&one.socket, socket));
        if !wanted {
            socket.give_up();
        }
        self.under_way.len() < before
    }

    /// Ends the connects to `listening`, if it does listen: it is about to give its address up, and
    /// what they send again would reach whoever takes it.
    pub(crate) fn before_given_up(&mut self, listening: impl AsFd) {
        let Some(cookie) = Socket::listening_cookie(listening) else { return };
        self.under_way.retain(|one| {
            if one.cookie == cookie {
                one.socket.give_up();
            }
            one.cookie != cookie
        });
    }

    /// Whether the sandbox itself still has what is held.
    pub(crate) fn has(&mut self, held: &HeldListener, stand_ins: &StandIns) -> bool {
        self.hold(held.address, stand_ins).is_some_and(|own| own.cookie == held.cookie)
    }

    /// The socket of the sandbox that listens on `address`, a canonical one, if there is one.
    pub(crate) fn hold(
        &mut self,
        address: SocketAddr,
        stand_ins: &StandIns,
    ) -> Option<HeldListener> {
        let at = self.known.iter().position(|known| is_reached_at(known.address, address))?;
        let held = self.known.get_mut(at)?.hold(stand_ins);
        if held.is_none() {
            // Closed, or given up. If it is made to listen again, the broker is asked.
            self.known.remove(at);
        }
        held
    }
}

impl Listening {
    fn hold(&mut self, stand_ins: &StandIns) -> Option<HeldListener> {
        let at_holder = stand_ins.duplicate(Target::new(self.holder), self.number).ok();
        let socket = at_holder.filter(|socket| self.is(socket));
        let socket = socket.or_else(|| holders::search(|| self.find(stand_ins)))?;
        // Listening until the broker ends it.
        let listens = sockopt::socket_acceptconn(&socket).unwrap_or(false);
        listens.then(|| HeldListener { address: self.address, cookie: self.cookie, socket })
    }

    fn is(&self, socket: &OwnedFd) -> bool {
        sockopt::socket_cookie(socket) == Ok(self.cookie)
    }

    /// Looks through the sandbox's processes: a socket is passed on by fork(2) and over other
    /// sockets, and its holder may have gone, as happens when a server becomes a daemon.
    fn find(&mut self, stand_ins: &StandIns) -> Option<OwnedFd> {
        let mut found = None;
        holders::each_socket(|process, number, inode| {
            if inode != self.inode {
                return ControlFlow::Continue(());
            }
            let socket = stand_ins.duplicate(Target::new(process), number).ok();
            match socket.filter(|socket| self.is(socket)) {
                Some(socket) => {
                    found = Some((process, number, socket));
                    ControlFlow::Break(())
                }
                None => ControlFlow::Continue(()),
            }
        });
        let (process, number, socket) = found?;
        (self.holder, self.number) = (process, number);
        Some(socket)
    }
}

/// Whether anybody listens where a connect to `address` would arrive: refusing that is worth a report.
/// Nothing rests on the answer but the report and the error.
///
/// Asked by sock_diag(7), about that one address: reading /proc/net/tcp takes milliseconds, for it
/// lists all connections of the host.
pub(crate) fn anybody_listens(address: SocketAddr) -> bool {
    // Without an answer the report is made.
    ask(address, ipproto::TCP).unwrap_or(true)
}

/// Whether anybody has a socket of UDP there. As [`anybody_listens`].
pub(crate) fn anybody_receives(address: SocketAddr) -> bool {
    ask(address, ipproto::UDP).unwrap_or(true)
}

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// IPPROTO_UDP.
const UDP: u8 = 17;
/// `struct nlmsghdr` (netlink(7)).
const HEADER_LENGTH: usize = 16;

fn ask(address: SocketAddr, protocol: Protocol) -> io::Result<bool> {
    let (flags, diag) = (SocketFlags::CLOEXEC, netlink::SOCK_DIAG);
    let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(diag))?;
    net::send(&socket, &question(address, protocol), SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (length, _) = net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    let kind = answer[..length].get(4..6).and_then(|bytes| bytes.try_into().ok());
    // What is not there is told by an error message.
    Ok(kind.map(u16::from_ne_bytes) == Some(SOCK_DIAG_BY_FAMILY))
}

/// `struct inet_diag_req_v2` after its header: the socket that has this address as its own.
fn question(address: SocketAddr, protocol: Protocol) -> Vec<u8> {
    let (family, mut ip) = match address.ip() {
        IpAddr::V4(ip) => (AddressFamily::INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AddressFamily::INET6, ip.octets().to_vec()),
    };
    ip.resize(16, 0);
    let [protocol, ..] = protocol.as_raw().get().to_le_bytes();
    let mut body = vec![u8::try_from(family.as_raw()).unwrap_or(0), protocol, 0, 0];
    body.extend(u32::MAX.to_ne_bytes()); // in any state
    // The kernel looks for one of UDP by the other end (udp_dump_one in net/ipv4/udp_diag.c).
    let own = (address.port(), ip);
    let (source, destination) = match protocol {
        UDP => ((0, vec![0; 16]), own),
        _ => (own, (0, vec![0; 16])),
    };
    body.extend(source.0.to_be_bytes());
    body.extend(destination.0.to_be_bytes());
    body.extend(source.1);
    body.extend(destination.1);
    body.extend(1_u32.to_ne_bytes()); // by the loopback interface
    body.extend([0xff; 8]); // no cookie
    let length = u32::try_from(HEADER_LENGTH + body.len()).unwrap_or(0);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(1_u16.to_ne_bytes()); // NLM_F_REQUEST
    message.extend([0; 8]);
    message.extend(body);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_of_this_host_are_seen_where_they_are() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        assert!(anybody_listens(there));
        for ip in ["127.0.0.2", "::1"] {
            let elsewhere = SocketAddr::new(ip.parse().unwrap(), there.port());
            assert!(!anybody_listens(elsewhere), "{elsewhere}");
        }
        drop(listener);
        assert!(!anybody_listens(there));
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let receiver = std::net::UdpSocket::bind(ip).unwrap();
            let there = receiver.local_addr().unwrap();
            assert!(anybody_receives(there));
            drop(receiver);
            assert!(!anybody_receives(there));
        }
    }
}
