//! A connection that the sandbox began to an address, and that goes where a name leads.
//!
//! The name is that for which the address stands in this run, or one that the hosts files have for it; without any, the
//! address itself is judged. What follows is a tunnel like one of SOCKS.

use crate::destination::{Destination, OwnedHost};
use crate::error::{DialError, UpstreamError};
use crate::proxy::{Proxy, Slot};
use crate::tunnel;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, SendFlags, Shutdown, SocketAddrAny, sockopt};
use std::future::{pending, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long two connects on this host may take to meet.
const MEETING_LIMIT: Duration = Duration::from_secs(10);

/// Serves one connection that was to lead to `place`.
pub(crate) async fn serve(stream: TcpStream, place: SocketAddr, proxy: Arc<Proxy>, slot: Slot) {
    let destination = proxy.meant_by(place);
    match proxy.dial(&destination).await {
        Ok(host) => tunnel::serve(proxy, destination, stream, Vec::new(), host, slot).await,
        // Its client finds it reset, as far as possible.
        Err(_) => drop(sockopt::set_socket_linger(&stream, Some(Duration::ZERO))),
    }
}

/// Answers one that is under way as `place` would, and serves it.
pub(crate) async fn answer(mut caller: Caller, place: SocketAddr, proxy: Arc<Proxy>, slot: Slot) {
    // Nothing before it is answered.
    slot.is_sent();
    let destination = proxy.meant_by(place);
    let Some(dialled) = caller.unless_gone(proxy.dial(&destination)).await else { return };
    caller.tell(dialled.as_ref().map_or_else(errno, |_| 0));
    let Ok(host) = dialled else { return caller.refuse() };
    slot.may_send();
    match timeout(MEETING_LIMIT, caller.meet()).await {
        Ok(Ok(stream)) => {
            drop(caller);
            tunnel::serve(proxy, destination, stream, Vec::new(), host, slot).await;
        }
        _ => caller.refuse(),
    }
}

/// Whose connect is not answered yet: see [`common::proxy::Client`].
#[derive(Debug)]
pub(crate) struct Caller {
    /// What listens where it connects to.
    door: OwnedFd,
    socket: OwnedFd,
    /// Where it connects from.
    from: SocketAddr,
    /// Closed last, by which the broker knows that it was met or refused.
    _settled: OwnedFd,
    /// Where it waits to be told.
    waiting: Option<UnixStream>,
}

impl Caller {
    /// The one that came with `door`.
    ///
    /// # Errors
    /// Returns an error if it does not connect.
    pub(crate) fn new(door: OwnedFd, others: Vec<OwnedFd>) -> io::Result<Self> {
        let mut others = others.into_iter();
        let socket = others.next().ok_or(Errno::NOTCONN)?;
        let settled = others.next().ok_or(Errno::NOTCONN)?;
        let waiting =
            others.next().map(|stream| UnixStream::from_std(stream.into())).transpose()?;
        let from = canonical(net::getsockname(&socket))?;
        Ok(Self { door, socket, from, _settled: settled, waiting })
    }

    /// The port that it connects from.
    pub(crate) fn port(&self) -> u16 {
        self.from.port()
    }

    /// What `dialled` comes to, unless who waits for it is gone before.
    async fn unless_gone<T>(&mut self, dialled: impl Future<Output = T>) -> Option<T> {
        let gone = async {
            let heard = match &mut self.waiting {
                Some(waiting) => waiting.read_u8().await,
                None => Ok(0),
            };
            if heard.is_ok() {
                pending().await
            }
        };
        let (mut dialled, mut gone) = (pin!(dialled), pin!(gone));
        let first = poll_fn(|context| match dialled.as_mut().poll(context) {
            Poll::Pending => gone.as_mut().poll(context).map(|()| None),
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        });
        first.await
    }

    fn tell(&self, outcome: u8) {
        // Who gave up waiting reads nothing.
        let _ = self.waiting.as_ref().map(|waiting| rustix::io::write(waiting, &[outcome]));
    }

    /// Answers it by a connect that meets its own.
    async fn meet(&self) -> io::Result<TcpStream> {
        // It does not listen any more, and keeps its port.
        net::connect_unspec(&self.door)?;
        match net::connect(&self.door, &self.from) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno.into()),
        }
        let stream = TcpStream::from_std(self.door.try_clone()?.into())?;
        stream.writable().await?;
        // Given up meanwhile, its port can be another's.
        let is_met = stream.peer_addr()? == self.from
            && canonical(net::getsockname(&self.socket))? == self.from
            && self.peer()? == stream.local_addr()?;
        // Small packets at once, as the host has sent them. Failure costs only time.
        let _ = stream.set_nodelay(true);
        is_met.then_some(stream).ok_or(Errno::NOTCONN.into())
    }

    fn peer(&self) -> io::Result<SocketAddr> {
        canonical(net::getpeername(&self.socket).and_then(|peer| peer.ok_or(Errno::NOTCONN)))
    }

    /// Ends its connect, unless the socket is in other use by now.
    fn refuse(&self) {
        let name = net::getsockname(&self.socket);
        let without_waiting = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // Only before it is connected, it could wait to send.
        let is_under_way = net::send(&self.socket, &[], without_waiting) == Err(Errno::AGAIN);
        if !is_under_way || canonical(name.clone()).ok() != Some(self.from) {
            return;
        }
        // Unlike connect(2), that never ends listening, which the socket may have begun (inet_shutdown in
        // net/ipv4/af_inet.c): no port is given up but by the broker.
        let _ = net::shutdown(&self.socket, Shutdown::Write);
        // Who waits is told why. For who does not, the kernel has to have refused it, as it does on port 0, where
        // nobody can listen.
        if self.waiting.is_none() {
            let host = match name.map(SocketAddr::try_from) {
                Ok(Ok(SocketAddr::V6(_))) => Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
                _ => IpAddr::from(Ipv4Addr::LOCALHOST),
            };
            // A connect that does not wait, whatever flags the socket has by now (tcp(7), MSG_FASTOPEN).
            let flags = SendFlags::from_bits_retain(libc::MSG_FASTOPEN.cast_unsigned());
            let _ =
                net::sendto(&self.socket, &[], flags | without_waiting, &SocketAddr::new(host, 0));
        }
    }
}

