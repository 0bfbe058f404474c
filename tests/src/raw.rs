//! Requests to the filtering proxy as bytes, sent from inside by the probe, and what it answers.

use crate::outcome::Outcome;
use crate::sandbox::Sandbox;

/// The beginning of an answer over HTTP.
pub const OK: &str = "HTTP/1.1 200";
/// The policy says no.
pub const FORBIDDEN: &str = "HTTP/1.1 403";
/// It is no request.
pub const BAD: &str = "HTTP/1.1 400";
/// The host is not reached.
pub const UNREACHABLE: &str = "HTTP/1.1 502";
/// The method and the reply of SOCKS5, as the probe shows them.
pub const SOCKS_OK: &str = r"\x05\x00\x05\x00";
/// The policy says no.
pub const SOCKS_REFUSED: &str = r"\x05\x00\x05\x02";

/// Bytes for the probe.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    let encode = |&byte: &u8| match byte {
        b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    bytes.as_ref().iter().map(encode).collect()
}

/// Sends bytes to the proxy for `protocol`, `http` or `socks`.
pub fn raw(sandbox: &Sandbox, protocol: &str, bytes: impl AsRef<[u8]>) -> Outcome {
    sandbox.probe(format!("raw {protocol} {}", encode(bytes)))
}

/// Asserts that the proxy's answer begins with `expected`.
#[track_caller]
pub fn answers(outcome: &Outcome, expected: &str) {
    let answer = outcome.result("raw");
    assert!(answer.starts_with(expected), "{expected} expected: {outcome:#?}");
}

/// A plain request.
pub fn get(authority: &str) -> String {
    format!(
        "GET http://{authority}/path?q HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
    )
}

/// A request for a tunnel; if there is none, the connection ends.
pub fn connect(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n")
}

/// A whole handshake of SOCKS5 for a name.
pub fn socks(host: &[u8], port: u16) -> Vec<u8> {
    let length = u8::try_from(host.len()).expect("a name that fits");
    [&[5, 1, 0, 5, 1, 0, 3, length], host, &port.to_be_bytes()].concat()
}
