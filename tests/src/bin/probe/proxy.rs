//! Clients of the filtering proxy, of which the environment names the ports.

use crate::{number, tell};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a proxy is listened to that has answered.
const QUIET: Duration = Duration::from_millis(1500);

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
        ("raw", [protocol, bytes @ ..]) => {
            let answer = raw(protocol, bytes).unwrap_or_else(|e| format!("{:?}", e.kind()).into());
            tell(op, &answer.escape_ascii().to_string());
        }
        ("tunnels", [count, authority]) => {
            tell(op, &echoing(&open(number(count), &|| tunnel(authority))).to_string());
        }
        ("hold" | "hold-by-name", [count, authority]) => {
            let by_name = || TcpStream::connect(authority);
            let ways: [&(dyn Fn() -> io::Result<TcpStream> + Sync); 2] =
                [&|| tunnel(authority), &by_name];
            let open = open(number(count), ways[usize::from(op != "hold")]);
            tell(op, &echoing(&open).to_string());
            thread::sleep(Duration::from_secs(60));
        }
        ("pull", [authority]) => {
            tell(op, &tunnel(authority).and_then(pull).map_or(0, |size| size).to_string());
        }
        ("connects", [rounds, host, port]) => {
            let port = u16::try_from(number(port)).expect("a port");
            tell(
                op,
                &connects(number(rounds), host, port).unwrap_or_else(|error| error.to_string()),
            );
        }
        ("rate", [authority]) => tell(op, &rate(tunnel(authority)).to_string()),
        ("rate-at", [address]) => tell(op, &rate(TcpStream::connect(address)).to_string()),
        ("storm", [protocol, seconds, seed]) => {
            let seconds = u64::try_from(number(seconds)).expect("a few seconds");
            tell(op, &storm(protocol, seconds, number(seed) as u64).to_string());
        }
        _ => return false,
    }
    true
}

fn connect(protocol: &str) -> io::Result<TcpStream> {
    let variable = if protocol == "socks" { "SOCKS_PROXY" } else { "HTTP_PROXY" };
    let url = std::env::var(variable).map_err(io::Error::other)?;
    TcpStream::connect(url.rsplit('/').next().unwrap_or_default())
}

/// Sends each word, percent-encoded, a moment apart, and returns what comes until end or silence. To a tunnel
/// it says that this was all: the other end need not be waited for.
fn raw(protocol: &str, words: &[&str]) -> io::Result<Vec<u8>> {
    let mut stream = connect(protocol)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for word in words {
        stream.write_all(&decode(word))?;
        thread::sleep(Duration::from_millis(50));
    }
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..length]);
        if is_tunnel(&answer) {
            stream.shutdown(Shutdown::Write)?;
        } else {
            stream.set_read_timeout(Some(QUIET))?;
        }
    }
    Ok(answer)
}

/// Whether it is what a proxy says of a tunnel, and no more: the reply of SOCKS5 without a method asked for, or
/// a head without a body.
fn is_tunnel(answer: &[u8]) -> bool {
    const SOCKS: usize = 12;
    let head = answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"\r\n\r\n");
    let has_body = answer.to_ascii_lowercase().windows(8).any(|part| part == b"content-");
    head && !has_body || answer.starts_with(&[5, 0, 5, 0]) && answer.len() == SOCKS
}

fn decode(word: &str) -> Vec<u8> {
    let mut parts = word.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits"));
        bytes.extend(&part.as_bytes()[2..]);
    }
    bytes
}

