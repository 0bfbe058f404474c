//! Sockets: every way to reach a peer or to be reached.

use crate::older;
use crate::sys::{self, Result, addr, addr_mut, call};
use crate::{number, say, tell};
use std::net::{Ipv4Addr, Ipv6Addr};

const MSG_FASTOPEN: usize = 0x2000_0000;
const TCP_FASTOPEN_CONNECT: usize = 30;
const INET: usize = libc::AF_INET as usize;
const INET6: usize = libc::AF_INET6 as usize;
const UNIX: usize = libc::AF_UNIX as usize;
const STREAM: usize = libc::SOCK_STREAM as usize;
const DGRAM: usize = libc::SOCK_DGRAM as usize;
/// What a successful attack leaves with its peer.
const MARK: &[u8] = b"reached";

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
        ("socket", [family, kind, protocol]) => {
            say(op, socket(number(family), number(kind), number(protocol)));
        }
        ("socket-sweep", []) => sweep(),
        ("socketpair", [kind]) => say(op, pair(unix_kind(kind))),
        ("connect-name", [host, port, options @ ..]) => {
            let port = u16::try_from(number(port)).expect("a port");
            let sent = std::net::TcpStream::connect((*host, port)).and_then(|mut stream| {
                std::io::Write::write_all(&mut stream, b"reached")?;
                if options.contains(&"answered") {
                    std::io::Read::read_to_end(&mut stream, &mut Vec::new())?;
                }
                Ok(())
            });
            tell(op, &sent.map_or_else(|error| error.to_string(), |()| "reached".to_owned()));
        }
        ("connect-name-tokio", [host, port]) => {
            let port = u16::try_from(number(port)).expect("a port");
            let said = by_tokio(host, port);
            tell(op, &said.map_or_else(|error| error.to_string(), |()| "reached".to_owned()));
        }
        ("connect4", [ip, port, options @ ..]) => {
            say(op, connect_with(INET, v4(ip, port), options));
        }
        ("connect6", [ip, port, options @ ..]) => {
            say(op, connect_with(INET6, v6(ip, port, 0), options));
        }
        ("connect6-scoped", [ip, port, scope]) => {
            say(op, connect_with(INET6, v6(ip, port, number(scope) as u32), &[]));
        }
        ("connect-mapped", [ip, port]) => {
            say(op, connect_with(INET6, v6(&format!("::ffff:{ip}"), port, 0), &[]));
        }
        ("connect-unspec", [ip, port]) => connect_unspec(ip, port),
        ("connect-family", [family, ip, port]) => {
            let mut address = v4(ip, port);
            address[..2].copy_from_slice(&(number(family) as u16).to_ne_bytes());
            say(op, connect_with(INET, address, &[]));
        }
        ("connect-protocol", [protocol, ip, port]) => {
            say(op, socket(INET, STREAM, number(protocol)).and_then(|fd| reach(fd, &v4(ip, port))));
        }
        ("fastopen", [how, ip, port]) => say(&format!("fastopen-{how}"), fastopen(how, ip, port)),
        ("fastopen-connect", [ip, port]) => say(op, fastopen_connect(ip, port)),
        ("udp", [ip, port]) => say(op, udp(ip, port)),
        ("udp-upper", [ip, port]) => {
            let fd = socket(INET | 1 << 32, DGRAM | 1 << 33, 1 << 34);
            say(op, fd.and_then(|fd| send_to(fd, 0, &v4(ip, port))));
        }
        ("listen-unbound", []) => say(op, socket(INET, STREAM, 0).and_then(listen)),
        ("bind4", [ip, port]) => {
            say(op, socket(INET, STREAM, 0).and_then(|fd| bind(fd, &v4(ip, port))));
        }
        ("bind6", [ip, port]) => {
            say(op, socket(INET6, STREAM, 0).and_then(|fd| bind(fd, &v6(ip, port, 0))));
        }
        ("own-server", [ip, port]) => own_server(&v4(ip, port)),
        ("netlink-bind", []) => {
            let address = (libc::AF_NETLINK as u16).to_ne_bytes();
            let address = [&address[..], &[0; 10]].concat();
            let fd = socket(libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, 0);
            say(op, fd.and_then(|fd| call(libc::SYS_bind, &[fd, addr(&address[..]), 12])));
        }
        ("unix-connect", [path, kind]) => say(op, unix_connect(&unix_path(path), kind)),
        ("unix-abstract", [name, kind]) => say(op, unix_connect(&unix_abstract(name), kind)),
        ("unix-bind", [path, kind]) => {
            let fd = socket(UNIX, unix_kind(kind), 0);
            say(op, fd.and_then(|fd| bind(fd, &unix_path(path))));
        }
        ("unix-autobind", []) => {
            let fd = socket(UNIX, STREAM, 0);
            say(op, fd.and_then(|fd| bind(fd, &(UNIX as u16).to_ne_bytes())));
        }
        ("unix-sendto", [path]) => {
            let fd = socket(UNIX, DGRAM, 0);
            say(op, fd.and_then(|fd| send_to(fd, 0, &unix_path(path))));
        }
        ("chdir", [path]) => say(op, call(libc::SYS_chdir, &[addr(sys::cstr(path).as_c_str())])),
        ("netlink", [protocol]) => {
            say(op, socket(libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, number(protocol)));
        }
        ("stalled-connect", [slow_ip, slow_port, other_port]) => {
            stalled(v4(slow_ip, slow_port), v4("127.0.0.1", other_port));
        }
        _ => return false,
    }
    true
}

