//! A proxy of the caller's, through which landstrip's own goes: it records exactly what arrives, and
//! leads everybody to one port of this host whatever name they ask for.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What it says to whoever wants a tunnel.
#[derive(Clone, Copy, Debug)]
pub enum Mood {
    /// Yes.
    Willing,
    /// No, with this status or SOCKS5 reply.
    Refusing(u16),
    /// It wants other credentials.
    Strict,
    /// It hangs up.
    Silent,
}

/// An HTTP and SOCKS5 proxy on all addresses of this host.
#[derive(Debug)]
pub struct UpstreamStub {
    port: u16,
    heads: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl UpstreamStub {
    /// Leads to `origin` on loopback.
    pub fn new(origin: u16, mood: Mood) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let record = Arc::clone(&record);
                // A client that breaks off is no matter.
                std::thread::spawn(move || drop(serve(stream, origin, mood, &record)));
            }
        });
        Self { port, heads }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What each connection asked for: the head of the request, or the bytes of the handshake.
    pub fn heads(&self) -> Vec<String> {
        let heads = self.heads.lock().expect("heads");
        heads.iter().map(|head| head.escape_ascii().to_string()).collect()
    }
}

fn serve(
    mut client: TcpStream,
    origin: u16,
    mood: Mood,
    record: &Mutex<Vec<Vec<u8>>>,
) -> std::io::Result<()> {
    let mut first = [0];
    client.read_exact(&mut first)?;
    let (head, refusal, accepted) = match first {
        [5] => handshake(&mut client, mood)?,
        _ => request(&mut client, first, mood)?,
    };
    record.lock().expect("heads").push(head.clone());
    if let Some(refusal) = refusal {
        return client.write_all(&refusal);
    }
    let mut host = TcpStream::connect(("127.0.0.1", origin))?;
    match accepted {
        Some(words) => client.write_all(&words)?,
        None => host.write_all(&head)?,
    }
    let (mut up, mut down) = (client.try_clone()?, host.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut up, &mut host);
        let _ = host.shutdown(Shutdown::Write);
    });
    std::io::copy(&mut down, &mut client)?;
    client.shutdown(Shutdown::Write)
}

/// The head, the words with which it is refused, and those with which a tunnel begins.
type Asked = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

fn request(client: &mut TcpStream, first: [u8; 1], mood: Mood) -> std::io::Result<Asked> {
    let mut head = first.to_vec();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let refuse = |status: u16| {
        let body = String::from_utf8_lossy(&head).into_owned();
        // As some proxies do, with all that it was sent.
        format!(
            "HTTP/1.1 {status} No\r\nProxy-Authenticate: Basic\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let refusal = match mood {
        Mood::Willing => None,
        Mood::Refusing(status) => Some(refuse(status).into_bytes()),
        Mood::Strict => Some(refuse(407).into_bytes()),
        Mood::Silent => Some(Vec::new()),
    };
    let established = b"HTTP/1.1 200 Connection established\r\nX-Proxy: stub\r\n\r\n".to_vec();
    let accepted = head.starts_with(b"CONNECT ").then_some(established);
    Ok((head, refusal, accepted))
}

fn handshake(client: &mut TcpStream, mood: Mood) -> std::io::Result<Asked> {
    let mut seen = vec![5];
    let mut take = |client: &mut TcpStream, count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes)?;
        seen.extend(&bytes);
        std::io::Result::Ok(bytes)
    };
    let count = take(client, 1)?[0];
    let methods = take(client, count.into())?;
    if methods.contains(&2) {
        client.write_all(&[5, 2])?;
        let user = take(client, 2)?[1];
        take(client, user.into())?;
        let password = take(client, 1)?[0];
        take(client, password.into())?;
        if matches!(mood, Mood::Strict) {
            return Ok((seen, Some(vec![1, 1]), None));
        }
        client.write_all(&[1, 0])?;
    } else if matches!(mood, Mood::Strict) {
        return Ok((seen, Some(vec![5, 0xff]), None));
    } else {
        client.write_all(&[5, 0])?;
    }
    let kind = take(client, 4)?[3];
    let length = match kind {
        1 => 4,
        4 => 16,
        _ => take(client, 1)?[0].into(),
    };
    take(client, length + 2)?;
    let reply = |code: u8| vec![5, code, 0, 1, 0, 0, 0, 0, 0, 0];
    Ok(match mood {
        Mood::Refusing(code) => (seen, Some(reply(code as u8)), None),
        Mood::Silent => (seen, Some(Vec::new()), None),
        _ => (seen, None, Some(reply(0))),
    })
}
