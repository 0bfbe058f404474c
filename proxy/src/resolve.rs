//! Names to addresses: /etc/hosts, then the name servers of /etc/resolv.conf.
//!
//! Not getaddrinfo(3): in a static program it loads the libraries of the host's name service, which
//! a scratch image does not have, and which would need files and sockets that the proxy gives up.
//! Not a resolver crate: those that are well kept bring caches, DNSSEC and an amount of code beyond
//! the rest of the proxy. Both files the broker has read, before there was a command that could write them.

use crate::dns::{self, Answer, Kind};
use crate::error::{ProxyError, ResolveError};
use crate::files::{self, Servers};
use proxy_hosts::address::is_localhost;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long IPv6 addresses are waited for when there are IPv4 ones (RFC 8305 calls for 50 ms; a
/// slow answer is not worth losing it).
const SECOND_ANSWER_DELAY: Duration = Duration::from_millis(250);
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;

/// What the two files say.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    /// Those of the run before those of the host.
    hosts: [Vec<(String, IpAddr)>; 2],
    servers: Servers,
    /// That of this host.
    own_name: String,
}

impl Resolver {
    /// Reads what the broker sends: see [`common::proxy::Setup`].
    pub(crate) fn read(mut names: File) -> Result<Self, ProxyError> {
        let mut bytes = Vec::new();
        names.read_to_end(&mut bytes).map_err(ProxyError::Runtime)?;
        let text = String::from_utf8_lossy(&bytes);
        let (resolv_conf, hosts) = text.split_once('\0').ok_or(ProxyError::Message)?;
        let hosts = hosts.split_once('\0').ok_or(ProxyError::Message)?;
        // Where it is not known, that matters to reports alone.
        let own_name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let own_name = own_name.trim().to_ascii_lowercase();
        Ok(Self { own_name, ..Self::of(hosts.into(), resolv_conf) })
    }

    /// What these texts say; the names of the first hosts file are not looked for in the second.
    pub(crate) fn of(hosts: [&str; 2], resolv_conf: &str) -> Self {
        let (hosts, servers) = (hosts.map(files::hosts), files::servers(resolv_conf));
        Self { hosts, servers, own_name: String::new() }
    }

    /// The name that `name` was asked for in the place of, if a domain was added that is searched.
    pub(crate) fn searched<'a>(&self, name: &'a str) -> Option<&'a str> {
        let without = |domain: &String| name.strip_suffix(domain.as_str())?.strip_suffix('.');
        self.servers.search.iter().find_map(without)
    }

    /// Whether `name` is that of this host, which programs ask for to say who they are.
    pub(crate) fn is_own_name(&self, name: &str) -> bool {
        name == self.own_name
    }

    /// The names that a hosts file has for `address`; where they lead may be another matter.
    pub(crate) fn names_at(&self, address: IpAddr) -> impl Iterator<Item = &str> {
        let all = self.hosts.iter().flatten();
        let here = all.filter(move |(_, own)| own.to_canonical() == address);
        here.map(|(name, _)| name.as_str())
    }

    /// The addresses of `name` in the hosts files.
    pub(crate) fn listed(&self, name: &str) -> Vec<IpAddr> {
        let of = |hosts: &Vec<(String, IpAddr)>| {
            let found = hosts.iter().filter(|(host, _)| host == name);
            found.map(|&(_, address)| address).collect::<Vec<_>>()
        };
        self.hosts.iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The addresses of `name`, which is in its one spelling and permitted: the question itself
    /// tells the name to the name servers.
    pub(crate) async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let listed = self.listed(name);
        if !listed.is_empty() {
            return Ok(listed);
        }
        // RFC 6761 section 6.3: never asked for.
        if is_localhost(name) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let (servers, owned) = (self.servers.clone(), name.to_owned());
        let mut six = tokio::spawn(async move { ask_all(&servers, &owned, Kind::Aaaa).await });
        let four = ask_all(&self.servers, name, Kind::A).await;
        let six = match &four {
            Ok(addresses) if !addresses.is_empty() => timeout(SECOND_ANSWER_DELAY, &mut six).await,
            _ => Ok((&mut six).await),
        }
        .unwrap_or_else(|_| {
            six.abort();
            Ok(Err(ResolveError::Silence))
        })
        .unwrap_or(Err(ResolveError::Silence));
        let addresses: Vec<IpAddr> =
            interleave(six.clone().unwrap_or_default(), four.clone().unwrap_or_default());
        match (four, six) {
            _ if !addresses.is_empty() => Ok(addresses),
            (Err(error), _) | (_, Err(error)) => Err(error),
            _ => Err(ResolveError::Addressless),
        }
    }
}

/// One of each in turn, as RFC 8305 orders them.
fn interleave(first: Vec<IpAddr>, second: Vec<IpAddr>) -> Vec<IpAddr> {
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::new();
    while all.len() < ADDRESSES_MAX {
        let (a, b) = (first.next(), second.next());
        if a.is_none() && b.is_none() {
            break;
        }
        all.extend(a.into_iter().chain(b));
    }
    all
}

async fn ask_all(servers: &Servers, name: &str, kind: Kind) -> Result<Vec<IpAddr>, ResolveError> {
    for _ in 0..servers.attempts {
        for &server in &servers.addresses {
            let asked = timeout(servers.timeout, ask(server, name, kind)).await;
            match asked {
                Ok(Ok(Answer::Addresses(addresses))) => return Ok(addresses),
                Ok(Ok(Answer::NoName)) => return Err(ResolveError::Missing),
                Ok(Ok(Answer::Failed | Answer::Truncated) | Err(_)) | Err(_) => {}
            }
        }
    }
    Err(ResolveError::Silence)
}

/// Asks one server over UDP, and over TCP if the answer does not fit.
///
/// The port is the kernel's choice and the id is random: a forger outside the path has to guess
/// both. The socket is connected, so that only the server's datagrams arrive.
async fn ask(server: SocketAddr, name: &str, kind: Kind) -> io::Result<Answer> {
    let id = random_id()?;
    let query = dns::query(id, name, kind);
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(&query).await?;
    let mut buffer = [0; dns::UDP_MAX];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match dns::answer(&buffer[..length], id, name, kind) {
            Some(Answer::Truncated) => return ask_over_tcp(server, &query, id, name, kind).await,
            Some(answer) => return Ok(answer),
            None => {}
        }
    }
}

/// RFC 7766: the same message behind its length.
async fn ask_over_tcp(
    server: SocketAddr,
    query: &[u8],
    id: u16,
    name: &str,
    kind: Kind,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), query].concat()).await?;
    let length = stream.read_u16().await?;
    let mut packet = vec![0; usize::from(length)];
    stream.read_exact(&mut packet).await?;
    Ok(dns::answer(&packet, id, name, kind).unwrap_or(Answer::Failed))
}

fn random_id() -> io::Result<u16> {
    let mut bytes = [0; 2];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u16::from_ne_bytes(bytes))
}
