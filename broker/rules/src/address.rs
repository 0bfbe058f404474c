//! Socket addresses: from the bytes of a `sockaddr` to a verdict.
//!
//! Sources: ip(7), ipv6(7), unix(7), netlink(7); the kernel's own length checks in
//! net/ipv4/af_inet.c and net/ipv6/af_inet6.c.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const AF_UNSPEC: u16 = 0;
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const AF_NETLINK: u16 = 16;

/// `sizeof(struct sockaddr_un)` (unix(7)).
const UNIX_ADDRESS_MAX: usize = 110;

/// The address argument of connect(2) or bind(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// IPv4 or IPv6; an IPv4-mapped IPv6 address stays IPv6 here.
    Internet(SocketAddr),
    /// A pathname socket.
    UnixPath(Vec<u8>),
    /// An abstract name, without its leading NUL.
    UnixAbstract(Vec<u8>),
    /// An AF_UNIX address without a name: binding it chooses an abstract one.
    UnixUnnamed,
    /// AF_UNSPEC: dissolves an association.
    Unspecified,
    /// AF_NETLINK.
    Netlink,
    /// Any other family.
    Other(u16),
}

impl Endpoint {
    /// Parses a `sockaddr` of exactly the length that the caller gave.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] for a length that the kernel refuses too.
    pub fn parse(bytes: &[u8]) -> Result<Self, Errno> {
        let (&[a, b], rest) = bytes.split_first_chunk().ok_or(Errno::INVAL)?;
        match u16::from_ne_bytes([a, b]) {
            AF_UNSPEC => Ok(Self::Unspecified),
            AF_INET => {
                let &[p, q, a, b, c, d, ..] = rest.first_chunk::<14>().ok_or(Errno::INVAL)?;
                let port = u16::from_be_bytes([p, q]);
                Ok(Self::Internet((Ipv4Addr::new(a, b, c, d), port).into()))
            }
            // SIN6_LEN_RFC2133: the scope may be missing.
            AF_INET6 => {
                let &[p, q, _, _, _, _, ref address @ ..] =
                    rest.first_chunk::<22>().ok_or(Errno::INVAL)?;
                let port = u16::from_be_bytes([p, q]);
                Ok(Self::Internet((Ipv6Addr::from(*address), port).into()))
            }
            AF_UNIX if bytes.len() > UNIX_ADDRESS_MAX => Err(Errno::INVAL),
            AF_UNIX => Ok(match rest {
                [] => Self::UnixUnnamed,
                [0, name @ ..] => Self::UnixAbstract(name.to_vec()),
                path => {
                    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
                    Self::UnixPath(path[..end].to_vec())
                }
            }),
            AF_NETLINK => Ok(Self::Netlink),
            other => Ok(Self::Other(other)),
        }
    }

    /// How a report names it.
    pub fn describe(&self) -> Vec<u8> {
        match self {
            Self::Internet(address) => address.to_string().into_bytes(),
            Self::UnixPath(path) => path.clone(),
            // Programs that take the whole field for a name fill it up with NULs.
            Self::UnixAbstract(name) => {
                let end = name.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                [b"@", &name[..end]].concat()
            }
            Self::UnixUnnamed => b"unix".to_vec(),
            Self::Unspecified => b"unspecified".to_vec(),
            Self::Netlink => b"netlink".to_vec(),
            Self::Other(family) => format!("family {family}").into_bytes(),
        }
    }
}

/// What of the policy decides on addresses.
#[derive(Clone, Debug, Default)]
pub struct AddressRules {
    /// IP networking is not restricted.
    pub allow_network: bool,
    /// Ports on loopback addresses that may be connected to.
    pub loopback_ports: Vec<u16>,
    /// Where landstrip's own proxies listen.
    pub proxies: Vec<SocketAddr>,
    /// Loopback addresses, and paths that may be written, may be bound, and connected to where the sandbox
    /// itself has bound them.
    pub local_binding: bool,
    /// Pathname sockets.
    pub unix: UnixRules,
}

