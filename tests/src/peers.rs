//! Peers outside the sandbox that record whether they were reached, and by which bytes.

use crate::ESCAPED;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a peer waits before it says that nobody came.
const QUIET: Duration = Duration::from_millis(50);
/// How long a peer waits for what a client sends.
const PATIENCE: Duration = Duration::from_millis(500);

/// What reached a peer.
#[derive(Debug, Default)]
struct Seen {
    connections: usize,
    bytes: Vec<u8>,
}

/// A TCP listener on a loopback address.
#[derive(Debug)]
pub struct TcpPeer {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl TcpPeer {
    /// Listens on 127.0.0.1 with a port of the kernel's choice.
    pub fn new() -> Self {
        Self::on("127.0.0.1")
    }

    /// Listens on `ip` with a port of the kernel's choice.
    pub fn on(ip: &str) -> Self {
        Self::at(ip, 0)
    }

    /// Listens on `ip` and `port`.
    pub fn at(ip: &str, port: u16) -> Self {
        let ip: IpAddr = ip.parse().expect("an address");
        let listener = TcpListener::bind((ip, port)).expect("a loopback listener");
        let address = listener.local_addr().expect("its address");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                shared.lock().expect("peer").connections += 1;
                let _ = stream.set_read_timeout(Some(PATIENCE * crate::slowness()));
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes);
                shared.lock().expect("peer").bytes.extend(bytes);
            }
        });
        Self { address, seen }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.seen.lock().expect("peer").connections
    }

    /// Waits until a connection has brought the probe's mark.
    #[track_caller]
    pub fn reached(&self) {
        let reached = crate::eventually(|| {
            String::from_utf8_lossy(&self.seen.lock().expect("peer").bytes).contains("reached")
        });
        assert!(reached, "nobody reached {}", self.address);
    }

    /// Asserts that nobody has connected.
    #[track_caller]
    pub fn untouched(&self) {
        std::thread::sleep(QUIET);
        assert_eq!(self.connections(), 0, "{ESCAPED}{} was reached", self.address);
    }
}

impl Default for TcpPeer {
    fn default() -> Self {
        Self::new()
    }
}

/// A loopback address that no other test has: servers of fixed ports stand there side by side.
pub fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let turn = std::process::id().wrapping_mul(64) + NEXT.fetch_add(1, Ordering::Relaxed);
    // 127.64.0.0/10.
    (0x7f40_0000 | turn & 0x3f_ffff).into()
}

/// A loopback port of both families that nobody has. The kernel does not choose it for others (it
/// lies below `ip_local_port_range`), nor does any other test of this process, and those of other
/// processes begin elsewhere.
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_240;
    const COUNT: u32 = 32_768 - FIRST;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| {
        ["127.0.0.1", "::1"].into_iter().all(|ip| {
            !TcpListener::bind((ip, *port)).is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
        })
    };
    let start = std::process::id().wrapping_mul(97);
    let port = |_| {
        let turn = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        u16::try_from(FIRST + turn % COUNT).expect("below 32768")
    };
    (0..COUNT).map(port).find(is_free).expect("a free port")
}

/// A socket that no command of a test inherits.
fn closed_on_exec(family: AddressFamily, kind: SocketType) -> OwnedFd {
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None);
    socket.expect("a socket")
}

/// A TCP listener that never accepts and whose backlog is full: a connect to it blocks.
#[derive(Debug)]
pub struct FullBacklog {
    port: u16,
    _listener: OwnedFd,
    _clients: Vec<TcpStream>,
}

impl FullBacklog {
    /// Listens on 127.0.0.1 and fills the backlog.
    pub fn new() -> Self {
        let listener = closed_on_exec(AddressFamily::INET, SocketType::STREAM);
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        rustix::net::bind(&listener, &any).expect("bind");
        rustix::net::listen(&listener, 0).expect("listen");
        let name = rustix::net::getsockname(&listener).expect("its address");
        let address = SocketAddr::try_from(name).expect("an IP address");
        let mut clients = Vec::new();
        while let Ok(client) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            clients.push(client);
            assert!(clients.len() < 64, "the backlog does not fill");
        }
        Self { port: address.port(), _listener: listener, _clients: clients }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Default for FullBacklog {
    fn default() -> Self {
        Self::new()
    }
}

/// A Unix socket that is listening or, for datagrams, bound.
#[derive(Debug)]
pub struct UnixPeer {
    seen: Arc<Mutex<Seen>>,
}

impl UnixPeer {
    /// Binds a pathname socket that every user may connect to; `kind` is stream, seqpacket or
    /// dgram.
    pub fn at(path: impl AsRef<Path>, kind: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let address = SocketAddrUnix::new(path.as_ref()).expect("a socket address");
        let peer = Self::bound(&address, kind);
        let mode = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path, mode).expect("mode of the socket");
        peer
    }

    /// Binds an abstract name.
    pub fn named(name: &str, kind: &str) -> Self {
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        Self::bound(&address, kind)
    }

    fn bound(address: &SocketAddrUnix, kind: &str) -> Self {
        let kind = match kind {
            "stream" => SocketType::STREAM,
            "seqpacket" => SocketType::SEQPACKET,
            "dgram" => SocketType::DGRAM,
            _ => panic!("stream, seqpacket or dgram"),
        };
        let socket = closed_on_exec(AddressFamily::UNIX, kind);
        rustix::net::bind(&socket, address).expect("bind");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        if kind != SocketType::DGRAM {
            rustix::net::listen(&socket, 8).expect("listen");
        }
        std::thread::spawn(move || {
            loop {
                if kind == SocketType::DGRAM {
                    receive(&socket, &shared);
                    shared.lock().expect("peer").connections += 1;
                } else if let Ok(client) = rustix::net::accept_with(&socket, SocketFlags::CLOEXEC) {
                    shared.lock().expect("peer").connections += 1;
                    let limit = Some(PATIENCE * crate::slowness());
                    let _ = sockopt::set_socket_timeout(&client, sockopt::Timeout::Recv, limit);
                    receive(&client, &shared);
                }
            }
        });
        Self { seen }
    }

    /// Asserts that a connection or datagram has arrived.
    #[track_caller]
    pub fn reached(&self) {
        let reached = crate::eventually(|| !self.seen.lock().expect("peer").bytes.is_empty());
        assert!(reached, "nobody reached the socket");
    }

    /// Waits until so many connections or datagrams have come, which it counts in its own time; no more may come.
    #[track_caller]
    pub fn has_seen(&self, expected: usize) {
        crate::eventually(|| self.connections() >= expected);
        assert_eq!(self.connections(), expected);
    }

    /// Connections or datagrams so far.
    pub fn connections(&self) -> usize {
        std::thread::sleep(QUIET);
        self.seen.lock().expect("peer").connections
    }
}

/// Receives once and records the bytes.
fn receive(socket: &OwnedFd, seen: &Mutex<Seen>) {
    let mut buffer = [0u8; 256];
    if let Ok((size, _)) =
        rustix::net::recv(socket, &mut buffer[..], rustix::net::RecvFlags::empty())
    {
        seen.lock().expect("peer").bytes.extend_from_slice(&buffer[..size]);
    }
}
