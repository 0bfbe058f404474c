//! Header fields that are not for the host: RFC 9110 section 7.6, RFC 9112. Pure.

use crate::answer::Failure;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// What two readers could understand in two ways is not forwarded (RFC 9112 sections 3.2 and 6.3).
pub(crate) fn check_framing(headers: &HeaderMap) -> Result<(), Failure> {
    let count = |name: HeaderName| headers.get_all(name).iter().count();
    if count(header::HOST) > 1 {
        return Err(Failure::Bad("more than one Host field"));
    }
    if count(header::CONTENT_LENGTH) + count(header::TRANSFER_ENCODING) > 1 {
        return Err(Failure::Bad("ambiguous length of the body"));
    }
    Ok(())
}

/// Removes what is for the next hop only (RFC 9110 section 7.6.1), except what frames the body:
/// hyper sees to that.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Nobody may take the framing away.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::TRANSFER_ENCODING)
        .collect();
    let always = [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("proxy-authentication-info"),
    ];
    for name in named.into_iter().chain(always) {
        headers.remove(name);
    }
}

/// The protocol that the message asks to switch to. Another version of HTTP, or TLS, is none: there
/// names could be asked for that nobody compares.
pub(crate) fn requested_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = headers.get_all(header::CONNECTION).iter().any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
        })
    });
    let is_compared = |value: &&HeaderValue| {
        value.to_str().is_ok_and(|text| {
            text.split(',').all(|protocol| {
                let name = protocol.split('/').next().unwrap_or_default().trim();
                !["h2c", "h2", "HTTP", "TLS"].iter().any(|none| name.eq_ignore_ascii_case(none))
            })
        })
    };
    headers.get(header::UPGRADE).filter(|_| asks).filter(is_compared).cloned()
}

/// Asks for `protocol`, or agrees to it.
pub(crate) fn keep_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}
