//! Whether a host may be reached, and an address be served on: asked of the rules for addresses and, for names,
//! of the matcher that the proxy has.

use super::InForce;
use super::answer::{Answer, Layer, Rule};
use policy::keys::Item;
use policy::origins::Origins;
use proxy_hosts::domain::{self, Host, NAME_MAX, Verdict};
use routes::direct::patterns;
use rules::address::{AddressVerdict, Endpoint};
use rules::policy::Needs;
use std::net::{IpAddr, SocketAddr};

/// What may be done with `host` and `port`.
pub(super) fn about(in_force: &InForce<'_>, host: &str, port: u16) -> Result<Vec<Answer>, String> {
    let mut buffer = [0; NAME_MAX];
    let bare = host.trim_matches(['[', ']']);
    let parsed = Host::parse(host.as_bytes(), &mut buffer);
    let address = bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
    let direct = address.and_then(|address| direct(in_force, address));
    let connect = match (direct, parsed) {
        (Some(answer), _) => answer,
        (None, Ok(host)) => by_proxy(in_force, &host, port),
        (None, Err(error)) => return Err(format!("it is no host: {error}")),
    };
    let bind = address.map(|address| bind(in_force, address));
    Ok([connect].into_iter().chain(bind).collect())
}

/// Of an address that is connected to without the proxy, if the rules for addresses let it be.
fn direct(in_force: &InForce<'_>, address: SocketAddr) -> Option<Answer> {
    let verdict = in_force.judges.addresses.connect(&Endpoint::Internet(address));
    if verdict != AddressVerdict::Perform {
        return None;
    }
    let addresses = &in_force.judges.addresses;
    if addresses.allow_network {
        let rule = Rule::of_value(in_force.origins(), "network.allowNetwork", "true");
        return Some(
            Answer::yes("connect", Layer::Nobody, "networking is not restricted").under(rule),
        );
    }
    if addresses.proxies.contains(&address) {
        return Some(Answer::yes("connect", Layer::Broker, "landstrip's own proxy"));
    }
    let network = &in_force.policy.network;
    let key = match network.http_proxy_port == Some(address.port()) {
        true => "network.httpProxyPort",
        false => "network.socksProxyPort",
    };
    let rule = Rule::of_value(in_force.origins(), key, address.port().to_string());
    let why = match rule {
        Some(_) => "the port of a proxy",
        None => "the port of a proxy that the environment names",
    };
    Some(Answer::yes("connect", Layer::Broker, why).under(rule))
}

fn by_proxy(in_force: &InForce<'_>, host: &Host<'_>, port: u16) -> Answer {
    let network = &in_force.policy.network;
    let written = &in_force.origins().written;
    if network.allow_network {
        let rule = Rule::of_value(in_force.origins(), "network.allowNetwork", "true");
        return Answer::yes("connect", Layer::Nobody, "networking is not restricted").under(rule);
    }
    if !Needs::of(network).hosts {
        let why = match network.allow_local_binding {
            true => "only the command's own servers can be reached, on loopback",
            false => "there is no network: nothing in network.allowedDomains",
        };
        return Answer::no("connect", Layer::Broker, why);
    }
    let mut buffers = vec![[0; NAME_MAX]; network.allowed_domains.len()];
    let allowed = patterns(&network.allowed_domains, &mut buffers);
    let mut buffers = vec![[0; NAME_MAX]; network.denied_domains.len()];
    let denied = patterns(&network.denied_domains, &mut buffers);
    let rule = |items: &[Item], rules: &[String], index: usize| {
        let text = rules.get(index)?;
        Some(Rule::written(Origins::of_item(items, text)?, text))
    };
    match domain::judge(&allowed, &denied, host, port) {
        Verdict::Denied(index) => Answer::no("connect", Layer::Proxy, "denied").under(rule(
            &written.denied_domains,
            &network.denied_domains,
            index,
        )),
        Verdict::Allowed(index) => {
            let why = match host {
                Host::Address(_) => "through landstrip's proxy",
                Host::Name(_) => "through landstrip's proxy, if its addresses may be reached",
            };
            Answer::yes("connect", Layer::Proxy, why).under(rule(
                &written.allowed_domains,
                &network.allowed_domains,
                index,
            ))
        }
        Verdict::NotListed => {
            Answer::no("connect", Layer::Proxy, "no rule of network.allowedDomains names it")
        }
    }
}

fn bind(in_force: &InForce<'_>, address: SocketAddr) -> Answer {
    let addresses = &in_force.judges.addresses;
    let key = match addresses.allow_network {
        true => "network.allowNetwork",
        false => "network.allowLocalBinding",
    };
    let rule = Rule::of_value(in_force.origins(), key, "true");
    match addresses.bind(&Endpoint::Internet(address)) {
        AddressVerdict::Perform => Answer::yes("bind", Layer::Broker, "allowed").under(rule),
        AddressVerdict::Narrow => {
            Answer::yes("bind", Layer::Broker, "to a loopback address in its place").under(rule)
        }
        _ if addresses.local_binding => {
            Answer::no("bind", Layer::Broker, "only loopback addresses may be bound")
        }
        _ => Answer::no("bind", Layer::Broker, "network.allowLocalBinding is not set"),
    }
}
