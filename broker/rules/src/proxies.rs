//! The proxies that the caller uses, as its variables name them. Pure.

use common::domain::{Host, NAME_MAX};
use common::upstream::{Protocol, Upstream};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The proxies that the environment names, and what goes through none.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CallerProxies {
    /// HTTP_PROXY.
    pub http: Option<CallerProxy>,
    /// HTTPS_PROXY.
    pub https: Option<CallerProxy>,
    /// ALL_PROXY.
    pub all: Option<CallerProxy>,
    /// SOCKS_PROXY.
    pub socks: Option<CallerProxy>,
    /// NO_PROXY, as written.
    pub direct: Option<String>,
}

/// A proxy that one variable names.
#[derive(Clone, PartialEq, Eq)]
pub struct CallerProxy {
    /// The variable, as the caller spelled it.
    pub variable: &'static str,
    /// With a scheme; it can contain a password, and so is shown nowhere.
    pub url: String,
    /// Its user, password and host as written, if there is a user.
    pub secret: Option<String>,
    /// Where it is, if it is on this host: then it has a port.
    pub loopback: Vec<SocketAddr>,
    /// Whether landstrip's own proxies speak its protocol.
    pub is_supported: bool,
}

impl CallerProxies {
    /// Each that there is.
    pub fn iter(&self) -> impl Iterator<Item = &CallerProxy> {
        [&self.http, &self.https, &self.all, &self.socks].into_iter().flatten()
    }
}

impl CallerProxy {
    /// Reads the value of `variable`.
    pub fn parse(variable: &'static str, text: &str, default: Protocol) -> Result<Self, String> {
        let mut buffer = [0; NAME_MAX];
        let upstream =
            Upstream::parse(text, default, &mut buffer).map_err(|error| error.to_string())?;
        let loopback: Vec<IpAddr> = match upstream.host {
            _ if !upstream.is_loopback() => Vec::new(),
            Host::Address(address) => vec![address],
            Host::Name(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        };
        if !loopback.is_empty() && upstream.port.is_none() {
            return Err("it names no port".to_owned());
        }
        let port = upstream.port();
        let url = match text.contains("://") {
            true => text.to_owned(),
            false => format!("{}://{text}", default.scheme()),
        };
        Ok(Self {
            variable,
            secret: upstream.secret.map(str::to_owned),
            loopback: loopback.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(),
            is_supported: upstream.protocol.is_some(),
            url,
        })
    }

    /// Its port, if it is on this host.
    pub fn loopback_port(&self) -> Option<u16> {
        self.loopback.first().map(SocketAddr::port)
    }
}

impl fmt::Debug for CallerProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL.
        f.debug_struct("CallerProxy").field("variable", &self.variable).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CallerProxy, String> {
        CallerProxy::parse("HTTP_PROXY", text, Protocol::Http)
    }

    #[test]
    fn loopback_hosts_give_a_port_and_others_none() {
        for (text, port) in [
            ("http://localhost:3128", Some(3128)),
            ("127.0.0.1:8080", Some(8080)),
            ("http://127.9.9.9:1/path", Some(1)),
            ("socks5h://user:p%40ss@[::1]:65535", Some(65535)),
            ("https://127.0.0.1:1", Some(1)),
            ("http://proxy.example.com:3128", None),
            ("http://10.0.0.1", None),
            ("http://localhost@evil.example:1", None),
        ] {
            assert_eq!(parse(text).unwrap().loopback_port(), port, "{text}");
        }
        for text in ["", "http://", "http://localhost", "localhost:0", "::1", "http://a%@b:1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_url_has_a_scheme_and_is_not_shown() {
        assert_eq!(parse("proxy:1").unwrap().url, "http://proxy:1");
        let socks = CallerProxy::parse("SOCKS_PROXY", "u:p@proxy:1", Protocol::Socks5).unwrap();
        assert_eq!(socks.url, "socks5h://u:p@proxy:1");
        assert_eq!(socks.secret.as_deref(), Some("u:p@proxy:1"));
        assert!(!format!("{socks:?}").contains("proxy:1"));
        assert!(!parse("https://proxy:1").unwrap().is_supported);
    }
}
