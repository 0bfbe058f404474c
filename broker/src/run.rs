//! The story of a run: load, protect, compile, launch, serve, report.

use landstrip_core::report::denials::Denial;
use landstrip_core::report::failure::Failure;
use landstrip_core::report::traps::Traps;
use landstrip_core::session::launch::Tool;
use landstrip_core::session::launch_channel::LaunchChannel;
use landstrip_core::session::prepared::Prepared;
use landstrip_core::session::process_tree::ProcessTree;
use landstrip_core::session::surroundings::Surroundings;
use people::cli::Invocation;
use people::consent;
use people::load::{Loaded, load};
use people::observe::Reporter;
use people::reports::aftermath::Aftermath;
use people::reports::collected::{Collected, Wanted};
use people::store;
use policy::remarks::Remarks;
use std::sync::Arc;

/// Runs `tool` in the sandbox that `invocation` names, and ends what it leaves behind; returns its status.
///
/// # Errors
/// Returns the [`Failure`] because of which the tool did not run, or had to be ended.
pub(crate) fn run(
    invocation: &Invocation,
    tool: &Tool<'_>,
    child: LaunchChannel,
    tree: &mut ProcessTree,
) -> Result<i32, Failure> {
    let collected = Collected::open(invocation.trap_fd, invocation.debug)?;
    let outcome = run_with(&collected, invocation, tool, child, tree);
    people::reports::tell_status(&collected, &outcome);
    outcome
}

/// The same with its reports.
fn run_with(
    collected: &Arc<Collected>,
    invocation: &Invocation,
    tool: &Tool<'_>,
    child: LaunchChannel,
    tree: &mut ProcessTree,
) -> Result<i32, Failure> {
    let remarks = match invocation.trap_fd {
        Some(_) => Remarks::of_rules(),
        None => Remarks::unwanted(),
    };
    let surroundings = Surroundings::look(child.is_scoped(), child.shares_input())?;
    let loaded = load(invocation, remarks)?;
    let mut notes = loaded.notes();
    let Loaded { mut policy, reports, unwatched, remarks, caller } = loaded;
    let tell = Some(consent::feed::tell as fn(&Denial));
    collected.want(Wanted { reports, ignored: store::ignored(&policy, tool), tell });
    let platform = (&child, &surroundings);
    let traps = &Arc::new(Traps::of(collected.clone(), invocation.ask.is_some()));
    (policy.files.grow, policy.network.asks) = (invocation.ask.is_some(), invocation.ask.is_some());
    let mut prepared = Prepared::of(policy, reports, platform, traps, &mut notes)?;
    let (asking, prompter) = consent::begin(invocation, &prepared, &caller, tree)?;
    let judges = Arc::make_mut(&mut prepared.judges);
    (judges.asking, judges.observer) = (asking.map(Arc::new), Arc::new(Reporter::default()));
    let served = prepared.serve(tool, child, tree, traps);
    drop(prompter);
    let (status, ended) = served?;
    // People are told of it once nothing of the command runs any more.
    traps.settle();
    let aftermath = Aftermath { reports, unwatched, remarks, caller };
    aftermath.print(collected, (&prepared, notes), (tool, status));
    prepared.leave();
    ended.inspect_err(|_| people::reports::show()).map(|()| status)
}
