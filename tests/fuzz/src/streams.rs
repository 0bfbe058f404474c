//! Parsers of streams: the proxy serves one client, which sends the input. It connects only to the permitted host, looks up
//! no name, sends that host only requests that name it, and stops serving soon after both sides have hung up.

use crate::control::Control;
use crate::proxy::{Place, Proxy, Slot};
use crate::resolve::Resolver;
use crate::rules::Rules;
use crate::upstream::Upstreams;
use common::proxy::{SETUP_MAX, Setup, Unlisted};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

/// The port of the permitted host.
pub(crate) const PORT: u16 = 48_123;
/// The permitted host.
const PERMITTED: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT));
/// Longer than a tunnel waits for the rest of a first line.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the proxy may take once the client has sent everything.
const LIMIT: Duration = Duration::from_millis(100);

/// The clock is paused: it advances to the next timer when all tasks wait.
struct World {
    runtime: Runtime,
    proxy: Arc<Proxy>,
}

thread_local! {
    static WORLD: World = World::new();
    /// What the permitted host received, one entry a connection.
    static SEEN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
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
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let allowed = ["good.test", "127.0.0.1"].map(|host| format!("{host}:{PORT}"));
        let mut packet = vec![0; SETUP_MAX];
        let lists = [&allowed[..], &[], &[], &[], &[], &[]];
        let length = Setup::encode(&mut packet, Unlisted::Refused, lists).unwrap();
        let setup = Setup::decode(&packet[..length]).unwrap();
        let (control, _) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::stdio::dup2_stdin(&control).unwrap();
        let hosts = "127.0.0.1 good.test\n127.0.0.2 bad.test good.test.bad\n::1 bad6.test\n";
        let resolver =
            Resolver::of(["", hosts], "nameserver 127.0.0.3\noptions timeout:1 attempts:1\n");
        let (rules, upstreams) = (Rules::parse(&setup).unwrap(), Upstreams::parse(&setup).unwrap());
        let proxy = Proxy::new(rules, resolver, upstreams, Control::take_over().unwrap()).unwrap();
        tokio::net::set_dial(dial);
        Self { runtime, proxy }
    }
}

/// The first byte says where in the rest the client pauses.
fn serve(bytes: &[u8], start: impl FnOnce(DuplexStream, Arc<Proxy>, Slot) -> Serving) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let (first, second) = bytes.split_at(bytes.len() * usize::from(cut) / 256);
    WORLD.with(|World { runtime, proxy }| {
        runtime.block_on(async {
            let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
            let slot = Place::new(permit, mpsc::channel(1).0);
            let (mut client, server) = tokio::io::duplex(1 << 16);
            tokio::spawn(start(server, Arc::clone(proxy), slot));
            let talk = async {
                // A proxy that hangs up on nonsense is in its right.
                if !first.is_empty() {
                    let _ = client.write_all(first).await;
                    sleep(PAUSE).await;
                }
                let _ = client.write_all(second).await;
                let _ = client.shutdown().await;
                let _ = client.read_to_end(&mut Vec::new()).await;
                // No task is left for the next input.
                while runtime.metrics().num_alive_tasks() > 0 {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            assert!(timeout(LIMIT, talk).await.is_ok(), "hangs");
        });
    });
    SEEN.with_borrow_mut(|seen| seen.drain(..).for_each(|bytes| check_request(&bytes)));
}

fn dial(address: SocketAddr) -> std::io::Result<DuplexStream> {
    assert_eq!(address, PERMITTED, "a forbidden host was reached");
    let (here, there) = tokio::io::duplex(1 << 16);
    tokio::spawn(answer(there));
    Ok(here)
}

/// The permitted host: it answers a request, or an end.
async fn answer(mut stream: DuplexStream) {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|part| part == b"\r\n\r\n")
        && stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0)
    {}
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello").await;
    SEEN.with_borrow_mut(|seen| seen.push(bytes));
}

/// A request, which the proxy has written wherever it came from, has one permitted host or, in a tunnel, none or an empty
/// one, and no byte that another reader could take for the end of a line.
fn check_request(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return };
    // What no server takes for a request is not one.
    let is_request = |line: &str| {
        // Some servers skip leading blanks.
        let method = line.split_ascii_whitespace().next().unwrap_or_default();
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
    let permitted = [format!("good.test:{PORT}"), format!("127.0.0.1:{PORT}")];
    let is_permitted = |host: &&str| host.is_empty() || permitted.iter().any(|other| other == host);
    assert!(hosts.len() <= 1 && hosts.iter().all(is_permitted), "{text}");
    assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{text:?}");
}
