//! The policy's rules for names and addresses. Pure; common's matcher decides.

use crate::error::ProxyError;
use common::proxy::{Setup, Unlisted};
use common::wire::Strings;
use proxy_hosts::address::{Class, embedded};
use proxy_hosts::domain::{self, Host, NAME_MAX, Pattern};
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The three lists, parsed. They live as long as the process, and so do their texts.
#[derive(Debug)]
pub(crate) struct Rules {
    /// With what was granted since.
    allowed: RwLock<Vec<Pattern<'static>>>,
    denied: Vec<Pattern<'static>>,
    private: Vec<Pattern<'static>>,
    unlisted: Unlisted,
}

/// What the rules say about a host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may be looked up, and dialled if its addresses may be.
    Allowed,
    /// A rule denies it.
    Denied,
    /// No rule allows it.
    NotListed,
}

impl Rules {
    /// Reads the rules that the broker sends.
    ///
    /// # Errors
    /// Returns [`ProxyError::Rule`] for one that the broker should have refused.
    pub(crate) fn parse(setup: &Setup<'_>) -> Result<Self, ProxyError> {
        Ok(Self {
            allowed: RwLock::new(patterns(setup.allowed)?),
            denied: patterns(setup.denied)?,
            private: patterns(setup.private)?,
            unlisted: setup.unlisted,
        })
    }

    /// What no rule names is permitted, and told.
    pub(crate) fn learn(&self) -> bool {
        self.unlisted == Unlisted::Learned
    }

    /// Somebody is asked about what no rule names.
    pub(crate) fn ask(&self) -> bool {
        self.unlisted == Unlisted::Asked
    }

    /// Allows what this pattern names, unless a rule denies it.
    ///
    /// # Errors
    /// As [`Rules::parse`].
    pub(crate) fn grant(&self, text: &[u8]) -> Result<(), ProxyError> {
        let granted = pattern(text)?;
        self.allowed.write().unwrap_or_else(PoisonError::into_inner).push(granted);
        Ok(())
    }

