//! Host names, address literals and the patterns of a policy that match them. Pure: no look-up, no
//! allocation.
//!
//! One spelling a host: what reaches the matcher is a lower-case name without a trailing dot, or an
//! address. Everything that some resolver would take for an address though it is not written as
//! one (`0x7f.1`, `017700000001`, `127.1`) is refused, so that no rule about names speaks of it.
//! Sources: RFC 1123 section 2.1, RFC 3986 section 3.2.2, the "ends in a number" check of the
//! WHATWG URL standard.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name, without a trailing dot (RFC 1035).
pub const NAME_MAX: usize = 253;
/// Longest label.
const LABEL_MAX: usize = 63;

/// A host as a request or a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// A name in lower case, without a trailing dot.
    Name(&'a str),
    /// An address literal.
    Address(IpAddr),
}

/// Why a text is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// Nothing there.
    Empty,
    /// Longer than a name may be, or one of its labels is.
    TooLong,
    /// Two dots in a row, or one at the beginning.
    EmptyLabel,
    /// Something other than letters, digits, `-` and `_`, such as a control byte or `@`.
    Character,
    /// Not in ASCII: an international name is written in its A-label form (`xn--...`).
    International,
    /// Brackets without an IPv6 address inside, or with a zone.
    Bracket,
    /// Ends in a number but is no IPv4 address in four decimal parts.
    Number,
    /// An IPv4 address in the disguise of an IPv6 one.
    Mapped,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::TooLong => "it is too long for a domain name",
            Self::EmptyLabel => "it has an empty label, which no domain name has",
            Self::Character => "it has a character that no domain name has",
            Self::International => "an international name is written in its ASCII form (xn--...)",
            Self::Bracket => "there is no IPv6 address in the brackets",
            Self::Number => "an IPv4 address is written as four decimal numbers",
            Self::Mapped => "write the IPv4 address that is inside of the IPv6 address",
        })
    }
}

impl<'a> Host<'a> {
    /// Reads a name, an IPv4 address, or an IPv6 address in brackets; a name is written to `buffer`
    /// in its one spelling.
    pub fn parse(text: &[u8], buffer: &'a mut [u8; NAME_MAX]) -> Result<Self, HostError> {
        if let Some(rest) = text.strip_prefix(b"[") {
            let inside = rest.strip_suffix(b"]").ok_or(HostError::Bracket)?;
            let inside = core::str::from_utf8(inside).map_err(|_| HostError::Bracket)?;
            let address: Ipv6Addr = inside.parse().map_err(|_| HostError::Bracket)?;
            return Self::of_address(IpAddr::V6(address));
        }
        let text = normalise(text, buffer)?;
        if ends_in_number(text) {
            // The parser of the standard library knows the canonical form only.
            let address: Ipv4Addr = text.parse().map_err(|_| HostError::Number)?;
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        Ok(Self::Name(text))
    }

    /// The host that is `address`, as a binary protocol carries it.
    ///
    /// # Errors
    /// Returns [`HostError::Mapped`] for an IPv4-mapped address: the rules would not recognise it.
    pub fn of_address(address: IpAddr) -> Result<Self, HostError> {
        if address.to_canonical() == address {
            Ok(Self::Address(address))
        } else {
            Err(HostError::Mapped)
        }
    }
}

impl fmt::Display for Host<'_> {
    /// As a policy and a URL write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn normalise<'a>(text: &[u8], buffer: &'a mut [u8; NAME_MAX]) -> Result<&'a str, HostError> {
    if !text.is_ascii() {
        return Err(HostError::International);
    }
    let text = text.strip_suffix(b".").unwrap_or(text);
    if text.is_empty() {
        return Err(HostError::Empty);
    }
    let name = buffer.get_mut(..text.len()).ok_or(HostError::TooLong)?;
    for label in text.split(|&byte| byte == b'.') {
        if label.is_empty() {
            return Err(HostError::EmptyLabel);
        }
        if label.len() > LABEL_MAX {
            return Err(HostError::TooLong);
        }
        // An underscore is in no host name by the book, and in many by use.
        if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)) {
            return Err(HostError::Character);
        }
    }
    name.copy_from_slice(text);
    name.make_ascii_lowercase();
    core::str::from_utf8(name).map_err(|_| HostError::Character)
}