/// Which pathname sockets may be connected to and bound.
#[derive(Clone, Debug, Default)]
pub struct UnixRules {
    /// Every one.
    pub all: bool,
    /// These, by canonical path, and what is in the directories among them.
    pub paths: Vec<PathBuf>,
    /// Those of `paths` that were there at launch, by device and inode number, and held: what else has
    /// their names later may have been put there.
    pub known: Arc<HashMap<(u64, u64), OwnedFd>>,
    /// A datagram socket is among them, or a standard stream, or the command may have servers of its own: it
    /// may make such sockets, and the broker sends.
    pub datagrams: bool,
    /// A standard stream sends to whom a message names.
    pub streams_send: bool,
    /// Landlock does not keep sockets from abstract names outside: none sends by itself to a name.
    pub reach_abstract: bool,
}

/// What becomes of a call with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressVerdict {
    /// It is performed with this address.
    Perform,
    /// connect: only if the sandbox itself listens on this loopback address.
    OwnPort(SocketAddr),
    /// bind: to a loopback address in the place of the unspecified one.
    Narrow,
    /// What the path leads to decides.
    ByPath,
    /// It fails with EACCES.
    Refuse,
}

impl AddressRules {
    /// Whether sockets of UDP can have an address: on loopback, to reach one another.
    pub fn own_datagrams(&self) -> bool {
        self.local_binding && self.unix.datagrams && !self.allow_network
    }

    /// Whether there can be a pathname socket that may be used: a listed one, or one of the sandbox's own. By it somebody
    /// outside can be met, who can pass descriptors (unix(7), SCM_RIGHTS).
    pub fn any_path(&self) -> bool {
        self.local_binding || self.unix.any()
    }

    /// Whether a socket may be connected to `endpoint`.
    pub fn connect(&self, endpoint: &Endpoint) -> AddressVerdict {
        match endpoint {
            Endpoint::Internet(_) if self.allow_network => AddressVerdict::Perform,
            Endpoint::Internet(address) => match canonical(*address) {
                to if self.proxies.contains(&to) => AddressVerdict::Perform,
                to if !to.ip().is_loopback() => AddressVerdict::Refuse,
                to if self.loopback_ports.contains(&to.port()) => AddressVerdict::Perform,
                to if self.local_binding => AddressVerdict::OwnPort(to),
                _ => AddressVerdict::Refuse,
            },
            // Dissolving an association reaches nobody; route queries have no peer but the kernel.
            Endpoint::Unspecified | Endpoint::Netlink => AddressVerdict::Perform,
            Endpoint::UnixPath(_) if self.any_path() => AddressVerdict::ByPath,
            _ => AddressVerdict::Refuse,
        }
    }

    /// Whether a socket may be bound to `endpoint`.
    pub fn bind(&self, endpoint: &Endpoint) -> AddressVerdict {
        match endpoint {
            Endpoint::Internet(_) | Endpoint::Unspecified if self.allow_network => {
                AddressVerdict::Perform
            }
            Endpoint::Internet(address) if self.local_binding => match canonical(*address).ip() {
                ip if ip.is_loopback() => AddressVerdict::Perform,
                // What servers bind by default: python3 -m http.server 0.0.0.0, node, Go and
                // Java `::` for both families. They mean to be reached, and are, from here.
                ip if ip.is_unspecified() => AddressVerdict::Narrow,
                _ => AddressVerdict::Refuse,
            },
            Endpoint::Netlink => AddressVerdict::Perform,
            Endpoint::UnixPath(_) if self.any_path() => AddressVerdict::ByPath,
            _ => AddressVerdict::Refuse,
        }
    }
}

impl UnixRules {
    /// Whether any pathname socket may be used.
    pub fn any(&self) -> bool {
        self.all || !self.paths.is_empty()
    }

    /// Whether there can be datagram sockets.
    pub fn any_datagram(&self) -> bool {
        self.all && !self.reach_abstract || self.datagrams
    }

    /// Whether the socket with this canonical path may be used.
    pub fn permit(&self, path: &Path) -> bool {
        self.all || path.is_absolute() && self.paths.iter().any(|listed| path.starts_with(listed))
    }
}

