//! The remedy: what a policy would have to say for what was refused. It asks which addresses are this host's, and is
//! pure otherwise.
//!
//! Files are grouped into the directory that belongs to one program or purpose, so that forty files of a
//! cache make one entry. What a deny rule names is somebody's decision: then the rule is named instead.
//! Suggested is what is known to be harmless ([`harmless`]) and helps. Of the rest it is said why it is not, and what
//! can be done instead.

mod hosts;
mod line;
mod places;
mod repository;
mod values;

use super::noise;
use crate::reports::Remedies;
use crate::reports::lines;
use crate::reports::names::OPTION;
use common::trap::{FileOperation, NetworkOperation};
use landstrip_core::report::denials::{Denial, LOOKUP_OF};
use policy::harmless;
use policy::keys::Item;
use policy::origins::Origins;
use policy::presets;
use proxy_hosts::domain;
use proxy_hosts::rule_for;
use rules::files::{Files, push_new};
use rules::paths::covers;
use rules::policy::Network;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) use hosts::host;
pub(crate) use places::leads_further;
pub(super) use values::list;
pub(crate) use values::quote;

/// What remedies are found in view of.
#[derive(Debug)]
pub struct Grounds<'a> {
    pub home: Option<&'a Path>,
    /// The working directory at launch.
    pub work: &'a Path,
    /// Where temporary files of all programs are.
    pub temporary: &'a Path,
    /// See [`Ground::settings`](policy::harmless::Ground).
    pub settings: &'a [PathBuf],
    /// The socket of the log, if there is one.
    pub log: Option<&'a Path>,
    /// The rules in force.
    pub files: &'a Files,
    /// The allowed paths that were missing at launch.
    pub missing: &'a [PathBuf],
    /// What was to be removed, replaced, moved away or given another name; none where a rule is for this run alone, in which
    /// all is called as it was refused.
    pub removed: Option<&'a BTreeSet<PathBuf>>,
    /// How many of `deny_write` and `deny_read` were written, not added to protect landstrip.
    pub written: (usize, usize),
    pub network: &'a Network,
    /// Where the rules come from, if that was kept.
    pub origins: &'a Origins,
}

/// A key of the policy, or what else is said, and of what.
#[derive(Debug, PartialEq, Eq)]
struct Remedy {
    key: Cow<'static, str>,
    values: Vec<String>,
}

/// What there is to say of denials, by what can be done about them.
#[derive(Debug, Default)]
struct Advice {
    /// What is to be written.
    writes: Vec<PathBuf>,
    /// What else to allow.
    allow: Vec<Remedy>,
    /// Rules that somebody wrote, and what landstrip protects.
    rules: Vec<Remedy>,
    /// The former, as reports have them.
    denied_by: Vec<String>,
    /// Whether one of them keeps git from changing settings of its own.
    settings_of_git: bool,
    /// What was looked up by a program that does not ask the proxy, nor in a way that it answers.
    direct: Vec<String>,
    /// What would open too much, and for what it would be needed.
    too_much: Vec<Remedy>,
    /// What would be written though it is not known to be harmless.
    unknown: Vec<PathBuf>,
    /// The tops of work trees whose repositories would be written, and lie above the working directory.
    tops: Vec<String>,
    /// Name servers that were connected to.
    name_servers: Vec<String>,
    /// What would be written among the temporary files of all programs.
    temporary: Vec<String>,
    /// What may be written, but not so, or not any more.
    not_so: Vec<String>,
    /// What is allowed and was missing, of which a run makes only so much.
    used_up: Vec<String>,
    /// Sockets of servers that are not known to be harmless, and ports of this host.
    servers: Vec<String>,
    /// Hosts that no rule names, or none should.
    hosts: Vec<String>,
    /// Hosts that a rule allows: something else was refused.
    allowed: Vec<String>,
    /// What to do instead, and of whom that is said.
    instead: Vec<(&'static str, &'static str)>,
}

