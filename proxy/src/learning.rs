//! A run that learns: what no rule names is reached, and told to the broker as the rule that would name it.
//!
//! What a rule denies stays refused, and so does what is no host. Addresses that need a rule of their own, such
//! as link-local ones, are reached, and told as literals.

use crate::destination::{Destination, OwnedHost};
use crate::dial::class_here;
use crate::proxy::Proxy;
use crate::rules::Verdict;
use proxy_hosts::address::Class;
use std::net::IpAddr;

tokio::task_local! {
    /// The port of the client that is served, by which the broker knows the program.
    static CLIENT: u16;
}

/// Serves the client that asks from `port`.
pub(crate) async fn of_client(port: u16, served: impl Future<Output = ()>) {
    CLIENT.scope(port, served).await;
}

/// The port of the client that is served; 0 if there is none.
pub(crate) fn client_port() -> u16 {
    CLIENT.try_with(|client| *client).unwrap_or(0)
}

impl Proxy {
    /// Whether `host` may be reached as far as its name goes.
    pub(crate) fn permits(&self, host: &OwnedHost, port: u16) -> Result<(), Verdict> {
        match self.rules.judge(&host.borrow(), port) {
            Verdict::Allowed => Ok(()),
            Verdict::NotListed if self.rules.learn() => Ok(()),
            verdict => Err(verdict),
        }
    }

    /// Tells what rules would let `destination` be reached at `address`, if that is known here.
    pub(crate) fn learn(&self, destination: &Destination, address: Option<IpAddr>) {
        let Destination { host, port } = destination;
        if !self.rules.learn() {
            return;
        }
        let (name, asked) = (host.borrow(), OwnedHost::to_string(host));
        let class = address.map(|address| (address.to_canonical(), class_here(address)));
        let unnamed =
            class.filter(|&(at, class)| !self.rules.permits_class(&name, at, class, *port));
        match unnamed {
            Some((_, Class::Private)) if matches!(host, OwnedHost::Name(_)) => {
                self.tell_reached(&asked, *port, true);
            }
            Some((address, _)) if *host != OwnedHost::Address(address) => {
                let literal = OwnedHost::Address(address).to_string();
                self.tell_reached(&literal, *port, false);
            }
            _ => {}
        }
        if self.rules.judge(&name, *port) == Verdict::NotListed {
            self.tell_reached(&asked, *port, false);
        }
    }

    fn tell_reached(&self, host: &str, port: u16, is_private: bool) {
        self.broker.tell_reached(host, port, is_private, client_port());
    }
}