/// The bytes of `bytes`, a `sockaddr` of the internet, with a loopback address in the place of its
/// own. A socket for both families gets the IPv4 one: most clients of such servers use it, and those
/// that try ::1 first go on to it.
pub fn narrowed(mut bytes: Vec<u8>, only_v6: bool) -> Vec<u8> {
    let v4 = Ipv4Addr::LOCALHOST;
    let v6 = if only_v6 { Ipv6Addr::LOCALHOST } else { v4.to_ipv6_mapped() };
    let is_v4 = bytes.first_chunk().is_some_and(|&family| u16::from_ne_bytes(family) == AF_INET);
    if is_v4 {
        if let Some(part) = bytes.get_mut(4..8) {
            part.copy_from_slice(&v4.octets());
        }
    } else if let Some(part) = bytes.get_mut(8..24) {
        part.copy_from_slice(&v6.octets());
    }
    bytes
}

/// What connect(2) makes of an address: the unspecified one is that of this host (ip(7)), which is written
/// out, so that it is judged as what it leads to.
pub fn written_out(bytes: Vec<u8>) -> Vec<u8> {
    match Endpoint::parse(&bytes) {
        Ok(Endpoint::Internet(address)) if address.ip().to_canonical().is_unspecified() => {
            let is_v6 = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            narrowed(bytes, is_v6)
        }
        _ => bytes,
    }
}

/// The other address that `localhost` can mean, if it can mean this one (RFC 6761 section 6.3).
pub fn counterpart(address: SocketAddr) -> Option<SocketAddr> {
    let at = LOCALHOSTS.iter().position(|ip| *ip == address.ip().to_canonical())?;
    Some(SocketAddr::new(LOCALHOSTS[1 - at], address.port()))
}

/// The same address without the two ways to write an IPv4 one.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// 127.0.0.0/8, ::1, and the IPv4 ones mapped into IPv6. The unspecified addresses, which the kernel
/// takes for loopback in connect(2), are not among them.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The addresses of loopback.
const LOCALHOSTS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Where clients look for one of the command's own sockets that is bound at `bound`, a canonical address. The
/// unspecified one is that of a socket for both families on the loopback interface.
pub fn looked_for_at(bound: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    let ips = if bound.ip().is_unspecified() { LOCALHOSTS.to_vec() } else { vec![bound.ip()] };
    ips.into_iter().map(move |ip| SocketAddr::new(ip, bound.port()))
}

