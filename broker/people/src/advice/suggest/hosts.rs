//! Hosts that a policy may be told to allow.

use super::{Advice, Grounds, add, quote};
use common::proxy::stands_for_name;
use policy::domains;
use proxy_hosts::address;
use proxy_hosts::domain::{self, Host};
use proxy_hosts::rule_for;
use rules::files::push_new;
use std::net::{IpAddr, UdpSocket};

/// What to do where a name was looked up that was not seen, as getent(1) does, and of whom that is said.
pub(super) const UNSEEN: (&str, &str) =
    ("to look up a host's name", "add the host to network.allowedDomains");
/// Hosts of which none is asked for alone: an index, and what it leads to.
const TOGETHER: [[&str; 2]; 3] = [
    ["index.crates.io", "static.crates.io"],
    ["pypi.org", "files.pythonhosted.org"],
    ["proxy.golang.org", "sum.golang.org"],
];

impl Grounds<'_> {
    /// What there is to say of a host and port that the proxy refused.
    pub(super) fn advise_host(&self, target: &str, advice: &mut Advice) {
        let Some((name, port)) = target.rsplit_once(':') else { return };
        let port = domain::parse_port(port);
        if let Some(rule) = rule_for(&self.network.denied_domains, name, port) {
            return self.advise_against(rule, advice);
        }
        if rule_for(&self.network.allowed_domains, name, port).is_some() {
            return push_new(&mut advice.allowed, quote(target));
        }
        let Some(host) = host(target) else {
            return advice.leave_out(target);
        };
        let group = TOGETHER.iter().find(|group| group.contains(&host.as_str()));
        let wanted = group.map_or(vec![host.as_str()], |group| group.to_vec());
        let is_listed = |host| self.network.allowed_domains.iter().any(|rule| rule == host);
        for host in wanted.into_iter().filter(|host| !is_listed(*host)) {
            add(&mut advice.allow, "network.allowedDomains", quote(host));
        }
    }
}

/// The rule that allows `host:port` and no other host: the usual ports are part of every rule. None if a rule would
/// mean something else (`*.com` is asked for like any name), or must not be advised.
pub(crate) fn host(target: &str) -> Option<String> {
    let (name, port) = target.rsplit_once(':')?;
    let mut buffer = [0; domain::NAME_MAX];
    let host = Host::parse(name.as_bytes(), &mut buffer).ok()?;
    let is_advisable = match host {
        Host::Name(name) => address::is_advisable_name(name),
        // One that stands for a name did so in this run alone.
        Host::Address(address) => {
            address::classify(address).is_advisable()
                && !stands_for_name(address)
                && !is_own(address)
        }
    };
    let port = domain::parse_port(port).filter(|_| is_advisable)?;
    Some(match port {
        80 | 443 => host.to_string(),
        _ => format!("{host}:{port}"),
    })
}

/// Whether `target`, with or without a port, names this host.
pub(super) fn is_of_this_host(target: &str) -> bool {
    let name = domain::split_port(target).0.as_bytes();
    let is_own_host = |host| matches!(host, Host::Address(address) if is_own(address));
    domains::is_of_this_host(target)
        || Host::parse(name, &mut [0; domain::NAME_MAX]).is_ok_and(is_own_host)
}

/// Whether an interface of this host has `address`: to no other of these a socket can be bound (ip(7)).
fn is_own(address: IpAddr) -> bool {
    let can_bind = |address| UdpSocket::bind((address, 0)).is_ok();
    let inside = address::embedded(address).map(IpAddr::V4);
    address::classify(address).is_advisable() && inside.chain([address]).any(can_bind)
}
