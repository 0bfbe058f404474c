//! From the policy, which is final now, to what notifications are judged by.

use super::scratch::Scratch;
use super::surroundings::Surroundings;
use crate::answer::answers::Judges;
use crate::cli::Reports;
use crate::compile::files;
use crate::domains::proxy::Proxy;
use crate::files::reserve::Reserve;
use crate::files::shared::Shared;
use crate::files::view::Reads;
use crate::kernel::bound;
use crate::kernel::features::Features;
use crate::report::failure::Failure;
use crate::rules::address::{AddressRules, UnixRules};
use crate::rules::policy::{Network, Policy};
use std::path::PathBuf;
use std::sync::Arc;

/// Compiles `policy` for this kernel.
pub(super) fn compile(
    policy: &Policy,
    surroundings: &Surroundings,
    unix: UnixRules,
    proxy: Option<Proxy>,
    memory: Option<&Scratch>,
    reserve: Option<Reserve>,
) -> Result<Judges, Failure> {
    let Policy { files: rules, network, .. } = policy;
    let Surroundings { mounts, features, .. } = surroundings;
    let (view, ruleset) =
        files::compile(rules, mounts, *features, !network.allow_network, reserve)?;
    let addresses = addresses(network, unix, proxy.as_ref());
    // Where the policy denies to write there, nothing of it is the command's own.
    let memory = memory.map(Scratch::path).filter(|path| view.rules.access(path).write);
    let shared = memory.and_then(|path| Shared::of(path).ok()).map(Arc::new);
    let (addresses, view, ruleset) = (Arc::new(addresses), Arc::new(view), Arc::new(ruleset));
    Ok(Judges {
        addresses,
        view,
        ruleset,
        proxy: proxy.map(Arc::new),
        is_scoped: features.contains(Features::SCOPES),
        objects: Arc::default(),
        shared,
        learning: None,
    })
}

/// What `policy` says of addresses.
pub(super) fn addresses(network: &Network, unix: UnixRules, proxy: Option<&Proxy>) -> AddressRules {
    let ports = [network.http_proxy_port, network.socks_proxy_port];
    AddressRules {
        allow_network: network.allow_network,
        // With domains these ports are landstrip's own, on one address only.
        loopback_ports: match proxy {
            None => ports.into_iter().flatten().collect(),
            Some(_) => Vec::new(),
        },
        proxies: proxy.map(Proxy::addresses).unwrap_or_default(),
        local_binding: network.allow_local_binding,
        unix,
    }
}

/// What follows from these rules and could surprise.
pub(super) fn notes(judges: &Judges, reports: Reports, features: Features) -> Vec<String> {
    let mut notes: Vec<String> = sorted(judges.view.grants.unlistable.keys())
        .map(|path| match judges.view.is_writable(path) {
            true => format!(
                "what is new in {0} can be read, but may not be executed: something in it that must \
                 not be read is executable",
                path.display()
            ),
            false => format!(
                "what is new in {} cannot be read: something in it must not be read",
                path.display()
            ),
        })
        .collect();
    notes.extend(opened(judges.view.grants.reads).map(str::to_owned));
    let addresses = &judges.addresses;
    if addresses.unix.datagrams && !addresses.local_binding && !addresses.unix.paths.is_empty() {
        let text = "the broker sends every message that can have an address once there is a \
                    datagram socket: one is listed in allowUnixSockets";
        notes.push(text.to_owned());
    }
    let unix = &addresses.unix;
    let follows = !unix.all && (addresses.local_binding || !unix.paths.is_empty());
    if follows && !bound::is_told() {
        let text = "the kernel does not tell to which file a Unix socket is bound (CONFIG_UNIX_DIAG): those that \
                    the command binds itself are not reached";
        notes.push(text.to_owned());
    }
    notes.extend(unwatched(judges, reports, features).map(str::to_owned));
    notes
}

/// What the broker opens where files are read.
fn opened(reads: Reads) -> Option<&'static str> {
    match reads {
        Reads::Exact => None,
        Reads::Less => Some(
            "the broker looks at every file that is read, and opens what is new at an allowed path that \
             is missing, or beside an executable that may not be read",
        ),
        Reads::More => Some(
            "the broker opens every file that is read: something may not be read inside what may be \
             written, or nothing of processes outside",
        ),
    }
}

/// What is not reported, and whether that spares notifications; nothing does where there is no quieter filter
/// ([`Filter::quieter`](super::launch::Filter::quieter)).
fn unwatched(judges: &Judges, reports: Reports, features: Features) -> Option<&'static str> {
    let view = &judges.view;
    let spares = features.contains(Features::SCOPES);
    Some(match reports {
        Reports::All => return None,
        Reports::Changes if spares && view.leaves_reads() => {
            "refused reads are not reported; Landlock alone decides about them, unwatched"
        }
        Reports::Changes => {
            "refused reads are not reported; the broker has to watch them all the same"
        }
        Reports::Network if spares && view.leaves_changes() => {
            "refusals on files are not reported; Landlock alone decides about them, unwatched"
        }
        Reports::Network if spares && view.leaves_reads() => {
            "refusals on files are not reported; the broker has to watch changes all the same"
        }
        Reports::Network => {
            "refusals on files are not reported; the broker has to watch them all the same"
        }
    })
}

fn sorted<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> impl Iterator<Item = &'a PathBuf> {
    let mut paths: Vec<_> = paths.into_iter().collect();
    paths.sort();
    paths.into_iter()
}