/// What there is to say about `denials`.
pub fn remedies(denials: &[&Denial], grounds: &Grounds<'_>) -> Remedies {
    let mut advice = Advice::default();
    denials.iter().for_each(|denial| grounds.advise(denial, &mut advice));
    // A program that cannot look a name up may ask the proxy then.
    let asked: Vec<_> = denials.iter().filter_map(|denial| asked_of_proxy(denial)).collect();
    advice.direct.retain(|host| !asked.contains(&host.as_str()));
    let writes =
        grounds.joined(std::mem::take(&mut advice.writes), |place| grounds.is_named_for_all(place));
    if !writes.is_empty() {
        let values = writes.iter().map(|path| grounds.shown(path)).collect();
        advice.allow.insert(0, Remedy { key: "filesystem.allowWrite".into(), values });
    }
    advice.unknown.retain(|path| !writes.iter().any(|place| path.starts_with(place)));
    let unknown = grounds.joined(std::mem::take(&mut advice.unknown), |_| true);
    let line = advice.line(&unknown.iter().map(|path| grounds.shown(path)).collect::<Vec<_>>());
    Remedies { line, lines: advice.reports() }
}

/// The name that was looked up, if this is a lookup and it is known.
pub(crate) fn looked_up(denial: &Denial) -> Option<&str> {
    let Denial::Lookup { text, .. } = denial else { return None };
    std::str::from_utf8(text).ok()?.strip_prefix(LOOKUP_OF)
}

/// The host that the proxy was asked for, if it was.
fn asked_of_proxy(denial: &Denial) -> Option<&str> {
    let Denial::Domain(target) = denial else { return None };
    std::str::from_utf8(target).ok()?.rsplit_once(':').map(|(host, _)| host)
}

/// The key and the value of the rule that would have let one denial through; none if a rule denies it, or if none is
/// suggested.
pub(crate) fn rule_to_allow(denial: &Denial, grounds: &Grounds<'_>) -> Option<(String, String)> {
    let mut advice = Advice::default();
    grounds.advise(denial, &mut advice);
    if !advice.rules.is_empty() || noise::is_noise(denial) {
        return None;
    }
    if let Some(place) = advice.writes.last() {
        return Some(("filesystem.allowWrite".to_owned(), grounds.written(place)));
    }
    let Remedy { key, values } = advice.allow.first()?;
    let value = values.first()?;
    Some((key.to_string(), serde_json::from_str(value).unwrap_or_else(|_| value.clone())))
}

fn add(remedies: &mut Vec<Remedy>, key: impl Into<Cow<'static, str>>, value: String) {
    let key = key.into();
    let found = remedies.iter().position(|remedy| remedy.key == key);
    let at = found.unwrap_or_else(|| {
        remedies.push(Remedy { key, values: Vec::new() });
        remedies.len() - 1
    });
    if !remedies[at].values.contains(&value) {
        remedies[at].values.push(value);
    }
}

impl Advice {
    /// As programs are told it, each rule alone.
    fn reports(&self) -> Vec<String> {
        let one = |key: &str, value: &String| {
            let value = if value == "true" { quote(value) } else { value.clone() };
            format!("{{\"Advice\":[{},{value}]}}\n", quote(key))
        };
        let each = |remedy: &Remedy| {
            remedy.values.iter().map(|value| one(&remedy.key, value)).collect::<Vec<_>>()
        };
        self.allow.iter().flat_map(each).chain(self.denied_by.iter().cloned()).collect()
    }

    /// Takes note of a host for which no rule is suggested.
    fn leave_out(&mut self, target: &str) {
        let values =
            if hosts::is_of_this_host(target) { &mut self.servers } else { &mut self.hosts };
        push_new(values, quote(target));
    }

    /// Takes note of a rule that refused, if it is known where it stands.
    fn note_rule(&mut self, key: &str, item: Option<&Item>) {
        let Some(Item { text, origin }) = item else { return };
        let file = presets::name(&origin.file).unwrap_or(origin.file.as_os_str());
        let number = origin.line.to_string();
        let rule = [key.as_bytes(), text.as_bytes(), file.as_bytes(), number.as_bytes()];
        push_new(&mut self.denied_by, lines::list("DeniedBy", &rule));
    }
}

