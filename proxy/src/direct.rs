//! A connection that the sandbox began to an address, and that goes where a name leads.
//!
//! The name is that for which the address stands in this run, or one that the hosts files have for it; without any, the
//! address itself is judged. What follows is a tunnel like one of SOCKS.

use crate::destination::{Destination, OwnedHost};
use crate::error::{DialError, UpstreamError};
use crate::proxy::{Proxy, Slot};
use crate::tunnel;
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::net::sockopt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Serves one connection that was to lead to `place`; who waits for that is told by `answer`.
pub(crate) async fn serve(
    stream: TcpStream,
    place: SocketAddr,
    answer: Option<OwnedFd>,
    proxy: Arc<Proxy>,
    slot: Slot,
) {
    let destination = proxy.meant_by(place);
    let dialled = proxy.dial(&destination).await;
    let outcome = dialled.as_ref().map_or_else(errno, |_| 0);
    if let Some(answer) = answer {
        // Who gave up waiting reads nothing.
        let _ = io::write(answer, &[outcome]);
    }
    match dialled {
        Ok(host) => tunnel::serve(proxy, destination, stream, Vec::new(), host, slot).await,
        // Who did not wait finds it reset, as far as possible.
        Err(_) => drop(sockopt::set_socket_linger(&stream, Some(Duration::ZERO))),
    }
}

impl Proxy {
    /// What a connect to `place` means.
    fn meant_by(&self, place: SocketAddr) -> Destination {
        let (ip, port) = (place.ip().to_canonical(), place.port());
        let stands_for = |ip| Some(self.names.lock().ok()?.at(ip)?.to_owned());
        let name = match ip {
            IpAddr::V4(ip) => stands_for(ip),
            IpAddr::V6(_) => None,
        };
        let literal = OwnedHost::Address(ip);
        let is_permitted = |host: &OwnedHost| self.permits(host, port).is_ok();
        let listed = || self.resolver.names_at(ip).map(|name| OwnedHost::Name(name.to_owned()));
        let is_known = |host: &OwnedHost| {
            let host = host.borrow();
            self.rules.permits_some_port(&host) || self.rules.asks_about(&host)
        };
        let host = match name {
            Some(name) => OwnedHost::Name(name),
            None if is_permitted(&literal) => literal,
            None => {
                listed().find(is_permitted).or_else(|| listed().find(is_known)).unwrap_or(literal)
            }
        };
        Destination { host, port }
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
