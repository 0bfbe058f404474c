//! Why the proxy gave up, and why it did not do what a client asked.

use crate::dial::class_here;
use crate::socks5::ConnectError;
use proxy_hosts::address::{Class, is_advisable_name};
use proxy_hosts::domain::HostError;
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;
use thiserror::Error;

/// The proxy cannot serve, or its client mode cannot connect.
#[derive(Debug, Error)]
pub(crate) enum ProxyError {
    /// Started by hand.
    #[error("landstrip-proxy is started by landstrip, or as: --connect PROXY-PORT HOST PORT")]
    Usage,
    /// A step on the control socket failed.
    #[error("control socket: {0}")]
    Control(Errno),
    /// The broker sent what it never sends.
    #[error("control socket: unexpected message")]
    Message,
    /// A rule that the broker should not have let pass.
    #[error("rule '{0}' cannot be used")]
    Rule(String),
    /// The proxy does not run without its own confinement.
    #[error("cannot confine itself: {0}")]
    Confine(String),
    /// tokio could not start, or a listening socket cannot be used.
    #[error("cannot serve: {0}")]
    Runtime(io::Error),
    /// Client mode: the proxy said no, or was not there.
    #[error("cannot connect to {0}: {1}")]
    Client(String, String),
}

/// Why a destination was not reached.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    /// The host is spelled as no rule can name it.
    #[error("'{0}' is no host that a rule can name: {1}")]
    Spelling(String, HostError),
    /// No rule allows it: what to add.
    #[error("{host}:{port} is not in network.allowedDomains; {}", to_list(host, *port))]
    NotListed {
        /// As a rule would name it.
        host: String,
        /// Its port.
        port: u16,
    },
    /// A rule of deniedDomains matches.
    #[error("{host}:{port} is denied by network.deniedDomains, which wins over allowedDomains")]
    Denied {
        /// As a rule would name it.
        host: String,
        /// Its port.
        port: u16,
    },
    /// All of its addresses are refused: one of them, and why.
    #[error("{host} has the address {address}, which is refused: {class}; {}",
            remedy(*class, *address, host))]
    Address {
        /// As a rule would name it.
        host: String,
        /// The first of its addresses.
        address: IpAddr,
        /// What is wrong with it.
        class: Class,
    },
    /// A tunnel leads to one host, and what is sent in it names another.
    #[error("{host} is named in a tunnel to {asked}")]
    Fronting {
        /// As the client names it.
        host: String,
        /// Where the tunnel leads.
        asked: String,
    },
    /// The name has no address, or no name server answered.
    #[error("{0} cannot be resolved: {1}")]
    Resolve(String, ResolveError),
    /// Nobody answered in time.
    #[error("{0} did not answer in time")]
    Timeout(String),
    /// The connection was refused or is impossible.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, io::Error),
    /// The proxy that the caller uses does not lead there.
    #[error("{0} cannot be reached through the upstream proxy {1}: {2}")]
    Upstream(String, String, UpstreamError),
}

/// Why the upstream proxy does not connect.
#[derive(Debug, Error)]
pub(crate) enum UpstreamError {
    /// Its own name.
    #[error("its name cannot be resolved: {0}")]
    Resolve(ResolveError),
    /// It is not there, or broke off.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// It does not take the user and password, or wants some.
    #[error("it refuses the user and password, or wants some")]
    Credentials,
    /// What it answered: an HTTP status or a SOCKS5 reply.
    #[error("it answered {0}")]
    Refused(u16),
    /// It speaks another protocol.
    #[error("its answer makes no sense")]
    Broken,
}

impl From<ConnectError> for UpstreamError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Connection(error) => Self::Connection(error),
            ConnectError::Credentials => Self::Credentials,
            ConnectError::Refused(code) => Self::Refused(code.into()),
            ConnectError::Broken => Self::Broken,
        }
    }
}

impl DialError {
    /// Whether it is the policy that said no.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Spelling(..)
                | Self::NotListed { .. }
                | Self::Denied { .. }
                | Self::Address { .. }
                | Self::Fronting { .. }
        )
    }
}

/// Why a name has no addresses.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResolveError {
    /// There is no such name.
    #[error("there is no such name")]
    Missing,
    /// The name exists but has no address.
    #[error("the name has no address")]
    Addressless,
    /// No name server gave a usable answer.
    #[error("no name server answered")]
    Silence,
}

/// What to write for a host that no rule names, as a rule would name it.
fn to_list(host: &str, port: u16) -> String {
    let text = host.trim_matches(['[', ']']);
    let is_advisable = text
        .parse()
        .map_or(is_advisable_name(host), |address: IpAddr| class_here(address).is_advisable());
    match is_advisable {
        true => format!("to allow it, add \"{host}:{port}\" or \"{host}\" there"),
        false => NEVER_ADVISED.to_owned(),
    }
}

const NEVER_ADVISED: &str = "a rule for such an address is never advised";

/// What would allow it.
fn remedy(class: Class, address: IpAddr, host: &str) -> String {
    let literal = proxy_hosts::domain::Host::Address(address);
    match class {
        Class::NoHost => "nothing helps: it is not the address of one host".to_owned(),
        Class::Private => format!(
            "to allow it, add \"{host}\" to network.privateDomains, or \"{literal}\" to network.allowedDomains"
        ),
        class if !class.is_advisable() => NEVER_ADVISED.to_owned(),
        _ => format!("to allow it, add \"{literal}\" to network.allowedDomains"),
    }
}
