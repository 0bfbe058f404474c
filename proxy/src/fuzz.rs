//! Broken requests, handshakes and lookups by the hundred thousand: no crash, no hang, no leak, and nothing
//! reaches a host that is not permitted.
//!
//! Clients are connected by memory, hosts by TCP. It runs in a process of its own, of which
//! descriptors and memory can be counted.

use crate::control::Control;
use crate::proxy::{Place, Proxy, Slot};
use crate::resolve::Resolver;
use crate::rules::Rules;
use crate::upstream::Upstreams;
use crate::{dns, http, lookup, socks};
use common::proxy::{SETUP_MAX, Setup, Unlisted};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

const STREAMS: usize = 100_000;
/// Streams before the first count: caches and the allocator have their size then.
const WARM_UP: usize = 10_000;
/// Streams at a time.
const TOGETHER: usize = 32;
/// HTTP, SOCKS and lookups.
const KINDS: usize = 3;
const LOOKUPS: usize = 2;
/// The memory that may be more at the end, in KiB.
const GROWTH_MAX: u64 = 4096;

#[test]
fn a_hundred_thousand_broken_streams_do_no_harm() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "fuzz::in_a_process_of_its_own", "--ignored", "--nocapture"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    print!("{text}");
}

#[test]
#[ignore = "run by the test above"]
fn in_a_process_of_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run());
}

async fn run() {
    let permitted = Host::listen("127.0.0.1:0").await;
    let port = permitted.port;
    let forbidden = [
        Host::listen("127.0.0.1:0").await,
        Host::listen(&format!("127.0.0.2:{port}")).await,
        Host::listen(&format!("[::1]:{port}")).await,
    ];
    let proxy = proxy(port);
    let slots = Arc::new(Semaphore::new(TOGETHER));
    let seeds = seeds(port, forbidden[0].port);
    let mut random = Random(7);
    let mut running = JoinSet::new();
    let mut before = Usage::default();
    let mut answered = [0_usize; KINDS];
    let start = Instant::now();
    for stream in 0..STREAMS {
        if stream == WARM_UP {
            while running.join_next().await.transpose().unwrap().is_some() {}
            before = Usage::now();
        }
        let kind = stream % KINDS;
        let bytes = mutate(&seeds[kind], &mut random);
        let permit = Arc::clone(&slots).acquire_owned().await.unwrap();
        let slot = Place::new(permit, mpsc::channel(1).0);
        running.spawn(one(kind, bytes, random.next(), Arc::clone(&proxy), slot));
        while let Some(ended) = running.try_join_next() {
            let (kind, is_answered) = ended.unwrap();
            answered[kind] += usize::from(is_answered);
        }
    }
    while running.join_next().await.transpose().unwrap().is_some() {}
    let _ = slots.acquire_many(u32::try_from(TOGETHER).unwrap()).await.unwrap();
    let (taken, after) = (start.elapsed(), Usage::now());

    let seen = permitted.seen.lock().unwrap();
    println!(
        "{STREAMS} streams in {taken:.1?}: {answered:?} answered, {} reached the permitted host; \
         descriptors {} then {}, memory {} then {} KiB",
        seen.len(),
        before.descriptors,
        after.descriptors,
        before.memory,
        after.memory,
    );
    assert!(seen.len() > STREAMS / 100, "too few to tell");
    assert!(answered.iter().all(|count| *count > STREAMS / 10), "{answered:?}");
    for host in &forbidden {
        assert_eq!(host.connections.load(Ordering::Relaxed), 0, "a forbidden host was reached");
    }
    seen.iter().for_each(|bytes| check_request(bytes, port));
    assert!(after.descriptors <= before.descriptors, "{before:?} {after:?}");
    assert!(after.memory <= before.memory + GROWTH_MAX, "{before:?} {after:?}");
}

/// A request, which the proxy has written wherever it came from, has one permitted host or, in a
/// tunnel, none, and no byte that another reader could take for the end of a line.
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
    let hosts: Vec<&str> = fields
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, value)| value.trim())
        .collect();
    let permitted = [format!("good.test:{port}"), format!("127.0.0.1:{port}")];
    assert!(hosts.len() == 1 && permitted.iter().any(|host| host == hosts[0]), "{text}");
    assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{text:?}");
}

pub(crate) fn proxy(port: u16) -> Arc<Proxy> {
    let allowed = [format!("good.test:{port}"), format!("127.0.0.1:{port}")];
    let mut packet = vec![0; SETUP_MAX];
    let lists = [&allowed[..], &[], &[], &[], &[], &[]];
    let length = Setup::encode(&mut packet, Unlisted::Refused, lists).unwrap();
    let setup = Setup::decode(&packet[..length]).unwrap();
    let (control, broker) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    // Never read: refusals that it has no room for are dropped.
    std::mem::forget(broker);
    let hosts = "127.0.0.1 good.test\n127.0.0.2 bad.test good.test.bad\n::1 bad6.test\n";
    let resolver =
        Resolver::of(["", hosts], "nameserver 127.0.0.3\noptions timeout:1 attempts:1\n");
    let (rules, upstreams) = (Rules::parse(&setup).unwrap(), Upstreams::parse(&setup).unwrap());
    Proxy::new(rules, resolver, upstreams, Control::of(control)).unwrap()
}

/// A server that records what comes, and answers a request or an end.
struct Host {
    port: u16,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Host {
    async fn listen(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let host = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
            seen: Arc::default(),
        };
        let (connections, seen) = (Arc::clone(&host.connections), Arc::clone(&host.seen));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    while !bytes.windows(4).any(|part| part == b"\r\n\r\n")
                        && stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0)
                    {
                    }
                    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello";
                    let _ = stream.write_all(answer).await;
                    seen.lock().unwrap().push(bytes);
                });
            }
        });
        host
    }
}

