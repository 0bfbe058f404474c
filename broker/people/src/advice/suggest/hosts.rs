//! Hosts that a policy may be told to allow.

use common::address;
use common::domain::{self, Host};
use common::proxy::stands_for_name;

/// Hosts of which none is asked for alone: an index, and what it leads to.
pub(super) const TOGETHER: [[&str; 2]; 3] = [
    ["index.crates.io", "static.crates.io"],
    ["pypi.org", "files.pythonhosted.org"],
    ["proxy.golang.org", "sum.golang.org"],
];

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
            address::classify(address).is_advisable() && !stands_for_name(address)
        }
    };
    let port = domain::parse_port(port).filter(|_| is_advisable)?;
    Some(match port {
        80 | 443 => host.to_string(),
        _ => format!("{host}:{port}"),
    })
}
