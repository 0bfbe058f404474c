//! The story of a run: load, protect, compile, launch, serve, report.

use super::child::Child;
use super::family::Family;
use super::judges::{compile, notes};
use super::launch::{self, Filter, Tool};
use super::load::{Loaded, load};
use super::run;
use super::scratch::Scratch;
use super::surroundings::Surroundings;
use crate::cli::{self, Form, Reports};
use crate::compile::protect::protect;
use crate::domains::proxy::Proxy;
use crate::domains::setup;
use crate::explain::page::{self, Style};
use crate::explain::{InForce, overview, question};
use crate::policy::callers::Caller;
use crate::policy::remarks::Remarks;
use crate::policy::resolve::Policy;
use crate::report::denials::{Denial, Traps};
use crate::report::failure::Failure;
use crate::report::suggest::{self, Grounds};
use std::ffi::OsString;
use std::sync::Arc;

/// Runs `tool` in the sandbox that `invocation` names, and ends what it leaves behind; returns its status.
///
/// # Errors
/// Returns the [`Failure`] because of which the tool did not run, or had to be ended.
pub(crate) fn run(
    invocation: &cli::Invocation,
    tool: &Tool<'_>,
    mut child: Child,
    family: &mut Family,
) -> Result<i32, Failure> {
    let reports = invocation.reports;
    let traps = Arc::new(Traps::wanted(reports, invocation.trap_fd, invocation.debug)?);
    let surroundings = Surroundings::look(child.is_scoped())?;
    let mut loaded = load(invocation, &child, &traps, &surroundings, Remarks::unwanted())?;
    let mut filter = Filter::of(&loaded, &surroundings);
    // As soon as it is known: the child installs it while the broker compiles the rest, which takes as
    // long (0.2 ms of a launch).
    let is_final = reports == Reports::All;
    if is_final {
        filter.send(&child)?;
    }
    let proxy = Proxy::wanted(&loaded.policy.network)?;
    let scratch = Scratch::wanted(&mut loaded.policy, &traps)?;
    let memory = Scratch::for_shared_memory(&mut loaded.policy);
    let Loaded { policy, mut remarks, caller, unix } = loaded;
    let written = (policy.files.deny_write.len(), policy.files.deny_read.len());
    let policy = protect(policy, &surroundings.mounts, &mut remarks, &caller)?;
    let (waiting, reserve) = Scratch::for_directories(&policy.files, &caller).unzip();
    let judges = compile(&policy, &surroundings, unix, proxy, memory.as_ref(), reserve)?;
    let judges = Arc::new(judges);
    if !is_final {
        filter.quieter(reports, &judges.view);
        filter.send(&child)?;
    }
    launch::send_plan(&mut child, tool, &policy, &judges, scratch.as_ref())?;
    let scratches: Vec<_> = [&scratch, &memory, &waiting].into_iter().flatten().collect();
    let status = run::until_end(child, tool, family, &judges, &traps, &scratches);
    // Also of a command that could not be served to its end: before its directory is removed.
    let nothing_left = family.end();
    judges.objects.remove();
    judges.view.reserve.iter().for_each(|reserve| reserve.clear());
    let status = status?;
    traps.print(status != 0, |denials| suggest(denials, &caller, &policy, written));
    nothing_left.then_some(status).ok_or_else(Failure::left_behind)
}

/// Does what goes before a launch, and binds and makes nothing; returns what is worth knowing, a line each.
///
/// # Errors
/// Returns the [`Failure`] because of which no tool would run.
pub(crate) fn check(invocation: &cli::Invocation, child: &Child) -> Result<String, Failure> {
    let traps = Traps::wanted(invocation.reports, invocation.trap_fd, invocation.debug)?;
    let surroundings = Surroundings::look(child.is_scoped())?;
    let loaded = load(invocation, child, &traps, &surroundings, Remarks::wanted())?;
    let Loaded { policy, mut remarks, caller, unix } = loaded;
    setup::check(&policy.network)?.iter().for_each(|text| remarks.warn(text));
    let policy = protect(policy, &surroundings.mounts, &mut remarks, &caller)?;
    let judges = compile(&policy, &surroundings, unix, None, None, None)?;
    surroundings.features.substitutes().for_each(|text| remarks.note(text));
    notes(&judges, invocation.reports).iter().for_each(|text| remarks.note(text));
    let lines = remarks.lines().iter().map(String::as_str);
    Ok(lines.chain(["the policy can be enforced\n"]).collect::<Vec<_>>().join("\n"))
}

/// Says what the policy means, or what it says of each of `words`. Binds and makes nothing but the ports of the
/// proxy, for as long as it takes.
///
/// # Errors
/// Returns the [`Failure`] because of which no tool would run, or a word cannot be looked at.
pub(crate) fn explain(
    invocation: &cli::Invocation,
    child: &Child,
    form: Form,
    words: &[OsString],
) -> Result<String, Failure> {
    let traps = Traps::wanted(invocation.reports, invocation.trap_fd, invocation.debug)?;
    let surroundings = Surroundings::look(child.is_scoped())?;
    let loaded = load(invocation, child, &traps, &surroundings, Remarks::wanted())?;
    let Loaded { policy, mut remarks, caller, unix } = loaded;
    setup::check(&policy.network)?.iter().for_each(|text| remarks.warn(text));
    let proxy = Proxy::wanted(&policy.network)?;
    let private_temporary = Scratch::is_called_for(&policy);
    let policy = protect(policy, &surroundings.mounts, &mut remarks, &caller)?;
    let judges = compile(&policy, &surroundings, unix, proxy, None, None)?;
    notes(&judges, invocation.reports).iter().for_each(|text| remarks.note(text));
    let environment = launch::environment(&policy, judges.proxy.as_deref(), None);
    let found = match (invocation.policies.sources.is_empty(), caller.variable("LANDSTRIP_POLICY"))
    {
        (false, _) => "named by --policy",
        (true, Some(_)) => "named by LANDSTRIP_POLICY",
        (true, None) => "the user's own",
    };
    let in_force = InForce {
        policy: &policy,
        judges: &judges,
        remarks: &remarks,
        caller: &caller,
        environment: &environment,
        found,
        private_temporary,
    };
    let style = Style::of_standard_output();
    if words.is_empty() {
        return Ok(page::overview(&overview::of(&in_force), form, style));
    }
    let replies = question::answer(&in_force, words).map_err(Failure::Usage)?;
    Ok(page::replies(&replies, form, style))
}

/// What the policy would have to say for what it refused.
fn suggest(
    denials: &[&Denial],
    caller: &Caller,
    policy: &Policy,
    written: (usize, usize),
) -> Option<String> {
    let grounds = Grounds {
        home: caller.home.as_deref(),
        work: &caller.cwd,
        temporary: &std::fs::canonicalize(std::env::temp_dir()).unwrap_or_default(),
        files: &policy.files,
        written,
        network: &policy.network,
    };
    suggest::line(denials, &grounds)
}
