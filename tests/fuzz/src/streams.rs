//! The parsers that are spoken to: the proxy serves one client, whose bytes these are. No address that is not permitted is
//! reached, and what a permitted host is sent is one request that names it.

use crate::control::Control;
use crate::proxy::{Place, Proxy, Slot};
use crate::resolve::Resolver;
use crate::rules::Rules;
use crate::upstream::Upstreams;
use common::proxy::{SETUP_MAX, Setup, Unlisted};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::cell::RefCell;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::LocalSet;
use tokio::time::timeout;

/// The ports of the permitted host, and of one at another address, in the seeds.
pub(crate) const PORT: u16 = 48_123;

struct World {
    runtime: Runtime,
    proxy: Arc<Proxy>,
    permitted: TcpListener,
    forbidden: TcpListener,
}

thread_local! {
    static WORLD: World = World::new();
}

pub(crate) fn http(bytes: &[u8]) {
    serve(bytes, |server, proxy, slot| Box::pin(crate::http::serve(server, proxy, slot)));
}

pub(crate) fn socks(bytes: &[u8]) {
    serve(bytes, |server, proxy, slot| Box::pin(crate::socks::serve(server, proxy, slot)));
}

type Serving = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl World {
    fn new() -> Self {
        let listen = |address: &str| {
            let listener = TcpListener::bind((address, 0)).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        };
        let (permitted, forbidden) = (listen("127.0.0.1"), listen("127.0.0.2"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let port = permitted.local_addr().unwrap().port();
        let allowed = ["good.test", "127.0.0.1"].map(|host| format!("{host}:{port}"));
        let mut packet = vec![0; SETUP_MAX];
        let lists = [&allowed[..], &[], &[], &[], &[], &[]];
        let length = Setup::encode(&mut packet, Unlisted::Refused, lists).unwrap();
        let setup = Setup::decode(&packet[..length]).unwrap();
        let (control, broker) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        // Never read: refusals that it has no room for are dropped.
        std::mem::forget(broker);
        rustix::stdio::dup2_stdin(&control).unwrap();
        let hosts = "127.0.0.1 good.test\n127.0.0.2 bad.test good.test.bad\n::1 bad6.test\n";
        let resolver =
            Resolver::of(["", hosts], "nameserver 127.0.0.3\noptions timeout:1 attempts:1\n");
        let (rules, upstreams) = (Rules::parse(&setup).unwrap(), Upstreams::parse(&setup).unwrap());
        let _enter = runtime.enter();
        let proxy = Proxy::new(rules, resolver, upstreams, Control::take_over().unwrap()).unwrap();
        Self { runtime, proxy, permitted, forbidden }
    }
}

fn serve(bytes: &[u8], start: impl FnOnce(DuplexStream, Arc<Proxy>, Slot) -> Serving) {
    WORLD.with(|world| {
        let port = world.permitted.local_addr().unwrap().port();
        let bytes = with_port(bytes, port);
        let seen = Rc::new(RefCell::new(Vec::new()));
        let answering = answer(world.permitted.try_clone().unwrap(), Rc::clone(&seen));
        let local = LocalSet::new();
        local.block_on(&world.runtime, async {
            let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
            let slot = Place::new(permit, mpsc::channel(1).0);
            let (mut client, server) = tokio::io::duplex(1 << 16);
            let host = tokio::task::spawn_local(answering);
            let serving = tokio::spawn(start(server, Arc::clone(&world.proxy), slot));
            let talk = async {
                // A proxy that hangs up on nonsense is in its right.
                let _ = client.write_all(&bytes).await;
                let _ = client.shutdown().await;
                let _ = client.read_to_end(&mut Vec::new()).await;
                serving.await.unwrap();
            };
            assert!(timeout(Duration::from_secs(300), talk).await.is_ok(), "hangs");
            host.abort();
        });
        assert!(world.forbidden.accept().is_err(), "a forbidden host was reached");
        seen.borrow().iter().for_each(|bytes| check_request(bytes, port));
    });
}

/// The permitted host: it answers a request, or an end.
async fn answer(listener: TcpListener, seen: Rc<RefCell<Vec<Vec<u8>>>>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((mut stream, _)) = listener.accept().await {
        let seen = Rc::clone(&seen);
        tokio::task::spawn_local(async move {
            let mut bytes = Vec::new();
            while !bytes.windows(4).any(|part| part == b"\r\n\r\n")
                && stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0)
            {}
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello").await;
            seen.borrow_mut().push(bytes);
        });
    }
}

/// A request, which the proxy has written wherever it came from, has one permitted host or, in a tunnel, none or an empty
/// one, and no byte that another reader could take for the end of a line.
fn check_request(bytes: &[u8], port: u16) {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return };
    // What no server takes for a request is not one.
    let is_request = |line: &str| {
        let method = line.split(' ').next().unwrap_or_default();
        let is_method = method.chars().all(|letter| letter.is_ascii_alphabetic());
        line.contains("HTTP/") && is_method && !line.contains(|byte: char| byte.is_ascii_control())
    };
    if !head.lines().next().is_some_and(is_request) {
        return;
    }
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let hosts: Vec<_> = fields
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, value)| value.trim())
        .collect();
    let permitted = [format!("good.test:{port}"), format!("127.0.0.1:{port}")];
    let is_permitted = |host: &&str| host.is_empty() || permitted.iter().any(|other| other == host);
    assert!(hosts.len() <= 1 && hosts.iter().all(is_permitted), "{text}");
    assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{text:?}");
}

/// The bytes with the port of this run for that of the seeds, as text and as a number.
fn with_port(bytes: &[u8], port: u16) -> Vec<u8> {
    let (text, number) = (PORT.to_string(), PORT.to_be_bytes());
    let (new_text, new_number) = (port.to_string(), port.to_be_bytes());
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(text.as_bytes()) {
            out.extend(new_text.bytes());
            rest = after;
        } else if let Some(after) = rest.strip_prefix(&number) {
            out.extend(new_number);
            rest = after;
        } else {
            out.push(first);
            rest = after;
        }
    }
    out
}
