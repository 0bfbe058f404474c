//! What kind of address a name resolved to. Pure.
//!
//! A permitted name must not lead to services that trust whoever reaches them: those on this host,
//! on the local network, and the metadata service of a cloud. Sources: the IANA special-purpose
//! address registries (RFC 6890); RFC 6052, RFC 3056 and RFC 4380 for IPv6 addresses with an IPv4
//! address inside, which is judged instead.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Anybody's.
    Public,
    /// Of a local network: RFC 1918, shared and benchmarking space, unique local.
    Private,
    /// Of this host: loopback.
    Loopback,
    /// One of this host's own, on whatever interface.
    Own,
    /// Of this link.
    LinkLocal,
    /// A metadata service, which gives credentials to whoever asks.
    Metadata,
    /// Not one host's: unspecified, multicast, broadcast, reserved.
    NoHost,
}

impl Class {
    /// What would allow it.
    pub(crate) fn remedy(self, address: IpAddr, host: &str) -> String {
        let literal = common::domain::Host::Address(address);
        match self {
            Self::NoHost => "nothing helps: it is not the address of one host".to_owned(),
            Self::Private => format!(
                "add \"{host}\" to network.privateDomains, or \"{literal}\" to network.allowedDomains"
            ),
            _ => format!("add \"{literal}\" to network.allowedDomains"),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Private => "a private address",
            Self::Loopback => "a loopback address",
            Self::Own => "an address of this host",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud's metadata service",
            Self::NoHost => "not the address of a host",
        })
    }
}

/// Tells what `address` is, except [`Class::Own`], which only this host knows.
pub(crate) fn classify(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        // AWS, Azure, Google and most others; Alibaba; Azure's own services for its machines.
        [169, 254, 169, 254] | [100, 100, 100, 200] | [168, 63, 129, 16] => Class::Metadata,
        [0, ..] | [224..=255, ..] => Class::NoHost,
        [127, ..] => Class::Loopback,
        [169, 254, ..] => Class::LinkLocal,
        [10, ..]
        | [172, 16..=31, ..]
        | [192, 168, ..]
        | [100, 64..=127, ..]
        | [192, 0, 0, _]
        | [198, 18..=19, ..] => Class::Private,
        _ => Class::Public,
    }
}

/// The IPv4 address that a packet to `address` reaches in the end: of one that is mapped or compatible,
/// of NAT64 (RFC 6052) and its local prefix (RFC 8215), of 6to4.
pub(crate) fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let (high, low) = match address.segments() {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => (high, low),
        [0x64, 0xff9b, 0 | 1, _, _, _, high, low] | [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

fn classify_v6(address: Ipv6Addr) -> Class {
    if address == Ipv6Addr::LOCALHOST {
        return Class::Loopback;
    }
    // The deprecated compatible form includes the unspecified address.
    if let Some(inside) = embedded(address.into()) {
        return classify_v4(inside);
    }
    match address.segments() {
        // Teredo hides its IPv4 addresses behind a server's.
        [0x2001, 0, ..] => Class::NoHost,
        // AWS, which has its credentials for containers there as well; Google.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, _] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => Class::Metadata,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Class::Private,
        [0x2000..=0x3fff, ..] => Class::Public,
        // Nothing else is given to hosts; multicast is in here.
        _ => Class::NoHost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_what_the_registries_say() {
        for (text, expected) in [
            ("93.184.216.34", Class::Public),
            ("172.15.0.1", Class::Public),
            ("172.32.0.1", Class::Public),
            ("100.63.0.1", Class::Public),
            ("10.0.0.1", Class::Private),
            ("172.16.0.1", Class::Private),
            ("192.168.1.1", Class::Private),
            ("100.64.0.1", Class::Private),
            ("198.18.0.1", Class::Private),
            ("127.0.0.1", Class::Loopback),
            ("127.255.255.255", Class::Loopback),
            ("169.254.1.1", Class::LinkLocal),
            ("169.254.169.254", Class::Metadata),
            ("100.100.100.200", Class::Metadata),
            ("0.0.0.0", Class::NoHost),
            ("0.1.2.3", Class::NoHost),
            ("224.0.0.1", Class::NoHost),
            ("255.255.255.255", Class::NoHost),
            ("240.0.0.1", Class::NoHost),
            ("2606:2800:220:1::1", Class::Public),
            ("::1", Class::Loopback),
            ("::", Class::NoHost),
            ("::ffff:127.0.0.1", Class::Loopback),
            ("::ffff:8.8.8.8", Class::Public),
            ("::127.0.0.1", Class::Loopback),
            ("64:ff9b::7f00:1", Class::Loopback),
            ("64:ff9b::a9fe:a9fe", Class::Metadata),
            ("64:ff9b:1::a00:1", Class::Private),
            ("2002:7f00:1::", Class::Loopback),
            ("2001::1", Class::NoHost),
            ("2001:db8::1", Class::Public),
            ("fe80::1", Class::LinkLocal),
            ("fd00:ec2::254", Class::Metadata),
            ("fd00:ec2::23", Class::Metadata),
            ("168.63.129.16", Class::Metadata),
            ("168.63.129.17", Class::Public),
            ("fd20:ce::254", Class::Metadata),
            ("fd00::1", Class::Private),
            ("fc00::1", Class::Private),
            ("fec0::1", Class::Private),
            ("ff02::1", Class::NoHost),
            ("5f00::1", Class::NoHost),
        ] {
            assert_eq!(classify(text.parse().unwrap()), expected, "{text}");
        }
    }
}
