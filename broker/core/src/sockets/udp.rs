//! Sockets of UDP, which exist under every policy: programs list interfaces with them, and look for an own
//! address.
//!
//! One is **mute** ([`super::inert_udp`]) as long as no rule knows an address for it.
//!
//! Where the command may have servers of its own, one that it binds to an address of loopback, or uses to reach
//! another such one, is **live**: a new one stands in its place, which can send. Once there is one, those that are
//! made later are **open**: not mute, for the broker judges every message from then on. What is sent on it to an address
//! the broker sends, if the address is that of one of the command's own ([`OwnDatagrams`]); what is sent without
//! one goes to whom the broker has connected it.
//!
//! [`OwnDatagrams`]: super::own_datagrams::OwnDatagrams
//!
//! Sources: udp(7), __udp_disconnect in net/ipv4/udp.c.

use super::address_leases::take_when_free;
use super::inert_udp::mute;
use super::judge::Judge;
use super::kinds::{kind_of, make_open};
use super::reached::{Reached, is_heard_at};
use super::socket::{Socket, local_address};
use crate::report::denials::Denial;
use common::trap::NetworkOperation;
use kernel::address::Address;
use kernel::diag;
use kernel::options::carry_over;
use kernel::request::Request;
use kernel::socket_filter::{can_hear, hear_only};
use kernel::target::TargetFd;
use kernel::terminal::streams;
use rules::address::{AddressVerdict, Endpoint, canonical, is_loopback};
use rules::socket::SocketKind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, OFlags};
use rustix::io::{self, Errno};
use rustix::net::{self, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;

/// How often a port is chosen, and who is at one looked for.
const TRIES: usize = 16;
/// Where name servers are asked.
const DOMAIN: u16 = 53;

/// Makes one that can send, where the broker judges every message, and that is not bound. It hears nobody.
pub(super) fn open(kind: SocketKind, flags: SocketFlags) -> io::Result<OwnedFd> {
    let socket = make_open(kind, flags)?;
    hear_only(socket.as_fd(), &[])?;
    Ok(socket)
}

/// `socket`, if it is one of UDP and not free to send: mute, or one of the command's own.
pub(super) fn one_of<'a>(judge: &Judge, socket: &'a io::Result<OwnedFd>) -> Option<&'a OwnedFd> {
    let socket = socket.as_ref().ok().filter(|_| !judge.rules.allow_network)?;
    // So it is with most: one call tells.
    if sockopt::socket_type(socket) == Ok(SocketType::STREAM) {
        return None;
    }
    kind_of(socket).is_ok_and(|kind| kind.is_mute(&judge.rules)).then_some(socket)
}

