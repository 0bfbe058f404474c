//! Bytes in both directions between a client and the host that it asked for.
//!
//! A client that says in the clear part of TLS, or in a request, which host it means must mean the
//! one that it asked the proxy for: else a permitted name would lead to any other site of the same
//! hosting company (domain fronting). What is inside TLS nobody sees. On port 443 nothing else passes but
//! ssh, which many hosts serve there. Nothing of what the client sends first goes to the host before it is
//! judged, except parts of a first line, which somebody may be typing, as long as no server can take them for a request. A host that
//! speaks first speaks no such protocol. What can name a host later, [`Watch`] finds.

use crate::destination::{Destination, OwnedHost};
use crate::opening::{Opening, OpeningReader};
use crate::proxy::{Proxy, Slot};
use crate::tls::HELLO_MAX;
use crate::watch::{Watch, Watched};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The port on which TLS is expected.
pub(crate) const TLS_PORT: u16 = 443;
/// How long a client may take for its first message there.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// Memory of a tunnel for each direction.
const BUFFER: usize = 16 * 1024;
/// Longest beginning that is looked at: a request's first line, or a hello in the smallest records.
const EARLY_MAX: usize = 6 * HELLO_MAX;
/// How long a client may stop inside of its first line until the host gets what is there of it.
const LINE_PAUSE: Duration = Duration::from_millis(5);

/// How a relay ended.
pub(crate) enum End<C> {
    /// Both sides are done, or the client was refused.
    Done,
    /// The client sends requests: each is to be judged for itself. What it sent is returned, and the
    /// host if it got nothing of that.
    Requests(C, Vec<u8>, Option<TcpStream>),
}

/// Relays until both sides are done; `early` is what the client sent already.
pub(crate) async fn relay<C: AsyncRead + AsyncWrite + Unpin>(
    proxy: &Proxy,
    destination: &Destination,
    mut client: C,
    mut early: Vec<u8>,
    mut host: TcpStream,
    slot: &Slot,
) -> End<C> {
    let opened = match destination.port {
        TLS_PORT => {
            let first = opening(&mut client, &mut early);
            timeout(HELLO_TIMEOUT, first).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
        }
        _ => opening_beside(&mut client, &mut early, &mut host).await,
    };
    let Ok((opening, sent)) = opened else { return End::Done };
    let mut permits = |opening: Opening| {
        let judged = judge(proxy, destination, &opening);
        judged.inspect_err(|named| proxy.report(named, destination.port)).is_ok()
    };
    let mut watch = Watch::after(&opening);
    if !permits(opening.clone()) || !watch.read_client(&early, &mut permits) {
        return End::Done;
    }
    if opening == Opening::Http {
        return End::Requests(client, early, (sent == 0).then_some(host));
    }
    if host.write_all(&early[sent..]).await.is_ok() {
        drop(early);
        // Either side may break off at any time.
        let mut client = Watched { client, watch, permits };
        let mut host = NotedHost { stream: host, slot };
        let _ = copy_bidirectional_with_sizes(&mut client, &mut host, BUFFER, BUFFER).await;
    }
    End::Done
}

/// The host; that it has got all is noted.
struct NotedHost<'a> {
    stream: TcpStream,
    slot: &'a Slot,
}

impl AsyncRead for NotedHost<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for NotedHost<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = ready!(Pin::new(&mut self.stream).poll_shutdown(context));
        self.slot.is_sent();
        Poll::Ready(shut)
    }
}

