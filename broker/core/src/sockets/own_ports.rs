//! The loopback ports that the sandbox itself listens on.
//!
//! Whether a port is the sandbox's own is asked of the kernel at every connect, never remembered: the listening socket
//! is looked for among the descriptors of the sandbox's processes, without the lock, for there can be many; taken and
//! compared with the lock, by the cookie that it had when the broker made it listen (SO_COOKIE, unique until reboot);
//! and held while the connect is under way. As long as it is held and listens, no other socket can be bound to the
//! address: SO_REUSEPORT is passed over, and what ends listening other than the last close, shutdown(2) and connect(2)
//! to AF_UNSPEC, is the broker's to perform. Nor is a connect put off until later: the filter refuses
//! TCP_FASTOPEN_CONNECT. It is held only for that long, so that a port is free again when the sandbox closes it.
//!
//! The command can make a connect wait as it is begun: O_NONBLOCK is shared with it. So that is done without the lock,
//! and noted: what would end listening, or have a socket listen that is being connected, waits by itself until it is
//! begun ([`Judge::ports_once_free`](super::judge::Judge::ports_once_free)).
//!
//! Sources: tcp(7), socket(7), inet_csk_get_port in net/ipv4/inet_connection_sock.c.

use super::address_leases::{AddressLeases, Lease};
use super::held_sockets::HeldSockets;
use super::judge::Own;
use super::reached::Reached;
use super::socket::{Connecting, Socket};
use super::udp::is_a_standard_stream;
use kernel::fd_scan;
use kernel::target::{Target, TargetFd};
use kernel::threads::lock;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::net::sockopt;
use rustix::process::Pid;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Most ports that are known at a time; the oldest is forgotten for another.
const PORTS_MAX: usize = 4096;
/// Most connects under way that no target waits for: each takes a thread.
const UNATTENDED_MAX: usize = 128;

/// What the broker made listen, and the connects to that which are under way.
///
/// Whoever makes a socket listen, or ends its listening, has this to itself meanwhile, with no connect of it, or to
/// it, being begun.
#[derive(Debug, Default)]
pub(crate) struct OwnPorts {
    known: VecDeque<Listening>,
    beginning: Vec<Beginning>,
    under_way: Vec<UnderWay>,
    /// Those that are held.
    leases: AddressLeases,
    /// How often one was about to listen, came to be known, or was closed or given up.
    pub(super) changes: u64,
}

/// A connect that is being begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// The cookie of the socket, and that of the sandbox's own listening one that it is connected to.
    socket: u64,
    to: Option<u64>,
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
    reached: Reached,
    cookie: u64,
    inode: u64,
    /// Who holds it, under which number: a hint where to look.
    holder: (Pid, TargetFd),
}

/// A listening socket of the sandbox that cannot be closed as long as this lives.
#[derive(Debug)]
pub(crate) struct HeldListener {
    address: SocketAddr,
    cookie: u64,
    socket: OwnedFd,
    /// The last that is dropped.
    _lease: Lease,
}

impl OwnPorts {
    /// Takes note that `socket` is about to listen: until it is known, as long as what is returned lives, nobody is
    /// where it is bound.
    pub(super) fn prepare(&mut self, socket: &Socket) -> io::Result<Lease> {
        self.changes += 1;
        Ok(self.leases.begin(socket.reached_at()?))
    }

    /// Remembers that `socket`, descriptor `number` of `target`, listens, and where it is `reached`.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] if it does not any more.
    pub(super) fn add(
        &mut self,
        (target, number): (Target, TargetFd),
        socket: &Socket,
        reached: Reached,
    ) -> io::Result<()> {
        let cookie = Socket::listening_cookie(socket).ok_or(Errno::INVAL)?;
        if socket.reached_at()? != reached.bound {
            return Err(Errno::INVAL);
        }
        let inode = fs::fstat(socket)?.st_ino;
        // No two sockets listen on one address: what is known of it is out of date.
        self.known.retain(|known| known.reached.bound != reached.bound && known.cookie != cookie);
        if self.known.len() >= PORTS_MAX {
            self.known.pop_front();
        }
        let holder = (target.thread(), number);
        self.known.push_back(Listening { reached, cookie, inode, holder });
        self.changes += 1;
        Ok(())
    }

    /// Whether others have made `socket` listen, or could: it was there before the command, or came from outside.
    pub(crate) fn is_of_others(&self, socket: &Socket) -> bool {
        let is_known = |cookie| self.known.iter().any(|known| known.cookie == cookie);
        is_a_standard_stream(socket)
            || Socket::listening_cookie(socket).is_some_and(|cookie| !is_known(cookie))
    }