/// Whether some resolver would take the name for an address: its last label is a decimal or a
/// hexadecimal number. No top-level domain is.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let digits = |text: &str, radix: u32| text.chars().all(|digit| digit.is_digit(radix));
    digits(last, 10) || last.strip_prefix("0x").is_some_and(|hex| digits(hex, 16))
}

/// A rule of `allowedDomains` or `deniedDomains`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern<'a> {
    host: Host<'a>,
    /// It was written `*.name`: the names below, not the name itself.
    below: bool,
    port: Option<u16>,
}

/// Why a text is no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// The host is none.
    Host(HostError),
    /// `*` elsewhere than as `*.` at the beginning of a name.
    Star,
    /// What follows the colon is no number from 1 to 65535.
    Port,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(error) => error.fmt(f),
            Self::Star => f.write_str("'*' is possible only as '*.' at the beginning of a name"),
            Self::Port => f.write_str("a port is a number from 1 to 65535"),
        }
    }
}

impl<'a> Pattern<'a> {
    /// Reads `example.com`, `*.example.com`, `192.0.2.1` or `[2001:db8::1]`, each with an optional
    /// `:port`.
    ///
    /// # Errors
    /// Returns the [`PatternError`] that says why it could never match, or not what was meant.
    pub fn parse(text: &str, buffer: &'a mut [u8; NAME_MAX]) -> Result<Self, PatternError> {
        let (host, port) = split_port(text);
        let (host, below) = match host.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (host, false),
        };
        if host.contains('*') {
            return Err(PatternError::Star);
        }
        let host = Host::parse(host.as_bytes(), buffer).map_err(PatternError::Host)?;
        if below && matches!(host, Host::Address(_)) {
            return Err(PatternError::Star);
        }
        let port = match port {
            None => None,
            Some(port) => Some(parse_port(port).ok_or(PatternError::Port)?),
        };
        Ok(Self { host, below, port })
    }

    /// Whether it speaks of `host` and `port`.
    #[must_use]
    pub fn matches(&self, host: &Host<'_>, port: u16) -> bool {
        if self.port.is_some_and(|only| only != port) {
            return false;
        }
        match (self.host, host) {
            (Host::Address(own), Host::Address(other)) => own == *other,
            (Host::Name(own), Host::Name(name)) if self.below => {
                name.strip_suffix(own).is_some_and(|front| front.ends_with('.'))
            }
            (Host::Name(own), Host::Name(name)) => own == *name,
            _ => false,
        }
    }
}

/// What two lists of rules say of a host and port, with the index of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This one of those that deny.
    Denied(usize),
    /// This one of those that allow.
    Allowed(usize),
    /// No rule allows it.
    NotListed,
}

/// Judges `host` and `port`: a rule that denies wins.
#[must_use]
pub fn judge(
    allowed: &[Pattern<'_>],
    denied: &[Pattern<'_>],
    host: &Host<'_>,
    port: u16,
) -> Verdict {
    let find = |rules: &[Pattern<'_>]| rules.iter().position(|rule| rule.matches(host, port));
    let denied = find(denied).map(Verdict::Denied);
    denied.or_else(|| find(allowed).map(Verdict::Allowed)).unwrap_or(Verdict::NotListed)
}

/// Whether some port of `host` may be reached.
#[must_use]
pub fn permits_some_port(allowed: &[Pattern<'_>], denied: &[Pattern<'_>], host: &Host<'_>) -> bool {
    let speaks = |rule: &&Pattern<'_>| rule.matches(host, rule.port.unwrap_or(0));
    let is_denied = |port: Option<u16>| {
        denied.iter().filter(speaks).any(|rule| rule.port.is_none() || rule.port == port)
    };
    allowed.iter().filter(speaks).any(|rule| !is_denied(rule.port))
}

/// Splits `host:port`; the colons of an IPv6 address in brackets are not looked at.
#[must_use]
pub fn split_port(text: &str) -> (&str, Option<&str>) {
    let colon = match text.rfind(']') {
        Some(end) => text[end..].find(':').map(|at| end + at),
        None => text.find(':'),
    };
    colon.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])))
}

