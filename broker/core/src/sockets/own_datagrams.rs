//! The sockets of UDP that the command has at loopback addresses: its servers, and their clients.
//!
//! The broker makes each (`udp.rs`), and holds it for as long as the command has it, and to the end if another of
//! them was ever connected to its address: so an address that is known here is the command's own whenever something is sent
//! to it, and nobody else can take it. They are not shared with others either, for the broker passes over
//! SO_REUSEPORT and SO_REUSEADDR. Each hears only those of them that have sent to it ([`hear_only`]): strangers are
//! not heard at all.
//!
//! The kernel moves one that is bound for both families to a single address when it is connected, and gives the others
//! up to anybody. So its address is the single one from then on, for good: others can have the rest by the time that
//! the association is dissolved and the kernel takes all of them again. It is not moved while another of the command's
//! own is connected to an address that it would leave, or something is being sent to it.
//!
//! Nothing tells when the command has closed one, so that is looked for. One that is let go of is mute from then
//! on: should the command have it after all, in a message that nobody has received yet, it is of no use. One that it has
//! closed, and to which others were connected, is what it gets if it binds the address anew.

use super::address_leases::{AddressLeases, Lease};
use super::held_sockets::{HeldSockets, Holder, inode};
use super::inert_udp::mute;
use super::reached::Reached;
use super::socket::{Socket, local_address};
use kernel::limits;
use kernel::socket_filter::hear_only;
use kernel::target::{Target, TargetFd};
use kernel::threads::lock;
use rules::address::{canonical, is_reached_at, looked_for_at};
use rules::files::push_new;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, RecvFlags, sockopt};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

/// Most that are held at a time, and no more than an eighth of the descriptors that the broker may have.
const HELD_MAX: usize = 1024;
/// More than wait at one, which takes what others send meanwhile: so many are thrown away.
const QUEUED_MAX: usize = 4096;

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct OwnDatagrams(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By inode.
    held: HashMap<u64, Datagram>,
    /// Those that something is being sent to.
    leases: AddressLeases,
    /// How often one came to be known, or was let go of.
    changes: u64,
}

#[derive(Debug)]
struct Datagram {
    socket: Arc<OwnedFd>,
    /// Where it was reached once it was bound.
    reached: Reached,
    /// Where it is reached since it was connected first.
    address: SocketAddr,
    is_connected: bool,
    /// Another was connected to it. What that one has begun to send can arrive at any time, whatever it is connected
    /// to by then: udp_sendmsg (net/ipv4/udp.c) reads the address first, and a message that was begun with MSG_MORE
    /// or SPLICE_F_MORE keeps it, even in one that is mute. So this address is not given up any more; the unspecified
    /// one stands for several.
    kept: Option<SocketAddr>,
    /// Whom it hears.
    heard: Vec<SocketAddr>,
    holder: Holder,
}

/// Holds one of them while something is being sent to it; dropped in this order.
pub(super) type Receiving = (Arc<OwnedFd>, Lease);

impl HeldSockets {
    /// Holds `socket` of UDP, which is bound to an address of loopback and `reached` there, hears nobody, and has just
    /// become descriptor `number` of `target`.
    ///
    /// # Errors
    /// Returns [`Errno::NOBUFS`] if too many are held, and what the calls on it return.
    pub(super) fn add_datagram(
        self: &Arc<Self>,
        (target, number): (Target, TargetFd),
        socket: &Socket,
        reached: Reached,
    ) -> io::Result<()> {
        let inode = inode(socket)?;
        let one = Datagram {
            socket: Arc::new(io::fcntl_dupfd_cloexec(socket, 0)?),
            address: reached.bound,
            reached,
            is_connected: false,
            kept: None,
            heard: Vec::new(),
            holder: Some((target.thread(), number)),
        };
        let max = HELD_MAX.min(limits::own_descriptors() / 8);
        if lock(&self.datagrams.0).held.len() >= max {
            self.release_closed();
        }
        let _until_known = self.look_after()?;
        let mut known = lock(&self.datagrams.0);
        if known.held.len() >= max {
            return Err(Errno::NOBUFS);
        }
        known.held.insert(inode, one);
        known.changes += 1;
        Ok(())
    }
}

impl OwnDatagrams {
    /// Whether `socket` is one of them.
    pub(crate) fn has(&self, socket: impl AsFd) -> bool {
        let known = lock(&self.0);
        !known.held.is_empty() && inode(socket).is_ok_and(|inode| known.held.contains_key(&inode))
    }

