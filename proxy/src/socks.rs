//! SOCKS5 without authentication, CONNECT only: RFC 1928. SOCKS4 is refused in its own words.
//!
//! The framing is small enough to be written here; crates for it bring resolving and dialling of
//! their own, which must not be used.

use crate::destination::{Destination, OwnedHost};
use crate::error::DialError;
use crate::gate::{Client, Proxy, Slot};
use crate::tunnel;
use common::domain::{Host, HostError};
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client may take to say what it wants.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// A reply code of RFC 1928 section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

/// What a client's handshake led to.
#[derive(Debug)]
enum Request {
    Connect(Destination),
    /// A host that no rule can name, and its port.
    Spelled(Vec<u8>, u16),
    /// Answered with these bytes and closed.
    Bad(Vec<u8>),
}

/// Serves one connection.
pub(crate) async fn serve<S: Client>(mut stream: S, proxy: &Proxy, slot: Slot) {
    let asked = timeout(HANDSHAKE_TIMEOUT, handshake(&mut stream)).await;
    let Ok(Ok(request)) = asked else { return };
    let destination = match request {
        Request::Connect(destination) => destination,
        Request::Spelled(host, port) => {
            proxy.report(&String::from_utf8_lossy(&host), port);
            let _ = stream.write_all(&reply(Reply::NotAllowed)).await;
            return;
        }
        Request::Bad(answer) => {
            let _ = stream.write_all(&answer).await;
            return;
        }
    };
    match proxy.dial(&destination).await {
        Ok(host) => {
            if stream.write_all(&reply(Reply::Succeeded)).await.is_ok() {
                tunnel::relay(proxy, &destination, stream, Vec::new(), host).await;
            }
        }
        Err(error) => {
            let _ = stream.write_all(&reply(code(&error))).await;
        }
    }
    drop(slot);
}

async fn handshake<S: Client>(stream: &mut S) -> io::Result<Request> {
    match stream.read_u8().await? {
        VERSION => {}
        // Request rejected or failed.
        4 => return Ok(Request::Bad(vec![0, 0x5b, 0, 0, 0, 0, 0, 0])),
        _ => return Ok(Request::Bad(Vec::new())),
    }
    let count = stream.read_u8().await?;
    let mut methods = vec![0; usize::from(count)];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        return Ok(Request::Bad(vec![VERSION, NO_METHOD]));
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, reserved, kind] = head;
    if version != VERSION || reserved != 0 {
        return Ok(Request::Bad(reply(Reply::GeneralFailure).to_vec()));
    }
    if command != CONNECT {
        return Ok(Request::Bad(reply(Reply::CommandNotSupported).to_vec()));
    }
    let (text, host) = match kind {
        1 => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            of_address(octets.into())
        }
        3 => {
            let length = stream.read_u8().await?;
            let mut name = vec![0; usize::from(length)];
            stream.read_exact(&mut name).await?;
            let host = OwnedHost::parse(&name);
            (name, host)
        }
        4 => {
            let mut octets = [0; 16];
            stream.read_exact(&mut octets).await?;
            of_address(octets.into())
        }
        _ => return Ok(Request::Bad(reply(Reply::AddressTypeNotSupported).to_vec())),
    };
    let port = stream.read_u16().await?;
    Ok(match host {
        Ok(_) if port == 0 => Request::Bad(reply(Reply::GeneralFailure).to_vec()),
        Ok(host) => Request::Connect(Destination { host, port }),
        Err(_) => Request::Spelled(text, port),
    })
}

fn of_address(address: IpAddr) -> (Vec<u8>, Result<OwnedHost, HostError>) {
    (address.to_string().into_bytes(), Host::of_address(address).map(OwnedHost::from))
}

/// A reply without a bound address: clients have no use for it.
fn reply(code: Reply) -> [u8; 10] {
    [VERSION, code as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

fn code(error: &DialError) -> Reply {
    match error {
        error if error.is_refusal() => Reply::NotAllowed,
        DialError::Resolve(..) | DialError::Timeout(_) => Reply::HostUnreachable,
        DialError::Connect(_, error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Reply::ConnectionRefused,
            io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
            _ => Reply::HostUnreachable,
        },
        _ => Reply::GeneralFailure,
    }
}