impl Grounds<'_> {
    fn advise(&self, denial: &Denial, advice: &mut Advice) {
        match denial {
            denial if noise::is_unserved(denial) => {
                push_new(&mut advice.instead, places::OWN_SANDBOX)
            }
            Denial::File(operation, path) => {
                let path = Path::new(OsStr::from_bytes(path));
                match self.rule(*operation, path) {
                    Some((key, rule, origin)) => {
                        advice.note_rule(key, origin);
                        advice.settings_of_git |=
                            *operation == FileOperation::Write && places::is_setting_of_git(path);
                        add(&mut advice.rules, key, rule);
                        let ways = places::instead_of_denied(path).into_iter();
                        ways.for_each(|way| push_new(&mut advice.instead, way));
                    }
                    None if self.missing.iter().any(|missing| missing == path) => {
                        advice.used_up.push(self.shown(path));
                        push_new(&mut advice.instead, places::AT_MISSING);
                    }
                    // What a process asked for that hides its memory has no path.
                    None if *operation == FileOperation::Write && path.is_absolute() => {
                        self.advise_write(path, advice);
                    }
                    None => {}
                }
            }
            Denial::Network(..) if noise::is_trial(denial) => {}
            Denial::Network(operation, target) => {
                if let Ok(target) = std::str::from_utf8(target) {
                    self.advise_socket(*operation, target, advice);
                }
            }
            Denial::Datagram(target) => {
                let target = String::from_utf8_lossy(target);
                if hosts::is_of_this_host(&target) {
                    push_new(&mut advice.servers, quote(&target));
                } else {
                    add(&mut advice.too_much, "network.allowNetwork = true", quote(&target));
                }
            }
            Denial::Lookup { by_proxy, .. } => {
                if let Some(name) = looked_up(denial) {
                    if let Some(rule) = rule_for(&self.network.denied_domains, name, None) {
                        return self.advise_against(rule, advice);
                    }
                    if host(&format!("{name}:443")).is_none() {
                        return advice.leave_out(name);
                    }
                    if rule_for(&self.network.allowed_domains, name, None).is_none() {
                        add(&mut advice.allow, "network.allowedDomains", quote(name));
                    }
                    // Where lookups are answered, this one came a way on which they cannot be.
                    if !by_proxy && !self.network.allowed_domains.is_empty() {
                        advice.direct.push(name.to_owned());
                    }
                } else {
                    push_new(&mut advice.instead, hosts::UNSEEN);
                }
            }
            Denial::Domain(target) => {
                if let Ok(target) = std::str::from_utf8(target) {
                    self.advise_host(target, advice);
                }
            }
        }
    }

    /// Names `rule`, which denies a host.
    fn advise_against(&self, rule: &str, advice: &mut Advice) {
        let items = &self.origins.written.denied_domains;
        let item = items.iter().find(|item| item.text.trim() == rule);
        advice.note_rule("network.deniedDomains", item);
        add(&mut advice.rules, "network.deniedDomains", quote(rule));
    }

    fn advise_write(&self, path: &Path, advice: &mut Advice) {
        if path.parent().is_some_and(|parent| self.origins.stars.iter().any(|star| star == parent))
        {
            push_new(&mut advice.instead, places::STAR);
        }
        if let Some(place) = self.place(path) {
            advice.writes.extend(places::companions(&place).filter(|_| place == path));
            advice.writes.push(place);
        } else if covers(self.protected(), path) {
            add(&mut advice.rules, "landstrip, which protects", self.shown(path));
        } else if let Some(top) = self.top_of_repository(path) {
            push_new(&mut advice.tops, self.shown(&top));
        } else if places::is_of_kernel(path) {
        } else if self.ground().is_temporary(path) {
            let ways = self.instead_of_shared(path).into_iter();
            ways.for_each(|way| push_new(&mut advice.instead, way));
            push_new(&mut advice.temporary, self.shown(path));
        } else if self.ground().is_harmless(path) && !self.reaches_further(path) {
            // It is put in another one's place, or called otherwise each time; or it is all that there is here.
            let around = path.parent().filter(|_| path != self.work).unwrap_or(path);
            if self.is_allowed(around) {
                return push_new(&mut advice.not_so, self.shown(path));
            }
            let key = format!("filesystem.allowWrite += [{}]", self.shown(around));
            add(&mut advice.too_much, key, self.shown(path));
        } else {
            let beneath = self.ground().beneath(path);
            if beneath.is_empty() {
                advice.unknown.push(path.to_owned());
                let own = self.instead_of_shared(path).filter(|_| path.starts_with("/run"));
                let ways = own.into_iter().chain(places::instead_of_packages(path));
                let ways = ways.chain(self.instead_in_home(path));
                ways.for_each(|way| push_new(&mut advice.instead, way));
                if self.missing.iter().any(|missing| missing.starts_with(path)) {
                    push_new(&mut advice.instead, places::MAKE_FIRST);
                }
            }
            advice.writes.extend(beneath);
        }
    }

    /// What lets a socket have this address. A name is looked up by the proxy, whatever port 53 answers.
    fn advise_socket(&self, operation: NetworkOperation, target: &str, advice: &mut Advice) {
        const BINDING: &str = "network.allowLocalBinding";
        let network = self.network;
        let path = target.starts_with('/').then_some(Path::new(target));
        let address = target.parse().ok().map(|address: SocketAddr| {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        });
        match (operation, path, address) {
            (NetworkOperation::Bind, Some(path), _) if network.allow_local_binding => {
                // By itself, where it may write.
                self.advise_write(path, advice);
            }
            (NetworkOperation::Bind, Some(_), _) => {
                add(&mut advice.allow, BINDING, "true".to_owned());
            }
            (NetworkOperation::Connect, Some(path), _) => {
                if network.allow_unix_sockets.iter().any(|listed| path.starts_with(listed)) {
                    return;
                }
                if harmless::is_socket(path) {
                    return add(&mut advice.allow, "network.allowUnixSockets", quote(target));
                }
                let ways = self.instead_of_shared(path).into_iter();
                ways.for_each(|way| push_new(&mut advice.instead, way));
                push_new(&mut advice.servers, quote(target));
            }
            (NetworkOperation::Bind, None, Some(address))
                if address.ip().is_loopback() || address.ip().is_unspecified() =>
            {
                if !network.allow_local_binding {
                    add(&mut advice.allow, BINDING, "true".to_owned());
                }
            }
            (NetworkOperation::Bind, None, Some(_)) => {
                add(&mut advice.too_much, "network.allowNetwork = true", quote(target));
            }
            (NetworkOperation::Connect, None, Some(address)) => {
                if address.ip().is_unspecified() {
                    return;
                }
                let target = address.to_string();
                if address.port() == 53 {
                    return push_new(&mut advice.name_servers, quote(&target));
                }
                let (name, _) = domain::split_port(&target);
                if rule_for(&network.allowed_domains, name, Some(address.port())).is_some() {
                    return;
                }
                match host(&target) {
                    Some(rule) => add(&mut advice.allow, "network.allowedDomains", quote(&rule)),
                    None => advice.leave_out(&target),
                }
            }
            (_, None, None) if target.starts_with('@') => {
                push_new(&mut advice.instead, places::ABSTRACT);
            }
            (_, None, None) if target.starts_with("unix") && !network.allow_local_binding => {
                add(&mut advice.allow, BINDING, "true".to_owned());
                // Where such a socket leads is not known before there is one: most often to the log.
                if let Some(log) = self.log.filter(|_| target.starts_with("unix datagram")) {
                    add(&mut advice.allow, "network.allowUnixSockets", self.shown(log));
                }
            }
            (_, None, None) if target.starts_with("inet") || target.starts_with(OPTION) => {
                add(&mut advice.too_much, "network.allowNetwork = true", quote(target));
            }
            (_, None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests;
