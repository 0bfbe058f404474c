//! Reaching a permitted destination: judged, resolved once, its addresses judged, one of them
//! dialled.
//!
//! What is refused is never looked up, so that nothing leaves by DNS. What is dialled is the
//! address that was judged, so that an answer that changes between two look-ups gains nothing.
//!
//! Where the caller uses a proxy, that one gets the names of permitted hosts, resolves and dials: only
//! literals are judged as addresses then. What means this host or its link is not asked of another.

use crate::destination::{Destination, OwnedHost};
use crate::error::{DialError, UpstreamError};
use crate::proxy::Proxy;
use crate::rules::Verdict;
use crate::upstream::{Purpose, Upstream};
use proxy_hosts::address::{Class, classify, embedded, is_localhost};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long all of it may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an address has before the next is tried beside it (RFC 8305 section 5).
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);

impl Proxy {
    /// Connects to `destination` if the rules permit it; reports if they do not.
    pub(crate) async fn dial(&self, destination: &Destination) -> Result<TcpStream, DialError> {
        self.reach(destination, Purpose::Tunnel).await.map(|(stream, _)| stream)
    }

    /// The same for a plain request, which an upstream can take itself: then the stream is to that.
    pub(crate) async fn dial_for_request(
        &self,
        destination: &Destination,
    ) -> Result<(TcpStream, Option<&Upstream>), DialError> {
        self.reach(destination, Purpose::Request).await
    }

    async fn reach(
        &self,
        destination: &Destination,
        purpose: Purpose,
    ) -> Result<(TcpStream, Option<&Upstream>), DialError> {
        // Who is asked has a time of their own.
        let once = self.is_permitted_once(destination).await;
        let reached = timeout(DIAL_TIMEOUT, self.reach_unbounded(destination, purpose, once)).await;
        let result = reached.unwrap_or_else(|_| Err(DialError::Timeout(destination.to_string())));
        if result.as_ref().is_err_and(DialError::is_refusal) {
            self.report(&destination.host.to_string(), destination.port);
        }
        result
    }

    async fn reach_unbounded(
        &self,
        destination: &Destination,
        purpose: Purpose,
        once: bool,
    ) -> Result<(TcpStream, Option<&Upstream>), DialError> {
        if !once {
            self.judge(destination)?;
        }
        let upstream = self.upstreams.towards(destination, purpose);
        let Some(upstream) = upstream.filter(|_| !is_of_this_host(&destination.host)) else {
            let addresses = self.resolve(destination).await?;
            let addresses = self.permitted(destination, addresses, once)?;
            let stream = connect(addresses)
                .await
                .map_err(|error| DialError::Connect(destination.to_string(), error))?;
            self.learn(destination, stream.peer_addr().ok().map(|peer| peer.ip()));
            return Ok((stream, None));
        };
        if let OwnedHost::Address(address) = destination.host {
            self.permitted(destination, vec![address], once)?;
        }
        let failed = |error| {
            let name = Destination { host: upstream.host.clone(), port: upstream.port };
            DialError::Upstream(destination.to_string(), name.to_string(), error)
        };
        let mut stream = self.dial_upstream(upstream).await.map_err(failed)?;
        let literal = match destination.host {
            OwnedHost::Address(address) => Some(address),
            OwnedHost::Name(_) => None,
        };
        if purpose == Purpose::Request && upstream.takes_requests().is_some() {
            self.learn(destination, literal);
            return Ok((stream, Some(upstream)));
        }
        upstream.open_tunnel(&mut stream, destination).await.map_err(failed)?;
        self.learn(destination, literal);
        Ok((stream, None))
    }

