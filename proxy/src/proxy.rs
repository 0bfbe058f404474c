//! What all connections of a sandbox share.

use crate::control::{Broker, Control};
use crate::destination::{Destination, OwnedHost};
use crate::error::ProxyError;
use crate::names::Names;
use crate::resolve::Resolver;
use crate::rules::Rules;
use crate::upstream::Upstreams;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, WeakSender};

/// The proxy of one sandbox.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) rules: Rules,
    pub(crate) resolver: Resolver,
    pub(crate) upstreams: Upstreams,
    pub(crate) broker: Broker,
    pub(crate) names: Mutex<Names>,
}

/// What a client is connected by: a TCP socket, in tests also memory.
pub(crate) trait Client: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Client for S {}

/// Held as long as a connection is served.
pub(crate) type Slot = Arc<Place>;

/// The place of a connection among those that are served at a time.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    all: WeakSender<Infallible>,
    unsent: Mutex<Option<Unsent>>,
}

/// Held as long as something that a client has sent may have to be sent on.
pub(crate) type Unsent = Sender<Infallible>;

impl Place {
    pub(crate) fn new(permit: OwnedSemaphorePermit, unsent: Unsent) -> Slot {
        let all = unsent.downgrade();
        Arc::new(Self { _permit: permit, all, unsent: Mutex::new(Some(unsent)) })
    }

    /// All that the client sent has been sent on, and no more will come.
    pub(crate) fn is_sent(&self) {
        self.hold(None);
    }

    /// The client, which could send nothing so far, may do so now.
    pub(crate) fn may_send(&self) {
        self.hold(self.all.upgrade());
    }

    fn hold(&self, what: Option<Unsent>) {
        if let Ok(mut unsent) = self.unsent.lock() {
            *unsent = what;
        }
    }
}

impl Proxy {
    /// The proxy of one sandbox.
    ///
    /// # Errors
    /// Returns [`ProxyError::Runtime`] if the control socket cannot be watched, or there is no randomness.
    pub(crate) fn new(
        rules: Rules,
        resolver: Resolver,
        upstreams: Upstreams,
        control: Control,
    ) -> Result<Arc<Self>, ProxyError> {
        let (broker, names) = (control.into_broker()?, Mutex::new(Names::new()?));
        Ok(Arc::new(Self { rules, resolver, upstreams, broker, names }))
    }

    /// The destination by its name if its address stands for one in this run: all that a client has which looks names up
    /// before it asks a proxy.
    pub(crate) fn by_name(&self, Destination { host, port }: Destination) -> Destination {
        let stands_for = |ip| Some(self.names.lock().ok()?.at(ip)?.to_owned());
        let name = match host {
            OwnedHost::Address(IpAddr::V4(ip)) => stands_for(ip),
            _ => None,
        };
        Destination { host: name.map_or(host, OwnedHost::Name), port }
    }

    /// Reports a refused host and port to the broker.
    pub(crate) fn report(&self, host: &str, port: u16) {
        self.broker.report(host, port);
    }
}