    /// Notes that a connect of `socket` is about to be begun, to what is held if that is one of the sandbox's own.
    ///
    /// # Errors
    /// Returns [`Errno::CONNREFUSED`] if that does not listen any more.
    pub(crate) fn begin(
        &mut self,
        socket: &Socket,
        held: Option<&HeldListener>,
    ) -> io::Result<Beginning> {
        if held.is_some_and(|held| Socket::listening_cookie(&held.socket) != Some(held.cookie)) {
            return Err(Errno::CONNREFUSED);
        }
        let to = held.map(|held| held.cookie);
        let one = Beginning { socket: sockopt::socket_cookie(socket)?, to };
        self.beginning.push(one);
        Ok(one)
    }

    /// Says that it was begun.
    pub(crate) fn begun(&mut self, one: Beginning) {
        if let Some(at) = self.beginning.iter().position(|other| *other == one) {
            self.beginning.swap_remove(at);
        }
    }

    /// Whether a connect of `socket` is being begun, or one to it while it listens.
    pub(crate) fn is_being_connected(&self, socket: impl AsFd) -> bool {
        // Most connects are begun alone.
        if self.beginning.is_empty() {
            return false;
        }
        // Of what tells no cookie nothing is known.
        let Ok(cookie) = sockopt::socket_cookie(socket) else { return false };
        self.beginning.iter().any(|one| one.socket == cookie || one.to == Some(cookie))
    }

    /// Notes what came of beginning a connect of `socket` to what is held. Returns whether it is under way, to be ended
    /// by [`OwnPorts::finish`].
    ///
    /// # Errors
    /// As `result`; [`Errno::CONNREFUSED`] if too many that nobody waits for are under way.
    pub(crate) fn note(
        &mut self,
        one: Beginning,
        held: &HeldListener,
        socket: &Arc<Socket>,
        result: io::Result<Connecting>,
    ) -> io::Result<Connecting> {
        self.begun(one);
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

    /// Whether one that listens on `address`, a canonical one, is held, though it may have been closed.
    pub(crate) fn is_held(&self, address: SocketAddr) -> bool {
        self.leases.has(address)
    }

    fn at(&mut self, address: SocketAddr) -> Option<&mut Listening> {
        self.known.iter_mut().find(|known| known.reached.has(address))
    }

    /// Holds what listens on `address`, if that is descriptor `holder.1` of `holder.0`, by default where it was last.
    fn hold_at(
        &mut self,
        address: SocketAddr,
        holder: Option<(Pid, TargetFd)>,
        held_sockets: &HeldSockets,
    ) -> Option<HeldListener> {
        let known = self.at(address)?;
        let (process, number) = holder.unwrap_or(known.holder);
        let socket = held_sockets.duplicate(Target::new(process), number).ok()?;
        // Listening until the broker ends it.
        Socket::listening_cookie(&socket).filter(|cookie| *cookie == known.cookie)?;
        known.holder = (process, number);
        let cookie = known.cookie;
        Some(HeldListener { address, cookie, socket, _lease: self.leases.begin(address) })
    }
}

impl Own {
    /// Whether the sandbox itself still has what is held.
    ///
    /// # Errors
    /// Returns [`Errno::CONNREFUSED`] if not.
    pub(crate) fn has(&self, held: &HeldListener) -> io::Result<()> {
        let own = self.hold(held.address).filter(|own| own.cookie == held.cookie);
        own.map(drop).ok_or(Errno::CONNREFUSED)
    }

    /// The socket of the sandbox that listens on `address`, a canonical one, if there is one.
    pub(crate) fn hold(&self, address: SocketAddr) -> Option<HeldListener> {
        let (inode, before) = {
            let mut ports = lock(&self.ports);
            let held = ports.hold_at(address, None, &self.held);
            if held.is_some() {
                return held;
            }
            (ports.at(address)?.inode, ports.changes)
        };
        // A socket is passed on by fork(2) and over other sockets, and its holder may have gone, as happens when a
        // server becomes a daemon. None is duplicated until it is known for this one: who looks meanwhile whether
        // anybody listens would take what the sandbox closes then for another's.
        let found = fd_scan::search(|| {
            let mut found = None;
            fd_scan::each_socket(|process, number, other| {
                if other == inode {
                    let holder = Some((process, number));
                    found = lock(&self.ports).hold_at(address, holder, &self.held);
                }
                if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            found
        });
        let mut ports = lock(&self.ports);
        if found.is_none() && ports.changes == before {
            // Closed, or given up. If it is made to listen again, the broker is asked.
            ports.known.retain(|known| known.inode != inode);
            ports.changes += 1;
        }
        found
    }

    /// Whether one that listens on this port is still held though the sandbox has closed it.
    pub(crate) fn is_leaving(&self, port: u16) -> bool {
        let held: Vec<_> =
            lock(&self.ports).leases.held().filter(|held| held.port() == port).collect();
        held.into_iter().any(|held| self.hold(held).is_none())
    }
}