/// What the client says first; nothing of it is sent.
async fn opening<C: AsyncRead + Unpin>(
    client: &mut C,
    early: &mut Vec<u8>,
) -> io::Result<(Opening, usize)> {
    let mut reader = OpeningReader::default();
    loop {
        match reader.read(early) {
            Opening::Incomplete if early.len() < EARLY_MAX => {}
            opening => return Ok((opening, 0)),
        }
        if read_unless(client, early, None).await? == Some(0) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The same where the host may be the first to speak; with how much of it was sent.
async fn opening_beside<C: AsyncRead + Unpin>(
    client: &mut C,
    early: &mut Vec<u8>,
    host: &mut TcpStream,
) -> io::Result<(Opening, usize)> {
    let mut reader = OpeningReader::default();
    let mut sent = 0;
    loop {
        match reader.read(early) {
            Opening::Incomplete if early.len() < EARLY_MAX => {}
            Opening::Incomplete => return Ok((Opening::BrokenTls, sent)),
            opening => return Ok((opening, sent)),
        }
        let is_line = sent < early.len() && reader.is_in_line(early);
        let read = match is_line {
            true => timeout(LINE_PAUSE, read_unless(client, early, Some(host))).await,
            false => Ok(read_unless(client, early, Some(host)).await),
        };
        match read {
            Ok(read) => match read? {
                // The end of the stream is one of the line, for some.
                Some(0) if reader.may_be_request(early) => return Ok((Opening::Http, sent)),
                None | Some(0) => return Ok((Opening::Other, sent)),
                Some(_) => {}
            },
            Err(_) if reader.may_be_request(early) => return Ok((Opening::Http, sent)),
            Err(_) => {
                host.write_all(&early[sent..]).await?;
                sent = early.len();
            }
        }
    }
}

/// Reads from the client; `None` if `host` has something to say before.
async fn read_unless<C: AsyncRead + Unpin>(
    client: &mut C,
    early: &mut Vec<u8>,
    host: Option<&TcpStream>,
) -> io::Result<Option<usize>> {
    let mut buffer = [0; 4096];
    let length = poll_fn(|context| {
        let mut space = ReadBuf::new(&mut buffer);
        if let Poll::Ready(read) = Pin::new(&mut *client).poll_read(context, &mut space) {
            return Poll::Ready(read.map(|()| Some(space.filled().len())));
        }
        match host {
            None => Poll::Pending,
            // Readiness alone may be that of what was read before: an upstream proxy's answer.
            Some(host) => {
                ready!(host.poll_peek(context, &mut ReadBuf::new(&mut [0])))?;
                Poll::Ready(Ok(None))
            }
        }
    })
    .await?;
    early.extend_from_slice(&buffer[..length.unwrap_or(0)]);
    Ok(length)
}

/// Whether the client may go on.
fn judge(proxy: &Proxy, destination: &Destination, opening: &Opening) -> Result<(), String> {
    let asked = &destination.host;
    let is_tls_port = destination.port == TLS_PORT;
    match (opening, asked) {
        (Opening::Tls(Some(name)), _) => {
            let shown = || String::from_utf8_lossy(name).into_owned();
            let named = OwnedHost::parse(name).map_err(|_| shown())?;
            match permits(proxy, destination, &named) {
                true => Ok(()),
                false => Err(shown()),
            }
        }
        (Opening::Ssh, _) | (Opening::Tls(None), OwnedHost::Address(_)) => Ok(()),
        // Each request is judged for itself.
        (Opening::Http, _) if !is_tls_port => Ok(()),
        // Without a name in it there is none to compare.
        (Opening::Tls(None) | Opening::Other, _) if !is_tls_port => Ok(()),
        // Its names come later, where nobody looks.
        (Opening::Http2, OwnedHost::Address(_)) if !is_tls_port => Ok(()),
        _ => Err(asked.to_string()),
    }
}

/// Whether a client that asked for `destination` may name `host` there. A literal has no name to
/// compare; a name beside it must be permitted itself.
pub(crate) fn permits(proxy: &Proxy, destination: &Destination, host: &OwnedHost) -> bool {
    if *host == destination.host {
        return true;
    }
    // Who connects by itself has only an address of those in a hosts file, which can have several names.
    let are_one = |one: &OwnedHost, other: &OwnedHost| match (one, other) {
        (OwnedHost::Name(one), OwnedHost::Name(other)) => {
            let addresses = proxy.resolver.listed(one);
            !addresses.is_empty() && addresses == proxy.resolver.listed(other)
        }
        _ => false,
    };
    let named = Destination { host: host.clone(), port: destination.port };
    let may_be_named = matches!(destination.host, OwnedHost::Address(_));
    let is_permitted = (may_be_named || are_one(&destination.host, host))
        && proxy.permits(host, destination.port).is_ok();
    if is_permitted {
        proxy.learn(&named, None);
    }
    is_permitted
}
