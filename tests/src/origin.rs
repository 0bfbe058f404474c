//! Servers outside the sandbox that the proxy leads to, and the name server that it asks.

use crate::peers::own_address;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An HTTP server on loopback that answers everything and records exactly what came.
#[derive(Debug)]
pub struct Origin {
    port: u16,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Origin {
    /// Answers every path with `body`.
    pub fn new(body: &str) -> Self {
        let body = body.to_owned();
        Self::with(move |_| body.clone().into_bytes())
    }

    /// Answers a path with what `content` gives.
    pub fn with(content: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::at(0, content)
    }

    /// The same on `port`.
    pub fn at(port: u16, content: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a loopback listener");
        let port = listener.local_addr().expect("its address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (record, content) = (Arc::clone(&seen), Arc::new(content));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (record, content) = (Arc::clone(&record), Arc::clone(&content));
                std::thread::spawn(move || serve(stream, &record, &*content));
            }
        });
        Self { port, seen }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many bytes came over all connections.
    pub fn bytes(&self) -> usize {
        self.seen.lock().expect("requests").iter().map(Vec::len).sum()
    }

    /// What each connection sent, losslessly as text.
    pub fn requests(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("requests");
        seen.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Vec<u8>>>, content: &dyn Fn(&str) -> Vec<u8>) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let at = {
        let mut seen = seen.lock().expect("requests");
        seen.push(Vec::new());
        seen.len() - 1
    };
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    // Until silence: what follows a request that should have ended is of interest too.
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(150)));
        bytes.extend_from_slice(&buffer[..length]);
        seen.lock().expect("requests")[at].clone_from(&bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let body = content(text.split(' ').nth(1).unwrap_or_default());
    let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}

fn listen(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback listener");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            let thread = std::thread::Builder::new().stack_size(64 * 1024);
            thread.spawn(move || serve(stream)).expect("a thread");
        }
    });
    port
}

/// Sends back what comes, for any number of connections at a time; returns the port.
pub fn echo_server() -> u16 {
    listen(|mut stream| {
        let mut buffer = [0; 512];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
    })
}

/// What a server got.
type Seen = Arc<Mutex<Vec<u8>>>;

/// Answers the head of a request with `words` and sends back what comes after that; returns the
/// port, and where all that comes is recorded.
pub fn answering_server(words: &'static str) -> (u16, Seen) {
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    let port = listen(move |mut stream| {
        let mut buffer = [0; 512];
        let mut answered = false;
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            let mut seen = record.lock().expect("what was seen");
            seen.extend_from_slice(&buffer[..length]);
            let reply = match answered {
                true => &buffer[..length],
                false if seen.windows(4).any(|part| part == b"\r\n\r\n") => words.as_bytes(),
                false => continue,
            };
            answered = true;
            if stream.write_all(reply).is_err() {
                break;
            }
        }
    });
    (port, seen)
}

/// Sends `size` bytes to whoever connects; returns the port.
pub fn flood_server(size: usize) -> u16 {
    listen(move |mut stream| {
        let block = [0x5a; 32 * 1024];
        let mut left = size;
        while left > 0 {
            let part = left.min(block.len());
            if stream.write_all(&block[..part]).is_err() {
                return;
            }
            left -= part;
        }
    })
}

/// A name server on UDP port 53 of an address of its own that knows what `answer` knows and records what it was asked.
#[derive(Debug)]
pub struct NameServer {
    address: Ipv4Addr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl NameServer {
    /// Needs the right to bind port 53. `answer` gets the name and how often it was asked for before.
    pub fn new(answer: impl Fn(&str, usize) -> Option<[u8; 4]> + Send + 'static) -> Self {
        let address = own_address();
        let socket = UdpSocket::bind((address, 53)).expect("port 53");
        let asked = Arc::new(Mutex::new(Vec::<String>::new()));
        let record = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut packet) {
                let query = &packet[..length];
                let (name, kind) = question(query);
                let before = {
                    let mut asked = record.lock().expect("questions");
                    let before = asked.iter().filter(|known| **known == name).count();
                    if kind == 1 {
                        asked.push(name.clone());
                    }
                    before
                };
                let _ = socket.send_to(&reply(query, answer(&name, before)), peer);
            }
        });
        Self { address, asked }
    }

    /// The same for one whose answers over UDP are always cut, and complete over TCP.
    pub fn truncating(answer: impl Fn(&str) -> Option<[u8; 4]> + Send + 'static) -> Self {
        let address = own_address();
        let datagrams = UdpSocket::bind((address, 53)).expect("port 53");
        let listener = TcpListener::bind((address, 53)).expect("port 53");
        let asked = Arc::new(Mutex::new(Vec::<String>::new()));
        let record = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, peer)) = datagrams.recv_from(&mut packet) {
                let mut cut = reply(&packet[..length], None);
                cut[2] |= 0x02;
                cut[3] = 0x80;
                let _ = datagrams.send_to(&cut, peer);
            }
        });
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                let mut query = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut query).expect("a query");
                let (name, _) = question(&query);
                record.lock().expect("questions").push(format!("{name} over TCP"));
                let reply = reply(&query, answer(&name));
                let length = u16::try_from(reply.len()).expect("a short reply").to_be_bytes();
                let _ = stream.write_all(&[&length[..], &reply].concat());
            }
        });
        Self { address, asked }
    }

    /// What resolv.conf(5) says of it: lookups go to it alone, and wait as long as a test takes.
    pub fn resolv_conf(&self) -> String {
        resolv_conf(self.address)
    }

    /// The names it was asked for, for their IPv4 addresses.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("questions").clone()
    }
}

/// What resolv.conf(5) says of a name server at `address`.
pub fn resolv_conf(address: Ipv4Addr) -> String {
    format!("nameserver {address}\noptions timeout:30 attempts:1\n")
}

/// The reply to `query`: this address, or that there is no such name.
fn reply(query: &[u8], found: Option<[u8; 4]>) -> Vec<u8> {
    let mut reply = query.to_vec();
    let (_, kind) = question(query);
    reply[2] = 0x81;
    reply[3] = if found.is_some() { 0x80 } else { 0x83 };
    if let (Some(address), 1) = (found, kind) {
        reply[7] = 1;
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        reply.extend(address);
    }
    reply
}

fn question(packet: &[u8]) -> (String, u8) {
    let mut labels = Vec::new();
    let mut at = 12;
    while packet[at] != 0 {
        let length = usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..=at + length]).into_owned());
        at += length + 1;
    }
    (labels.join("."), packet[at + 2])
}
