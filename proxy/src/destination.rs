//! Where a client wants to go, in the one spelling that the rules know. Pure.

use proxy_hosts::domain::{self, Host, HostError, NAME_MAX};
use std::fmt;
use std::net::IpAddr;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) host: OwnedHost,
    pub(crate) port: u16,
}

/// A host that owns its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnedHost {
    Name(String),
    Address(IpAddr),
}

/// Why an authority is no destination.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AuthorityError {
    /// There is no port, or it is none.
    Port,
    /// The host is none that a rule can name.
    Host(HostError),
}

impl OwnedHost {
    /// Reads a host as [`Host::parse`] does.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, HostError> {
        let mut buffer = [0; NAME_MAX];
        Host::parse(text, &mut buffer).map(Self::from)
    }

    /// The same for the matcher.
    pub(crate) fn borrow(&self) -> Host<'_> {
        match self {
            Self::Name(name) => Host::Name(name),
            Self::Address(address) => Host::Address(*address),
        }
    }
}

impl From<Host<'_>> for OwnedHost {
    fn from(host: Host<'_>) -> Self {
        match host {
            Host::Name(name) => Self::Name(name.to_owned()),
            Host::Address(address) => Self::Address(address),
        }
    }
}

impl Destination {
    /// Reads `host:port`; the port may be missing if there is a default.
    pub(crate) fn parse(
        authority: &str,
        default_port: Option<u16>,
    ) -> Result<Self, AuthorityError> {
        let (host, port) = domain::split_port(authority);
        let port = match port {
            // RFC 3986 section 3.2.3 lets the port be empty.
            None | Some("") => default_port,
            Some(port) => domain::parse_port(port),
        };
        let host = OwnedHost::parse(host.as_bytes()).map_err(AuthorityError::Host)?;
        Ok(Self { host, port: port.ok_or(AuthorityError::Port)? })
    }
}

impl fmt::Display for OwnedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.borrow().fmt(f)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_a_port_and_nothing_else() {
        let parse = |text: &str, default| {
            Destination::parse(text, default).map(|destination| destination.to_string())
        };
        assert_eq!(parse("Example.COM:443", None).as_deref(), Ok("example.com:443"));
        assert_eq!(parse("[::1]:80", None).as_deref(), Ok("[::1]:80"));
        assert_eq!(parse("a.test", Some(80)).as_deref(), Ok("a.test:80"));
        assert_eq!(parse("a.test:", Some(80)).as_deref(), Ok("a.test:80"));
        for text in ["a.test", "a.test:0", "a.test:x", "a.test:1:2", "a.test:65536", "[::1]"] {
            assert_eq!(parse(text, None), Err(AuthorityError::Port), "{text}");
        }
        for text in ["user@a.test:80", "a.test@b.test:80", ":80", "127.1:80", "a%00.test:80"] {
            assert!(matches!(parse(text, None), Err(AuthorityError::Host(_))), "{text}");
        }
    }
}
