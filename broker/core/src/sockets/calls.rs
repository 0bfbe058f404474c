//! Calls on sockets: connect, bind, listen, shutdown, the messages, and the making of sockets and pairs.
//!
//! All are performed on a duplicate of the target's socket, with the broker's own copy of the
//! address, or refused. Two are let through: socket(2), which registers decide, and sendmsg(2) as long as no
//! socket in the sandbox heeds an address ([`super::sendmsg_gate`]).

use super::address_leases::take_when_free;
use super::connects::{self, Connected};
use super::judge::{Judge, Reach};
use super::kinds::make;
use super::messages;
use super::reached::{Reached, is_connected_to};
use super::sendmsg_gate::NoNamedReceivers;
use super::socket::{Socket, local_address};
use super::udp;
use crate::call::decode::{AddressUse, CONTINUE, Messages, RegisterVerdict, SocketCall};
use crate::files::view::Decider;
use crate::report::denials::Denial;
use crate::report::permitted::Permitted;
use common::trap::NetworkOperation;
use kernel::address::Address;
use kernel::nested_landlock::NestedLandlock;
use kernel::request::{Confirmed, Request};
use kernel::target::{self, Target, TargetAddress, TargetFd};
use nix::libc;
use rules::address::{self, Endpoint};
use rules::option;
use rules::socket::SocketKind;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{
    self, AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

const MSG_FASTOPEN: u32 = libc::MSG_FASTOPEN.cast_unsigned();
/// How often a port is chosen.
const PORTS_TRIED: usize = 16;

/// What becomes of a call on a socket. It is let through only by what says that no message names a receiver.
#[derive(Debug)]
pub(crate) enum SocketVerdict {
    /// It returns this.
    Return(io::Result<i32>),
    /// The kernel sends the message.
    Passes(NoNamedReceivers),
    /// It fails with this, and the broker looks after its connect from then on.
    GoesOn(Errno, connects::UnderWay),
}

/// Performs or refuses `call`.
pub(crate) fn perform(judge: &Judge, request: &Request<'_>, call: &SocketCall) -> SocketVerdict {
    let zero = |result: io::Result<()>| result.map(|()| 0);
    SocketVerdict::Return(match *call {
        SocketCall::Address(AddressUse::Connect, number, address, length) => {
            match connect(judge, request, number, (address, length)) {
                Ok(Some((errno, under_way))) => return SocketVerdict::GoesOn(errno, under_way),
                done => done.map(|_| 0),
            }
        }
        SocketCall::Address(AddressUse::Bind, number, address, length) => {
            // Binding a low port and passing a directory are rights.
            let bind = || bind(judge, request, number, (address, length));
            let bound = judge.rights.with_credentials_of(request.target(), bind);
            zero(bound.inspect_err(|errno| report_unshared(judge, request, number, *errno)))
        }
        // It connects.
        SocketCall::Send(_, flags, _) if flags & MSG_FASTOPEN != 0 => Err(Errno::OPNOTSUPP),
        SocketCall::Send(number, flags, sent) => {
            if matches!(sent, Messages::One(_))
                && let Some(no_named_receivers) = judge.sendmsg_gate.pass(request)
            {
                return SocketVerdict::Passes(no_named_receivers);
            }
            messages::send(judge, request, (number, flags, sent))
        }
        SocketCall::Listen(number, backlog) => {
            // Who connects is told by whom it was made to listen (SO_PEERCRED in unix(7)).
            let listen = || listen(judge, request, number, backlog);
            let listens = judge.rights.with_identity_of(request.target(), listen);
            zero(listens.inspect_err(|errno| report_unshared(judge, request, number, *errno)))
        }
        SocketCall::Shutdown(number, how) => zero(shutdown(judge, request, number, how)),
        SocketCall::ShareAddress(number, value, length) => {
            zero(share_address(judge, request, number, (value, length)))
        }
        SocketCall::DatagramPair(kind, numbers) => zero(pair(judge, request, kind, numbers)),
    })
}

fn connect(
    judge: &Judge,
    request: &Request<'_>,
    number: TargetFd,
    (address, length): (TargetAddress, u32),
) -> Connected {
    let target = request.target();
    let address = Address::copy(target, address, length)?;
    let address = match judge.rules.allow_network {
        true => address,
        false => Address::of_bytes(address::written_out(address.as_bytes().to_vec())),
    };
    let endpoint = Endpoint::parse(address.as_bytes())?;
    // Once: another thread can put another socket there.
    let duplicate = judge.own.held.duplicate(target, number);
    if matches!(endpoint, Endpoint::Internet(_) | Endpoint::Unspecified)
        && let Some(socket) = udp::one_of(judge, &duplicate)
    {
        let socket = (number, socket.as_fd());
        return udp::connect(judge, request, socket, &address, &endpoint).map(|()| None);
    }
    must_be_free_to_reach(judge, target, &endpoint)?;
    let is_replaced = duplicate.is_err();
    let connect = || connect_to(judge, request, (number, duplicate), (address, &endpoint));
    match endpoint {
        // Finding a path is a right: it must be the target's own.
        Endpoint::UnixPath(_) => judge.rights.with_those_of(target, connect),
        // The kernel knows whose a socket is by who made it.
        _ if is_replaced => judge.rights.with_identity_of(target, connect),
        _ => connect(),
    }
}

fn connect_to(
    judge: &Judge,
    request: &Request<'_>,
    (number, duplicate): (TargetFd, io::Result<OwnedFd>),
    (address, endpoint): (Address, &Endpoint),
) -> Connected {
    let target = request.target();
    let reach = judge.judge(request, AddressUse::Connect, endpoint)?;
    let name = || endpoint.describe();
    let socket = match judge.take((target, number), duplicate, NetworkOperation::Connect, name) {
        // Decided since the last call was interrupted, or did not wait.
        Err(Errno::ISCONN) if request.confirm().is_ok() => {
            let told = judge.own.held.tell(target, number);
            return if told { Ok(None) } else { Err(Errno::ISCONN) };
        }
        socket => socket?,
    };
    let by = request.confirm()?;
    connects::connect(judge, (request, by), (socket, number), (address, endpoint), reach)
}

fn bind(
    judge: &Judge,
    request: &Request<'_>,
    number: TargetFd,
    (address, length): (TargetAddress, u32),
) -> io::Result<()> {
    let target = request.target();
    let address = Address::copy(target, address, length)?;
    let endpoint = Endpoint::parse(address.as_bytes())?;
    let rules = &judge.rules;
    if !matches!(endpoint, Endpoint::UnixPath(_)) {
        judge.must_be_permitted(NetworkOperation::Bind, || endpoint.describe())?;
    }
    let duplicate = judge.own.held.duplicate(target, number);
    if let Some(socket) = udp::one_of(judge, &duplicate) {
        return udp::bind(judge, request, (number, socket.as_fd()), &address, &endpoint);
    }
    must_be_free_to_reach(judge, target, &endpoint)?;
    let reach = judge.judge(request, AddressUse::Bind, &endpoint)?;
    let name = || endpoint.describe();
    let socket = judge.take((target, number), duplicate, NetworkOperation::Bind, name)?;
    let by = request.confirm()?;
    let address = match endpoint {
        Endpoint::Internet(wanted) if socket.is_internet() && !rules.allow_network => {
            judge.must_be_alone(wanted)?;
            if wanted == ANY_PORT { address.at_port(free_port(judge)?) } else { address }
        }
        _ => address,
    };
    let is_own = rules.local_binding && matches!(reach, Reach::Place(..));
    let binding = is_own.then(|| judge.own.held.begin_to_bind());
    let bind = || match &reach {
        // Landlock grants nothing: the directory that was judged is what confines it.
        Reach::Place(place, Decider::Broker) => place.bind_in_directory(by, &socket),
        // Only so its file is known afterwards.
        Reach::Place(place, _) if is_own && place.has_subvolumes => {
            place.bind_in_directory(by, &socket)
        }
        Reach::Place(place, Decider::Landlock) => place.bind(by, &socket, judge.ruleset.as_fd()),
        Reach::Narrowed => socket.bind_narrowed(by, &address),
        _ => socket.bind(by, &address),
    };
    take_when_free(request, bind, || {
        judge.own.held.release_closed();
        matches!(endpoint, Endpoint::Internet(address) if judge.own.is_leaving(address.port()))
    })?;
    if let Reach::Place(place, _) = &reach
        && is_own
        // If its file cannot be told, it is not reached.
        && let Err(errno) = judge.own.paths.add(&socket, place)
    {
        judge.traps.log(&format!("a socket of the command's own is not known: {errno}"));
    }
    drop(binding); // What follows waits for the target.
    judge.note_bind(target, (&socket, &endpoint, &reach));
    put_in_place(judge, by, number, &socket)
}

/// A port of the kernel's choice at `::1`.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);

/// What the kernel chooses for [`ANY_PORT`] that is no other program's at 127.0.0.1 either: the command's server could not
/// listen there.
fn free_port(judge: &Judge) -> io::Result<u16> {
    let mut port = 0;
    for _ in 0..PORTS_TRIED {
        let (family, flags) = (AddressFamily::INET6, SocketFlags::CLOEXEC);
        let scout = net::socket_with(family, SocketType::STREAM, flags, None)?;
        net::bind(&scout, &ANY_PORT)?;
        port = local_address(&scout)?.port();
        if judge.must_be_alone(SocketAddr::new(ANY_PORT.ip(), port)).is_ok() {
            break;
        }
    }
    Ok(port)
}

/// Checks that no Landlock domain of the target's own can forbid what the broker does for it.
///
/// # Errors
/// Returns [`Errno::ACCESS`] if one can.
fn must_be_free_to_reach(judge: &Judge, target: Target, endpoint: &Endpoint) -> io::Result<()> {
    match (judge.rights.domains.of(target)?, endpoint) {
        (NestedLandlock::None, _)
        | (NestedLandlock::Files, Endpoint::Internet(_) | Endpoint::Unspecified) => Ok(()),
        _ => Err(Errno::ACCESS),
    }
}

/// Gives the target, for good, a socket of the broker's own that is bound.
fn put_in_place(
    judge: &Judge,
    by: Confirmed<'_>,
    number: TargetFd,
    socket: &Socket,
) -> io::Result<()> {
    if socket.is_stand_in() {
        socket.put_in_place(by)?;
        judge.own.held.keep(by.target(), number, socket)?;
    }
    judge.own.held.note_bound(socket);
    Ok(())
}

fn listen(judge: &Judge, request: &Request<'_>, number: TargetFd, backlog: i32) -> io::Result<()> {
    let target = request.target();
    let rules = &judge.rules;
    let duplicate = judge.own.held.duplicate(target, number);
    if udp::one_of(judge, &duplicate).is_some() {
        return Err(Errno::OPNOTSUPP);
    }
    let any_address = rules.allow_network;
    let socket = if any_address || rules.any_path() {
        let name = || b"socket".to_vec();
        Some(judge.take((target, number), duplicate, NetworkOperation::Bind, name)?)
    } else {
        None
    };
    let by = request.confirm()?;
    // A connect that fails leaves a Unix socket that passes credentials with an abstract name, by
    // which others would reach it (unix_autobind in net/unix/af_unix.c). It never gets a path then.
    let may_listen = |socket: &Socket| match socket.is_unix() {
        true => socket.has_path(),
        false => any_address || rules.local_binding && !judge.ports().is_of_others(socket),
    };
    let Some(socket) = socket.filter(may_listen) else {
        let name = target.duplicate(number).map_or_else(|_| b"socket".to_vec(), local_name);
        judge.traps.report(Denial::Network(NetworkOperation::Bind, name), "listen");
        return Err(Errno::ACCESS);
    };
    judge.must_be_permitted(NetworkOperation::Bind, || local_name(&socket))?;
    let is_server = socket.is_internet() && !any_address;
    if is_server {
        // A port of the kernel's choice is known only now.
        judge.must_be_alone(socket.local_address()?)?;
    }
    // Before it listens: this waits for the target, and the ports for nobody.
    put_in_place(judge, by, number, &socket)?;
    let mut ports = judge.ports_once_free(request, &socket)?;
    let is_new = is_server && Socket::listening_cookie(&socket).is_none();
    let _nobody_is_there = is_new.then(|| ports.prepare(&socket)).transpose()?;
    socket.listen(by, backlog, any_address)?;
    if let Ok(own) = socket.local_address() {
        judge.note(target, Permitted::Listen(own.port()));
    }
    if !is_new {
        return Ok(());
    }
    drop(ports);
    let reached = Reached::of(&socket, is_connected_to)?;
    judge.ports().add((target, number), &socket, reached)
}

/// shutdown, of which the filter notifies what can end listening.
fn shutdown(judge: &Judge, request: &Request<'_>, number: TargetFd, how: i32) -> io::Result<()> {
    let how = match how {
        0 => Shutdown::Read,
        2 => Shutdown::Both,
        _ => return Err(Errno::INVAL),
    };
    let socket = judge.own.held.duplicate(request.target(), number)?;
    request.confirm()?;
    let mut ports = judge.ports_once_free(request, &socket)?;
    ports.before_given_up(&socket);
    net::shutdown(&socket, how)
}

/// socket(2), which registers decide. One of a permitted kind, where the broker could not get at it
/// later, it makes; but not for a target with other credentials, nor where it cannot.
pub(crate) fn make_socket(
    judge: &Judge,
    request: &Request<'_>,
    kind: SocketKind,
    flags: SocketFlags,
) -> RegisterVerdict {
    let rules = &judge.rules;
    if !kind.is_permitted(rules) {
        return refuse(judge, kind);
    }
    if rules.unix.datagrams && kind.is_unix_datagram() {
        // It sends to whom a message names.
        judge.sendmsg_gate.end(request)?;
        // CONTINUE: registers decide on the kind; from now on the broker sends every message.
        return CONTINUE;
    }
    let is_mute = kind.is_mute(rules);
    let is_open = is_mute && rules.own_datagrams() && judge.sendmsg_gate.has_ended();
    // Such a one is the same, whoever makes it.
    let alike = if is_mute { Ok(true) } else { judge.rights.are_credentials_of(request.target()) };
    let made = alike.and_then(|alike| match alike {
        true if is_open => udp::open(kind, flags),
        true => make(kind, flags, rules),
        false => Err(Errno::ACCESS),
    });
    let socket = match made {
        Ok(socket) => socket,
        // The kernel would make one that is not mute.
        Err(errno) if is_mute => return Err(errno),
        // CONTINUE: registers decide on the kind, which is permitted; its addresses are judged when it is used.
        Err(_) => return CONTINUE,
    };
    let number = request.give(socket.as_fd(), flags.contains(SocketFlags::CLOEXEC));
    if let Ok(number) = number
        && target::duplicates_are_refused()
    {
        // Before the target can use it. If it cannot be kept, one is put in its place then.
        let _ = judge.own.held.keep(request.target(), number, socket);
    }
    number.map(|number| Some(number.raw()))
}

/// SO_REUSEADDR, by which a server of TCP takes a port that connections are left on. By one of UDP another
/// program's could share it, and have what is sent to it: nothing is done then.
fn share_address(
    judge: &Judge,
    request: &Request<'_>,
    number: TargetFd,
    (value, length): (TargetAddress, u32),
) -> io::Result<()> {
    if length < 4 {
        return Err(Errno::INVAL);
    }
    let is_on = i32::from_ne_bytes(request.target().read_array(value)?) != 0;
    let socket = judge.own.held.duplicate(request.target(), number);
    request.confirm()?;
    match udp::one_of(judge, &socket) {
        Some(_) => Ok(()),
        None => sockopt::set_socket_reuseaddr(socket?, is_on),
    }
}

/// Reports that a port is not shared, if that can be why one is in use.
fn report_unshared(judge: &Judge, request: &Request<'_>, number: TargetFd, errno: Errno) {
    let is_of_unix = || {
        let socket = judge.own.held.duplicate(request.target(), number);
        socket.and_then(sockopt::socket_domain) == Ok(AddressFamily::UNIX)
    };
    if errno == Errno::ADDRINUSE && judge.own.has_unshared.load(Ordering::Relaxed) && !is_of_unix()
    {
        report_option(judge, NetworkOperation::Bind, option::SHARE_PORT);
    }
}

fn report_option(judge: &Judge, operation: NetworkOperation, option: (i32, i32)) {
    if let Some(name) = judge.traps.sink().name_of_option(option) {
        judge.traps.report(Denial::Network(operation, name), "socket option");
    }
}

/// An option that cannot be set fails as on a kernel that lacks it. Not SO_REUSEPORT, by which servers share a port,
/// another program's among them: nothing is done, for most that set it are alone at theirs, and the second there fails.
pub(crate) fn pass_over(judge: &Judge, level: i32, option: i32) -> RegisterVerdict {
    if (level, option) == option::SHARE_PORT {
        judge.own.has_unshared.store(true, Ordering::Relaxed);
        return Ok(Some(0));
    }
    report_option(judge, NetworkOperation::Connect, (level, option));
    Err(Errno::NOPROTOOPT)
}

/// Refuses a socket or a pair of this kind.
pub(crate) fn refuse(judge: &Judge, kind: SocketKind) -> RegisterVerdict {
    let denial = Denial::Network(NetworkOperation::Connect, judge.traps.sink().name_of_kind(kind));
    judge.traps.report(denial, "socket family");
    Err(kind.refusal())
}

/// socketpair of datagram sockets: the target gets a pair of seqpacket ones. They keep messages
/// apart too, but ignore addresses, where a datagram socket sends to any it is told. Once the broker judges
/// every message, it gets what it asks for.
///
/// If the target may have only one more descriptor, it keeps the one that it got first.
fn pair(judge: &Judge, request: &Request<'_>, kind: i32, numbers: TargetAddress) -> io::Result<()> {
    let flags = SocketFlags::from_bits_retain(kind.cast_unsigned() & !0xf);
    if !(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).contains(flags) {
        return Err(Errno::INVAL);
    }
    let memory = request.target().memory()?;
    let ours = flags | SocketFlags::CLOEXEC;
    let kind = match judge.rules.unix.datagrams && judge.sendmsg_gate.has_ended() {
        true => SocketType::DGRAM,
        false => SocketType::SEQPACKET,
    };
    // Each tells who made it (SO_PEERCRED in unix(7)).
    let make = || net::socketpair(AddressFamily::UNIX, kind, ours, None);
    let (one, two) = judge.rights.with_identity_of(request.target(), make)?;
    // Before anything is handed over: what is, cannot be taken back.
    request.write(&memory, numbers, &[0xff; 8])?;
    let close_on_exec = flags.contains(SocketFlags::CLOEXEC);
    let mut written = Vec::with_capacity(8);
    for socket in [&one, &two] {
        let number = request.give(socket.as_fd(), close_on_exec)?;
        written.extend(number.raw().to_ne_bytes());
    }
    request.write(&memory, numbers, &written)
}

/// The local address of a socket, for the report of a refused listen.
fn local_name(socket: impl AsFd) -> Vec<u8> {
    let name = net::getsockname(socket);
    let path = name.clone().and_then(SocketAddrUnix::try_from);
    let path = path.ok().and_then(|address| Some(address.path_bytes()?.to_vec()));
    let address = name.and_then(SocketAddr::try_from).map(|address| address.to_string());
    path.unwrap_or_else(|| address.unwrap_or_else(|_| "socket".to_owned()).into_bytes())
}