/// Connects `socket` to one of the command's own, or else so that it is mute from then on.
///
/// # Errors
/// Returns what connect(2) returns; [`Errno::ACCESS`] for a standard stream, which others have too.
pub(super) fn connect(
    judge: &Judge,
    request: &Request<'_>,
    (number, socket): (TargetFd, BorrowedFd<'_>),
    address: &Address,
    endpoint: &Endpoint,
) -> io::Result<()> {
    request.confirm()?;
    if is_a_standard_stream(socket) {
        let why = "a datagram socket of the caller's";
        return Err(refuse(judge, NetworkOperation::Connect, endpoint, why));
    }
    let own = &judge.own.held.datagrams;
    if let Some(to) = own_port(judge, endpoint) {
        let socket = live(judge, request, (number, socket))?;
        let holder = Some((request.target().thread(), number));
        let connect = || own.connect((&socket, holder), to, || net::connect(&socket, address));
        return take_when_free(request, connect, || own.is_sent_to(&socket));
    }
    if !own.has(socket) && is_name_server(endpoint) && lead_lookups(judge, request, number)? {
        return Ok(());
    }
    // It does not become one of the command's own, which would leave its address, before it is mute.
    let binding = judge.own.held.wait_for_binding();
    if own.has(socket) {
        if *endpoint == Endpoint::Unspecified {
            return own.dissolve(socket);
        }
        drop(binding);
        return Err(refuse_foreign(judge, endpoint));
    }
    if *endpoint == Endpoint::Unspecified {
        return net::connect_unspec(socket);
    }
    mute(socket)?;
    // Not all that is sent then is seen: write(2) is not.
    if is_name_server(endpoint) {
        judge.traps.report(Denial::lookup(None), "a name server");
    }
    net::connect(socket, address)
}

/// Puts a socket of messages into the place of one that is connected to a name server, if lookups are answered: it leads
/// to who answers them, and whatever is sent on it goes nowhere else. Whether it did.
fn lead_lookups(judge: &Judge, request: &Request<'_>, number: TargetFd) -> io::Result<bool> {
    let Some(proxies) = &judge.admission else { return Ok(false) };
    let flags = request.target().descriptor_flags(number)?;
    let mode =
        if flags.contains(OFlags::NONBLOCK) { SocketFlags::NONBLOCK } else { SocketFlags::empty() };
    let Some(socket) = proxies.lookups(mode, &judge.traps)? else { return Ok(false) };
    let by = request.confirm()?;
    by.replace(socket.as_fd(), number, flags.contains(OFlags::CLOEXEC)).map(|()| true)
}

/// Binds `socket`, which can send to the command's own from then on.
///
/// # Errors
/// Returns what bind(2) returns; [`Errno::ACCESS`] for an address that the rules do not know.
pub(super) fn bind(
    judge: &Judge,
    request: &Request<'_>,
    (number, socket): (TargetFd, BorrowedFd<'_>),
    address: &Address,
    endpoint: &Endpoint,
) -> io::Result<()> {
    request.confirm()?;
    let narrowed = match judge.rules.bind(endpoint) {
        AddressVerdict::Perform => false,
        AddressVerdict::Narrow => true,
        _ => return Err(refuse(judge, NetworkOperation::Bind, endpoint, "address rules")),
    };
    if !judge.rules.own_datagrams() || is_a_standard_stream(socket) {
        let why = "no rule knows an address for UDP";
        return Err(refuse(judge, NetworkOperation::Bind, endpoint, why));
    }
    if local_address(socket)?.port() != 0 {
        // As bind(2) of what is bound.
        return Err(Errno::INVAL);
    }
    let datagrams = &judge.own.held.datagrams;
    let bind = || replace(judge, request, (number, socket), (address, narrowed)).map(drop);
    let bound = take_when_free(request, bind, || {
        judge.own.held.release_closed();
        matches!(endpoint, Endpoint::Internet(wanted) if datagrams.is_leaving(wanted.port()))
    });
    if bound != Err(Errno::ADDRINUSE) {
        return bound;
    }
    // Perhaps by one that the command has closed, and that others of its own were connected to.
    let mute = Socket::in_place_of_mute(request.target(), number, socket)?;
    let by = request.confirm()?;
    let Endpoint::Internet(wanted) = endpoint else { return Err(Errno::ADDRINUSE) };
    let bound = mute.address_narrowed(*wanted)?;
    let holder = Some((request.target().thread(), number));
    let own = datagrams.reopen(holder, (bound, mute.family)).ok_or(Errno::ADDRINUSE)?;
    carry_over(socket, own.as_fd());
    mute.put_other_in_place(by, own.as_fd())
}

/// `socket`, if it is one of the command's own, else one in its place that is bound to a port of the kernel's
/// choice.
pub(super) fn live(
    judge: &Judge,
    request: &Request<'_>,
    (number, socket): (TargetFd, BorrowedFd<'_>),
) -> io::Result<OwnedFd> {
    if judge.own.held.datagrams.has(socket) {
        return io::fcntl_dupfd_cloexec(socket, 0);
    }
    let address = Address::unspecified(sockopt::socket_domain(socket)?);
    let live = replace(judge, request, (number, socket), (&address, true))?;
    io::fcntl_dupfd_cloexec(live, 0)
}

/// Binds `socket` if it can send, else one in its place that can, to `address`, which may have to be narrowed.
fn replace(
    judge: &Judge,
    request: &Request<'_>,
    (number, socket): (TargetFd, BorrowedFd<'_>),
    (address, narrowed): (&Address, bool),
) -> io::Result<Socket> {
    judge.sendmsg_gate.end(request)?;
    let _binding = judge.own.held.begin_to_bind();
    let by = request.confirm()?;
    let target = request.target();
    let new = || Socket::in_place_of_mute(target, number, socket);
    let live = match can_hear(socket) && local_address(socket)?.port() == 0 {
        true => Socket::open(socket)?,
        false => new()?,
    };
    let bind = |socket: &Socket, address: &Address| match narrowed {
        true => socket.bind_narrowed(by, address),
        false => socket.bind(by, address),
    };
    // A port of the kernel's own choice would be given up with an association, though others are connected to
    // it (SOCK_BINDPORT_LOCK, __udp_disconnect): so it is chosen for another socket.
    let choose = || -> io::Result<Address> {
        let scout = new()?;
        bind(&scout, address)?;
        Ok(address.at_port(scout.local_address()?.port()))
    };
    let bind_somewhere = || {
        let mut tries = (0..TRIES).map(|_| bind(&live, &choose()?));
        // Else somebody was quicker.
        let bound = tries.find(|bound| *bound != Err(Errno::ADDRINUSE));
        bound.unwrap_or(Err(Errno::ADDRINUSE))
    };
    match Endpoint::parse(address.as_bytes())? {
        Endpoint::Internet(wanted) if wanted.port() != 0 => bind(&live, address)?,
        _ => bind_somewhere()?,
    }
    let reached = Reached::of(&live, is_heard_at)?;
    live.put_in_place(by)?;
    // Known only now: it would be taken for one that the command has closed. What the command does with it
    // before, the broker judges as of a mute one.
    if let Err(errno) = judge.own.held.add_datagram((target, number), &live, reached) {
        mute(&live)?;
        return Err(errno);
    }
    Ok(live)
}

/// The canonical address that `endpoint` is, if one of the command's own sockets is reached there.
pub(super) fn own_port(judge: &Judge, endpoint: &Endpoint) -> Option<SocketAddr> {
    let Endpoint::Internet(address) = endpoint else { return None };
    let address = canonical(*address);
    let may_be = judge.rules.own_datagrams() && is_loopback(address.ip());
    (may_be && judge.own.held.datagrams.is_reached(address)).then_some(address)
}

/// The error for what is sent to an address that is not the command's own. As from a host where nobody is there, if
/// so, or if one of the command's own comes to be there just now.
pub(super) fn refuse_foreign(judge: &Judge, endpoint: &Endpoint) -> Errno {
    match endpoint {
        Endpoint::Internet(address)
            if judge.rules.own_datagrams()
                && is_loopback(address.ip())
                && !is_foreign(judge, canonical(*address)) =>
        {
            Errno::CONNREFUSED
        }
        _ => {
            let denial = Denial::Datagram(endpoint.describe());
            judge.traps.report(denial, "an address for such a socket");
            Errno::ACCESS
        }
    }
}

/// Whether somebody else receives at `address`, a canonical one. Nobody is said to while the command's own come and go
/// all the time.
fn is_foreign(judge: &Judge, address: SocketAddr) -> bool {
    for _ in 0..TRIES {
        let Some(before) = judge.own.held.datagrams.changes_elsewhere(address) else {
            return false;
        };
        if !diag::anybody_receives(address) {
            return false;
        }
        drop(judge.own.held.wait_for_binding());
        if judge.own.held.datagrams.changes_elsewhere(address) == Some(before) {
            return true;
        }
    }
    false
}

fn refuse(judge: &Judge, operation: NetworkOperation, endpoint: &Endpoint, why: &str) -> Errno {
    judge.traps.report(Denial::Network(operation, endpoint.describe()), why);
    Errno::ACCESS
}

/// Whether what is sent to `endpoint` asks for names.
pub(super) fn is_name_server(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Internet(address) if address.port() == DOMAIN)
}

pub(super) fn is_a_standard_stream(socket: impl AsFd) -> bool {
    let number =
        |descriptor: BorrowedFd<'_>| fs::fstat(descriptor).map(|stat| (stat.st_dev, stat.st_ino));
    streams().map(number).contains(&number(socket.as_fd()))
}
