//! What follows when a client was given a tunnel to a host: its bytes, or its requests.

use crate::destination::Destination;
use crate::plain;
use crate::proxy::{Client, Proxy, Slot};
use crate::relay::{self, End};
use std::sync::Arc;
use tokio::net::TcpStream;

/// Serves the tunnel until both sides are done; `early` is what the client sent already.
pub(crate) async fn serve<C: Client>(
    proxy: Arc<Proxy>,
    destination: Destination,
    client: C,
    early: Vec<u8>,
    host: TcpStream,
    slot: Slot,
) {
    match relay::relay(&proxy, &destination, client, early, host, &slot).await {
        End::Done => {}
        End::Requests(client, early, host) => {
            let host = match host {
                Some(host) => Ok(host),
                // It has got a part of what is written anew now.
                None => proxy.dial(&destination).await,
            };
            if let Ok(host) = host {
                plain::serve(proxy, destination, client, early, host, Arc::clone(&slot)).await;
            }
        }
    }
    drop(slot);
}
