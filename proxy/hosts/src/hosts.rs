//! Lines of a hosts file: hosts(5). Pure.

use core::net::IpAddr;

/// The part of `text`, a line, that is no comment.
#[must_use]
pub fn content(text: &str) -> &str {
    text.split('#').next().unwrap_or(text).trim()
}

/// The address of a line, and the names that it has there as they are written; `None` without an address.
pub fn line(text: &str) -> Option<(IpAddr, impl Iterator<Item = &str>)> {
    let mut words = content(text).split_ascii_whitespace();
    let address = words.next()?.parse().ok()?;
    Some((address, words))
}
