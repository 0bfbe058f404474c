//! Which connects of programs that do not ask the proxy it gets all the same. Pure.
//!
//! Those to an address that stands for a name, to one that a hosts file has for a permitted name, to a permitted
//! address, and lookups. The proxy judges each again, with the names that it knows; here it is only decided whether
//! it is asked at all.

use crate::rules::policy::Network;
use common::domain::{self, Host, NAME_MAX, Pattern, Verdict};
use common::hosts;
use common::proxy::{Client, stands_for_name};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Where name servers are asked.
pub(super) const DOMAIN: u16 = 53;

/// The rules for hosts, and what hosts files say.
#[derive(Debug)]
pub(super) struct Direct {
    allowed: Vec<String>,
    denied: Vec<String>,
    names: HashMap<IpAddr, Vec<String>>,
}

impl Direct {
    /// The rules of `network`, and these hosts files.
    pub(super) fn new(network: &Network, hosts: &[&str]) -> Self {
        let mut names: HashMap<IpAddr, Vec<String>> = HashMap::new();
        for (address, own) in hosts.iter().flat_map(|text| text.lines()).filter_map(hosts::line) {
            names.entry(address.to_canonical()).or_default().extend(own.map(str::to_owned));
        }
        let Network { allowed_domains, denied_domains, .. } = network;
        Self { allowed: allowed_domains.clone(), denied: denied_domains.clone(), names }
    }

    /// What a connect to `to` is for the proxy, if it gets it.
    pub(super) fn client(&self, to: SocketAddr) -> Option<Client> {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        match stands_for_name(to.ip()) || self.permits(to) {
            true => Some(Client::Direct(to)),
            // Whichever server is asked: this run has one.
            false => (to.port() == DOMAIN).then_some(Client::Lookups),
        }
    }

    fn permits(&self, to: SocketAddr) -> bool {
        let mut buffers = vec![[0; NAME_MAX]; self.allowed.len() + self.denied.len()];
        let (first, second) = buffers.split_at_mut(self.allowed.len());
        let (allowed, denied) = (patterns(&self.allowed, first), patterns(&self.denied, second));
        let is_permitted = |host: Host<'_>| {
            matches!(domain::judge(&allowed, &denied, &host, to.port()), Verdict::Allowed(_))
        };
        // On whichever port: it is refused by its name then.
        let is_named = |name: &String| {
            Host::parse(name.as_bytes(), &mut [0; NAME_MAX])
                .is_ok_and(|host| domain::permits_some_port(&allowed, &denied, &host))
        };
        let mut names = self.names.get(&to.ip()).into_iter().flatten();
        Host::of_address(to.ip()).is_ok_and(is_permitted) || names.any(is_named)
    }
}

/// `rules`, parsed.
pub(crate) fn patterns<'a>(
    rules: &'a [String],
    buffers: &'a mut [[u8; NAME_MAX]],
) -> Vec<Pattern<'a>> {
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
        let hosts =
            ["10.0.0.1 A.test. other # x\n10.0.0.2 x.b.test\n10.0.0.3 bad.b.test", "::1 y.b.test"];
        let direct = Direct::new(&network, &hosts);
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
            ("10.0.0.9:25", true),
            ("10.0.0.9:26", false),
            ("[2001:db8::9]:1", true),
        ] {
            let to: SocketAddr = to.parse().unwrap();
            let canonical = SocketAddr::new(to.ip().to_canonical(), to.port());
            let expected = expected.then_some(Client::Direct(canonical));
            assert_eq!(direct.client(to), expected, "{to}");
        }
        assert_eq!(direct.client("192.0.2.1:53".parse().unwrap()), Some(Client::Lookups));
    }
}
