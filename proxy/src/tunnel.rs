//! Bytes in both directions between a client and the host that it asked for.
//!
//! On port 443 the client must name, in the clear part of TLS, the host that it asked the proxy for:
//! else a permitted name would lead to any other site of the same hosting company (domain
//! fronting). ssh may pass, as many hosts serve it there. Nothing of what the client sends goes to
//! the host before it is judged.

use crate::destination::{Destination, OwnedHost};
use crate::proxy::Proxy;
use crate::rules::Verdict;
use crate::tls::{self, Hello};
use std::io;
use std::time::Duration;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes,
};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The port on which TLS is expected.
const TLS_PORT: u16 = 443;
/// How long a client may take for its first message there.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// Memory of a tunnel for each direction.
const BUFFER: usize = 16 * 1024;

/// Relays until both sides are done; `early` is what the client sent already.
pub(crate) async fn relay<C: AsyncRead + AsyncWrite + Unpin>(
    proxy: &Proxy,
    destination: &Destination,
    mut client: C,
    mut early: Vec<u8>,
    mut host: TcpStream,
) {
    if destination.port == TLS_PORT {
        let first = timeout(HELLO_TIMEOUT, first_message(&mut client, &mut early)).await;
        let Ok(Ok(hello)) = first else { return };
        if let Err(named) = judge(proxy, destination, &hello) {
            proxy.report(&named, destination.port);
            return;
        }
    }
    if host.write_all(&early).await.is_ok() {
        drop(early);
        // Either side may break off at any time.
        let _ = copy_bidirectional_with_sizes(&mut client, &mut host, BUFFER, BUFFER).await;
    }
}

async fn first_message<C: AsyncRead + Unpin>(
    client: &mut C,
    early: &mut Vec<u8>,
) -> io::Result<Hello> {
    loop {
        match tls::read(early) {
            Hello::Incomplete if early.len() < 2 * tls::HELLO_MAX => {}
            hello => return Ok(hello),
        }
        if client.read_buf(early).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Whether the client may go on.
///
/// # Errors
/// Returns the name to report.
fn judge(proxy: &Proxy, destination: &Destination, hello: &Hello) -> Result<(), String> {
    let asked = &destination.host;
    match (hello, asked) {
        // A literal has no name to compare; a name beside it must be permitted itself.
        (Hello::Ssh, _) | (Hello::Tls(None), OwnedHost::Address(_)) => Ok(()),
        (Hello::Tls(Some(name)), asked) => {
            let shown = || String::from_utf8_lossy(name).into_owned();
            let named = OwnedHost::parse(name).map_err(|_| shown())?;
            let permitted = match asked {
                OwnedHost::Name(_) => named == *asked,
                OwnedHost::Address(_) => {
                    let verdict = proxy.rules.judge(&named.borrow(), destination.port);
                    verdict == Verdict::Allowed
                }
            };
            if permitted { Ok(()) } else { Err(shown()) }
        }
        (Hello::Tls(None) | Hello::Other | Hello::Incomplete, _) => Err(asked.to_string()),
    }
}
