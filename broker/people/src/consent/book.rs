//! The rules by which it is asked and granted: those of the line that helps, as policies write them. What a deny rule
//! names is nobody's to grant during a run, nor what is not known to be harmless.

use crate::advice::suggest::{self, Grounds};
use crate::reports::collected::Collected;
use common::trap::NetworkOperation;
use kernel::locate::locate;
use landstrip_core::ask::{Addition, Rule};
use landstrip_core::compile::runs::{callers_temporary, holders};
use landstrip_core::report::denials::Denial;
use policy::callers::Caller;
use policy::harmless;
use policy::origins::Origins;
use policy::reach::linked_settings;
use policy::resolve;
use proxy_hosts::domain;
use proxy_hosts::rule_for;
use rules::files::Files;
use rules::paths::covers;
use rules::pattern::Pattern;
use rules::policy::{Network, Policy};
use rules::proxies::CallerProxies;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The key of rules for hosts.
const HOSTS: &str = "network.allowedDomains";
/// That of rules for Unix sockets.
const SOCKETS: &str = "network.allowUnixSockets";
/// That of the rule for servers of the command's own.
const SERVERS: &str = "network.allowLocalBinding";

/// What rules are found and checked in view of: the policy as it was at launch.
#[derive(Debug)]
pub(super) struct Book {
    policy: Policy,
    caller: Caller,
    home: Option<PathBuf>,
    temporary: PathBuf,
    settings: Vec<PathBuf>,
    written: (usize, usize),
    origins: Origins,
    collected: Arc<Collected>,
}

impl Book {
    /// The rules beside `policy`, of which the first `written` ones of denyWrite and denyRead were written.
    pub(super) fn new(
        mut policy: Policy,
        caller: Caller,
        written: (usize, usize),
        collected: Arc<Collected>,
    ) -> Self {
        // What other runs have, and what was kept of them, is protected where it lies in what may be written at launch. What
        // is granted later is not to reach it either.
        let denials = caller.states().filter_map(|place| locate(&place).ok());
        let of_runs = holders().chain(denials.map(|place| place.path));
        policy.files.deny_write.extend(of_runs.map(|place| Pattern::literal(&place)));
        let home = caller.home.as_ref().map(|home| home.canonicalize().unwrap_or(home.clone()));
        let temporary = std::fs::canonicalize(callers_temporary()).unwrap_or_default();
        let settings = home.as_deref().map(linked_settings).unwrap_or_default();
        let origins = Origins::default();
        Self { policy, caller, home, temporary, settings, written, origins, collected }
    }

