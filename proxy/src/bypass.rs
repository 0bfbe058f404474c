//! NO_PROXY: what the caller reaches without the upstream. Pure.
//!
//! There is no standard; this takes what curl(1), Go and Python's requests agree on. An item that is
//! none of these matches nothing.

use crate::destination::{Destination, OwnedHost};
use proxy_hosts::domain::{Host, parse_port, split_port};
use std::net::IpAddr;

/// The list, parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bypass(Vec<Item>);

#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// `*`
    Everything,
    /// A name, and all names below it, on one port or all.
    Name(String, Option<u16>),
    Address(IpAddr, Option<u16>),
    /// A network and the length of its prefix.
    Network(IpAddr, u32),
}

impl Bypass {
    /// Reads a list with commas or blanks between the items.
    pub(crate) fn parse(text: &str) -> Self {
        let items = text.split(|byte: char| byte == ',' || byte.is_ascii_whitespace());
        Self(items.filter_map(Item::parse).collect())
    }

    /// Whether `destination` is reached without the upstream.
    pub(crate) fn matches(&self, destination: &Destination) -> bool {
        self.0.iter().any(|item| item.matches(destination))
    }
}

impl Item {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Everything);
        }
        if let Some((address, length)) = text.split_once('/') {
            let (address, length) = (address.parse().ok()?, length.parse().ok()?);
            let longest = if matches!(address, IpAddr::V4(_)) { 32 } else { 128 };
            return (length <= longest).then_some(Self::Network(address, length));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Address(address, None));
        }
        let (host, port) = split_port(text);
        let port = match port {
            None => None,
            Some(port) => Some(parse_port(port)?),
        };
        let host = host.strip_prefix("*.").or(host.strip_prefix('.')).unwrap_or(host);
        match OwnedHost::parse(host.as_bytes()).ok()? {
            OwnedHost::Name(name) => Some(Self::Name(name, port)),
            OwnedHost::Address(address) => Some(Self::Address(address, port)),
        }
    }

    fn matches(&self, destination: &Destination) -> bool {
        let on = |port: &Option<u16>| port.is_none_or(|port| port == destination.port);
        match (self, destination.host.borrow()) {
            (Self::Everything, _) => true,
            (Self::Name(own, port), Host::Name(name)) => {
                let front = name.strip_suffix(own.as_str());
                on(port) && front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
            }
            (Self::Address(own, port), Host::Address(address)) => on(port) && *own == address,
            (Self::Network(own, length), Host::Address(address)) => {
                contains(*own, *length, address)
            }
            _ => false,
        }
    }
}

fn contains(network: IpAddr, length: u32, address: IpAddr) -> bool {
    // Shifted by the whole width, nothing is left to compare.
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (network.to_bits() ^ address.to_bits()).checked_shr(32 - length).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (network.to_bits() ^ address.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_match_as_the_common_clients_take_them() {
        for (list, authority, expected) in [
            ("", "a.test:1", false),
            ("*", "a.test:1", true),
            ("a.test", "a.test:1", true),
            ("A.test", "b.a.test:1", true),
            ("a.test", "ba.test:1", false),
            (".a.test", "b.a.test:1", true),
            ("*.a.test", "b.a.test:1", true),
            ("x, a.test", "a.test:1", true),
            ("x a.test", "a.test:1", true),
            ("a.test:80", "a.test:80", true),
            ("a.test:80", "a.test:81", false),
            ("a.test:x", "a.test:80", false),
            ("10.0.0.1", "10.0.0.1:1", true),
            ("10.0.0.1:2", "10.0.0.1:1", false),
            ("::1", "[::1]:1", true),
            ("[::1]:1", "[::1]:1", true),
            ("10.0.0.0/8", "10.1.2.3:1", true),
            ("10.0.0.0/8", "11.1.2.3:1", false),
            ("0.0.0.0/0", "11.1.2.3:1", true),
            ("0.0.0.0/0", "[2001:db8::1]:1", false),
            ("2001:db8::/32", "[2001:db8::1]:1", true),
            ("::/0", "[2001:db8::1]:1", true),
            ("10.0.0.0/33", "10.0.0.0:1", false),
            ("10.0.0.0/8", "a.test:1", false),
            ("a_test!,,/", "a.test:1", false),
        ] {
            let destination = Destination::parse(authority, None).unwrap();
            assert_eq!(Bypass::parse(list).matches(&destination), expected, "{list} {authority}");
        }
    }
}
