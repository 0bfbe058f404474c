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
use people::ending::Ending;
use people::load::{Loaded, add, load};
use people::observe::Reporter;
use people::reports::collected::{Collected, Wanted};
use people::store;
use policy::remarks::Remarks;
use rustix::fd::AsFd;
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
    let surroundings = Surroundings::look(child.is_scoped, child.shares_input)?;
    let loaded = load(invocation, remarks)?;
    let mut notes = loaded.notes();
    let Loaded { mut policy, reports, unwatched, mut remarks, caller } = loaded;
    let tell = Some(consent::feed::tell as fn(&Denial));
    collected.want(Wanted { reports, ignored: store::ignored(&policy, tool), tell });
    let platform = (&child, &surroundings);
    let traps = &Arc::new(Traps::of(collected.clone(), invocation.ask.is_some()));
    (policy.files.grow, policy.network.asks) = (invocation.ask.is_some(), invocation.ask.is_some());
    let writes = !policy.files.allow_write.is_empty();
    let mut prepared = Prepared::of(policy, reports, platform, traps, &mut notes)?;
    let (asking, asked) = consent::begin(invocation, &prepared, &caller, tree, collected)?.unzip();
    let judges = Arc::make_mut(&mut prepared.judges);
    (judges.asking, judges.observer) =
        (asking.map(Arc::new), Arc::new(Reporter::of(collected.clone())));
    let served = prepared.serve(tool, child, tree, traps);
    drop(asked);
    add(&mut remarks, notes);
    collected.settle();
    // People are told of it once nothing of the command runs any more.
    let ending = Ending {
        collected,
        prepared: &prepared,
        tool,
        caller: &caller,
        reports,
        unwatched,
        writes,
        signals: tree.as_fd(),
    };
    let (status, ended) = served.map_err(|failure| ending.explain(failure, &remarks))?;
    ending.tell(status, &remarks);
    prepared.leave();
    std::mem::forget((remarks, caller));
    ended.inspect_err(|_| people::reports::show()).map(|()| status)
}
