//! How long a client may keep the proxy waiting, tried in virtual time.

use crate::destination::Destination;
use crate::fuzz::proxy;
use crate::proxy::{Place, Slot};
use crate::{http, relay, socks};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};

/// Runs with a clock that jumps to the next timer as soon as nothing else is to be done.
fn in_virtual_time(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(test);
}

async fn slot() -> Slot {
    let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
    Place::new(permit, mpsc::channel(1).0)
}

/// How long the proxy waits for a client that sends `bytes` and then nothing.
async fn patience(is_socks: bool, bytes: &[u8]) -> Duration {
    let (mut client, server) = duplex(4096);
    let slot = slot().await;
    tokio::spawn(async move {
        match is_socks {
            true => socks::serve(server, proxy(1), slot).await,
            false => http::serve(server, proxy(1), slot).await,
        }
    });
    client.write_all(bytes).await.unwrap();
    until_closed(client).await
}

async fn until_closed(mut client: DuplexStream) -> Duration {
    let start = Instant::now();
    let mut answer = Vec::new();
    let closed = timeout(Duration::from_secs(3600), client.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "it waits for ever");
    start.elapsed()
}

#[test]
fn a_client_that_does_not_say_what_it_wants_is_closed() {
    in_virtual_time(async {
        for (is_socks, bytes, seconds) in [
            (false, &b""[..], 60),
            (false, b"GET http://a", 60),
            (false, b"GET http://a.test/ HTTP/1.1\r\nHost: a", 60),
            // Refused, and then idle.
            (false, b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 60),
            (true, b"", 30),
            (true, b"\x05", 30),
            (true, b"\x05\x01\0\x05\x01\0\x03\x06good", 30),
        ] {
            let waited = patience(is_socks, bytes).await.as_secs();
            let shown = bytes.escape_ascii();
            assert!((seconds..=seconds + 1).contains(&waited), "{shown}: {waited} s");
        }
    });
}

#[test]
fn a_tunnel_for_tls_needs_a_hello_in_time_and_another_may_be_silent() {
    in_virtual_time(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for (port, closes) in [(443, true), (22, false)] {
            let host = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let _accepted = listener.accept().await.unwrap();
            let (client, server) = duplex(4096);
            tokio::spawn(async move {
                let destination = Destination::parse("good.test", Some(port)).unwrap();
                let slot = slot().await;
                relay::relay(&proxy(1), &destination, server, Vec::new(), host, &slot).await;
            });
            let waited = timeout(Duration::from_secs(36_000), until_closed_at_all(client)).await;
            assert_eq!(waited.is_ok(), closes, "port {port}");
            if let Ok(waited) = waited {
                assert_eq!(waited.as_secs(), 30);
            }
        }
    });
}

async fn until_closed_at_all(mut client: DuplexStream) -> Duration {
    let start = Instant::now();
    let _ = client.read_to_end(&mut Vec::new()).await;
    start.elapsed()
}