    fn allowed(&self) -> RwLockReadGuard<'_, Vec<Pattern<'static>>> {
        self.allowed.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `host` and `port` may be reached at all.
    pub(crate) fn judge(&self, host: &Host<'_>, port: u16) -> Verdict {
        match domain::judge(&self.allowed(), &self.denied, host, port) {
            domain::Verdict::Denied(_) => Verdict::Denied,
            domain::Verdict::Allowed(_) => Verdict::Allowed,
            domain::Verdict::NotListed => Verdict::NotListed,
        }
    }

    /// Whether there is a port at which `host` may be reached.
    pub(crate) fn permits_some_port(&self, host: &Host<'_>) -> bool {
        self.learn() || domain::permits_some_port(&self.allowed(), &self.denied, host)
    }

    /// Whether somebody is asked about `host`, of which no port may be reached by the rules: then none denies any.
    pub(crate) fn asks_about(&self, host: &Host<'_>) -> bool {
        self.ask() && !domain::permits_some_port(&self.denied, &[], host)
    }

    /// Whether `address`, which is of this class and one of those of the permitted `host`, may be
    /// dialled. A literal in allowedDomains permits that address for every permitted name; one in
    /// deniedDomains refuses it.
    pub(crate) fn permits(
        &self,
        host: &Host<'_>,
        address: IpAddr,
        class: Class,
        port: u16,
    ) -> bool {
        let literal = Host::Address(address.to_canonical());
        let mut inside = embedded(address).map(|inside| Host::Address(inside.into()));
        let is_denied = |host: Host<'_>| any(&self.denied, &host, port);
        if class == Class::NoHost || is_denied(literal) || inside.any(is_denied) {
            return false;
        }
        self.learn() || self.permits_class(host, address, class, port)
    }

    /// Whether `address` of the permitted `host` is anybody's, or of a class that a rule permits for it.
    pub(crate) fn permits_class(
        &self,
        host: &Host<'_>,
        address: IpAddr,
        class: Class,
        port: u16,
    ) -> bool {
        class == Class::Public
            || any(&self.allowed(), &Host::Address(address.to_canonical()), port)
            || class == Class::Private && any(&self.private, host, port)
    }
}

fn any(patterns: &[Pattern<'_>], host: &Host<'_>, port: u16) -> bool {
    patterns.iter().any(|pattern| pattern.matches(host, port))
}

fn patterns(texts: Strings<'_>) -> Result<Vec<Pattern<'static>>, ProxyError> {
    texts.iter().map(|text| pattern(text.strip_suffix(b"\0").unwrap_or(text))).collect()
}

fn pattern(text: &[u8]) -> Result<Pattern<'static>, ProxyError> {
    let text = str::from_utf8(text).map_err(|_| ProxyError::Message)?;
    let buffer = Box::leak(Box::new([0; NAME_MAX]));
    Pattern::parse(text, buffer).map_err(|_| ProxyError::Rule(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy_hosts::address::classify;

    fn rules(allowed: &[&str], denied: &[&str], private: &[&str]) -> Rules {
        let mut buffer = vec![0; common::proxy::SETUP_MAX];
        let length = Setup::encode(
            &mut buffer,
            Unlisted::Refused,
            [allowed, denied, private, &[], &[], &[]],
        )
        .unwrap();
        Rules::parse(&Setup::decode(&buffer[..length]).unwrap()).unwrap()
    }

    #[test]
    fn deny_wins_and_what_is_not_listed_is_not_allowed() {
        let rules =
            rules(&["*.a.test", "b.test:80", "192.0.2.1"], &["no.a.test", "x.a.test:25"], &[]);
        for (name, port, expected) in [
            ("yes.a.test", 443, Verdict::Allowed),
            ("no.a.test", 443, Verdict::Denied),
            ("x.a.test", 25, Verdict::Denied),
            ("x.a.test", 26, Verdict::Allowed),
            ("a.test", 443, Verdict::NotListed),
            ("b.test", 80, Verdict::Allowed),
            ("b.test", 443, Verdict::NotListed),
        ] {
            assert_eq!(rules.judge(&Host::Name(name), port), expected, "{name}:{port}");
        }
        let literal = |text: &str| rules.judge(&Host::Address(text.parse().unwrap()), 1);
        assert_eq!(literal("192.0.2.1"), Verdict::Allowed);
        assert_eq!(literal("192.0.2.2"), Verdict::NotListed);
    }

    #[test]
    fn addresses_that_are_not_public_need_a_rule_of_their_own() {
        let rules = rules(
            &["a.test", "corp.test", "127.0.0.1:80", "169.254.169.254", "0.0.0.0"],
            &["192.0.2.66"],
            &["corp.test"],
        );
        for (name, address, port, expected) in [
            ("a.test", "192.0.2.1", 443, true),
            ("a.test", "192.0.2.66", 443, false),
            // The same through a translator (RFC 6052) and a relay (RFC 3056).
            ("a.test", "64:ff9b::c000:242", 443, false),
            ("a.test", "2002:c000:242::1", 443, false),
            ("a.test", "64:ff9b:1:c000:2:4200::", 443, false),
            ("a.test", "64:ff9b::c000:243", 443, true),
            ("a.test", "2002:c000:243::1", 443, true),
            ("a.test", "10.0.0.1", 443, false),
            ("corp.test", "10.0.0.1", 443, true),
            ("corp.test", "127.0.0.1", 443, false),
            ("corp.test", "fd00:ec2::254", 443, false),
            ("a.test", "127.0.0.1", 80, true),
            ("a.test", "::ffff:127.0.0.1", 80, true),
            ("a.test", "127.0.0.1", 81, false),
            ("a.test", "127.0.0.2", 80, false),
            ("a.test", "169.254.169.254", 80, true),
            ("a.test", "0.0.0.0", 80, false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let permitted = rules.permits(&Host::Name(name), address, classify(address), port);
            assert_eq!(permitted, expected, "{name} {address}:{port}");
        }
    }
}