    /// The upstream is wherever the caller says: no rule speaks of it.
    async fn dial_upstream(&self, upstream: &Upstream) -> Result<TcpStream, UpstreamError> {
        let addresses = match &upstream.host {
            OwnedHost::Address(address) => vec![*address],
            OwnedHost::Name(name) => {
                self.resolver.resolve(name).await.map_err(UpstreamError::Resolve)?
            }
        };
        let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, upstream.port));
        Ok(connect(addresses.collect()).await?)
    }

    fn judge(&self, Destination { host, port }: &Destination) -> Result<(), DialError> {
        let (name, port) = (host.to_string(), *port);
        self.permits(host, port).map_err(|verdict| match verdict {
            Verdict::Denied => DialError::Denied { host: name, port },
            _ => DialError::NotListed { host: name, port },
        })
    }

    async fn resolve(&self, destination: &Destination) -> Result<Vec<IpAddr>, DialError> {
        match &destination.host {
            OwnedHost::Address(address) => Ok(vec![*address]),
            OwnedHost::Name(name) => self
                .resolver
                .resolve(name)
                .await
                .map_err(|error| DialError::Resolve(name.clone(), error)),
        }
    }

    /// Those of `addresses` that may be dialled. An address that was asked about itself may be as if a rule named it.
    fn permitted(
        &self,
        destination: &Destination,
        addresses: Vec<IpAddr>,
        once: bool,
    ) -> Result<Vec<SocketAddr>, DialError> {
        let (host, port) = (&destination.host, destination.port);
        let mut refused = None;
        let mut permitted = Vec::new();
        for address in addresses.into_iter().map(|address| address.to_canonical()) {
            let was_shown = once && matches!(host, OwnedHost::Address(_));
            let class = match class_here(address) {
                class if was_shown && class.is_advisable() => Class::Public,
                class => class,
            };
            if self.rules.permits(&host.borrow(), address, class, port) {
                permitted.push(SocketAddr::new(address, port));
            } else {
                refused.get_or_insert((address, class));
            }
        }
        match refused {
            Some((address, class)) if permitted.is_empty() => {
                Err(DialError::Address { host: host.to_string(), address, class })
            }
            _ => Ok(permitted),
        }
    }
}

/// Whether what `host` means depends on who asks: it is not for an upstream.
fn is_of_this_host(host: &OwnedHost) -> bool {
    match host {
        OwnedHost::Name(name) => is_localhost(name),
        OwnedHost::Address(address) => matches!(
            class_here(*address),
            Class::Loopback | Class::Own | Class::LinkLocal | Class::Metadata
        ),
    }
}

/// What `address` is on this host.
pub(crate) fn class_here(address: IpAddr) -> Class {
    match classify(address) {
        class @ (Class::Public | Class::Private) => {
            if is_own(address) || embedded(address).any(|inside| is_own(inside.into())) {
                Class::Own
            } else {
                class
            }
        }
        class => class,
    }
}

/// Whether an interface of this host has `address`: only then can a socket be bound to it (ip(7)),
/// and always as of now. Where net.ipv4.ip_nonlocal_bind is set, every address looks like one of
/// this host's and is refused. A UDP socket: the proxy may not bind TCP ones.
fn is_own(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(_) if address.is_ipv6() && is_routed_to_loopback(address) => true,
        Err(error) => {
            let foreign = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT].map(Errno::raw_os_error);
            !error.raw_os_error().is_some_and(|number| foreign.contains(&number))
        }
    }
}

/// Whether a route makes `address` one of this host's though no interface has it (`ip -6 route add
/// local`): then a path leads there on which more fits in a packet than on any link (RFC 8200 section
/// 3). Connecting a UDP socket sends nothing.
fn is_routed_to_loopback(address: IpAddr) -> bool {
    let path = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        Ok(sockopt::ipv6_mtu(&socket)?)
    });
    path.is_ok_and(|mtu| mtu > u32::from(u16::MAX))
}

async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let stream = race(addresses).await?;
    // Small packets at once, as the client has sent them. Failure costs only time.
    let _ = stream.set_nodelay(true);
    keep_alive(&stream);
    Ok(stream)
}

/// Connects to the first of `addresses` that answers (happy eyeballs, RFC 8305).
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut last = io::Error::from(io::ErrorKind::HostUnreachable);
    loop {
        match waiting.next() {
            Some(address) => drop(attempts.spawn(TcpStream::connect(address))),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let ended = if waiting.len() > 0 {
            timeout(NEXT_ADDRESS_DELAY, attempts.join_next()).await
        } else {
            Ok(attempts.join_next().await)
        };
        match ended {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => last = error,
            // Late: the next one is tried beside it.
            Ok(Some(Err(_)) | None) | Err(_) => {}
        }
    }
}

/// A peer that has vanished without a word is noticed within minutes; a quiet one is not bothered.
/// Tunnels have no other idle limit: ssh and long polls may be silent for hours.
fn keep_alive(stream: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(60));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(20));
    let _ = sockopt::set_tcp_keepcnt(stream, 6);
}