/// Waits for the answer.
fn by_tokio(host: &str, port: u16) -> std::io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut stream = tokio::net::TcpStream::connect((host, port)).await?;
        stream.write_all(MARK).await?;
        stream.read_to_end(&mut Vec::new()).await.map(drop)
    })
}

pub(crate) fn socket(family: usize, kind: usize, protocol: usize) -> Result {
    call(libc::SYS_socket, &[family, kind, protocol])
}

fn pair(kind: usize) -> Result {
    let mut fds = [0i32; 2];
    call(libc::SYS_socketpair, &[UNIX, kind, 0, addr_mut(&mut fds)])?;
    write(fds[0] as usize)?;
    let mut buffer = [0u8; 16];
    call(libc::SYS_read, &[fds[1] as usize, addr_mut(&mut buffer), buffer.len()])
}

/// Every family, type and protocol; only what succeeds is printed, with the number of tries.
fn sweep() {
    let mut tried = 0;
    for family in 0..=46 {
        for kind in [1, 2, 3, 4, 5, 6, 10] {
            for protocol in [0, 1, 2, 6, 16, 17, 33, 58, 132, 136, 255, 256, 262] {
                tried += 1;
                if let Ok(fd) = socket(family, kind, protocol) {
                    tell(&format!("socket-{family}-{kind}-{protocol}"), "OK");
                    let _ = call(libc::SYS_close, &[fd]);
                }
            }
        }
    }
    tell("tried", &tried.to_string());
}

