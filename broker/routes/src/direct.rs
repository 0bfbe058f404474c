//! Which connects of programs that do not ask the proxy it gets all the same. Pure.
//!
//! Those to an address that stands for a name, to one that a hosts file has for a permitted name, to a permitted
//! address or one about which somebody is asked, and lookups. The proxy judges each again, with the names that it knows; here it is only decided whether
//! it is asked at all.

use common::proxy::{Client, stands_for_name};
use proxy_hosts::address::classify;
use proxy_hosts::domain::{self, Host, NAME_MAX, Pattern, Verdict};
use proxy_hosts::hosts;
use rules::policy::Network;
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

/// Where name servers are asked.
pub const DOMAIN: u16 = 53;

/// The rules for hosts, and what hosts files say.
#[derive(Debug)]
pub struct Direct {
    allowed: Vec<String>,
    denied: Vec<String>,
    /// Where the command reaches addresses by itself: names it asks here all the same, so that these are learned.
    learns: bool,
    /// Somebody is asked about an address that no rule names.
    asks: bool,
    names: OnceLock<HashMap<IpAddr, Vec<String>>>,
}

impl Direct {
    /// The rules of `network`, of which none for addresses counts where the run `learns`.
    pub fn new(network: &Network, learns: bool) -> Self {
        let Network { allowed_domains, denied_domains, .. } = network;
        let (allowed, denied) = (allowed_domains.clone(), denied_domains.clone());
        Self { allowed, denied, learns, asks: network.asks, names: OnceLock::new() }
    }

    /// What a connect to `to` is for the proxy, if it gets it; `hosts` are the hosts files, which are read once.
    pub fn client<'a>(
        &self,
        to: SocketAddr,
        hosts: impl FnOnce() -> [Cow<'a, str>; 2],
    ) -> Option<Client> {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        match stands_for_name(to.ip()) || !self.learns && self.permits(to, hosts) {
            true => Some(Client::Direct(to)),
            // Whichever server is asked: this run has one.
            false => (to.port() == DOMAIN).then_some(Client::Lookups),
        }
    }

    fn permits<'a>(&self, to: SocketAddr, hosts: impl FnOnce() -> [Cow<'a, str>; 2]) -> bool {
        let names = self.names.get_or_init(|| by_address(&hosts()));
        let mut buffers = vec![[0; NAME_MAX]; self.allowed.len() + self.denied.len()];
        let (first, second) = buffers.split_at_mut(self.allowed.len());
        let (allowed, denied) = (patterns(&self.allowed, first), patterns(&self.denied, second));
        // On loopback a server of the command's own may be meant.
        let may_be_own = to.ip().is_loopback();
        let is_host = classify(to.ip()).is_advisable() && to.port() != DOMAIN;
        let may_be_asked = self.asks && !may_be_own && is_host;
        let is_permitted = |host: Host<'_>| match domain::judge(&allowed, &denied, &host, to.port())
        {
            Verdict::Allowed(_) => true,
            Verdict::NotListed => may_be_asked,
            Verdict::Denied(_) => false,
        };
        // On whichever port: it is refused by its name then.
        let is_named = |name: &String| {
            Host::parse(name.as_bytes(), &mut [0; NAME_MAX]).is_ok_and(|host| match may_be_own {
                true => is_permitted(host),
                false => domain::permits_some_port(&allowed, &denied, &host),
            })
        };
        let mut names = names.get(&to.ip()).into_iter().flatten();
        Host::of_address(to.ip()).is_ok_and(is_permitted) || names.any(is_named)
    }
}

fn by_address(hosts: &[Cow<'_, str>]) -> HashMap<IpAddr, Vec<String>> {
    let mut names: HashMap<IpAddr, Vec<String>> = HashMap::new();
    for (address, own) in hosts.iter().flat_map(|text| text.lines()).filter_map(hosts::line) {
        names.entry(address.to_canonical()).or_default().extend(own.map(str::to_owned));
    }
    names
}

/// `rules`, parsed.
pub fn patterns<'a>(rules: &'a [String], buffers: &'a mut [[u8; NAME_MAX]]) -> Vec<Pattern<'a>> {
    let parsed = rules.iter().zip(buffers).map(|(rule, buffer)| Pattern::parse(rule, buffer));
    // Checked when the policy was resolved.
    parsed.filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_proxy_gets_what_it_may_permit_and_lookups() {
        let own = |list: &[&str]| list.iter().map(|rule| (*rule).to_owned()).collect();
        let network = Network {
            allowed_domains: own(&["a.test:5432", "*.b.test", "10.0.0.9:25", "[2001:db8::9]"]),
            denied_domains: own(&["bad.b.test"]),
            ..Network::default()
        };
        let hosts = [
            "127.0.0.5 a.test\n10.0.0.1 A.test. other # x\n10.0.0.2 x.b.test\n10.0.0.3 bad.b.test",
            "::1 y.b.test",
        ];
        let direct = Direct::new(&network, false);
        let client = |to| direct.client(to, || hosts.map(Cow::Borrowed));
        for (to, expected) in [
            ("198.18.0.1:1", true),
            ("198.19.255.255:53", true),
            ("[::ffff:198.18.0.1]:443", true),
            ("198.20.0.0:1", false),
            ("10.0.0.1:5432", true),
            ("[::ffff:10.0.0.1]:5432", true),
            ("10.0.0.1:5433", true),
            ("10.0.0.2:1", true),
            ("10.0.0.3:1", false),
            ("[::1]:1", true),
            ("127.0.0.1:1", false),
            ("127.0.0.5:5432", true),
            ("127.0.0.5:1", false),
            ("10.0.0.9:25", true),
            ("10.0.0.9:26", false),
            ("[2001:db8::9]:1", true),
        ] {
            let to: SocketAddr = to.parse().unwrap();
            let canonical = SocketAddr::new(to.ip().to_canonical(), to.port());
            let expected = expected.then_some(Client::Direct(canonical));
            assert_eq!(client(to), expected, "{to}");
        }
        let asking = Direct::new(&Network { asks: true, ..network.clone() }, false);
        let client_of = |to: &str| asking.client(to.parse().unwrap(), || hosts.map(Cow::Borrowed));
        assert_eq!(client_of("192.0.2.1:53"), Some(Client::Lookups));
        for (to, expected) in [("192.0.2.1:80", true), ("10.0.0.3:1", true), ("127.0.0.1:1", false)]
        {
            assert_eq!(client_of(to).is_some(), expected, "{to}");
        }
        assert_eq!((client_of("169.254.169.254:80"), client_of("224.0.0.1:1")), (None, None));
        let learning = Direct::new(&network, true);
        let client_of =
            |to: &str| learning.client(to.parse().unwrap(), || hosts.map(Cow::Borrowed));
        assert_eq!(client_of("10.0.0.9:25"), None);
        assert!(client_of("198.18.0.1:1").is_some() && client_of("192.0.2.1:53").is_some());
        assert_eq!(client("192.0.2.1:53".parse().unwrap()), Some(Client::Lookups));
    }
}
