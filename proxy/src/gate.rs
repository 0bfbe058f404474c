//! The listening sockets: who may use the proxy, and how many at a time.
//!
//! Everybody on this host can connect to a port on loopback. The broker makes all connections of its
//! sandbox and tells their local addresses; a connection from any other address is closed. The
//! address of a connection is its own as long as it lives, so that nobody can take another's.

use crate::control::Listeners;
use crate::error::ProxyError;
use crate::proxy::{Proxy, Slot};
use crate::{http, socks};
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// Most connections at a time; each takes two descriptors, and while it is dialled some more.
const CONNECTIONS_MAX: usize = 4096;
/// How long a connection and the broker's word about it may be apart.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Most connections that wait for the broker's word; strangers can fill this, for as long as that.
const STRANGERS_MAX: usize = 1024;

/// Connections that arrived before the broker's word, and words that came before the connection.
#[derive(Debug, Default)]
struct Admissions {
    waiting: HashMap<SocketAddrV4, oneshot::Sender<()>>,
    expected: HashMap<SocketAddrV4, Instant>,
}

enum Arrival {
    Admitted,
    Waits(oneshot::Receiver<()>),
    TooMany,
}

impl Admissions {
    fn arrive(&mut self, peer: SocketAddrV4) -> Arrival {
        let expected = self.expected.remove(&peer);
        if expected.is_some_and(|since| since.elapsed() < ADMISSION_TIMEOUT) {
            return Arrival::Admitted;
        }
        if self.waiting.len() >= STRANGERS_MAX {
            return Arrival::TooMany;
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(peer, sender);
        Arrival::Waits(receiver)
    }

    fn admit(&mut self, peer: SocketAddrV4) {
        if let Some(waiting) = self.waiting.remove(&peer) {
            // Its connection may just have given up.
            let _ = waiting.send(());
            return;
        }
        // A word without a connection is of one that was broken off before it was complete.
        if self.expected.len() >= CONNECTIONS_MAX {
            self.expected.retain(|_, since| since.elapsed() < ADMISSION_TIMEOUT);
        }
        self.expected.insert(peer, Instant::now());
    }
}

/// Whether the broker says in time that the connection from `peer` is the sandbox's.
async fn is_admitted(admissions: &Mutex<Admissions>, peer: SocketAddr) -> bool {
    let SocketAddr::V4(peer) = peer else { return false };
    let arriving = match admissions.lock() {
        Ok(mut admissions) => admissions.arrive(peer),
        Err(_) => return false,
    };
    match arriving {
        Arrival::Admitted => true,
        Arrival::TooMany => false,
        Arrival::Waits(word) => {
            let admitted = timeout(ADMISSION_TIMEOUT, word).await.is_ok_and(|word| word.is_ok());
            if !admitted && let Ok(mut admissions) = admissions.lock() {
                admissions.waiting.remove(&peer);
            }
            admitted
        }
    }
}

/// Serves both sockets until the broker has gone.
///
/// # Errors
/// Returns the [`ProxyError`] of a broken control or listening socket.
pub(crate) async fn serve(listeners: Listeners, proxy: Arc<Proxy>) -> Result<(), ProxyError> {
    let admissions = Arc::<Mutex<Admissions>>::default();
    let slots = Arc::new(Semaphore::new(connections_max()));
    for (listener, protocol) in
        [(listeners.http, Protocol::Http), (listeners.socks, Protocol::Socks)]
    {
        let listener = watch(listener).map_err(ProxyError::Runtime)?;
        tokio::spawn(accept(
            listener,
            protocol,
            Arc::clone(&proxy),
            (Arc::clone(&admissions), Arc::clone(&slots)),
        ));
    }
    while let Some(peer) = proxy.broker.next_admission().await? {
        if let Ok(mut admissions) = admissions.lock() {
            admissions.admit(peer);
        }
    }
    Ok(())
}

fn connections_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let fitting = usize::try_from(descriptors / 3).unwrap_or(usize::MAX);
    CONNECTIONS_MAX.min(fitting).max(1)
}

fn watch(listener: TcpListener) -> std::io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

#[derive(Clone, Copy)]
enum Protocol {
    Http,
    Socks,
}

async fn accept(
    listener: tokio::net::TcpListener,
    protocol: Protocol,
    proxy: Arc<Proxy>,
    (admissions, slots): (Arc<Mutex<Admissions>>, Arc<Semaphore>),
) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors or memory: others have to end first.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let (proxy, slots) = (Arc::clone(&proxy), Arc::clone(&slots));
        let admissions = Arc::clone(&admissions);
        tokio::spawn(async move {
            // A stranger gets no slot, so that strangers cannot take them all.
            if !is_admitted(&admissions, peer).await {
                return;
            }
            let Ok(slot) = slots.acquire_owned().await else { return };
            greet(stream, protocol, proxy, Arc::new(slot)).await;
        });
    }
}

async fn greet(stream: TcpStream, protocol: Protocol, proxy: Arc<Proxy>, slot: Slot) {
    let _ = stream.set_nodelay(true);
    match protocol {
        Protocol::Http => http::serve(stream, proxy, slot).await,
        Protocol::Socks => socks::serve(stream, &proxy, slot).await,
    }
}