/// Whether the kernel takes `address`, a canonical one, for that of a socket which is bound so.
pub fn is_reached_at(bound: SocketAddr, address: SocketAddr) -> bool {
    // Most are told by their ports, of which a server that is asked about has thousands beside it.
    let is_for_all = || bound.ip().is_unspecified() && is_loopback(address.ip());
    bound.port() == address.port() && (bound == address || is_for_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(address: [u8; 4], port: u16) -> Vec<u8> {
        let mut bytes = AF_INET.to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend(address);
        bytes.extend([0; 8]);
        bytes
    }

    fn inet6(address: &str, port: u16) -> Vec<u8> {
        let mut bytes = AF_INET6.to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(address.parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend([0; 4]);
        bytes
    }

    fn unix(name: &[u8]) -> Vec<u8> {
        [&AF_UNIX.to_ne_bytes()[..], name].concat()
    }

    #[test]
    fn only_the_permitted_ports_on_loopback_are_reached() {
        let rules = AddressRules { loopback_ports: vec![3128], ..AddressRules::default() };
        use AddressVerdict::{Perform, Refuse};
        let cases = [
            (inet([127, 0, 0, 1], 3128), Perform),
            (inet([127, 255, 255, 254], 3128), Perform),
            (inet6("::1", 3128), Perform),
            (inet6("::ffff:127.0.0.1", 3128), Perform),
            (inet([127, 0, 0, 1], 3129), Refuse),
            (inet([0, 0, 0, 0], 3128), Refuse),
            (inet([10, 0, 0, 1], 3128), Refuse),
            (inet([128, 0, 0, 1], 3128), Refuse),
            (inet6("::", 3128), Refuse),
            (inet6("::ffff:0.0.0.0", 3128), Refuse),
            (inet6("::ffff:10.0.0.1", 3128), Refuse),
            // IPv4-compatible, not mapped: another address family in disguise.
            (inet6("::127.0.0.1", 3128), Refuse),
            (inet6("64:ff9b::7f00:1", 3128), Refuse),
            (unix(b"/run/docker.sock\0"), Refuse),
            (unix(b"\0abstract"), Refuse),
            (unix(b""), Refuse),
            (vec![40, 0, 0, 0], Refuse),
            (vec![0, 0], Perform),
        ];
        for (bytes, expected) in cases {
            let endpoint = Endpoint::parse(&bytes).unwrap();
            assert_eq!(rules.connect(&endpoint), expected, "{endpoint:?}");
        }
    }

    #[test]
    fn nothing_is_bound_by_default_but_route_sockets() {
        let rules = AddressRules::default();
        for bytes in [inet([127, 0, 0, 1], 0), inet6("::1", 80), unix(b"/tmp/x\0"), vec![0, 0]] {
            assert_eq!(rules.bind(&Endpoint::parse(&bytes).unwrap()), AddressVerdict::Refuse);
        }
        assert_eq!(rules.bind(&Endpoint::Netlink), AddressVerdict::Perform);
    }

    #[test]
    fn open_networking_still_refuses_unix_sockets() {
        let rules = AddressRules { allow_network: true, ..AddressRules::default() };
        assert_eq!(
            rules.connect(&Endpoint::parse(&inet([10, 0, 0, 1], 80)).unwrap()),
            AddressVerdict::Perform
        );
        assert_eq!(
            rules.bind(&Endpoint::parse(&inet([0, 0, 0, 0], 80)).unwrap()),
            AddressVerdict::Perform
        );
        for name in [&b"/x"[..], b"\0x", b""] {
            let endpoint = Endpoint::parse(&unix(name)).unwrap();
            assert_eq!(rules.connect(&endpoint), AddressVerdict::Refuse);
            assert_eq!(rules.bind(&endpoint), AddressVerdict::Refuse);
        }
    }

    #[test]
    fn local_binding_reaches_and_serves_loopback_only() {
        let rules = AddressRules {
            local_binding: true,
            loopback_ports: vec![3128],
            ..AddressRules::default()
        };
        use AddressVerdict::{ByPath, Narrow, OwnPort, Perform, Refuse};
        let own = |text: &str| OwnPort(text.parse().unwrap());
        let cases = [
            (inet([127, 0, 0, 1], 80), own("127.0.0.1:80"), Perform),
            (inet([127, 0, 0, 2], 80), own("127.0.0.2:80"), Perform),
            (inet6("::1", 80), own("[::1]:80"), Perform),
            (inet6("::ffff:127.0.0.1", 80), own("127.0.0.1:80"), Perform),
            (inet([127, 0, 0, 1], 3128), Perform, Perform),
            (inet([0, 0, 0, 0], 80), Refuse, Narrow),
            (inet6("::", 80), Refuse, Narrow),
            (inet6("::ffff:0.0.0.0", 80), Refuse, Narrow),
            (inet([10, 0, 0, 1], 80), Refuse, Refuse),
            (inet([255, 255, 255, 255], 80), Refuse, Refuse),
            (inet6("fe80::1", 80), Refuse, Refuse),
            (inet6("::127.0.0.1", 80), Refuse, Refuse),
            (unix(b"/x\0"), ByPath, ByPath),
            (unix(b"\0x"), Refuse, Refuse),
            (unix(b""), Refuse, Refuse),
        ];
        for (bytes, connect, bind) in cases {
            let endpoint = Endpoint::parse(&bytes).unwrap();
            assert_eq!((rules.connect(&endpoint), rules.bind(&endpoint)), (connect, bind));
        }
        assert_eq!(rules.bind(&Endpoint::Unspecified), Refuse, "an old spelling of 0.0.0.0");
    }

    #[test]
    fn the_unspecified_address_is_written_out_for_a_connect() {
        for (bytes, expected) in [
            (inet([0, 0, 0, 0], 80), "127.0.0.1:80"),
            (inet6("::", 80), "[::1]:80"),
            (inet6("::ffff:0.0.0.0", 80), "[::ffff:127.0.0.1]:80"),
            (inet([10, 0, 0, 1], 80), "10.0.0.1:80"),
            (inet6("::1", 80), "[::1]:80"),
        ] {
            let endpoint = Endpoint::parse(&written_out(bytes)).unwrap();
            assert_eq!(endpoint, Endpoint::Internet(expected.parse().unwrap()));
        }
        assert_eq!(written_out(unix(b"/run/x")), unix(b"/run/x"));
    }

    #[test]
    fn localhost_means_two_addresses() {
        for (one, other) in [
            ("127.0.0.1:80", Some("[::1]:80")),
            ("[::1]:80", Some("127.0.0.1:80")),
            ("[::ffff:127.0.0.1]:80", Some("[::1]:80")),
            ("127.0.0.2:80", None),
            ("[::]:80", None),
        ] {
            let other = other.map(|text| text.parse().unwrap());
            assert_eq!(counterpart(one.parse().unwrap()), other, "{one}");
        }
    }

    #[test]
    fn wildcards_are_narrowed_to_loopback_with_their_port() {
        for (bytes, only_v6, expected) in [
            (inet([0, 0, 0, 0], 80), false, "127.0.0.1:80"),
            (inet([0, 0, 0, 0], 80), true, "127.0.0.1:80"),
            (inet6("::", 80), false, "[::ffff:127.0.0.1]:80"),
            (inet6("::", 80), true, "[::1]:80"),
            (inet6("::ffff:0.0.0.0", 80), false, "[::ffff:127.0.0.1]:80"),
        ] {
            let endpoint = Endpoint::parse(&narrowed(bytes, only_v6)).unwrap();
            assert_eq!(endpoint, Endpoint::Internet(expected.parse().unwrap()));
        }
    }

    #[test]
    fn listed_sockets_and_those_in_listed_directories_are_permitted() {
        let paths = ["/run/a.sock", "/run/dir"].map(PathBuf::from).to_vec();
        let rules = UnixRules { paths, ..UnixRules::default() };
        for (path, expected) in [
            ("/run/a.sock", true),
            ("/run/dir/b", true),
            ("/run/dir/deep/b", true),
            ("/run/dir", true),
            ("/run/a.sock2", false),
            ("/run/a.sock (deleted)", false),
            ("/run/directory", false),
            ("/run", false),
            ("socket:[1]", false),
        ] {
            assert_eq!(rules.permit(Path::new(path)), expected, "{path}");
        }
        assert!(UnixRules { all: true, ..UnixRules::default() }.permit(Path::new("/anything")));
        assert!(!UnixRules::default().any());
    }

    #[test]
    fn names_without_a_path_are_refused_where_all_unix_sockets_are_allowed() {
        let unix_rules = UnixRules { all: true, ..UnixRules::default() };
        let rules = AddressRules { unix: unix_rules, ..AddressRules::default() };
        for (name, expected) in [
            (&b"/x\0"[..], AddressVerdict::ByPath),
            (b"\0x", AddressVerdict::Refuse),
            (b"", AddressVerdict::Refuse),
        ] {
            let endpoint = Endpoint::parse(&unix(name)).unwrap();
            assert_eq!(rules.connect(&endpoint), expected);
            assert_eq!(rules.bind(&endpoint), expected);
        }
    }

    #[test]
    fn short_addresses_are_refused_as_the_kernel_does() {
        for length in 0..2 {
            assert_eq!(Endpoint::parse(&inet([127, 0, 0, 1], 1)[..length]), Err(Errno::INVAL));
        }
        for length in 2..16 {
            assert_eq!(Endpoint::parse(&inet([127, 0, 0, 1], 1)[..length]), Err(Errno::INVAL));
        }
        for length in 2..24 {
            assert_eq!(Endpoint::parse(&inet6("::1", 1)[..length]), Err(Errno::INVAL));
        }
        assert!(Endpoint::parse(&inet6("::1", 1)[..24]).is_ok());
    }

    #[test]
    fn names_are_reported_as_a_policy_would_write_them() {
        let cases = [
            (inet([1, 2, 3, 4], 5), &b"1.2.3.4:5"[..]),
            (inet6("::1", 5), b"[::1]:5"),
            (unix(b"/run/x\0garbage"), b"/run/x"),
            (unix(b"\0name"), b"@name"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Endpoint::parse(&bytes).unwrap().describe(), expected);
        }
    }
}
