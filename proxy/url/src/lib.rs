//! The URL of a proxy, as HTTP_PROXY and its kin name it. Pure.
//!
//! There is no standard; this follows curl(1): a missing scheme has a default, the last `@` ends the
//! user and password, which are percent-encoded, and a path means nothing. The policy asks it where the caller's proxies
//! are, the proxy how to speak to them; nothing of the command's is read by it.

#![no_std]
#![forbid(unsafe_code)]

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use proxy_hosts::domain::{Host, HostError, NAME_MAX, parse_port, split_port};

/// Longest user name or password (RFC 1929).
const CREDENTIAL_MAX: usize = 255;

/// What to speak to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP without TLS.
    Http,
    /// SOCKS5, which gets the name and resolves it.
    Socks5,
}

impl Protocol {
    /// The scheme of its URLs.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Socks5 => "socks5h",
        }
    }

    fn of_scheme(scheme: &str) -> Option<Self> {
        [
            ("http", Self::Http),
            ("socks5h", Self::Socks5),
            ("socks5", Self::Socks5),
            ("socks", Self::Socks5),
        ]
        .into_iter()
        .find_map(|(name, protocol)| scheme.eq_ignore_ascii_case(name).then_some(protocol))
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Socks5 => 1080,
        }
    }
}

/// A proxy that others go through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Upstream<'a> {
    /// `None` for a scheme that nobody speaks here, such as that of HTTP over TLS.
    pub protocol: Option<Protocol>,
    /// Where it is.
    pub host: Host<'a>,
    /// The port, if it is written.
    pub port: Option<u16>,
    /// User and password, and the host, as written: what must not be shown.
    pub secret: Option<&'a str>,
    user: &'a str,
    password: &'a str,
}

/// Why a text names no proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamError {
    /// Its host is none.
    Host(HostError),
    /// Its port is none.
    Port,
    /// User or password are too long, or not percent-encoded.
    Credentials,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(HostError::Empty) => f.write_str("it names no host"),
            Self::Host(error) => write!(f, "its host is invalid: {error}"),
            Self::Port => f.write_str("its port is not a number from 1 to 65535"),
            Self::Credentials => f.write_str(
                "its user or password is longer than 255 bytes, or has a '%' that begins no byte",
            ),
        }
    }
}

impl<'a> Upstream<'a> {
    /// Reads `[scheme://][user[:password]@]host[:port][/...]`.
    ///
    /// # Errors
    /// Returns the [`UpstreamError`] that says what is wrong; it does not repeat the text.
    pub fn parse(
        text: &'a str,
        default: Protocol,
        buffer: &'a mut [u8; NAME_MAX],
    ) -> Result<Self, UpstreamError> {
        let (protocol, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Protocol::of_scheme(scheme), rest),
            None => (Some(default), text),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, authority),
        };
        let (user, password) =
            credentials.map_or(("", ""), |text| text.split_once(':').unwrap_or((text, "")));
        if [user, password].iter().any(|text| !is_encoded(text)) {
            return Err(UpstreamError::Credentials);
        }
        let (host, port) = split_port(place);
        let port = match port {
            None | Some("") => None,
            Some(port) => Some(parse_port(port).ok_or(UpstreamError::Port)?),
        };
        let host = parse_host(host, buffer).map_err(UpstreamError::Host)?;
        let secret = credentials.map(|_| authority);
        Ok(Self { protocol, host, port, secret, user, password })
    }

    /// Its port, written or not.
    #[must_use]
    pub fn port(&self) -> u16 {
        let default = self.protocol.unwrap_or(Protocol::Http).default_port();
        self.port.unwrap_or(default)
    }

    /// Whether it is on this host.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host {
            Host::Name(name) => name == "localhost",
            Host::Address(address) => address.is_loopback(),
        }
    }

    /// The bytes of user and password, if there are any.
    #[must_use]
    pub fn credentials(
        &self,
    ) -> Option<(impl Iterator<Item = u8> + use<'a>, impl Iterator<Item = u8> + use<'a>)> {
        self.secret.map(|_| (decode(self.user.as_bytes()), decode(self.password.as_bytes())))
    }
}

impl fmt::Debug for Upstream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the credentials.
        write!(f, "{:?} {}:{}", self.protocol, self.host, self.port())
    }
}

/// Unlike the host of a request, one that the caller names may be spelled in any way that means one
/// address.
fn parse_host<'a>(text: &str, buffer: &'a mut [u8; NAME_MAX]) -> Result<Host<'a>, HostError> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = bracketed.and_then(|text| text.parse::<Ipv6Addr>().ok()) {
        return Ok(Host::Address(IpAddr::V6(address).to_canonical()));
    }
    Host::parse(text.as_bytes(), buffer)
}

