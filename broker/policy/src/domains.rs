//! Whether an item of `allowedDomains`, `deniedDomains` or `privateDomains` is a domain rule at all, and one of `hosts` a
//! line of hosts(5). Pure; the
//! proxy parses it with the same code.

use proxy_hosts::address::is_localhost;
use proxy_hosts::domain::{Host, NAME_MAX, Pattern, split_port};
use proxy_hosts::hosts;
use std::net::{IpAddr, Ipv6Addr};

/// Checks `example.com`, `*.example.com`, an IP address (IPv6 in brackets), each with an optional `:port`.
///
/// # Errors
/// Returns what is wrong: a rule that can match nothing, or not what its author meant, must not pass silently.
pub fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("empty domain".to_owned());
    }
    if text.split_once('/').is_some_and(|(before, _)| before.parse::<IpAddr>().is_ok()) {
        return Err(format!(
            "'{text}' is a range of addresses; write each address as an item of its own"
        ));
    }
    if text.contains("://") || text.contains('/') {
        return Err(format!("'{text}' is a URL; write the host, such as 'example.com'"));
    }
    if text == "*" || text.starts_with("*:") {
        return Err("'*' alone is not a domain: what is not allowed is denied anyway, and \
                    network.allowNetwork lifts all restrictions"
            .to_owned());
    }
    if let Some(domain) = text.strip_prefix('.') {
        return Err(format!(
            "'{text}' is no domain: write '*.{domain}' for all beneath '{domain}'"
        ));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(format!("write the IPv6 address in brackets: '[{text}]'"));
    }
    Pattern::parse(text, &mut [0; NAME_MAX])
        .map(drop)
        .map_err(|error| format!("'{text}' is not a domain rule: {error}"))
}

/// Whether `text`, with or without a port, names this host: a server on it is as one behind a Unix socket.
pub fn is_of_this_host(text: &str) -> bool {
    let name = split_port(text.trim()).0;
    match Host::parse(name.strip_prefix("*.").unwrap_or(name).as_bytes(), &mut [0; NAME_MAX]) {
        Ok(Host::Name(name)) => is_localhost(name),
        Ok(Host::Address(address)) => address.is_loopback(),
        Err(_) => false,
    }
}

/// Checks a line of `hosts`: an address with names, or a comment.
///
/// # Errors
/// Returns what is wrong: a name that resolves otherwise than written must not pass silently.
pub fn check_hosts_line(text: &str) -> Result<(), String> {
    if hosts::content(text).is_empty() {
        return Ok(());
    }
    let form = "write '192.0.2.1 name', as in /etc/hosts";
    let (_, names) =
        hosts::line(text).ok_or_else(|| format!("'{text}' begins with no address: {form}"))?;
    let mut names = names.peekable();
    names.peek().ok_or_else(|| format!("'{text}' has no name: {form}"))?;
    for name in names {
        match Host::parse(name.as_bytes(), &mut [0; NAME_MAX]) {
            Ok(Host::Name(_)) => {}
            Ok(Host::Address(_)) => return Err(format!("'{name}' is no name: {form}")),
            Err(error) => return Err(format!("'{name}' is no host name: {error}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_rules_are_told_from_everything_else() {
        for good in [
            "example.com",
            "*.example.com",
            "Example.COM.",
            "localhost",
            "a.b:443",
            "*.a.b:1",
            "10.0.0.1",
            "10.0.0.1:65535",
            "[::1]",
            "[2001:db8::1]:443",
            "x-y.z_1",
            "*.com",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, expected) in [
            ("", "empty"),
            ("https://example.com", "URL"),
            ("example.com/x", "URL"),
            ("*", "alone"),
            ("*:443", "alone"),
            ("a.*.com", "at the beginning"),
            ("*example.com", "at the beginning"),
            ("*.*.com", "at the beginning"),
            ("a b", "no domain name"),
            ("a..b", "no domain name"),
            (".a", "write '*.a'"),
            ("10.0.0.0/8", "each address"),
            ("fe80::/10", "each address"),
            ("*.", "empty"),
            ("a:", "from 1 to 65535"),
            ("a:0", "from 1 to 65535"),
            ("a:+1", "from 1 to 65535"),
            ("a:65536", "from 1 to 65535"),
            ("[::1", "brackets"),
            ("[x]", "no IPv6"),
            ("127.1", "four decimal"),
            ("0x7f.0.0.1", "four decimal"),
            ("[::ffff:1.2.3.4]", "IPv4"),
            ("[::1]x", "brackets"),
            ("::1", "in brackets"),
            ("münchen.de", "xn--"),
        ] {
            let error = check(bad).err().unwrap_or_default();
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }

    #[test]
    fn lines_of_hosts_have_an_address_and_names() {
        for good in ["127.0.0.1 a.test", "::1\ta b.test # c", "# 1.2.3.4", "", "1.2.3.4 A.Test."] {
            assert_eq!(check_hosts_line(good), Ok(()), "{good}");
        }
        for (bad, expected) in [
            ("a.test", "no address"),
            ("a.test 1.2.3.4", "no address"),
            ("127.1 a.test", "no address"),
            ("fe80::1%eth0 a.test", "no address"),
            ("1.2.3.4", "no name"),
            ("1.2.3.4 # a.test", "no name"),
            ("1.2.3.4 5.6.7.8", "no name"),
            ("1.2.3.4 *.test", "no domain name"),
            ("1.2.3.4 a.test:80", "no domain name"),
        ] {
            let error = check_hosts_line(bad).err().unwrap_or_default();
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }
}
