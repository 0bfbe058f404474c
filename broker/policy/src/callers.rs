//! What the caller's process says: its home, its working directory, its variables, and the proxies that these
//! name.

use super::error::PolicyError;
use super::remarks::Remarks;
use common::upstream::Protocol;
use rules::proxies::{CallerProxies, CallerProxy};
#[cfg(test)]
use std::collections::BTreeMap;
#[cfg(test)]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::PathBuf;

/// Why `~` means nothing.
pub(super) const NO_HOME: &str = "'~' needs HOME, which is unset or not an absolute path: set HOME";

/// What a policy depends on of the process that started landstrip.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The user's home: HOME if that is an absolute path.
    pub home: Option<PathBuf>,
    /// The working directory at launch, absolute.
    pub cwd: PathBuf,
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
        Caller { home: home.filter(|home| home.is_absolute()), cwd, variables }
    }

    /// Where the denials of runs are kept.
    pub fn state(&self) -> Option<PathBuf> {
        let named = self.variable("XDG_STATE_HOME").map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute());
        let state = named.or_else(|| Some(self.home.as_ref()?.join(".local/state")));
        state.map(|state| state.join("landstrip"))
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
            Some(text) => CallerProxy::parse(name, text, default),
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