    fn grounds(&self) -> Grounds<'_> {
        Grounds {
            home: self.home.as_deref(),
            work: &self.caller.cwd,
            temporary: &self.temporary,
            settings: &self.settings,
            log: None,
            files: &self.policy.files,
            missing: &[],
            removed: None,
            written: self.written,
            network: &self.policy.network,
            origins: &self.origins,
        }
    }

    /// The rule that would allow what was refused, if it may be granted.
    pub(super) fn rule_for(&self, denial: &Denial) -> Option<Rule> {
        if let Denial::Domain(target) = denial {
            return self.rule_for_host(std::str::from_utf8(target).ok()?);
        }
        let (key, value) = suggest::rule_to_allow(denial, &self.grounds())?;
        let is_asked = match denial {
            Denial::File(..) => true,
            Denial::Network(NetworkOperation::Connect, _) => key == SOCKETS,
            // A rule that does not help is nothing to ask for.
            Denial::Network(NetworkOperation::Bind, name) => {
                key == SERVERS && (!name.starts_with(b"/") || self.may_write(name))
            }
            _ => false,
        };
        let rule = Rule { key, value };
        if !is_asked {
            return None;
        }
        self.resolve(&rule, false).is_ok().then_some(rule)
    }

    /// That for `host:port` alone. Nothing here waits for a file system: what asks is the proxy, which the main thread hears.
    fn rule_for_host(&self, target: &str) -> Option<Rule> {
        let value = self.host(target).ok()?;
        Some(Rule { key: HOSTS.to_owned(), value })
    }

    /// The rule that names `host:port`, or `host`, and no other.
    ///
    /// # Errors
    /// Returns why it may not be granted.
    fn host(&self, target: &str) -> Result<String, String> {
        let (host, port) = domain::split_port(target);
        // Without a port only a rule without one denies it all.
        let number = port.map_or(Some(0), domain::parse_port);
        let named = match port {
            Some(_) => suggest::host(target),
            None => suggest::host(&format!("{host}:443")),
        };
        let is_denied = rule_for(&self.policy.network.denied_domains, host, number).is_some();
        match named {
            _ if is_denied => Err("a rule denies it".to_owned()),
            None => {
                let why = "no address of this host or of a metadata service can be granted, and only a plain name";
                Err(why.to_owned())
            }
            Some(rule) => Ok(rule),
        }
    }

    /// What `rule` adds; if it is `granted` now, with what it does not.
    ///
    /// # Errors
    /// Returns why it may not be granted.
    pub(super) fn resolve(&self, rule: &Rule, granted: bool) -> Result<Vec<Addition>, String> {
        let policy = resolve::rule((&rule.key, &rule.value), granted, &self.caller)
            .map_err(|error| error.message)?;
        let grounds = self.grounds();
        let socket = |path: PathBuf| match harmless::is_socket(&path) {
            true => {
                let path = path.into_os_string().into_encoded_bytes();
                Ok(Addition::Address(Denial::Network(NetworkOperation::Connect, path)))
            }
            false => Err("the server there may run commands or hold keys".to_owned()),
        };
        let host = |pattern: String| self.host(&pattern).map(|_| Addition::Host(pattern));
        let add = |path: PathBuf| match grounds.why_not_granted(&path) {
            None => {
                let place = Pattern::literal(&path);
                let is_inside = |rule: &&Pattern| {
                    (0..place.length()).all(|at| rule.component(at) == place.component(at))
                };
                let denied = policy.files.deny_write.iter().filter(is_inside);
                Ok(Addition::Write(path, denied.cloned().collect()))
            }
            Some(why) => Err(why.to_owned()),
        };
        let paths = policy.files.allow_write.iter().cloned().map(add);
        let Network { allowed_domains, allow_unix_sockets, allow_local_binding, .. } =
            policy.network;
        let hosts = allowed_domains.into_iter().map(host);
        let sockets = allow_unix_sockets.into_iter().map(socket);
        let servers = allow_local_binding.then(|| self.servers());
        let additions = paths.chain(hosts).chain(sockets).chain(servers);
        let additions: Vec<_> = additions.collect::<Result<_, _>>()?;
        match additions.is_empty() {
            true => Err("it names nothing".to_owned()),
            false => Ok(additions),
        }
    }

    /// What lets the command have servers for itself.
    ///
    /// # Errors
    /// Returns why it may not have them.
    fn servers(&self) -> Result<Addition, String> {
        let CallerProxies { http, socks, https, all, .. } = &self.policy.network.callers;
        let mut callers = [http, socks, https, all].into_iter().flatten();
        // As soon as that proxy ends, the command could listen in its place.
        match callers.any(|caller| caller.secret.is_some() && !caller.loopback.is_empty()) {
            true => Err("a proxy of the caller's on this host has a password".to_owned()),
            false => Ok(Addition::Address(Denial::Network(NetworkOperation::Bind, Vec::new()))),
        }
    }

    /// Whether `rule` would help another run, too: in this one, all is called as it was refused, and may be removed.
    pub(super) fn lasts(&self, rule: &Rule, denial: &Denial) -> bool {
        if !self.names(rule, denial) {
            return true;
        }
        let removals = self.collected.removals();
        let grounds = Grounds { removed: Some(&removals), ..self.grounds() };
        suggest::rule_to_allow(denial, &grounds).is_some_and(|(_, value)| value == rule.value)
    }

    /// Whether `rule` is for the path that was refused, not for one around it.
    pub(super) fn names(&self, rule: &Rule, denial: &Denial) -> bool {
        let Denial::File(_, path) = denial else { return false };
        rule.value == self.grounds().written(Path::new(OsStr::from_bytes(path)))
    }

    /// Whether a socket can be made at `path`, as far as the rules of launch say.
    fn may_write(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let Files { allow_write, deny_write, deny_read, .. } = &self.policy.files;
        allow_write.iter().any(|root| path.starts_with(root))
            && !covers(deny_write, path)
            && !covers(deny_read, path)
    }
}
