//! From what was written to what is meant: the policy in force. The end of the one way that policy data walks.

use super::callers::{self, Caller};
use super::datagrams;
use super::document::Format;
use super::domains;
use super::error::{Origin, PolicyError};
use super::keys::{self, Item, Written};
use super::load::{Loaded, Selection, load};
use super::parse::parse;
use super::path_memory::is_in;
use super::paths;
use super::presets;
use super::reach;
use super::remarks::Remarks;
use super::variables;
use super::without::TakenOut;
use kernel::locate::locate;
use rules::files::{Files, push_new};
use rules::pattern::{Component, Pattern};
use rules::policy::{Network, Policy};
use rules::proxies::{CallerProxies, CallerProxy};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Finds, reads, merges and resolves the policy.
///
/// # Errors
/// Returns the first [`PolicyError`]; then nothing must run.
pub fn policy(
    selection: &Selection,
    caller: &Caller,
    remarks: &mut Remarks,
) -> Result<Policy, PolicyError> {
    reach::warn_of_directory(caller, remarks);
    let mut policy = match load(selection, caller)? {
        Loaded::BuiltIn => built_in(caller)?,
        Loaded::Files { policy, sources, files, shared } => {
            shared.iter().for_each(|text| remarks.tell(text));
            remarks.read(&files, &policy);
            resolve(&policy, sources, caller, remarks)?
        }
    };
    // Also where no policy is now, or another one is in force: the next run may look there, and a
    // link that the command could replace would lead it elsewhere.
    policy.sources.extend(caller.policy_trails()?);
    hide_denials(&mut policy, caller);
    Ok(policy)
}

/// What a rule means that is added during a run. If it is `granted` now, what `agent` denies in each tree is denied in
/// this one as well, as it would be if the policy had the rule.
///
/// # Errors
/// Returns a [`PolicyError`] for one that cannot be added then, or that no policy could have.
pub fn rule(
    (key, value): (&str, &str),
    granted: bool,
    caller: &Caller,
) -> Result<Policy, PolicyError> {
    const ADDED: [&str; 4] = [
        "filesystem.allowWrite",
        "network.allowedDomains",
        "network.allowUnixSockets",
        "network.allowLocalBinding",
    ];
    let known = ADDED.iter().find(|known| **known == key);
    let Some((object, name)) = known.and_then(|key| key.split_once('.')) else {
        let message = format!("only these can be granted during a run: {}", ADDED.join(", "));
        return Err(PolicyError::general(message));
    };
    let value = match name {
        "allowLocalBinding" if value == "true" => serde_json::json!(true),
        _ => serde_json::json!([value]),
    };
    let text = serde_json::json!({ object: { name: value } }).to_string();
    let mut written = parse(text.as_bytes(), Format::Json, Path::new("<grant>"))?;
    if granted && name == "allowWrite" {
        written.deny_write = presets::denied_in_trees();
    }
    resolve(&written, Vec::new(), caller, &mut Remarks::unwanted())
}

/// Denies the directories of the denials that are kept, whatever allows them: they tell of other runs.
fn hide_denials(policy: &mut Policy, caller: &Caller) {
    let denies_reads = !policy.files.deny_read.is_empty();
    caller.states().for_each(|place| hide(policy, &place));
    policy.hides_denials_alone = !denies_reads && !policy.files.deny_read.is_empty();
}

/// Denies one of them. If it is not there yet, it is not made: what lies in it is believed.
fn hide(policy: &mut Policy, path: &Path) {
    let is_there = match std::fs::read_dir(path) {
        Ok(_) => true,
        // A sandbox around this one refuses it already.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return,
        Err(_) => policy.keeps_denials,
    };
    let Ok(place) = locate(path) else { return };
    if !is_there {
        let of_trail = |path: PathBuf| match (path.parent(), Component::parse(b"[l]andstrip")) {
            // A glob: what is on the way may be made.
            (Some(above), Ok(name)) if path.ends_with("landstrip") => {
                Pattern::new(above, vec![name])
            }
            _ => Pattern::literal(&path),
        };
        let files = &mut policy.files;
        for path in place.trail() {
            let is_met = |allowed: &PathBuf| is_in(&path, allowed) || is_in(allowed, &path);
            if files.allow_write.iter().any(is_met) {
                files.deny_write.push(of_trail(path));
            }
        }
        return;
    }
    let files = &mut policy.files;
    for path in place.trail() {
        push_new(&mut files.deny_read, Pattern::literal(&path));
        files.allow_read.retain(|allowed| !allowed.starts_with(&path));
        files.allow_write.retain(|allowed| !allowed.starts_with(&path));
    }
}

