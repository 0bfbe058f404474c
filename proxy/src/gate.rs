//! The sandbox's connections: how many are served at a time, and by whom.
//!
//! There is nothing that a stranger could connect to: the broker accepts, knows its sandbox's
//! connections from all others, and hands them over one by one.

use crate::control::{Handed, Next};
use crate::direct::Caller;
use crate::error::ProxyError;
use crate::proxy::{Place, Proxy, Slot};
use crate::{asking, direct, http, learning, lookup, socks};
use common::proxy::{Client, END_LIMIT};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use std::net::TcpStream;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// Most connections at a time; each takes two descriptors, and while it is dialled some more.
const CONNECTIONS_MAX: usize = 4096;

/// Serves what the broker hands over, until it has gone, or the command has and what it sent was sent on.
pub(crate) async fn serve(proxy: Arc<Proxy>) -> Result<(), ProxyError> {
    let slots = Arc::new(Semaphore::new(connections_max(&proxy)));
    let (unsent, mut all_sent) = mpsc::channel(1);
    while let Some(next) = proxy.broker.next().await? {
        let handed = match next {
            Next::Serve(handed) => handed,
            Next::Grant(pattern) => {
                proxy.rules.grant(&pattern)?;
                continue;
            }
        };
        let (proxy, slots, unsent) = (Arc::clone(&proxy), Arc::clone(&slots), unsent.clone());
        tokio::spawn(async move {
            let Ok(permit) = slots.acquire_owned().await else { return };
            // Without it the connection is closed: the client tries again.
            let _ = greet(handed, proxy, Place::new(permit, unsent)).await;
        });
    }
    drop(unsent);
    // A kernel would send it on too, as long as the host takes it.
    let _ = timeout(END_LIMIT, all_sent.recv()).await;
    Ok(())
}

fn connections_max(proxy: &Proxy) -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let each = if proxy.rules.ask() { 6 } else { 5 };
    let fitting = usize::try_from(descriptors / each).unwrap_or(usize::MAX);
    CONNECTIONS_MAX.min(fitting).max(1)
}

async fn greet(
    (client, socket, others): Handed,
    proxy: Arc<Proxy>,
    slot: Slot,
) -> std::io::Result<()> {
    if client == Client::LookupMessages {
        // Of another type, but recv(2) and send(2) keep the bounds of messages for this one too.
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        socket.set_nonblocking(true)?;
        lookup::serve_messages(tokio::net::UnixDatagram::from_std(socket)?, proxy, slot).await;
        return Ok(());
    }
    let watched = proxy.rules.ask().then(|| fcntl_dupfd_cloexec(&socket, 0)).transpose()?;
    if let Client::Direct(place) = client
        && !others.is_empty()
    {
        let caller = Caller::new(socket, others)?;
        let (port, served) = (caller.port(), direct::answer(caller, place, proxy, slot));
        learning::of_client(port, asking::of_client(watched, served)).await;
        return Ok(());
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    // Small packets at once, as the host has sent them. Failure costs only time.
    let _ = stream.set_nodelay(true);
    let port = stream.peer_addr()?.port();
    let served = async move {
        match client {
            Client::Http => http::serve(stream, proxy, slot).await,
            Client::Socks => socks::serve(stream, proxy, slot).await,
            Client::Direct(place) => direct::serve(stream, place, proxy, slot).await,
            Client::Lookups | Client::LookupMessages => {
                lookup::serve_stream(stream, proxy, slot).await;
            }
        }
    };
    learning::of_client(port, asking::of_client(watched, served)).await;
    Ok(())
}
