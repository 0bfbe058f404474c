//! What HTTP_PROXY and SOCKS_PROXY name. Pure.

use std::net::{IpAddr, Ipv6Addr};

/// The meaning of a proxy variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProxyVariable {
    /// A proxy on this host: its port may be connected to.
    Loopback(u16),
    /// A proxy elsewhere, as written: landstrip's own proxies go through it.
    Upstream(String),
    /// Nothing that can be used, and why.
    Unusable(&'static str),
}

/// Reads `[scheme://][user[:password]@]host[:port][/...]`.
pub(crate) fn interpret(text: &str) -> ProxyVariable {
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match host_and_port.strip_prefix('[') {
        Some(bracketed) => match bracketed.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, rest)) if rest.starts_with(':') => (host, Some(&rest[1..])),
            _ => return ProxyVariable::Unusable("it is no URL"),
        },
        None => match host_and_port.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host_and_port, None),
        },
    };
    if host.is_empty() {
        return ProxyVariable::Unusable("it names no host");
    }
    // An IPv6 address out of brackets has its colon taken for that of a port, and is refused here.
    let port = match port.map(str::parse::<u16>) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => return ProxyVariable::Unusable("its port is no number from 1 to 65535"),
    };
    match (is_loopback(host), port) {
        (true, Some(port)) => ProxyVariable::Loopback(port),
        (true, None) => ProxyVariable::Unusable("it names no port"),
        (false, _) => ProxyVariable::Upstream(text.to_owned()),
    }
}

fn is_loopback(host: &str) -> bool {
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback(),
        Ok(IpAddr::V6(address)) => {
            let mapped = address.to_ipv4_mapped();
            address == Ipv6Addr::LOCALHOST || mapped.is_some_and(|address| address.is_loopback())
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_give_a_port_and_others_an_upstream() {
        for (text, port) in [
            ("http://localhost:3128", 3128),
            ("http://LOCALHOST:3128/", 3128),
            ("127.0.0.1:8080", 8080),
            ("http://127.9.9.9:1/path", 1),
            ("socks5h://user:p%40ss@[::1]:65535", 65535),
            ("http://[::ffff:127.0.0.1]:80", 80),
        ] {
            assert_eq!(interpret(text), ProxyVariable::Loopback(port), "{text}");
        }
        for text in [
            "http://proxy.example.com:3128",
            "proxy:1",
            "http://10.0.0.1",
            "http://localhost@evil.example:1",
            "http://localhost.evil.example:1",
            "http://[2001:db8::1]:1",
        ] {
            assert_eq!(interpret(text), ProxyVariable::Upstream(text.to_owned()), "{text}");
        }
        for text in [
            "",
            "http://",
            ":80",
            "http://localhost",
            "localhost:0",
            "localhost:99999",
            "localhost:x",
            "::1",
            "[::1",
            "[::1]80",
            "http://user@",
        ] {
            assert!(matches!(interpret(text), ProxyVariable::Unusable(_)), "{text}");
        }
    }
}
