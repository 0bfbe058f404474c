//! Which kind a socket is of, and the making of one for the command.

use super::inert_udp::mute;
use rules::address::AddressRules;
use rules::socket::SocketKind;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, Protocol, SocketFlags, SocketType, sockopt};
use std::num::NonZeroU32;

/// What kind of socket it is.
///
/// # Errors
/// Returns [`Errno::NOTSOCK`] as calls on sockets do.
pub(super) fn kind_of(socket: impl AsFd) -> io::Result<SocketKind> {
    let family = sockopt::socket_domain(&socket)?;
    Ok(SocketKind {
        domain: family.as_raw().into(),
        kind: sockopt::socket_type(&socket)?.as_raw().cast_signed(),
        // Unix sockets have none.
        protocol: match family {
            AddressFamily::UNIX => 0,
            _ => sockopt::socket_protocol(&socket)?
                .map_or(0, |protocol| protocol.as_raw().get().cast_signed()),
        },
    })
}

/// Makes a socket for the command. `flags` are those of the type. It is mute where the rules say so.
pub(super) fn make(
    kind: SocketKind,
    flags: SocketFlags,
    rules: &AddressRules,
) -> io::Result<OwnedFd> {
    let socket = make_open(kind, flags)?;
    if kind.is_mute(rules) {
        mute(&socket)?;
    }
    Ok(socket)
}

/// The same, but never mute. The command has none of the broker's rights in it: socket(2) takes numbers only.
pub(super) fn make_open(kind: SocketKind, flags: SocketFlags) -> io::Result<OwnedFd> {
    let family = u16::try_from(kind.domain).map_err(|_| Errno::AFNOSUPPORT)?;
    let of = SocketType::from_raw(kind.kind.cast_unsigned());
    let protocol = NonZeroU32::new(kind.protocol.cast_unsigned()).map(Protocol::from_raw);
    let flags = flags | SocketFlags::CLOEXEC;
    net::socket_with(AddressFamily::from_raw(family), of, flags, protocol)
}

/// Whether a socket is acted on: one that the command can have, with addresses that it can use. One that
/// is to be mute has none, and would no more be so ([`super::inert_udp`]).
pub(super) fn is_of_use(kind: SocketKind, rules: &AddressRules) -> bool {
    kind.is_permitted(rules) && !kind.is_mute(rules) && (!kind.is_unix() || rules.any_path())
}
