//! /etc/hosts and /etc/resolv.conf. Pure: hosts(5), resolv.conf(5).

use crate::destination::OwnedHost;
use proxy_hosts::hosts;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What resolv.conf says that matters to names that are looked up as they are: what is searched the
/// sandbox's resolvers heed themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Servers {
    pub(crate) addresses: Vec<SocketAddr>,
    /// How long one server has for one answer.
    pub(crate) timeout: Duration,
    /// How often all servers are asked.
    pub(crate) attempts: u32,
    /// Domains in which resolvers try a name as well.
    pub(crate) search: Vec<String>,
}

/// The limits of glibc's resolver (MAXNS, RES_MAXRETRANS, RES_MAXRETRY).
const SERVERS_MAX: usize = 3;
const TIMEOUT_MAX: u64 = 30;
const ATTEMPTS_MAX: u32 = 5;
const PORT: u16 = 53;

/// Reads resolv.conf.
pub(crate) fn servers(text: &str) -> Servers {
    let mut servers = Servers {
        addresses: Vec::new(),
        timeout: Duration::from_secs(5),
        attempts: 2,
        search: Vec::new(),
    };
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("nameserver") => {
                // With a zone, fe80::1%eth0, it is passed over.
                let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                servers.addresses.extend(address.map(|address| SocketAddr::new(address, PORT)));
            }
            Some("search" | "domain") => {
                let domains = words.map(|word| OwnedHost::parse(word.as_bytes()));
                servers.search = domains.flatten().map(|host| host.to_string()).collect();
            }
            Some("options") => words.for_each(|word| option(word, &mut servers)),
            _ => {}
        }
    }
    servers.addresses.truncate(SERVERS_MAX);
    if servers.addresses.is_empty() {
        servers.addresses.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    servers
}

fn option(word: &str, servers: &mut Servers) {
    match word.split_once(':') {
        Some(("timeout", value)) => {
            if let Ok(seconds) = value.parse::<u64>() {
                servers.timeout = Duration::from_secs(seconds.clamp(1, TIMEOUT_MAX));
            }
        }
        Some(("attempts", value)) => {
            if let Ok(attempts) = value.parse::<u32>() {
                servers.attempts = attempts.clamp(1, ATTEMPTS_MAX);
            }
        }
        _ => {}
    }
}

/// Reads the hosts file: names in their one spelling, with all their addresses.
pub(crate) fn hosts(text: &str) -> Vec<(String, IpAddr)> {
    let mut entries = Vec::new();
    for line in text.lines() {
        let Some((address, names)) = hosts::line(line) else { continue };
        for word in names {
            if let Ok(OwnedHost::Name(name)) = OwnedHost::parse(word.as_bytes()) {
                entries.push((name, address));
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_the_resolver_of_glibc_does() {
        let text = "# x\nsearch a.b\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n\
                    nameserver\t2001:db8::1 \nnameserver bad\noptions ndots:5 timeout:1 attempts:9\n";
        let servers = servers(text);
        let expected: Vec<SocketAddr> =
            vec!["192.0.2.1:53".parse().unwrap(), "[2001:db8::1]:53".parse().unwrap()];
        assert_eq!(servers.addresses, expected);
        assert_eq!(servers.search, ["a.b"]);
        assert_eq!((servers.timeout, servers.attempts), (Duration::from_secs(1), 5));
        assert_eq!(super::servers("").addresses, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn hosts_have_names_and_aliases_and_comments() {
        let text = "127.0.0.1 localhost # a\n\n#1.2.3.4 no\n192.0.2.1\tA.test b.test\n\
                    2001:db8::1 a.test\nbad c.test\n1.2.3.4 5.6.7.8 not@name\n";
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(
            hosts(text),
            [
                ("localhost".to_owned(), address("127.0.0.1")),
                ("a.test".to_owned(), address("192.0.2.1")),
                ("b.test".to_owned(), address("192.0.2.1")),
                ("a.test".to_owned(), address("2001:db8::1")),
            ]
        );
    }
}
