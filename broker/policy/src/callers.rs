//! What the caller's process says: its home, its working directory, its variables, and the proxies that these
//! name.

use super::error::PolicyError;
use super::remarks::Remarks;
use super::submodules::Indexes;
use proxy_hosts::domain::{Host, NAME_MAX};
use proxy_url::{Protocol, Upstream};
use rules::proxies::{CallerProxies, CallerProxy};
#[cfg(test)]
use std::collections::BTreeMap;
#[cfg(test)]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Why `~` means nothing.
pub(super) const NO_HOME: &str = "'~' needs HOME, which is unset or not an absolute path: set HOME";

/// What a policy depends on of the process that started landstrip.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The user's home: HOME if that is an absolute path.
    pub home: Option<PathBuf>,
    /// The working directory at launch, absolute.
    pub cwd: PathBuf,
    /// The indexes of git that were read for it.
    pub indexes: Arc<Indexes>,
    variables: Variables,
}

/// Where environment variables are looked up.
#[derive(Debug, Clone)]
enum Variables {
    /// In this process's own.
    OfProcess,
    /// In these.
    #[cfg(test)]
    Given(BTreeMap<OsString, OsString>),
}

impl Variables {
    fn get(&self, name: &str) -> Option<OsString> {
        match self {
            Self::OfProcess => std::env::var_os(name),
            #[cfg(test)]
            Self::Given(variables) => variables.get(OsStr::new(name)).cloned(),
        }
    }
}

impl Caller {
    /// That of this process.
    ///
    /// # Errors
    /// Returns a [`PolicyError`] if the working directory is gone or cannot be named.
    pub fn of_process() -> Result<Caller, PolicyError> {
        let cwd = std::env::current_dir().map_err(|error| {
            PolicyError::general(format!("cannot name the working directory: {error}"))
        })?;
        Ok(Caller::of(cwd, Variables::OfProcess))
    }

    /// One with these variables.
    #[cfg(test)]
    pub fn new(cwd: PathBuf, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Caller {
        Caller::of(cwd, Variables::Given(variables.into_iter().collect()))
    }

    fn of(cwd: PathBuf, variables: Variables) -> Caller {
        let home = variables.get("HOME").map(PathBuf::from);
        Caller {
            home: home.filter(|home| home.is_absolute()),
            cwd,
            indexes: Arc::default(),
            variables,
        }
    }

    /// Where the denials of runs are kept.
    pub fn state(&self) -> Option<PathBuf> {
        self.states().next()
    }

    /// The same, and where it is for runs that have no XDG_STATE_HOME.
    pub fn states(&self) -> impl Iterator<Item = PathBuf> {
        let named = self.variable("XDG_STATE_HOME").map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute());
        let own = self.home.as_ref().map(|home| home.join(".local/state"));
        named.into_iter().chain(own).map(|state| state.join("landstrip"))
    }

    /// The value of a variable, unless it is unset or empty.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).filter(|value| !value.is_empty())
    }
}

/// What the environment says of proxies; what is not one is ignored, with a remark.
pub fn proxies(caller: &Caller, remarks: &mut Remarks) -> CallerProxies {
    let mut proxy = |names: [&'static str; 2], default| {
        let given = |name| Some((name, caller.variable(name)?));
        let (name, value) = names.into_iter().find_map(given)?;
        let proxy = match value.to_str() {
            Some(text) => parse(name, text, default),
            None => Err("it is not UTF-8".to_owned()),
        };
        proxy.map_err(|reason| remarks.warn(format!("{name} ignored: {reason}"))).ok()
    };
    CallerProxies {
        http: proxy(["HTTP_PROXY", "http_proxy"], Protocol::Http),
        https: proxy(["HTTPS_PROXY", "https_proxy"], Protocol::Http),
        all: proxy(["ALL_PROXY", "all_proxy"], Protocol::Http),
        socks: proxy(["SOCKS_PROXY", "socks_proxy"], Protocol::Socks5),
        direct: ["NO_PROXY", "no_proxy"]
            .into_iter()
            .find_map(|name| caller.variable(name)?.into_string().ok()),
    }
}

/// Reads the value of `variable`.
pub fn parse(variable: &'static str, text: &str, default: Protocol) -> Result<CallerProxy, String> {
    let mut buffer = [0; NAME_MAX];
    let upstream =
        Upstream::parse(text, default, &mut buffer).map_err(|error| error.to_string())?;
    let loopback: Vec<IpAddr> = match upstream.host {
        _ if !upstream.is_loopback() => Vec::new(),
        Host::Address(address) => vec![address],
        Host::Name(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    };
    if !loopback.is_empty() && upstream.port.is_none() {
        return Err("it names no port".to_owned());
    }
    let port = upstream.port();
    let url = match text.contains("://") {
        true => text.to_owned(),
        false => format!("{}://{text}", default.scheme()),
    };
    Ok(CallerProxy {
        variable,
        secret: upstream.secret.map(str::to_owned),
        loopback: loopback.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(),
        is_supported: upstream.protocol.is_some(),
        url,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CallerProxy, String> {
        super::parse("HTTP_PROXY", text, Protocol::Http)
    }

    #[test]
    fn loopback_hosts_give_a_port_and_others_none() {
        for (text, port) in [
            ("http://localhost:3128", Some(3128)),
            ("127.0.0.1:8080", Some(8080)),
            ("http://127.9.9.9:1/path", Some(1)),
            ("socks5h://user:p%40ss@[::1]:65535", Some(65535)),
            ("https://127.0.0.1:1", Some(1)),
            ("http://proxy.example.com:3128", None),
            ("http://10.0.0.1", None),
            ("http://localhost@evil.example:1", None),
        ] {
            assert_eq!(parse(text).unwrap().loopback_port(), port, "{text}");
        }
        for text in ["", "http://", "http://localhost", "localhost:0", "::1", "http://a%@b:1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_url_has_a_scheme_and_is_not_shown() {
        assert_eq!(parse("proxy:1").unwrap().url, "http://proxy:1");
        let socks = super::parse("SOCKS_PROXY", "u:p@proxy:1", Protocol::Socks5).unwrap();
        assert_eq!(socks.url, "socks5h://u:p@proxy:1");
        assert_eq!(socks.secret.as_deref(), Some("u:p@proxy:1"));
        assert!(!format!("{socks:?}").contains("proxy:1"));
        assert!(!parse("https://proxy:1").unwrap().is_supported);
    }
}
