//! The framing of SOCKS5 in both directions: RFC 1928, RFC 1929. It neither resolves nor dials.
//!
//! Not the crate fast-socks5, whose protocol types would fit otherwise. Its `read_command` takes only
//! names in UTF-8 and answers any other itself, with "connection refused" (5), before the caller can:
//! here a name that no rule can name is refused by the policy (2) and reported, whatever its bytes.
//! It does not look at reserved bytes, takes passwords only in UTF-8 where RFC 1929 has any bytes, and
//! brings a second thiserror, anyhow, async-trait, log, socket2 and tokio-stream into the proxy.

use crate::destination::{Destination, OwnedHost};
use proxy_hosts::domain::Host;
use std::io;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const VERSION: u8 = 5;
const CONNECT: u8 = 1;

mod method {
    pub(super) const NONE: u8 = 0;
    pub(super) const PASSWORD: u8 = 2;
    pub(super) const UNACCEPTABLE: u8 = 0xff;
}

mod kind {
    pub(super) const V4: u8 = 1;
    pub(super) const NAME: u8 = 3;
    pub(super) const V6: u8 = 4;
}

/// A reply code of RFC 1928 section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

impl Reply {
    /// Without a bound address: clients have no use for it.
    pub(crate) fn encode(self) -> [u8; 10] {
        [VERSION, self as u8, 0, kind::V4, 0, 0, 0, 0, 0, 0]
    }
}

/// What a client's handshake led to.
#[derive(Debug)]
pub(crate) enum Request {
    Connect(Destination),
    /// A host that no rule can name, and its port.
    Spelled(Vec<u8>, u16),
    /// To be answered with these bytes and closed.
    Bad(Vec<u8>),
}

/// Reads a client's handshake up to its request, which is to be answered. Without authentication,
/// CONNECT only; SOCKS4 is refused in its own words.
pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
) -> io::Result<Request> {
    match stream.read_u8().await? {
        VERSION => {}
        // Request rejected or failed.
        4 => return Ok(Request::Bad(vec![0, 0x5b, 0, 0, 0, 0, 0, 0])),
        _ => return Ok(Request::Bad(Vec::new())),
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&method::NONE) {
        return Ok(Request::Bad(vec![VERSION, method::UNACCEPTABLE]));
    }
    stream.write_all(&[VERSION, method::NONE]).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, reserved, kind] = head;
    let bad = |reply: Reply| Ok(Request::Bad(reply.encode().to_vec()));
    if version != VERSION || reserved != 0 {
        return bad(Reply::GeneralFailure);
    }
    if command != CONNECT {
        return bad(Reply::CommandNotSupported);
    }
    let Some(place) = Place::read(stream, kind).await? else {
        return bad(Reply::AddressTypeNotSupported);
    };
    let port = stream.read_u16().await?;
    Ok(match place.host() {
        Some(_) if port == 0 => return bad(Reply::GeneralFailure),
        Some(host) => Request::Connect(Destination { host, port }),
        None => Request::Spelled(place.spelling(), port),
    })
}

/// Why a server does not connect.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// It is not there, or broke off.
    Connection(io::Error),
    /// It does not take the user and password, or wants some.
    Credentials,
    /// It answered with this code.
    Refused(u8),
    /// It speaks another protocol.
    Broken,
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

/// User and password, as the message of RFC 1929.
pub(crate) struct Credentials(Vec<u8>);

