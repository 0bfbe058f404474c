//! From the policy, which is final now, to what notifications are judged by.

use super::scratch::Scratch;
use super::surroundings::Surroundings;
use crate::answer::answers::Judges;
use crate::compile::files::compile as compile_files;
use crate::domains::proxy::Proxy;
use crate::files::reserve::Reserve;
use crate::files::shared::Shared;
use crate::report::failure::Failure;
use kernel::features::Features;
use kernel::mounts::Mount;
use rules::address::{AddressRules, UnixRules};
use rules::paths::Rules;
use rules::policy::{Network, Policy};
use run_limits::Watch;
use std::sync::Arc;

/// Compiles `policy`, of which `rules` are the file rules, for this kernel.
pub(super) fn compile(
    (policy, rules): (&Policy, Rules),
    surroundings: &Surroundings,
    unix: UnixRules,
    proxy: Option<Proxy>,
    (temporary, memory): (Option<&Scratch>, Option<&Scratch>),
    reserve: impl FnOnce() -> Option<Reserve>,
) -> Result<Judges, Failure> {
    let Policy { files, network, .. } = policy;
    let Surroundings { mounts, features, .. } = surroundings;
    let (mut view, ruleset) =
        compile_files((files, rules), mounts, *features, !network.allow_network, reserve)?;
    view.shared_input = surroundings.shared_input;
    view.temporary = temporary.map(|scratch| scratch.path().to_owned());
    let addresses = addresses(network, unix, proxy.as_ref());
    // Where the policy denies to write there, nothing of it is the command's own.
    let memory = memory.map(Scratch::path).filter(|path| view.rules.access(path).write);
    let shared = memory.and_then(|path| Shared::of(path).ok()).map(Arc::new);
    let (addresses, view, ruleset) = (Arc::new(addresses), Arc::new(view), Arc::new(ruleset));
    let proxy = proxy.map(Arc::new);
    // Where the policy names control groups, the command could write to that of the run.
    let may_write = |mount: &Mount| files.allow_write.iter().any(|it| it.starts_with(&mount.point));
    let is_safe = || !mounts.iter().any(|it| it.kind == "cgroup2" && may_write(it));
    let around = || is_safe().then(|| run_limits::own_group(mounts)).flatten();
    let helper = proxy.clone();
    let helper = move || helper.as_ref().and_then(|proxy| proxy.process());
    let limits = Watch::of(policy.limits, helper, around).map_err(Failure::Uncounted)?;
    Ok(Judges {
        addresses,
        view,
        ruleset,
        proxy,
        is_scoped: features.contains(Features::SCOPES),
        objects: Arc::default(),
        shared,
        observer: Arc::new(()),
        learning: None,
        limits,
        asking: None,
        left: None,
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
        proxies: proxy.map(|proxy| proxy.addresses().to_vec()).unwrap_or_default(),
        local_binding: network.allow_local_binding,
        unix,
    }
}
