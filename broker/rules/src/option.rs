//! Options of sockets that the command cannot set, as far as a program misses them: how a report names them. Pure.
//!
//! Not those that programs try and do without: other protocols in the kernel, sizes beyond the limits, and what is newer
//! than they rely on. What is refused, and why, stands in the filter's table.

use nix::libc::{IPPROTO_IPV6, SO_REUSEADDR, SO_REUSEPORT, SOL_IP, SOL_SOCKET};

/// Level, number and name: include/uapi/asm-generic/socket.h, linux/in.h, in6.h.
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

/// What a report names such an option by.
pub const OPTION: &str = "option ";
/// By which servers take a port that connections are left on, and by which they share one.
pub const SHARE_ADDRESS: (i32, i32) = (SOL_SOCKET, SO_REUSEADDR);
pub const SHARE_PORT: (i32, i32) = (SOL_SOCKET, SO_REUSEPORT);

/// What this option is called, if a program misses it.
pub fn missed(level: i32, option: i32) -> Option<&'static str> {
    MISSED.iter().find(|missed| (missed.0, missed.1) == (level, option)).map(|missed| missed.2)
}
