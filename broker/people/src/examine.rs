//! What a policy means where it can be enforced, and nothing runs: `--check` and `--explain`.

use crate::advice::launch::Written;
use crate::cli::{Extent, Invocation};
use crate::environment;
use crate::explain::page::{self, Style};
use crate::explain::{InForce, costs, notes, overview, question, shared_files};
use crate::load::{Loaded, add, load};
use crate::reports::collected::{Collected, Wanted};
use common::proxy::Unlisted;
use landstrip_core::domains::proxy::Proxy;
use landstrip_core::domains::setup;
use landstrip_core::report::failure::Failure;
use landstrip_core::report::traps::Traps;
use landstrip_core::session::launch::{self, Watched};
use landstrip_core::session::launch_channel::LaunchChannel;
use landstrip_core::session::prepared::Prepared;
use landstrip_core::session::surroundings::Surroundings;
use policy::callers::Caller;
use policy::remarks::Remarks;
use routes::upstream;
use rules::policy::{Needs, Network};
use std::ffi::OsString;

/// What there is to say of a policy that can be enforced.
struct Examined {
    prepared: Prepared,
    remarks: Remarks,
    caller: Caller,
}

/// Does what goes before a launch, with the proxy that `proxy` gives, and makes nothing.
fn examine(
    invocation: &Invocation,
    child: &LaunchChannel,
    proxy: impl FnOnce(&Network) -> Result<Option<Proxy>, Failure>,
) -> Result<Examined, Failure> {
    let collected = Collected::open(invocation.trap_fd, invocation.debug)?;
    let traps = Traps::of(collected.clone(), false);
    // A run that follows has a standard input of its own.
    let surroundings = Surroundings::look(child.is_scoped, Some(false))?;
    let loaded = load(invocation, Remarks::wanted())?;
    let mut found = loaded.notes();
    let Loaded { policy, reports, mut remarks, caller, .. } = loaded;
    collected.want(Wanted { reports, ..Wanted::default() });
    check_proxies(&policy.network)?.into_iter().for_each(|text| found.warn(text));
    let platform = (child, &surroundings);
    let prepared = Prepared::to_look_at((policy, reports), platform, proxy, &traps, &mut found)?;
    add(&mut remarks, found);
    notes::substitutes(surroundings.features).for_each(|text| remarks.note(text));
    let judges = &prepared.judges;
    let watched = Watched::of(reports, judges, surroundings.features);
    let notes = notes::notes(judges, &prepared.policy, reports, watched);
    let costs = costs::line(&judges.view, &prepared.policy.files, watched);
    let shared = shared_files::note(&prepared.policy.files.allow_write);
    notes.iter().chain(&costs).chain(&shared).for_each(|text| remarks.note(text));
    Ok(Examined { prepared, remarks, caller })
}

/// Checks what can be checked of the proxies without binding ports; returns what is worth knowing.
///
/// # Errors
/// Returns [`Failure::Internal`] for what the proxy cannot do.
fn check_proxies(network: &Network) -> Result<Option<String>, Failure> {
    if !Needs::of(network).hosts {
        return Ok(None);
    }
    let own = upstream::own_ports(network, &upstream::is_served);
    let upstreams = upstream::choose(network, own, &upstream::is_served)
        .map_err(|reason| Failure::Internal("proxy", reason))?;
    setup::packet(network, &upstreams, Unlisted::Refused)?;
    let chosen = [upstreams.requests, upstreams.tunnels].into_iter().flatten();
    let mut names: Vec<_> = chosen.map(|caller| caller.variable).collect();
    names.dedup();
    Ok((!names.is_empty()).then(|| {
        let names = names.join(" and ");
        format!("permitted hosts are reached, and resolved, through the proxy that {names} names")
    }))
}

/// Does what goes before a launch, and binds and makes nothing; returns what is worth knowing, a line each.
///
/// # Errors
/// Returns the [`Failure`] because of which no tool would run.
pub fn check(invocation: &Invocation, child: &LaunchChannel) -> Result<String, Failure> {
    let Examined { prepared, remarks, .. } = examine(invocation, child, |_| Ok(None))?;
    let writes = !prepared.policy.files.allow_write.is_empty();
    if let Some(why) = Written::of(&prepared, writes).why_not_here() {
        return Err(Failure::Internal("platform", why));
    }
    let lines = remarks.lines().iter().map(String::as_str);
    Ok(lines.chain(["the policy can be enforced\n"]).collect::<Vec<_>>().join("\n"))
}

/// Says what the policy means, or what it says of each of `words`. Binds and makes nothing but the ports of the
/// proxy, for as long as it takes.
///
/// # Errors
/// Returns the [`Failure`] because of which no tool would run, or a word cannot be looked at.
pub fn explain(
    invocation: &Invocation,
    child: &LaunchChannel,
    extent: Extent,
    words: &[OsString],
) -> Result<String, Failure> {
    let proxy = |network: &Network| Proxy::wanted(network, None);
    let Examined { prepared, remarks, caller } = examine(invocation, child, proxy)?;
    let Prepared { policy, judges, private_temporary, .. } = &prepared;
    let proxy = judges.proxy.as_deref();
    let environment = launch::environment(policy, proxy, None, environment::words);
    let found = match (invocation.policies.sources.is_empty(), caller.variable("LANDSTRIP_POLICY"))
    {
        (false, _) => "named by --policy",
        (true, Some(_)) => "named by LANDSTRIP_POLICY",
        (true, None) => "the user's own",
    };
    let in_force = InForce {
        policy,
        judges,
        remarks: &remarks,
        caller: &caller,
        environment: &environment,
        found,
        private_temporary: *private_temporary,
    };
    let style = Style::of_standard_output();
    if words.is_empty() {
        return Ok(page::overview(&overview::of(&in_force), extent, style, &caller));
    }
    let replies = question::answer(&in_force, words).map_err(Failure::Usage)?;
    Ok(page::replies(&replies, extent, style))
}
