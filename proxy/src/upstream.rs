//! The proxy that the caller uses, when permitted hosts are reached through it: HTTP (RFC 9110
//! section 9.3.6, RFC 7617) or SOCKS5.
//!
//! It gets the names of permitted hosts and resolves them itself. What it answers to CONNECT is read
//! here and not passed on; nothing that the command sees contains the credentials, unless the proxy repeats in an answer
//! what it was sent in a plain request.

use crate::bypass::Bypass;
use crate::destination::{Destination, OwnedHost};
use crate::error::{ProxyError, UpstreamError};
use crate::socks5::{self, Credentials, Place};
use common::proxy::Setup;
use common::wire::Strings;
use hyper::header::HeaderValue;
use proxy_hosts::domain::NAME_MAX;
use proxy_url::Protocol;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest head of an answer to CONNECT.
const HEAD_MAX: usize = 16 * 1024;

/// Which traffic goes through which upstream, if any.
#[derive(Debug)]
pub(crate) struct Upstreams {
    requests: Option<Upstream>,
    tunnels: Option<Upstream>,
    direct: Bypass,
}

/// What a client wants of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Plain HTTP, read here.
    Request,
    /// Bytes in both directions.
    Tunnel,
}

/// One upstream.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) host: OwnedHost,
    pub(crate) port: u16,
    language: Language,
}

#[derive(Debug)]
enum Language {
    /// With the value of Proxy-Authorization.
    Http(Option<HeaderValue>),
    /// With user and password.
    Socks(Option<Credentials>),
}

impl Upstreams {
    /// Reads what the broker sends.
    ///
    /// # Errors
    /// Returns [`ProxyError::Message`] for what the broker should have refused.
    pub(crate) fn parse(setup: &Setup<'_>) -> Result<Self, ProxyError> {
        let upstream = |strings| text(strings)?.map(Upstream::parse).transpose();
        Ok(Self {
            requests: upstream(setup.requests)?,
            tunnels: upstream(setup.tunnels)?,
            direct: text(setup.direct)?.map(Bypass::parse).unwrap_or_default(),
        })
    }

    /// What `destination` is reached through; `None` for directly.
    pub(crate) fn towards(&self, destination: &Destination, purpose: Purpose) -> Option<&Upstream> {
        let upstream = match purpose {
            Purpose::Request => &self.requests,
            Purpose::Tunnel => &self.tunnels,
        };
        upstream.as_ref().filter(|_| !self.direct.matches(destination))
    }
}

fn text(strings: Strings<'_>) -> Result<Option<&str>, ProxyError> {
    let Some(text) = strings.iter().next() else { return Ok(None) };
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    str::from_utf8(text).map(Some).map_err(|_| ProxyError::Message)
}

impl Upstream {
    fn parse(url: &str) -> Result<Self, ProxyError> {
        let mut buffer = [0; NAME_MAX];
        let found = proxy_url::Upstream::parse(url, Protocol::Http, &mut buffer)
            .map_err(|_| ProxyError::Message)?;
        let credentials = found
            .credentials()
            .map(|(user, password)| (user.collect::<Vec<_>>(), password.collect::<Vec<_>>()));
        let language = match found.protocol {
            Some(Protocol::Http) => Language::Http(credentials.map(basic).transpose()?),
            Some(Protocol::Socks5) => Language::Socks(
                credentials.map(|(user, password)| Credentials::new(&user, &password)),
            ),
            None => return Err(ProxyError::Message),
        };
        Ok(Self { host: found.host.into(), port: found.port(), language })
    }

    /// Whether it takes plain requests, and with which authorization.
    pub(crate) fn takes_requests(&self) -> Option<Option<&HeaderValue>> {
        match &self.language {
            Language::Http(authorization) => Some(authorization.as_ref()),
            Language::Socks(_) => None,
        }
    }

