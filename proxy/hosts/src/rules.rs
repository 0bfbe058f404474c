//! Which rule on hosts names one. Pure; the proxy's own are [`crate::domain`]'s as well.

use crate::domain::{self, Host};

/// The rule of `rules` that names `host:port`, with an IPv6 address in brackets; any port will do where none is
/// given.
pub fn rule_for<'a>(rules: &'a [String], host: &str, port: Option<u16>) -> Option<&'a String> {
    let mut buffer = [0; domain::NAME_MAX];
    let host = Host::parse(host.as_bytes(), &mut buffer).ok()?;
    rules.iter().find(|rule| {
        let mut buffer = [0; domain::NAME_MAX];
        let own = || domain::split_port(rule).1.and_then(domain::parse_port);
        let port = port.or_else(own).unwrap_or(443);
        domain::Pattern::parse(rule, &mut buffer).is_ok_and(|rule| rule.matches(&host, port))
    })
}