fn is_encoded(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    let encoded = parts.all(|part| {
        let digits = part.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    encoded && decode(text.as_bytes()).count() <= CREDENTIAL_MAX
}

/// The bytes that `rest` stands for (RFC 3986, section 2.1). A `%` that begins none stands for itself.
pub fn decode(mut rest: &[u8]) -> impl Iterator<Item = u8> + use<'_> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    core::iter::from_fn(move || {
        let (&first, mut tail) = rest.split_first()?;
        let mut byte = first;
        if let (b'%', [high, low, after @ ..]) = (first, tail)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            byte = u8::try_from(high * 16 + low).ok()?;
            tail = after;
        }
        rest = tail;
        Some(byte)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn parse(text: &str) -> Result<(Option<Protocol>, String, u16), UpstreamError> {
        let mut buffer = [0; NAME_MAX];
        let upstream = Upstream::parse(text, Protocol::Http, &mut buffer)?;
        Ok((upstream.protocol, upstream.host.to_string(), upstream.port()))
    }

    #[test]
    fn a_proxy_is_named_as_curl_takes_it() {
        let http = Some(Protocol::Http);
        let socks = Some(Protocol::Socks5);
        for (text, protocol, host, port) in [
            ("http://Proxy.Example:3128", http, "proxy.example", 3128),
            ("proxy:1", http, "proxy", 1),
            ("HTTP://10.0.0.1/path?q", http, "10.0.0.1", 80),
            ("http://proxy.:/", http, "proxy", 80),
            ("socks5://proxy", socks, "proxy", 1080),
            ("SOCKS5H://proxy", socks, "proxy", 1080),
            ("socks://user@[2001:db8::1]", socks, "[2001:db8::1]", 1080),
            ("http://[::ffff:127.0.0.1]:80", http, "127.0.0.1", 80),
            ("http://localhost@evil.example:1", http, "evil.example", 1),
            ("http://a:b@c@d:1", http, "d", 1),
            ("https://proxy:443", None, "proxy", 443),
            ("socks4://proxy:1", None, "proxy", 1),
        ] {
            assert_eq!(parse(text), Ok((protocol, host.to_string(), port)), "{text}");
        }
        for (text, expected) in [
            ("", UpstreamError::Host(HostError::Empty)),
            ("http://", UpstreamError::Host(HostError::Empty)),
            ("http://user@", UpstreamError::Host(HostError::Empty)),
            (":80", UpstreamError::Host(HostError::Empty)),
            ("::1", UpstreamError::Port),
            ("[::1", UpstreamError::Port),
            ("[::1]80", UpstreamError::Host(HostError::Bracket)),
            ("127.1:80", UpstreamError::Host(HostError::Number)),
            ("proxy:0", UpstreamError::Port),
            ("proxy:99999", UpstreamError::Port),
            ("proxy:x", UpstreamError::Port),
            ("http://a%zz@proxy:1", UpstreamError::Credentials),
            ("http://a%4@proxy:1", UpstreamError::Credentials),
        ] {
            assert_eq!(parse(text), Err(expected), "{text}");
        }
        let long = "http://".to_string() + &"a".repeat(256) + "@proxy:1";
        assert_eq!(parse(&long), Err(UpstreamError::Credentials));
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        for (text, user, password, secret) in [
            ("http://us%65r:p%40s%3as@proxy:1/x", "user", "p@s:s", "us%65r:p%40s%3as@proxy:1"),
            ("http://token@proxy", "token", "", "token@proxy"),
            ("http://a:b:c@proxy", "a", "b:c", "a:b:c@proxy"),
        ] {
            let mut buffer = [0; NAME_MAX];
            let upstream = Upstream::parse(text, Protocol::Http, &mut buffer).unwrap();
            let (found_user, found_password) = upstream.credentials().unwrap();
            assert_eq!(found_user.collect::<Vec<_>>(), user.as_bytes(), "{text}");
            assert_eq!(found_password.collect::<Vec<_>>(), password.as_bytes(), "{text}");
            assert_eq!(upstream.secret, Some(secret));
            let shown = std::format!("{upstream:?}");
            assert!(!shown.contains(user), "{shown}");
        }
        let mut buffer = [0; NAME_MAX];
        let without = Upstream::parse("http://proxy", Protocol::Http, &mut buffer).unwrap();
        assert!(without.credentials().is_none() && without.secret.is_none());
    }

    #[test]
    fn loopback_is_what_stays_on_this_host() {
        for (text, expected) in [
            ("http://localhost:3128", true),
            ("LOCALHOST:3128/", true),
            ("127.9.9.9:1", true),
            ("socks5h://user:p%40ss@[::1]:65535", true),
            ("http://[::ffff:127.0.0.1]:80", true),
            ("http://localhost@evil.example:1", false),
            ("http://localhost.evil.example:1", false),
            ("http://[2001:db8::1]:1", false),
            ("http://10.0.0.1", false),
        ] {
            let mut buffer = [0; NAME_MAX];
            let upstream = Upstream::parse(text, Protocol::Http, &mut buffer).unwrap();
            assert_eq!(upstream.is_loopback(), expected, "{text}");
        }
    }
}
