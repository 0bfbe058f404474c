//! Which kinds of sockets the command can have: what the filter's row for socket(2) allows, for
//! where the broker makes them, or is handed one that it did not make.

use super::address::AddressRules;
use nix::libc;
use rustix::io::Errno;

/// What socket(2) is asked for, without the flags of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketKind {
    pub domain: i32,
    pub kind: i32,
    pub protocol: i32,
}

impl SocketKind {
    /// The kind whose protocol the kernel calls `name` (`system.sockprotoname`), as far as that tells
    /// it: seqpacket sockets have the name of datagram ones.
    pub fn named(name: &[u8]) -> Option<Self> {
        use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};
        let (domain, kind, protocol) = match name {
            b"TCP" => (AF_INET, SOCK_STREAM, libc::IPPROTO_TCP),
            b"TCPv6" => (AF_INET6, SOCK_STREAM, libc::IPPROTO_TCP),
            b"MPTCP" => (AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP),
            b"MPTCPv6" => (AF_INET6, SOCK_STREAM, libc::IPPROTO_MPTCP),
            b"UDP" => (AF_INET, SOCK_DGRAM, libc::IPPROTO_UDP),
            b"UDPv6" => (AF_INET6, SOCK_DGRAM, libc::IPPROTO_UDP),
            b"NETLINK" => (AF_NETLINK, SOCK_RAW, libc::NETLINK_ROUTE),
            b"UNIX-STREAM" => (AF_UNIX, SOCK_STREAM, 0),
            _ => return None,
        };
        Some(Self { domain, kind, protocol })
    }

    /// Whether it is a Unix socket.
    pub fn is_unix(self) -> bool {
        self.domain == libc::AF_UNIX
    }

    /// Whether it is a Unix socket that sends to whom a message names.
    pub fn is_unix_datagram(self) -> bool {
        self.is_unix() && self.kind == libc::SOCK_DGRAM
    }

    /// Whether it is one of UDP.
    pub fn is_udp(self) -> bool {
        [libc::AF_INET, libc::AF_INET6].contains(&self.domain)
            && self.kind == libc::SOCK_DGRAM
            && [0, libc::IPPROTO_UDP].contains(&self.protocol)
    }

    /// Whether it gets no way to send: no rule knows an address for one of UDP.
    pub fn is_mute(self, rules: &AddressRules) -> bool {
        self.is_udp() && !rules.allow_network
    }

    /// Whether the command can have such a socket.
    pub fn is_permitted(self, rules: &AddressRules) -> bool {
        let Self { domain, kind, protocol } = self;
        match domain {
            libc::AF_UNIX => {
                let connected = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].contains(&kind);
                (connected || rules.unix.any_datagram() && kind == libc::SOCK_DGRAM)
                    && [0, libc::PF_UNIX].contains(&protocol)
            }
            libc::AF_INET | libc::AF_INET6 => {
                let is_tcp =
                    kind == libc::SOCK_STREAM && [0, libc::IPPROTO_TCP].contains(&protocol);
                rules.allow_network || is_tcp || self.is_udp()
            }
            libc::AF_NETLINK => {
                [libc::SOCK_RAW, libc::SOCK_DGRAM].contains(&kind)
                    && protocol == libc::NETLINK_ROUTE
            }
            _ => false,
        }
    }

    /// What a program gets that asks for one that is refused: as from a kernel without the family, or
    /// without permission for one that exists everywhere. Those who find no multipath TCP do with TCP.
    pub fn refusal(self) -> Errno {
        match self.domain {
            libc::AF_INET | libc::AF_INET6 if self.protocol == libc::IPPROTO_MPTCP => {
                Errno::PROTONOSUPPORT
            }
            libc::AF_UNIX | libc::AF_INET | libc::AF_INET6 => Errno::ACCESS,
            _ => Errno::AFNOSUPPORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::UnixRules;
    use landstrip_filter::{Arch, Program, Syscall, Variant};

    #[test]
    fn what_is_permitted_is_what_the_filter_allows() {
        for (allow_network, all) in [(false, false), (false, true), (true, false), (true, true)] {
            let unix = UnixRules { all, ..UnixRules::default() };
            let rules = AddressRules { allow_network, unix, ..AddressRules::default() };
            let mut variant = Variant::empty();
            variant.set(Variant::ALLOW_NETWORK, allow_network);
            variant.set(Variant::ALL_UNIX_SOCKETS, all);
            let program = Program::compile(Arch::NATIVE, variant).unwrap();
            for domain in 0..=46 {
                for kind in 0..=15 {
                    for protocol in [0, 1, 2, 6, 9, 15, 17, 132, 255, 262, -1] {
                        let socket_kind = SocketKind { domain, kind, protocol };
                        let arguments = [domain, kind, protocol].map(i32::cast_unsigned);
                        let allowed = program.allows(Syscall::socket, &arguments);
                        // Those that are mute are made by the broker.
                        assert_eq!(
                            socket_kind.is_permitted(&rules) && !socket_kind.is_mute(&rules),
                            allowed,
                            "{variant:?} {socket_kind:?}"
                        );
                    }
                }
            }
        }
    }
}