fn tunnel(authority: &str) -> io::Result<TcpStream> {
    let mut stream = connect("http")?;
    write!(stream, "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if head.starts_with(b"HTTP/1.1 200") { Ok(stream) } else { Err(io::Error::other("refused")) }
}

/// Opens `count` connections, eight at the same time.
fn open(
    count: usize,
    one: &(dyn Fn() -> io::Result<TcpStream> + Sync),
) -> Vec<io::Result<TcpStream>> {
    thread::scope(|scope| {
        let part = |_| scope.spawn(|| (0..count / 8).map(|_| one()).collect::<Vec<_>>());
        let threads: Vec<_> = (0..8).map(part).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
    })
}

/// Counts those that lead to a server that echoes.
fn echoing(open: &[io::Result<TcpStream>]) -> usize {
    let mut echoed = 0;
    for stream in open.iter().flatten() {
        let mut stream = stream;
        let mut answer = [0; 5];
        // A whole line: the proxy waits for the rest of one, which may become a request.
        let sent = stream.write_all(b"ping\n").and_then(|()| stream.read_exact(&mut answer));
        echoed += usize::from(sent.is_ok() && answer == *b"ping\n");
    }
    echoed
}

/// Bytes a second until the end of the stream.
fn rate(stream: io::Result<TcpStream>) -> f64 {
    let start = Instant::now();
    let size = stream.and_then(pull).unwrap_or_default();
    size as f64 / start.elapsed().as_secs_f64()
}

/// The median time, in microseconds, of a connect to `host`, which echoes, until it has echoed: by the host's name, and
/// by SOCKS, taken in turn.
fn connects(rounds: usize, host: &str, port: u16) -> io::Result<String> {
    let address = (host, port).to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let by_name = || TcpStream::connect(address);
    let by_socks = || {
        let mut stream = connect("socks")?;
        stream.write_all(&[5, 1, 0])?;
        stream.read_exact(&mut [0; 2])?;
        let length = u8::try_from(host.len()).expect("a short name");
        let request = [&[5, 1, 0, 3, length], host.as_bytes(), &port.to_be_bytes()].concat();
        stream.write_all(&request)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(stream)
    };
    let ways: [&dyn Fn() -> io::Result<TcpStream>; 2] = [&by_name, &by_socks];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (way, times) in ways.iter().zip(&mut times) {
            let start = Instant::now();
            let mut stream = way()?;
            stream.write_all(b"x\n")?;
            stream.read_exact(&mut [0; 2])?;
            times.push(start.elapsed().as_micros());
        }
    }
    let [name, socks] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    Ok(format!("{name} {socks}"))
}

/// Reads a stream to its end.
fn pull(mut stream: TcpStream) -> io::Result<usize> {
    let (mut size, mut buffer) = (0, vec![0; 256 * 1024]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(size),
            length => size += length,
        }
    }
}

/// Sends pieces of requests in random order and broken in random ways; returns how many streams.
fn storm(protocol: &str, seconds: u64, seed: u64) -> usize {
    const HTTP: [&[u8]; 24] = [
        b"GET ",
        b"CONNECT ",
        b"POST ",
        b"http://",
        b"bad.localhost",
        b"127.0.0.1",
        b":443",
        b"/",
        b" HTTP/1.1\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"Host: good.localhost\r\n",
        b" HTTP/1.0\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"5\r\nabcde\r\n",
        b"0\r\n\r\n",
        b"Connection: keep-alive\r\n",
        b" ",
        b"\0",
        b"\xff",
        b"user@",
        b"[::1]",
    ];
    const SOCKS: [&[u8]; 12] = [
        b"\x05\x01\0",
        b"\x05\x01\0\x03",
        b"\x05\x01\0\x01",
        b"\x04\x01",
        b"\x05\x03\0",
        b"\x7f\0\0\x01",
        b"\x0dbad.localhost",
        b"\0\x50",
        b"\x01\xbb",
        b"\0",
        b"\xff",
        b"\x05\x01\0\x04",
    ];
    let pieces: &[&[u8]] = if protocol == "socks" { &SOCKS } else { &HTTP };
    let mut state = seed;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut streams = 0;
    while Instant::now() < end {
        let Ok(mut stream) = connect(protocol) else { continue };
        let mut bytes = Vec::new();
        for _ in 0..random(12) {
            bytes.extend_from_slice(pieces[random(pieces.len())]);
        }
        if random(3) == 0 && !bytes.is_empty() {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        let _ = stream.write_all(&bytes);
        if random(2) == 0 {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(2)));
            let _ = stream.read(&mut [0; 512]);
        }
        streams += 1;
    }
    streams
}