/// The address of a socket, which is mapped if its family is that of IPv6.
fn canonical(name: Result<SocketAddrAny, Errno>) -> io::Result<SocketAddr> {
    let name = SocketAddr::try_from(name?)?;
    Ok(SocketAddr::new(name.ip().to_canonical(), name.port()))
}

impl Proxy {
    /// What a connect to `place` means.
    fn meant_by(&self, place: SocketAddr) -> Destination {
        let (ip, port) = (place.ip().to_canonical(), place.port());
        let is_permitted = |host: &OwnedHost| self.permits(host, port).is_ok();
        let meant = self.by_name(Destination { host: OwnedHost::Address(ip), port });
        if matches!(meant.host, OwnedHost::Name(_)) || is_permitted(&meant.host) {
            return meant;
        }
        let listed = || self.resolver.names_at(ip).map(|name| OwnedHost::Name(name.to_owned()));
        let is_known = |host: &OwnedHost| {
            let host = host.borrow();
            self.rules.permits_some_port(&host) || self.rules.asks_about(&host)
        };
        let host = listed().find(is_permitted).or_else(|| listed().find(is_known));
        host.map_or(meant, |host| Destination { host, port })
    }
}

/// As a connect without a proxy would have failed.
fn errno(error: &DialError) -> u8 {
    let errno = match error {
        error if error.is_refusal() => Errno::ACCESS,
        DialError::Timeout(_) => Errno::TIMEDOUT,
        DialError::Connect(_, error) => Errno::from_io_error(error).unwrap_or(Errno::HOSTUNREACH),
        DialError::Upstream(_, _, UpstreamError::Refused(_)) => Errno::CONNREFUSED,
        _ => Errno::HOSTUNREACH,
    };
    u8::try_from(errno.raw_os_error()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::net::TcpListener;

    fn caller(socket: &OwnedFd) -> Caller {
        let from = canonical(net::getsockname(socket)).unwrap();
        let [door, socket, settled] = [(); 3].map(|()| socket.try_clone().unwrap());
        Caller { door, socket, from, _settled: settled, waiting: None }
    }

    fn socket() -> OwnedFd {
        let flags = SocketFlags::NONBLOCK;
        net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
    }

    #[test]
    fn what_is_refused_ends_and_what_listens_by_then_does_not() {
        // Its queue is full.
        let full = socket();
        net::bind(&full, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        net::listen(&full, 0).unwrap();
        let there = SocketAddr::try_from(net::getsockname(&full).unwrap()).unwrap();
        let _first = std::net::TcpStream::connect(there).unwrap();
        let under_way = socket();
        assert_eq!(net::connect(&under_way, &there), Err(Errno::INPROGRESS));
        caller(&under_way).refuse();
        let ended = sockopt::socket_error(&under_way).unwrap();
        assert!([Err(Errno::CONNREFUSED), Err(Errno::CONNRESET)].contains(&ended), "{ended:?}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let there = listener.local_addr().unwrap();
        let listening = OwnedFd::from(listener);
        caller(&listening).refuse();
        let _ = net::shutdown(&listening, Shutdown::Write);
        assert!(std::net::TcpStream::connect(there).is_ok());
    }
}
