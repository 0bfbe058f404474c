//! Whether an item of `allowedDomains` or `deniedDomains` is a domain rule at all. Pure; the matching itself is
//! the proxy's.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Checks `example.com`, `*.example.com`, an IP address (IPv6 in brackets), each with an optional `:port`.
///
/// # Errors
/// Returns what is wrong: a rule that can match nothing, or not what its author meant, must not pass silently.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("empty domain".to_owned());
    }
    if text.contains("://") || text.contains('/') {
        return Err(format!("'{text}' is a URL; write the host, such as 'example.com'"));
    }
    if text == "*" || text.starts_with("*:") {
        return Err("'*' alone is no domain: what is not allowed is denied anyway, and \
                    network.allowNetwork lifts all restrictions"
            .to_owned());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (address, rest) = bracketed.split_once(']').ok_or("'[' is not closed")?;
            if address.parse::<Ipv6Addr>().is_err() {
                return Err(format!("'{address}' is no IPv6 address"));
            }
            match rest.strip_prefix(':') {
                Some(port) => (None, Some(port)),
                None if rest.is_empty() => (None, None),
                None => return Err(format!("'{text}' has something after ']'")),
            }
        }
        None if text.parse::<Ipv6Addr>().is_ok() => {
            return Err(format!("write the IPv6 address in brackets: '[{text}]'"));
        }
        None => match text.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(text), None),
        },
    };
    if let Some(port) = port
        && !port.parse::<u16>().is_ok_and(|number| number > 0 && port.bytes().all(|b| b != b'+'))
    {
        return Err(format!("'{port}' is no port from 1 to 65535"));
    }
    host.map_or(Ok(()), check_name)
}

fn check_name(host: &str) -> Result<(), String> {
    if host.parse::<Ipv4Addr>().is_ok() {
        return Ok(());
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    if name.contains('*') {
        return Err(format!("'{host}': '*' is possible only as '*.' at the beginning"));
    }
    if !name.is_ascii() {
        return Err(format!("'{host}': write an international name in its ASCII form (xn--...)"));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let label_is_valid = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if name.len() > 253 || !name.split('.').all(label_is_valid) {
        return Err(format!("'{host}' is no domain name"));
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
            (".a", "no domain name"),
            ("*.", "no domain name"),
            ("a:", "no port"),
            ("a:0", "no port"),
            ("a:+1", "no port"),
            ("a:65536", "no port"),
            ("[::1", "not closed"),
            ("[x]", "no IPv6"),
            ("[::1]x", "after ']'"),
            ("::1", "in brackets"),
            ("münchen.de", "xn--"),
        ] {
            let error = check(bad).err().unwrap_or_default();
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }
}