/// Reads a port: decimal digits only, not 0.
#[must_use]
pub fn parse_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&port| digits && port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    fn host(text: &str) -> Result<String, HostError> {
        let mut buffer = [0; NAME_MAX];
        Host::parse(text.as_bytes(), &mut buffer).map(|host| host.to_string())
    }

    fn matches(rule: &str, text: &str, port: u16) -> bool {
        let (mut own, mut other) = ([0; NAME_MAX], [0; NAME_MAX]);
        let rule = Pattern::parse(rule, &mut own).unwrap();
        rule.matches(&Host::parse(text.as_bytes(), &mut other).unwrap(), port)
    }

    #[test]
    fn each_host_has_one_spelling() {
        for (text, expected) in [
            ("example.com", "example.com"),
            ("EXAMPLE.Com.", "example.com"),
            ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
            ("a_b.c-d", "a_b.c-d"),
            ("localhost", "localhost"),
            ("1.example", "1.example"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[2001:DB8:0::1]", "[2001:db8::1]"),
            ("0xg.example", "0xg.example"),
            ("1.0xg", "1.0xg"),
        ] {
            assert_eq!(host(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused_with_its_reason() {
        use HostError::*;
        let long_label = "a".repeat(64);
        let long_name = "a.".repeat(126) + "aa";
        for (text, expected) in [
            ("", Empty),
            (".", Empty),
            ("..", EmptyLabel),
            ("a..", EmptyLabel),
            (".a", EmptyLabel),
            ("a..b", EmptyLabel),
            ("user@example.com", Character),
            ("example.com\0", Character),
            ("example.com\0.evil.com", Character),
            ("example.com\r\n", Character),
            ("example.com%00", Character),
            ("exa mple.com", Character),
            ("example.com\t", Character),
            ("example.com/", Character),
            ("example.com#", Character),
            ("example.com\\", Character),
            ("a:b", Character),
            ("*.example.com", Character),
            ("::1", Character),
            ("b\u{fc}cher.example", International),
            ("example\u{3002}com", International),
            ("\u{ff45}xample.com", International),
            ("2130706433", Number),
            ("0x7f000001", Number),
            ("0x7F.1", Number),
            ("0x", Number),
            ("017700000001", Number),
            ("127.1", Number),
            ("127.0.1", Number),
            ("0177.0.0.1", Number),
            ("127.0.0.01", Number),
            ("127.0.0.1.1", Number),
            ("127.0.0.256", Number),
            ("127.0.0.0x1", Number),
            ("example.1", Number),
            ("[::1", Bracket),
            ("[]", Bracket),
            ("[::1]x", Bracket),
            ("[fe80::1%eth0]", Bracket),
            ("[fe80::1%25eth0]", Bracket),
            ("[127.0.0.1]", Bracket),
            ("[::ffff:127.0.0.1]", Mapped),
            ("[::ffff:7f00:1]", Mapped),
            (&long_label, TooLong),
            (&long_name, TooLong),
        ] {
            assert_eq!(host(text), Err(expected), "{text:?}");
        }
        assert!(host(&("a.".repeat(126) + "a")).is_ok(), "253 bytes");
    }

    #[test]
    fn a_rule_matches_what_it_says_and_nothing_else() {
        for (rule, text, port, expected) in [
            ("example.com", "example.com", 1, true),
            ("Example.COM.", "eXample.com.", 1, true),
            ("example.com", "www.example.com", 1, false),
            ("example.com", "xexample.com", 1, false),
            ("example.com", "example.com.evil", 1, false),
            ("*.example.com", "www.example.com", 1, true),
            ("*.example.com", "a.b.example.com", 1, true),
            ("*.example.com", "example.com", 1, false),
            ("*.example.com", "xexample.com", 1, false),
            ("*.example.com", "example.com.evil", 1, false),
            ("example.com:443", "example.com", 443, true),
            ("example.com:443", "example.com", 80, false),
            ("*.example.com:443", "a.example.com", 80, false),
            ("10.0.0.1", "10.0.0.1", 1, true),
            ("10.0.0.1:80", "10.0.0.1", 80, true),
            ("10.0.0.1:80", "10.0.0.1", 81, false),
            ("[2001:db8::1]", "[2001:db8:0:0::1]", 1, true),
            ("[::1]:80", "[::1]", 80, true),
            ("[::1]:80", "[::1]", 81, false),
            ("[::7f00:1]", "127.0.0.1", 80, false),
        ] {
            assert_eq!(matches(rule, text, port), expected, "{rule} {text} {port}");
        }
    }

    #[test]
    fn a_name_exists_where_some_port_of_it_may_be_reached() {
        for (allowed, denied, expected) in [
            ("a.test", "b.test", true),
            ("a.test:80", "b.test", true),
            ("*.test:80", "a.test:81", true),
            ("a.test", "a.test:80", true),
            ("a.test:80", "a.test:80", false),
            ("a.test", "a.test", false),
            ("a.test:80", "*.test", false),
            ("b.test", "c.test", false),
        ] {
            let mut buffers = [[0; NAME_MAX]; 2];
            let [one, other] = &mut buffers;
            let lists = [Pattern::parse(allowed, one).unwrap()];
            let denied_list = [Pattern::parse(denied, other).unwrap()];
            let found = permits_some_port(&lists, &denied_list, &Host::Name("a.test"));
            assert_eq!(found, expected, "{allowed} {denied}");
        }
    }

    #[test]
    fn what_could_never_match_is_no_rule() {
        let error = |text: &str| Pattern::parse(text, &mut [0; NAME_MAX]).err();
        for (text, expected) in [
            ("", PatternError::Host(HostError::Empty)),
            ("*", PatternError::Star),
            ("*.", PatternError::Host(HostError::Empty)),
            ("*:443", PatternError::Star),
            ("a.*.b", PatternError::Star),
            ("*a.b", PatternError::Star),
            ("*.*.b", PatternError::Star),
            ("*.10.0.0.1", PatternError::Star),
            ("a:", PatternError::Port),
            ("a:0", PatternError::Port),
            ("a:+1", PatternError::Port),
            ("a:65536", PatternError::Port),
            ("a:1:2", PatternError::Port),
            ("127.1", PatternError::Host(HostError::Number)),
            ("[::ffff:1.2.3.4]", PatternError::Host(HostError::Mapped)),
            ("b\u{fc}cher.de", PatternError::Host(HostError::International)),
        ] {
            assert_eq!(error(text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn no_bytes_make_a_host_that_is_not_in_its_one_spelling() {
        let mut state = 1_u64;
        let alphabet = b"aZ0.9-_x[]:%@\0\r\n \xc3*1f";
        for _ in 0..200_000 {
            let mut text = [0; 12];
            for byte in &mut text {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()];
            }
            let length = usize::try_from(state >> 60).unwrap().min(12);
            let mut buffer = [0; NAME_MAX];
            if let Ok(parsed) = Host::parse(&text[..length], &mut buffer) {
                let shown = parsed.to_string();
                assert_eq!(host(&shown), Ok(shown.clone()), "{text:?}");
                assert!(!shown.bytes().any(|byte| byte.is_ascii_uppercase() || byte <= b' '));
            }
        }
    }
}