    /// Whether one of them is reached at `address`, a canonical one.
    pub(crate) fn is_reached(&self, address: SocketAddr) -> bool {
        lock(&self.0).at(address).is_some()
    }

    /// How often one came to be known, or was let go of; none if what is at `address`, a canonical one, is one of
    /// them, or was and still has it.
    pub(super) fn changes_elsewhere(&self, address: SocketAddr) -> Option<u64> {
        let known = lock(&self.0);
        let is_own = known.at(address).is_some() || known.leases.has(address);
        (!is_own).then_some(known.changes)
    }

    /// Has the one at `to`, a canonical address, hear `from`, which is one of them. The one at `to` is held as
    /// long as what is returned lives; none if there is none.
    pub(super) fn introduce(
        &self,
        from: impl AsFd,
        to: SocketAddr,
    ) -> io::Result<Option<Receiving>> {
        let mut known = lock(&self.0);
        let there = known.introduce(inode(from)?, to)?;
        let there = there.map(|held| (Arc::clone(&held.socket), held.address));
        Ok(there.map(|(socket, address)| (socket, known.leases.begin(address))))
    }

    /// Connects `from`, which is one of them, to the one at `to`, a canonical address, by `connect`. Whoever
    /// has that address later, it is not given up before `from` is closed or connected elsewhere. `holder` is who has it.
    ///
    /// # Errors
    /// As `connect`; [`Errno::CONNREFUSED`] if there is none any more, [`Errno::ADDRINUSE`] if `from` must not move.
    pub(crate) fn connect(
        &self,
        (from, holder): (impl AsFd, Holder),
        to: SocketAddr,
        connect: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let inode = inode(&from)?;
        let mut known = lock(&self.0);
        known.may_move(inode, to)?;
        known.introduce(inode, to)?.ok_or(Errno::CONNREFUSED)?.keep(to);
        known.narrow(inode, to);
        connect()?;
        let own = known.held.get_mut(&inode).ok_or(Errno::CONNREFUSED)?;
        if own.reached.bound != own.address && canonical(local_address(&from)?) != own.address {
            // Nobody routes loopback addresses like that.
            known.held.remove(&inode);
            return mute(&from).and(Err(Errno::ACCESS));
        }
        (own.is_connected, own.holder) = (true, holder);
        own.hear(&[to])
    }

    /// Whether something is being sent to `socket`, which is one of them.
    pub(super) fn is_sent_to(&self, socket: impl AsFd) -> bool {
        let known = lock(&self.0);
        let own = inode(socket).ok().and_then(|inode| known.held.get(&inode));
        own.is_some_and(|own| known.leases.has(own.address))
    }

    /// Dissolves the association of `socket`, which is one of them.
    pub(crate) fn dissolve(&self, socket: impl AsFd) -> io::Result<()> {
        let mut known = lock(&self.0);
        net::connect_unspec(&socket)?;
        if let Some(own) = known.held.get_mut(&inode(socket)?) {
            own.is_connected = false;
        }
        Ok(())
    }

    /// The one at `address` that the command has closed, if there is one of this family, for the command to have it again
    /// as `holder`. What others sent to it meanwhile is lost, as to a closed one.
    pub(super) fn reopen(
        &self,
        holder: Holder,
        (address, family): (SocketAddr, net::AddressFamily),
    ) -> Option<Arc<OwnedFd>> {
        let mut known = lock(&self.0);
        let held = known.held.values_mut().find(|held| {
            held.reached.bound == address
                && held.holder.is_none()
                && sockopt::socket_domain(&*held.socket) == Ok(family)
        })?;
        for _ in 0..QUEUED_MAX {
            // Others than that are errors that were waiting too.
            if net::recv(&*held.socket, &mut [0; 1][..], RecvFlags::DONTWAIT) == Err(Errno::AGAIN) {
                break;
            }
        }
        held.holder = holder;
        Some(Arc::clone(&held.socket))
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).held.is_empty()
    }

    pub(super) fn each_holder(&self, mut look: impl FnMut(u64, &mut Holder)) {
        lock(&self.0).held.iter_mut().for_each(|(&inode, held)| look(inode, &mut held.holder));
    }

    /// Lets go of those that the command has closed, but for those that others were connected to.
    pub(super) fn release(&self) {
        let mut known = lock(&self.0);
        for held in known.held.values_mut() {
            if held.holder.is_none() && std::mem::take(&mut held.is_connected) {
                // It may be on its way in a message after all: it reaches nobody then.
                let _ = net::connect_unspec(&*held.socket);
            }
        }
        let is_closed = |held: &Datagram| held.holder.is_none() && held.kept.is_none();
        let closed: Vec<_> = known.held.extract_if(|_, held| is_closed(held)).collect();
        let mut gone = Vec::new();
        for (_, held) in &closed {
            gone.extend(held.senders());
            let _ = mute(&*held.socket);
        }
        known.held.values_mut().for_each(|held| held.forget(&gone));
        known.changes += u64::from(!closed.is_empty());
        // Only now can their addresses be others'.
        drop(closed);
    }

    /// Whether something is still being sent to one at this port that was let go of.
    pub(super) fn is_leaving(&self, port: u16) -> bool {
        let known = lock(&self.0);
        let mut held = known.leases.held();
        held.any(|held| held.port() == port && known.at(held).is_none())
    }
}

