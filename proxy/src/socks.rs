//! SOCKS5 for the sandbox: what was asked for is judged, dialled and relayed.

use crate::error::DialError;
use crate::proxy::{Client, Proxy, Slot};
use crate::socks5::{self, Reply, Request};
use crate::tunnel;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

/// How long a client may take to say what it wants.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves one connection.
pub(crate) async fn serve<S: Client>(mut stream: S, proxy: Arc<Proxy>, slot: Slot) {
    let asked = timeout(HANDSHAKE_TIMEOUT, socks5::accept(&mut stream)).await;
    let Ok(Ok(request)) = asked else { return };
    let destination = match request {
        Request::Connect(destination) => proxy.by_name(destination),
        Request::Spelled(host, port) => {
            proxy.report(&String::from_utf8_lossy(&host), port);
            let _ = stream.write_all(&Reply::NotAllowed.encode()).await;
            return;
        }
        Request::Bad(answer) => {
            let _ = stream.write_all(&answer).await;
            return;
        }
    };
    match proxy.dial(&destination).await {
        Ok(host) => {
            if stream.write_all(&Reply::Succeeded.encode()).await.is_ok() {
                tunnel::serve(proxy, destination, stream, Vec::new(), host, slot).await;
            }
        }
        Err(error) => {
            let _ = stream.write_all(&reply(&error).encode()).await;
        }
    }
}

fn reply(error: &DialError) -> Reply {
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
