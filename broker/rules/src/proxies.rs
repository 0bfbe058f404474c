//! The proxies that the caller uses, as its variables name them. Pure.

use std::fmt;
use std::net::SocketAddr;

/// The proxies that the environment names, and what goes through none.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CallerProxies {
    /// HTTP_PROXY.
    pub http: Option<CallerProxy>,
    /// HTTPS_PROXY.
    pub https: Option<CallerProxy>,
    /// ALL_PROXY.
    pub all: Option<CallerProxy>,
    /// SOCKS_PROXY.
    pub socks: Option<CallerProxy>,
    /// NO_PROXY, as written.
    pub direct: Option<String>,
}

/// A proxy that one variable names.
#[derive(Clone, PartialEq, Eq)]
pub struct CallerProxy {
    /// The variable, as the caller spelled it.
    pub variable: &'static str,
    /// With a scheme; it can contain a password, and so is shown nowhere.
    pub url: String,
    /// Its user, password and host as written, if there is a user.
    pub secret: Option<String>,
    /// Where it is, if it is on this host: then it has a port.
    pub loopback: Vec<SocketAddr>,
    /// Whether landstrip's own proxies speak its protocol.
    pub is_supported: bool,
}

impl CallerProxies {
    /// Each that there is.
    pub fn iter(&self) -> impl Iterator<Item = &CallerProxy> {
        [&self.http, &self.https, &self.all, &self.socks].into_iter().flatten()
    }
}

impl CallerProxy {
    /// Its port, if it is on this host.
    pub fn loopback_port(&self) -> Option<u16> {
        self.loopback.first().map(SocketAddr::port)
    }
}

impl fmt::Debug for CallerProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL.
        f.debug_struct("CallerProxy").field("variable", &self.variable).finish_non_exhaustive()
    }
}
