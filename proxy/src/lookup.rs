//! Answers to the sandbox's lookups: RFC 1035, RFC 7766.
//!
//! A permitted name gets the address that stands for it, and so does one about which somebody is asked when it is
//! connected to; no other name exists. Nothing is asked of anybody: what a
//! name really has for addresses is looked up when somebody connects. But of names that resolvers make by a search list
//! only one is meant: whether such a one exists, the name servers say, and so of all names where the run learns.

use crate::destination::{Destination, OwnedHost};
use crate::dns::{Found, Query};
use crate::error::ResolveError;
use crate::proxy::{Client, Proxy, Slot};
use crate::relay::TLS_PORT;
use crate::upstream::Purpose;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixDatagram;
use tokio::time::timeout;

/// How long who asks may be silent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest query that is read: one name, and options.
const QUERY_MAX: usize = 4096;
/// The names of addresses, which programs ask for and do without.
const REVERSE: [&str; 2] = [".in-addr.arpa", ".ip6.arpa"];

/// Serves queries in a stream, each behind its length.
pub(crate) async fn serve_stream<S: Client>(mut stream: S, proxy: Arc<Proxy>, _slot: Slot) {
    let mut query = [0; QUERY_MAX];
    loop {
        let read = async {
            let length = usize::from(stream.read_u16().await.ok()?);
            let query = query.get_mut(..length)?;
            stream.read_exact(query).await.ok()?;
            Some(query)
        };
        let Ok(Some(query)) = timeout(IDLE_TIMEOUT, read).await else { return };
        let Some(response) = proxy.answer(query).await else { return };
        let Ok(length) = u16::try_from(response.len()) else { return };
        let message = [&length.to_be_bytes()[..], &response].concat();
        if !matches!(timeout(IDLE_TIMEOUT, stream.write_all(&message)).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Serves queries that come as messages.
pub(crate) async fn serve_messages(socket: UnixDatagram, proxy: Arc<Proxy>, _slot: Slot) {
    let mut query = [0; QUERY_MAX];
    while let Ok(Ok(length @ 1..)) = timeout(IDLE_TIMEOUT, socket.recv(&mut query)).await {
        // Who does not read loses answers, as by UDP.
        if let Some(response) = proxy.answer(&query[..length]).await {
            let _ = socket.try_send(&response);
        }
    }
}

impl Proxy {
    /// The response to `packet`, if somebody waits for one.
    async fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        match Query::read(packet) {
            Ok(query) => Some(query.response(self.find(&query).await)),
            Err(response) => response,
        }
    }

    async fn find(&self, query: &Query<'_>) -> Found {
        let name = query.name.as_str();
        match OwnedHost::parse(name.as_bytes()) {
            Ok(host @ OwnedHost::Name(_)) if self.rules.permits_some_port(&host.borrow()) => {
                let is_made = self.resolver.searched(name).is_some();
                if (is_made || self.rules.learn()) && !self.exists(host).await {
                    return Found::NoName;
                }
            }
            // Whether it exists is not asked of anybody as long as it is not permitted.
            Ok(host @ OwnedHost::Name(_)) if self.rules.asks_about(&host.borrow()) => {
                if self.is_habit(name) || self.resolver.searched(name).is_some() {
                    return Found::NoName;
                }
            }
            _ => {
                self.refuse_lookup(name);
                return Found::NoName;
            }
        }
        if !query.is_for_address() {
            return Found::Nothing;
        }
        let Ok(mut names) = self.names.lock() else { return Found::Failed };
        names.address_of(name).map_or(Found::Failed, Found::Address)
    }

    /// Whether there is such a name, as far as that is known here: where an upstream resolves, it is not.
    async fn exists(&self, host: OwnedHost) -> bool {
        let destination = Destination { host, port: TLS_PORT };
        if self.upstreams.towards(&destination, Purpose::Tunnel).is_some() {
            return true;
        }
        let name = destination.host.to_string();
        !matches!(self.resolver.resolve(&name).await, Err(ResolveError::Missing))
    }

    /// Reports a lookup that somebody can miss: none of those that programs make by habit, and none in the place of
    /// another name that exists, or was reported.
    fn refuse_lookup(&self, name: &str) {
        let is_known = |name: &str| {
            let host = OwnedHost::parse(name.as_bytes());
            host.is_ok_and(|host| self.rules.permits_some_port(&host.borrow()))
                || self.broker.has_told(name)
                || self.is_habit(name)
        };
        let is_spared = name.is_empty() || self.is_habit(name);
        if !is_spared && !self.resolver.searched(name).is_some_and(is_known) {
            self.broker.report_lookup(name);
        }
    }

    /// Whether programs look `name` up by habit, and do without.
    fn is_habit(&self, name: &str) -> bool {
        let is_own = |name| self.resolver.is_own_name(name);
        is_own(name)
            || self.resolver.searched(name).is_some_and(is_own)
            || REVERSE.iter().any(|suffix| name.ends_with(suffix))
    }
}