pub(crate) fn v4(ip: &str, port: &str) -> Vec<u8> {
    let ip: Ipv4Addr = ip.parse().unwrap_or_else(|_| crate::usage("not an IPv4 address"));
    let mut address = (INET as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(&(number(port) as u16).to_be_bytes());
    address.extend_from_slice(&ip.octets());
    address.extend_from_slice(&[0; 8]);
    address
}

fn v6(ip: &str, port: &str, scope: u32) -> Vec<u8> {
    let ip: Ipv6Addr = ip.parse().unwrap_or_else(|_| crate::usage("not an IPv6 address"));
    let mut address = (INET6 as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(&(number(port) as u16).to_be_bytes());
    address.extend_from_slice(&[0; 4]);
    address.extend_from_slice(&ip.octets());
    address.extend_from_slice(&scope.to_ne_bytes());
    address
}

fn unix_path(path: &str) -> Vec<u8> {
    let mut address = (UNIX as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(path.as_bytes());
    address.push(0);
    address
}

/// An abstract name; `%0` in it stands for a NUL byte.
fn unix_abstract(name: &str) -> Vec<u8> {
    let mut address = (UNIX as u16).to_ne_bytes().to_vec();
    address.push(0);
    address.extend_from_slice(name.replace("%0", "\0").as_bytes());
    address
}

fn unix_kind(kind: &str) -> usize {
    match kind {
        "stream" => STREAM,
        "dgram" => DGRAM,
        "seqpacket" => libc::SOCK_SEQPACKET as usize,
        _ => crate::usage("stream, dgram or seqpacket"),
    }
}

pub(crate) fn connect(fd: usize, address: &[u8]) -> Result {
    call(libc::SYS_connect, &[fd, addr(address), address.len()])
}

fn write(fd: usize) -> Result {
    call(libc::SYS_write, &[fd, addr(MARK), MARK.len()])
}

/// Connects and leaves the mark.
fn reach(fd: usize, address: &[u8]) -> Result {
    connect(fd, address)?;
    write(fd)
}

fn unix_connect(address: &[u8], kind: &str) -> Result {
    socket(UNIX, unix_kind(kind), 0).and_then(|fd| reach(fd, address))
}

/// Serves one client of its own on `address`, and says what another one gets after the end.
fn own_server(address: &[u8]) {
    let served = || {
        let server = socket(INET, STREAM, 0)?;
        call(libc::SYS_bind, &[server, addr(address), address.len()])?;
        listen(server)?;
        let (mut there, mut length) = ([0u8; 16], 16u32);
        call(libc::SYS_getsockname, &[server, addr_mut(&mut there), addr_mut(&mut length)])?;
        let client = socket(INET, STREAM, 0)?;
        reach(client, &there)?;
        let accepted = call(libc::SYS_accept, &[server, 0, 0])?;
        let mut buffer = [0u8; 16];
        call(libc::SYS_read, &[accepted, addr_mut(&mut buffer), buffer.len()])?;
        for fd in [accepted, client, server] {
            call(libc::SYS_close, &[fd])?;
        }
        Ok(there)
    };
    let there = served();
    say("own-server", there);
    if let Ok(there) = there {
        let late = socket(INET, STREAM, 0).and_then(|client| reach(client, &there));
        say("own-server-closed", late);
    }
}

/// Options: --nonblock, --thread (connect from a thread other than the main one), --len N.
fn connect_with(family: usize, address: Vec<u8>, options: &[&str]) -> Result {
    let mut address = address;
    let mut kind = STREAM;
    let mut threaded = false;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match *word {
            "--nonblock" => kind |= libc::SOCK_NONBLOCK as usize,
            "--thread" => threaded = true,
            "--len" => address.resize(number(words.next().unwrap_or(&"")), 0),
            _ => crate::usage("unknown connect option"),
        }
    }
    let attempt = move || {
        let fd = socket(family, kind, 0)?;
        match connect(fd, &address) {
            Err(libc::EINPROGRESS) => settled(fd)?,
            other => other?,
        };
        write(fd)
    };
    if threaded { std::thread::spawn(attempt).join().unwrap_or(Err(0)) } else { attempt() }
}

/// Waits until a non-blocking connect has ended, and returns its outcome.
fn settled(fd: usize) -> Result {
    let mut poll = libc::pollfd { fd: fd as i32, events: libc::POLLOUT, revents: 0 };
    if call(older::SYS_poll, &[addr_mut(&mut poll), 1, 3000])? == 0 {
        return Err(libc::ETIMEDOUT);
    }
    let (mut error, mut size) = (0i32, 4u32);
    let so_error = libc::SO_ERROR as usize;
    let (error_at, size_at) = (addr_mut(&mut error), addr_mut(&mut size));
    call(libc::SYS_getsockopt, &[fd, libc::SOL_SOCKET as usize, so_error, error_at, size_at])?;
    if error == 0 { Ok(0) } else { Err(error) }
}

/// AF_UNSPEC at connect dissolves an association; nothing may be reached through it.
fn connect_unspec(ip: &str, port: &str) {
    let mut address = v4(ip, port);
    address[..2].fill(0);
    let fd = match socket(INET, STREAM, 0) {
        Ok(fd) => fd,
        Err(errno) => return say("connect-unspec", Err::<(), _>(errno)),
    };
    say("connect-unspec", connect(fd, &address));
    say("connect-unspec-write", write_quietly(fd));
}

fn write_quietly(fd: usize) -> Result {
    let nosignal = libc::MSG_NOSIGNAL as usize;
    call(libc::SYS_sendto, &[fd, addr(MARK), MARK.len(), nosignal, 0, 0])
}

pub(crate) fn send_to(fd: usize, flags: usize, address: &[u8]) -> Result {
    call(libc::SYS_sendto, &[fd, addr(MARK), MARK.len(), flags, addr(address), address.len()])
}

/// A msghdr (or, padded, an mmsghdr) as the kernel lays it out on 64-bit machines.
fn fastopen(how: &str, ip: &str, port: &str) -> Result {
    let address = v4(ip, port);
    let fd = socket(INET, STREAM, 0)?;
    let vector = [addr(MARK), MARK.len()];
    let message = [addr(&address[..]), address.len(), addr(&vector), 1, 0, 0, 0, 0];
    match how {
        "sendto" => send_to(fd, MSG_FASTOPEN, &address),
        "sendmsg" => call(libc::SYS_sendmsg, &[fd, addr(&message), MSG_FASTOPEN]),
        "sendmmsg" => call(libc::SYS_sendmmsg, &[fd, addr(&message), 1, MSG_FASTOPEN]),
        _ => crate::usage("sendto, sendmsg or sendmmsg"),
    }
}

fn fastopen_connect(ip: &str, port: &str) -> Result {
    let fd = socket(INET, STREAM, 0)?;
    let on = 1i32;
    let tcp = libc::IPPROTO_TCP as usize;
    call(libc::SYS_setsockopt, &[fd, tcp, TCP_FASTOPEN_CONNECT, addr(&on), 4])?;
    reach(fd, &v4(ip, port))
}

fn udp(ip: &str, port: &str) -> Result {
    let fd = socket(INET, DGRAM, 0)?;
    send_to(fd, 0, &v4(ip, port))
}

fn listen(fd: usize) -> Result {
    call(libc::SYS_listen, &[fd, 8])
}

fn bind(fd: usize, address: &[u8]) -> Result {
    call(libc::SYS_bind, &[fd, addr(address), address.len()])?;
    match listen(fd) {
        // A datagram socket is reachable once bound.
        Err(libc::EOPNOTSUPP) => Ok(0),
        other => other,
    }
}

/// Connects to a peer with a full backlog from one thread, and measures in another how long
/// ordinary calls take meanwhile: the slowest of 200, in milliseconds.
fn stalled(slow: Vec<u8>, other: Vec<u8>) {
    for _ in 0..4 {
        let slow = slow.clone();
        std::thread::spawn(move || socket(INET, STREAM, 0).and_then(|fd| connect(fd, &slow)));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut slowest = 0;
    for _ in 0..200 {
        let start = std::time::Instant::now();
        if let Ok(fd) = socket(INET, STREAM, 0) {
            let _ = connect(fd, &other);
            let _ = call(libc::SYS_close, &[fd]);
        }
        let path = sys::cstr("/proc/self/stat");
        let at = libc::AT_FDCWD as usize;
        if let Ok(fd) = call(libc::SYS_openat, &[at, addr(path.as_c_str()), 0]) {
            let _ = call(libc::SYS_close, &[fd]);
        }
        slowest = slowest.max(start.elapsed().as_millis());
    }
    tell("slowest-ms", &slowest.to_string());
    sys::exit(0)
}