impl Known {
    fn at(&self, address: SocketAddr) -> Option<u64> {
        self.held
            .iter()
            .find(|(_, held)| is_reached_at(held.address, address) && held.reached.has(address))
            .map(|(&inode, _)| inode)
    }

    /// Has the one at `to` hear `from`, and returns it.
    fn introduce(&mut self, from: u64, to: SocketAddr) -> io::Result<Option<&mut Datagram>> {
        let Some(from) = self.held.get(&from).map(Datagram::senders) else { return Ok(None) };
        let Some(to) = self.at(to).and_then(|inode| self.held.get_mut(&inode)) else {
            return Ok(None);
        };
        to.hear(&from)?;
        Ok(Some(to))
    }

    /// Whether the one that is `inode` may be connected to `to`.
    ///
    /// # Errors
    /// Returns [`Errno::ADDRINUSE`] if it would leave an address that it must not, or has left the one that it would
    /// move to.
    fn may_move(&self, inode: u64, to: SocketAddr) -> io::Result<()> {
        let own = self.held.get(&inode).ok_or(Errno::CONNREFUSED)?;
        let there = own.connected_to(to);
        let is_free = || {
            let leaves_none = own.kept.is_none_or(|kept| kept == there);
            own.address.ip().is_unspecified() && leaves_none && !self.leases.has(own.address)
        };
        if own.address == there || is_free() { Ok(()) } else { Err(Errno::ADDRINUSE) }
    }

    /// Before the kernel moves the one that is `inode`: what it leaves is not its own any more.
    fn narrow(&mut self, inode: u64, to: SocketAddr) {
        let Some(own) = self.held.get_mut(&inode) else { return };
        let (there, mut left) = (own.connected_to(to), own.senders());
        left.retain(|sender| *sender != there);
        own.address = there;
        if !left.is_empty() {
            self.held.values_mut().for_each(|held| held.forget(&left));
        }
    }
}

impl Datagram {
    /// What its datagrams have as their sender.
    fn senders(&self) -> Vec<SocketAddr> {
        looked_for_at(self.address).collect()
    }

    /// Its address once it is connected to `to`, a loopback address: the kernel chooses the one that all of that family
    /// are reached from.
    fn connected_to(&self, to: SocketAddr) -> SocketAddr {
        let ip = match to.ip() {
            _ if !self.reached.bound.ip().is_unspecified() => return self.reached.bound,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(ip, self.reached.bound.port())
    }

    /// Notes that another is about to be connected to it at `address`.
    fn keep(&mut self, address: SocketAddr) {
        let is_other = self.kept.is_some_and(|kept| kept != address);
        self.kept = Some(if is_other { self.reached.bound } else { address });
    }

    fn hear(&mut self, senders: &[SocketAddr]) -> io::Result<()> {
        let before = self.heard.len();
        senders.iter().for_each(|sender| push_new(&mut self.heard, *sender));
        if self.heard.len() == before {
            return Ok(());
        }
        hear_only(self.socket.as_fd(), &self.heard).inspect_err(|_| self.heard.truncate(before))
    }

    fn forget(&mut self, senders: &[SocketAddr]) {
        let before = self.heard.len();
        self.heard.retain(|sender| !senders.contains(sender));
        if self.heard.len() < before {
            // One instruction for each less than before, which the kernel took.
            let _ = hear_only(self.socket.as_fd(), &self.heard);
        }
    }
}