/// Without a policy file: the working directory may be written, everything may be read, there is no
/// network, not even through a proxy that the environment names.
fn built_in(caller: &Caller) -> Result<Policy, PolicyError> {
    let cwd = locate(&caller.cwd)
        .map_err(|error| PolicyError::in_file(&caller.cwd, error.to_string()))?;
    // The home is not refused: its files are what many commands are started for.
    let is_home = reach::home(caller).is_some_and(|home| *home == *cwd.path);
    if let Some(reason) = reach::against(caller).filter(|_| !is_home) {
        let message = format!(
            "without a policy the working directory may be written, and that is {}: {reason}; start in another \
             one, or name a policy with -p",
            cwd.path.display()
        );
        return Err(PolicyError::general(message));
    }
    let files = Files { allow_write: vec![cwd.path], ..Files::default() };
    Ok(Policy { built_in: true, files, ..Policy::default() })
}

fn resolve(
    written: &Written,
    sources: Vec<PathBuf>,
    caller: &Caller,
    remarks: &mut Remarks,
) -> Result<Policy, PolicyError> {
    written.ignored.iter().for_each(|key| remarks.ignored(key));
    for TakenOut { key, rule, by } in &written.taken_out {
        let Item { text, origin: Origin { file, line, .. } } = rule;
        let place = format!("{}:{line}", file.display());
        remarks.note(by.error(format!("takes '{text}' out of {key} of {place}")).to_string());
    }
    let (mut files, sockets) = paths::resolve(written, caller, remarks)?;
    files.hides_processes = written.processes == Some(keys::OWN);
    let network = network(written, sockets, caller, remarks)?;
    let variables = variables::resolve(written)?;
    let texts = |items: &[Item]| items.iter().map(|item| item.text.to_string()).collect();
    let ignored = written.ignore_violations.iter();
    Ok(Policy {
        files,
        network,
        variables,
        limits: written.limits,
        unwatched_reads: written.report_reads == Some(false),
        weaker_nested: written.weaker_nested == Some(true),
        keeps_denials: written.report_keep == Some(true),
        ask_seconds: written.ask_seconds,
        ignored: ignored.map(|(words, items)| (words.clone(), texts(items))).collect(),
        sources,
        ..Policy::default()
    })
}

/// Says which ports the caller's variables open: nobody wrote them into the policy.
fn note_callers_ports(written: &Written, callers: &CallerProxies, remarks: &mut Remarks) {
    let ports =
        [(&callers.http, written.http_proxy_port), (&callers.socks, written.socks_proxy_port)];
    for (caller, port) in ports {
        let Some(caller) = caller.as_ref().filter(|_| port.is_none()) else { continue };
        if let Some(port) = caller.loopback_port() {
            remarks.note(format!(
                "{} opens port {port} of this host to the command: the proxy there decides what it reaches",
                caller.variable
            ));
        }
    }
}

fn network(
    written: &Written,
    allow_unix_sockets: Vec<PathBuf>,
    caller: &Caller,
    remarks: &mut Remarks,
) -> Result<Network, PolicyError> {
    let callers = callers::proxies(caller, remarks);
    let port_of = |caller: &Option<CallerProxy>| caller.as_ref()?.loopback_port();
    let network = Network {
        allow_network: written.allow_network.unwrap_or(false),
        allowed_domains: checked(&written.allowed_domains, domains::check)?,
        denied_domains: checked(&written.denied_domains, domains::check)?,
        private_domains: checked(&written.private_domains, domains::check)?,
        hosts: checked(&written.hosts, domains::check_hosts_line)?,
        http_proxy_port: written.http_proxy_port.or(port_of(&callers.http)),
        socks_proxy_port: written.socks_proxy_port.or(port_of(&callers.socks)),
        callers,
        allow_local_binding: written.allow_local_binding.unwrap_or(false),
        lists_datagrams: datagrams::any_listens(&allow_unix_sockets),
        allow_unix_sockets,
        allow_all_unix_sockets: written.allow_all_unix_sockets.unwrap_or(false),
        asks: false,
    };
    let has_domains = !network.allowed_domains.is_empty() || !network.denied_domains.is_empty();
    if !network.allow_network && !has_domains {
        note_callers_ports(written, &network.callers, remarks);
    }
    if network.allow_network {
        let lists = [
            ("allowedDomains", &written.allowed_domains),
            ("deniedDomains", &written.denied_domains),
            ("hosts", &written.hosts),
        ];
        for (field, items) in lists {
            if let Some(item) = items.first() {
                let message = format!("allowNetwork is true, so {field} has no effect");
                remarks.warn(item.origin.error(message).to_string());
            }
        }
    }
    Ok(network)
}

fn checked(
    items: &[Item],
    check: impl Fn(&str) -> Result<(), String>,
) -> Result<Vec<String>, PolicyError> {
    let check = |item: &Item| {
        let text = item.text.trim();
        check(text).map(|()| text.to_owned()).map_err(|e| item.origin.error(e))
    };
    items.iter().map(check).collect()
}

#[cfg(test)]
mod tests;