/// Serves one client, which sends `bytes` in some pieces and then no more; of which kind, and whether it got an answer.
async fn one(
    kind: usize,
    bytes: Vec<u8>,
    cut: usize,
    proxy: Arc<Proxy>,
    slot: Slot,
) -> (usize, bool) {
    let (mut client, server) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn(async move {
        match kind {
            0 => http::serve(server, proxy, slot).await,
            1 => socks::serve(server, proxy, slot).await,
            _ => lookup::serve_stream(server, proxy, slot).await,
        }
    });
    let (first, second) = bytes.split_at(cut % (bytes.len() + 1));
    let mut answer = Vec::new();
    let talk = async {
        // A proxy that hangs up on nonsense is in its right.
        let _ = client.write_all(first).await;
        tokio::task::yield_now().await;
        let _ = client.write_all(second).await;
        let _ = client.shutdown().await;
        let _ = client.read_to_end(&mut answer).await;
    };
    let shown = || format!("hangs: {:?}", bytes.escape_ascii().to_string());
    assert!(timeout(Duration::from_secs(20), talk).await.is_ok(), "{}", shown());
    assert!(
        timeout(Duration::from_secs(20), serving).await.is_ok_and(|end| end.is_ok()),
        "{}",
        shown()
    );
    if kind == LOOKUPS {
        check_lookups(&answer);
    }
    (kind, !answer.is_empty())
}

/// Whatever was asked, an address is said of no name but the permitted one, and it is that which stands for it.
fn check_lookups(mut answers: &[u8]) {
    while let Some((length, rest)) = answers.split_first_chunk() {
        let (answer, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)));
        let id = u16::from_be_bytes([answer[0], answer[1]]);
        let says_address = answer[7] == 1;
        let of_good = dns::answer(answer, id, "good.test", dns::Kind::A);
        let is_good = matches!(&of_good, Some(dns::Answer::Addresses(list)) if list.len() == 1 && common::proxy::stands_for_name(list[0]));
        assert_eq!(says_address, is_good, "{}", answer.escape_ascii());
        answers = rest;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    descriptors: usize,
    memory: u64,
}

impl Usage {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            memory: line.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() % bound
    }
}

/// What is valid, for HTTP, for SOCKS and for lookups: of the permitted host and of others.
fn seeds(good: u16, bad: u16) -> [Vec<Vec<u8>>; KINDS] {
    let places = [
        format!("good.test:{good}"),
        format!("127.0.0.1:{good}"),
        format!("good.test:{bad}"),
        format!("127.0.0.1:{bad}"),
        format!("bad.test:{good}"),
        format!("127.0.0.2:{good}"),
        format!("good.test.bad:{good}"),
        format!("[::1]:{good}"),
    ];
    let mut http = Vec::new();
    let mut socks = Vec::new();
    let mut lookups = Vec::new();
    for name in ["good.test", "GOOD.test", "bad.test", "good.test.bad"] {
        for kind in [dns::Kind::A, dns::Kind::Aaaa] {
            let query = dns::query(7, name, kind);
            let length = u16::try_from(query.len()).unwrap().to_be_bytes();
            lookups.push([&length[..], &query].concat().repeat(2));
        }
    }
    for place in &places {
        for request in [
            format!("GET http://{place}/p?q HTTP/1.1\r\nHost: {place}\r\n\r\n"),
            format!("GET http://{place} HTTP/1.0\r\n\r\nGET http://{place}/ HTTP/1.1\r\n\r\n"),
            format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
            format!("POST http://{place}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde"),
            format!(
                "PUT http://{place}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n\
                 3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: x\r\n\r\nGET http://{place}/2 HTTP/1.1\r\n\r\n"
            ),
            format!(
                "GET http://{place}/ HTTP/1.1\r\nConnection: upgrade, x\r\nUpgrade: websocket\r\n\
                 Expect: 100-continue\r\nX: y\r\nTE: trailers\r\n\r\n"
            ),
        ] {
            http.push(request.into_bytes());
        }
        let (host, port) = place.rsplit_once(':').unwrap();
        let port = port.parse::<u16>().unwrap().to_be_bytes();
        let length = u8::try_from(host.len()).unwrap();
        let payload = b"GET / HTTP/1.1\r\n\r\n";
        socks.push([&[5, 1, 0, 5, 1, 0, 3, length], host.as_bytes(), &port, payload].concat());
        if let Ok(address) = host.parse::<std::net::Ipv4Addr>() {
            let octets = address.octets();
            socks.push([&[5, 2, 2, 0, 5, 1, 0, 1][..], &octets, &port, payload].concat());
            let mapped = address.to_ipv6_mapped().octets();
            socks.push([&[5, 1, 0, 5, 1, 0, 4][..], &mapped, &port].concat());
            socks.push([&[4, 1][..], &port, &octets, b"me\0"].concat());
        }
    }
    [http, socks, lookups]
}

/// One of the seeds, whole or broken in a few places.
fn mutate(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    const PIECES: [&[u8]; 16] = [
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b":",
        b"@",
        b"%00",
        b".",
        b"bad.test",
        b"[::1]",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Host: bad.test\r\n",
        b"\xff",
        b"127.0.0.2",
    ];
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = at + random.below(bytes.len() - at + 1);
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            2 => drop(bytes.drain(at..end.min(at + 8))),
            3 => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let part = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, part));
            }
        }
    }
    bytes
}
