//! How reports name kinds and options of sockets. Pure.

use rules::option::SHARE_PORT;
use rules::socket::SocketKind;

const SOL_IP: i32 = 0;
const SOL_SOCKET: i32 = 1;
const IPPROTO_IPV6: i32 = 41;

/// Options that the command cannot set, as far as a program misses them: level, number and name
/// (include/uapi/asm-generic/socket.h, linux/in.h, in6.h). Not those that programs try and do without: other protocols in
/// the kernel, sizes beyond the limits, and what is newer than they rely on. What is refused, and why, stands in the
/// filter's table.
#[rustfmt::skip]
const MISSED: [(i32, i32, &str); 22] = [
    (SOL_SOCKET, 25, "SO_BINDTODEVICE"), (SOL_SOCKET, 26, "SO_ATTACH_FILTER"), (SOL_SOCKET, 36, "SO_MARK"),
    (SOL_SOCKET, 50, "SO_ATTACH_BPF"), (SOL_SOCKET, 62, "SO_BINDTOIFINDEX"),
    (SOL_IP, 4, "IP_OPTIONS"), (SOL_IP, 15, "IP_FREEBIND"), (SOL_IP, 19, "IP_TRANSPARENT"),
    (SOL_IP, 32, "IP_MULTICAST_IF"), (SOL_IP, 33, "IP_MULTICAST_TTL"), (SOL_IP, 34, "IP_MULTICAST_LOOP"),
    (SOL_IP, 35, "IP_ADD_MEMBERSHIP"), (SOL_IP, 39, "IP_ADD_SOURCE_MEMBERSHIP"), (SOL_IP, 42, "MCAST_JOIN_GROUP"),
    (SOL_IP, 46, "MCAST_JOIN_SOURCE_GROUP"),
    (IPPROTO_IPV6, 17, "IPV6_MULTICAST_IF"), (IPPROTO_IPV6, 19, "IPV6_MULTICAST_LOOP"),
    (IPPROTO_IPV6, 20, "IPV6_ADD_MEMBERSHIP"), (IPPROTO_IPV6, 27, "IPV6_JOIN_ANYCAST"),
    (IPPROTO_IPV6, 42, "MCAST_JOIN_GROUP"), (IPPROTO_IPV6, 46, "MCAST_JOIN_SOURCE_GROUP"),
    (IPPROTO_IPV6, 75, "IPV6_TRANSPARENT"),
];

/// What the name of an option begins with.
pub const OPTION: &str = "option ";

/// An option, by level and number, if a program misses it.
pub(super) fn option(option: (i32, i32)) -> Option<Vec<u8>> {
    let missed = MISSED.iter().find(|missed| (missed.0, missed.1) == option);
    let name = missed.map(|missed| missed.2).or((option == SHARE_PORT).then_some("SO_REUSEPORT"))?;
    Some([OPTION, name].concat().into_bytes())
}

/// A kind of sockets.
pub(super) fn kind(of: SocketKind) -> Vec<u8> {
    let name = |number: i32, names: &[(i32, &str)], other: &str| {
        let known = names.iter().find(|known| known.0 == number);
        known.map_or_else(|| format!("{other} {number}"), |known| known.1.to_owned())
    };
    let domain = name(of.domain, &FAMILIES, "family");
    let kind = name(of.kind, &TYPES, "type");
    format!("{domain} {kind} protocol {}", of.protocol).into_bytes()
}

/// linux/socket.h, linux/net.h.
#[rustfmt::skip]
const FAMILIES: [(i32, &str); 7] = [
    (1, "unix"), (2, "inet"), (10, "inet6"), (16, "netlink"), (17, "packet"), (38, "alg"), (40, "vsock"),
];
const TYPES: [(i32, &str); 4] = [(1, "stream"), (2, "datagram"), (3, "raw"), (5, "seqpacket")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_options_have_names_and_others_numbers() {
        let of = |domain, kind, protocol| {
            String::from_utf8(super::kind(SocketKind { domain, kind, protocol }))
        };
        assert_eq!(of(17, 3, 768).as_deref(), Ok("packet raw protocol 768"));
        assert_eq!(of(44, 9, 0).as_deref(), Ok("family 44 type 9 protocol 0"));
        assert_eq!(option((1, 36)).as_deref(), Some(&b"option SO_MARK"[..]));
        assert_eq!(option((0, 36)), None);
        assert_eq!(option(SHARE_PORT).as_deref(), Some(&b"option SO_REUSEPORT"[..]));
    }
}
