//! The story of a run: load, protect, compile, launch, serve, report.

use landstrip_core::report::denials::Denial;
use landstrip_core::report::failure::Failure;
use landstrip_core::report::traps::{Reports, Traps};
use landstrip_core::session::launch::Tool;
use landstrip_core::session::launch_channel::LaunchChannel;
use landstrip_core::session::prepared::Prepared;
use landstrip_core::session::process_tree::ProcessTree;
use landstrip_core::session::surroundings::Surroundings;
use people::advice::entered::entered;
use people::advice::grounds::on_grounds;
use people::advice::suggest;
use people::advice::unseen::unseen;
use people::cli::Invocation;
use people::consent;
use people::load::{Loaded, add, load};
use people::observe::Reporter;
use people::reports::Remedies;
use people::reports::collected::{Collected, Wanted};
use people::store;
use policy::remarks::Remarks;
use std::sync::Arc;

/// In the place of what is looked for in the work tree once the command has ended.
const NO_ANSWER: &str = "a file system that may be written, or the working directory is on, does not answer: nothing is advised, \
    nor looked for in the work tree, and directories of this run are removed by a later one";

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
    let Loaded { mut policy, reports, unwatched, mut remarks, caller } = loaded;
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
    add(&mut remarks, notes);
    traps.settle();
    let unseen = || match reports {
        Reports::Nothing => None,
        _ => unseen(status, tool, &prepared.policy, unwatched, &collected.refused()),
    };
    // What can be advised, and what is left in the work tree, is looked for there.
    let answers = prepared.file_systems_answer();
    people::reports::print(collected, status != 0, unseen, |denials| match answers {
        true => on_grounds((&prepared, &prepared.policy), &remarks, &caller, |grounds| {
            suggest::remedies(denials, grounds)
        }),
        false => Remedies::default(),
    });
    let left = || match answers {
        true => entered(&prepared.policy, &caller),
        false => Some(NO_ANSWER.to_owned()),
    };
    if !matches!(reports, Reports::Nothing)
        && let Some(what) = left()
    {
        people::reports::warn(collected, &what);
    }
    if prepared.policy.keeps_denials && answers {
        on_grounds((&prepared, &prepared.policy), &remarks, &caller, |grounds| {
            store::keep(&collected.reported(), tool, &caller, grounds);
        });
    }
    prepared.leave();
    std::mem::forget((remarks, caller));
    ended.inspect_err(|_| people::reports::show()).map(|()| status)
}