    /// Has the upstream at the other end of `stream` connect to `destination`; what comes after
    /// that is the destination's.
    pub(crate) async fn open_tunnel(
        &self,
        stream: &mut TcpStream,
        destination: &Destination,
    ) -> Result<(), UpstreamError> {
        match &self.language {
            Language::Http(authorization) => {
                http_connect(stream, destination, authorization.as_ref()).await
            }
            Language::Socks(credentials) => {
                let place = Place::from(&destination.host);
                socks5::connect(stream, &place, destination.port, credentials.as_ref()).await?;
                Ok(())
            }
        }
    }
}

async fn http_connect(
    stream: &mut TcpStream,
    destination: &Destination,
    authorization: Option<&HeaderValue>,
) -> Result<(), UpstreamError> {
    let mut request =
        format!("CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n").into_bytes();
    if let Some(value) = authorization {
        request.extend([b"Proxy-Authorization: ", value.as_bytes(), b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    stream.write_all(&request).await?;
    match status(&read_head(stream).await?) {
        Some(200..=299) => Ok(()),
        Some(407) => Err(UpstreamError::Credentials),
        Some(status) => Err(UpstreamError::Refused(status)),
        None => Err(UpstreamError::Broken),
    }
}

/// Reads to the end of the head and not a byte further: what follows is the destination's.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    while head.len() < HEAD_MAX {
        let mut window = [0; 1024];
        let seen = stream.peek(&mut window).await?;
        if seen == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let before = head.len();
        head.extend_from_slice(&window[..seen]);
        let end = head.windows(END.len()).position(|part| part == END).map(|at| at + END.len());
        head.truncate(end.unwrap_or(head.len()));
        stream.read_exact(&mut window[..head.len() - before]).await?;
        if end.is_some() {
            return Ok(head);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// The status of an HTTP/1 response.
fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let (code, after) = rest.get(1..)?.strip_prefix(b" ")?.split_at_checked(3)?;
    let is_status =
        code.iter().all(u8::is_ascii_digit) && matches!(after.first(), Some(b' ' | b'\r'));
    str::from_utf8(code).ok().filter(|_| is_status)?.parse().ok()
}

/// RFC 7617.
fn basic((user, password): (Vec<u8>, Vec<u8>)) -> Result<HeaderValue, ProxyError> {
    let token = base64(&[&user[..], b":", &password].concat());
    let mut value =
        HeaderValue::try_from(format!("Basic {token}")).map_err(|_| ProxyError::Message)?;
    value.set_sensitive(true);
    Ok(value)
}

/// RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let index = (bits >> (18 - 6 * at) & 0x3f) as usize;
            text.push(if at <= group.len() { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_as_the_protocols_want_them_and_not_shown() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}\u{fe}", "w7/Dvg=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), expected);
        }
        let http = Upstream::parse("http://Aladdin:open%20sesame@proxy").unwrap();
        let value = http.takes_requests().unwrap().unwrap();
        assert_eq!(value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let socks = Upstream::parse("socks5://me:pw@proxy").unwrap();
        assert!(matches!(&socks.language, Language::Socks(Some(_))), "{socks:?}");
        for shown in [format!("{http:?}"), format!("{socks:?}")] {
            assert!(!shown.contains("QWxh") && !shown.contains("pw"), "{shown}");
        }
    }

    #[test]
    fn an_answer_has_a_status_or_is_none() {
        for (head, expected) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", Some(200)),
            ("HTTP/1.0 407 x\r\n\r\n", Some(407)),
            ("HTTP/1.1 200\r\n\r\n", Some(200)),
            ("HTTP/1.1 2000\r\n\r\n", None),
            ("HTTP/1.1 +20 \r\n\r\n", None),
            ("HTTP/2 200\r\n\r\n", None),
            ("SSH-2.0-x\r\n\r\n", None),
            ("HTTP/1.1 200", None),
            ("", None),
        ] {
            assert_eq!(status(head.as_bytes()), expected, "{head:?}");
        }
    }
}