impl Credentials {
    /// The lengths were judged when the URL was read.
    pub(crate) fn new(user: &[u8], password: &[u8]) -> Self {
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        Self([&[1, length(user)][..], user, &[length(password)], password].concat())
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

/// Has the server at the other end of `stream` connect to `place`; what comes after that is the
/// place's.
pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    place: &Place,
    port: u16,
    credentials: Option<&Credentials>,
) -> Result<(), ConnectError> {
    let offered: &[u8] = match credentials {
        None => &[VERSION, 1, method::NONE],
        Some(_) => &[VERSION, 2, method::NONE, method::PASSWORD],
    };
    stream.write_all(offered).await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    match (chosen, credentials) {
        ([VERSION, method::NONE], _) => {}
        ([VERSION, method::PASSWORD], Some(Credentials(message))) => {
            stream.write_all(message).await?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await?;
            if answer != [1, 0] {
                return Err(ConnectError::Credentials);
            }
        }
        ([VERSION, method::UNACCEPTABLE], _) => return Err(ConnectError::Credentials),
        _ => return Err(ConnectError::Broken),
    }
    stream.write_all(&request(place, port)?).await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    let [VERSION, code, _, kind] = answer else { return Err(ConnectError::Broken) };
    if code != Reply::Succeeded as u8 {
        return Err(ConnectError::Refused(code));
    }
    // Where it is bound has no use here.
    let Some(_) = Place::read(stream, kind).await? else { return Err(ConnectError::Broken) };
    stream.read_u16().await?;
    Ok(())
}

fn request(place: &Place, port: u16) -> io::Result<Vec<u8>> {
    let mut request = vec![VERSION, CONNECT, 0];
    match place {
        Place::Address(IpAddr::V4(address)) => {
            request.push(kind::V4);
            request.extend(address.octets());
        }
        Place::Address(IpAddr::V6(address)) => {
            request.push(kind::V6);
            request.extend(address.octets());
        }
        Place::Name(name) => {
            request.extend([kind::NAME, u8::try_from(name.len()).map_err(io::Error::other)?]);
            request.extend(name);
        }
    }
    request.extend(port.to_be_bytes());
    Ok(request)
}

/// A host as the wire has it.
pub(crate) enum Place {
    Address(IpAddr),
    /// Any bytes.
    Name(Vec<u8>),
}

impl From<&OwnedHost> for Place {
    fn from(host: &OwnedHost) -> Self {
        match host {
            OwnedHost::Address(address) => Self::Address(*address),
            OwnedHost::Name(name) => Self::Name(name.clone().into_bytes()),
        }
    }
}

impl Place {
    /// `None` for a kind of address that nobody knows.
    async fn read<S: AsyncRead + Unpin>(stream: &mut S, kind: u8) -> io::Result<Option<Self>> {
        Ok(Some(match kind {
            kind::V4 => Self::Address(IpAddr::V4(stream.read_u32().await?.into())),
            kind::V6 => Self::Address(IpAddr::V6(stream.read_u128().await?.into())),
            kind::NAME => {
                let mut name = vec![0; usize::from(stream.read_u8().await?)];
                stream.read_exact(&mut name).await?;
                Self::Name(name)
            }
            _ => return Ok(None),
        }))
    }

    /// As a rule would name it, if one can.
    fn host(&self) -> Option<OwnedHost> {
        match self {
            Self::Address(address) => Host::of_address(*address).map(OwnedHost::from).ok(),
            Self::Name(name) => OwnedHost::parse(name).ok(),
        }
    }

    fn spelling(self) -> Vec<u8> {
        match self {
            Self::Address(address) => address.to_string().into_bytes(),
            Self::Name(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn what_one_side_asks_for_is_what_the_other_reads() {
        block_on(async {
            for text in ["good.test:80", "192.0.2.1:1", "[2001:db8::1]:65535"] {
                let destination = Destination::parse(text, None).unwrap();
                let (mut client, mut server) = duplex(1024);
                let serving = tokio::spawn(async move {
                    let request = accept(&mut server).await.unwrap();
                    server.write_all(&Reply::Succeeded.encode()).await.unwrap();
                    server.write_all(b"hello").await.unwrap();
                    request
                });
                let place = Place::from(&destination.host);
                connect(&mut client, &place, destination.port, None).await.unwrap();
                let request = serving.await.unwrap();
                let Request::Connect(asked) = request else { panic!("{text}: {request:?}") };
                assert_eq!(asked, destination);
                // Not a byte of what follows is taken.
                let mut next = [0; 5];
                client.read_exact(&mut next).await.unwrap();
                assert_eq!(&next, b"hello");
            }
        });
    }

    #[test]
    fn what_an_upstream_answers_is_an_error_or_a_connection() {
        let place = Place::Name(b"good.test".to_vec());
        let outcome = |credentials: Option<Credentials>, answer: &'static [u8]| {
            block_on(async {
                let (mut client, mut server) = duplex(1024);
                server.write_all(answer).await.unwrap();
                server.shutdown().await.unwrap();
                match connect(&mut client, &place, 80, credentials.as_ref()).await {
                    Ok(()) => "connected".to_owned(),
                    Err(error) => format!("{error:?}").split('(').next().unwrap().to_owned(),
                }
            })
        };
        let login = || Some(Credentials::new(b"me", b"\xff"));
        for (credentials, answer, expected) in [
            (None, &b"\x05\0\x05\0\0\x01\0\0\0\0\0\0"[..], "connected"),
            (None, b"\x05\0\x05\0\0\x03\x02ab\0\0", "connected"),
            (login(), b"\x05\x02\x01\0\x05\0\0\x01\0\0\0\0\0\0", "connected"),
            (login(), b"\x05\x02\x01\x01", "Credentials"),
            (None, b"\x05\xff", "Credentials"),
            (None, b"\x05\x02", "Broken"),
            (None, b"HTTP/1.1 400", "Broken"),
            (None, b"\x05\0\x05\x05\0\x01\0\0\0\0\0\0", "Refused"),
            (None, b"\x05\0\x05\0\0\x09", "Broken"),
            (None, b"\x05\0\x05", "Connection"),
        ] {
            assert_eq!(outcome(credentials, answer), expected, "{answer:?}");
        }
    }
}
