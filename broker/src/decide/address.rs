//! Socket addresses: from the bytes of a `sockaddr` to a verdict.
//!
//! Sources: ip(7), ipv6(7), unix(7), netlink(7); the kernel's own length checks in
//! net/ipv4/af_inet.c and net/ipv6/af_inet6.c.

use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const AF_UNSPEC: u16 = 0;
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const AF_NETLINK: u16 = 16;

/// `sizeof(struct sockaddr_storage)`: a longer address is refused by the kernel.
pub(crate) const ADDRESS_MAX: usize = 128;

/// The address argument of connect(2) or bind(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
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
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Errno> {
        let (&[a, b], rest) = bytes.split_first_chunk().ok_or(Errno::INVAL)?;
        let port = || rest.first_chunk().map(|&port| u16::from_be_bytes(port));
        match u16::from_ne_bytes([a, b]) {
            AF_UNSPEC => Ok(Self::Unspecified),
            AF_INET if bytes.len() >= 16 => {
                let (Some(port), Some(&[a, b, c, d])) = (port(), rest.get(2..6)) else {
                    return Err(Errno::INVAL);
                };
                Ok(Self::Internet((Ipv4Addr::new(a, b, c, d), port).into()))
            }
            // SIN6_LEN_RFC2133: the scope may be missing.
            AF_INET6 if bytes.len() >= 24 => {
                let address = rest.get(6..22).and_then(|part| <[u8; 16]>::try_from(part).ok());
                let (Some(port), Some(address)) = (port(), address) else {
                    return Err(Errno::INVAL);
                };
                Ok(Self::Internet((Ipv6Addr::from(address), port).into()))
            }
            AF_INET | AF_INET6 => Err(Errno::INVAL),
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
    pub(crate) fn describe(&self) -> Vec<u8> {
        match self {
            Self::Internet(address) => address.to_string().into_bytes(),
            Self::UnixPath(path) => path.clone(),
            Self::UnixAbstract(name) => [b"@", &name[..]].concat(),
            Self::UnixUnnamed => b"unix".to_vec(),
            Self::Unspecified => b"unspecified".to_vec(),
            Self::Netlink => b"netlink".to_vec(),
            Self::Other(family) => format!("family {family}").into_bytes(),
        }
    }
}

/// What of the policy decides on addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressRules {
    /// IP networking is not restricted.
    pub(crate) allow_network: bool,
    /// Ports on loopback addresses that may be connected to.
    pub(crate) loopback_ports: Vec<u16>,
    /// Where landstrip's own proxies listen.
    pub(crate) proxies: Vec<SocketAddr>,
}

impl AddressRules {
    /// Whether a socket may be connected to `endpoint`.
    ///
    /// # Errors
    /// Returns the errno that the target gets.
    pub(crate) fn connect(&self, endpoint: &Endpoint) -> Result<(), Errno> {
        match endpoint {
            Endpoint::Internet(_) if self.allow_network => Ok(()),
            Endpoint::Internet(address)
                if is_loopback(address.ip()) && self.loopback_ports.contains(&address.port()) =>
            {
                Ok(())
            }
            Endpoint::Internet(address)
                if self.proxies.contains(&(address.ip().to_canonical(), address.port()).into()) =>
            {
                Ok(())
            }
            // Dissolving an association reaches nobody; route queries have no peer but the kernel.
            Endpoint::Unspecified | Endpoint::Netlink => Ok(()),
            _ => Err(Errno::ACCESS),
        }
    }

    /// Whether a socket may be bound to `endpoint`.
    ///
    /// # Errors
    /// Returns the errno that the target gets.
    pub(crate) fn bind(&self, endpoint: &Endpoint) -> Result<(), Errno> {
        match endpoint {
            Endpoint::Internet(_) | Endpoint::Unspecified if self.allow_network => Ok(()),
            Endpoint::Netlink => Ok(()),
            _ => Err(Errno::ACCESS),
        }
    }
}

/// 127.0.0.0/8, ::1, and the IPv4 ones mapped into IPv6. The unspecified addresses, which the kernel
/// takes for loopback in connect(2), are not among them.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
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
        let rules =
            AddressRules { allow_network: false, loopback_ports: vec![3128], ..Default::default() };
        let refused = Err(Errno::ACCESS);
        let cases = [
            (inet([127, 0, 0, 1], 3128), Ok(())),
            (inet([127, 255, 255, 254], 3128), Ok(())),
            (inet6("::1", 3128), Ok(())),
            (inet6("::ffff:127.0.0.1", 3128), Ok(())),
            (inet([127, 0, 0, 1], 3129), refused),
            (inet([0, 0, 0, 0], 3128), refused),
            (inet([10, 0, 0, 1], 3128), refused),
            (inet([128, 0, 0, 1], 3128), refused),
            (inet6("::", 3128), refused),
            (inet6("::ffff:0.0.0.0", 3128), refused),
            (inet6("::ffff:10.0.0.1", 3128), refused),
            // IPv4-compatible, not mapped: another address family in disguise.
            (inet6("::127.0.0.1", 3128), refused),
            (inet6("64:ff9b::7f00:1", 3128), refused),
            (unix(b"/run/docker.sock\0"), refused),
            (unix(b"\0abstract"), refused),
            (unix(b""), refused),
            (vec![40, 0, 0, 0], refused),
            (vec![0, 0], Ok(())),
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
            assert_eq!(rules.bind(&Endpoint::parse(&bytes).unwrap()), Err(Errno::ACCESS));
        }
        assert_eq!(rules.bind(&Endpoint::Netlink), Ok(()));
    }

    #[test]
    fn open_networking_still_refuses_unix_sockets() {
        let rules = AddressRules { allow_network: true, ..Default::default() };
        assert_eq!(rules.connect(&Endpoint::parse(&inet([10, 0, 0, 1], 80)).unwrap()), Ok(()));
        assert_eq!(rules.bind(&Endpoint::parse(&inet([0, 0, 0, 0], 80)).unwrap()), Ok(()));
        for name in [&b"/x"[..], b"\0x", b""] {
            let endpoint = Endpoint::parse(&unix(name)).unwrap();
            assert_eq!(rules.connect(&endpoint), Err(Errno::ACCESS));
            assert_eq!(rules.bind(&endpoint), Err(Errno::ACCESS));
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
