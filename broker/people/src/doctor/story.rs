//! Looks at the platform, then attacks a sandbox.

use super::bait::Bait;
use super::{attempt, chosen, inside, lines, platform};
use crate::cli::{Form, Invocation};
use crate::commands::print;
use crate::environment;
use crate::explain::InForce;
use crate::explain::page::Style;
use crate::load::{Loaded, add, load};
use crate::observe::Reporter;
use crate::reports::collected::{Collected, Wanted};
use landstrip_core::report::failure::Failure;
use landstrip_core::report::traps::Traps;
use landstrip_core::session::launch::Tool;
use landstrip_core::session::launch_channel::LaunchChannel;
use landstrip_core::session::prepared::Prepared;
use landstrip_core::session::process_tree::ProcessTree;
use landstrip_core::session::surroundings::Surroundings;
use policy::remarks::Remarks;
use std::sync::Arc;

/// Says what the platform gives, then attacks a sandbox of the policy from inside; returns 0 if everything was
/// refused and permitted as the policy says, 1 if not.
///
/// # Errors
/// Returns the [`Failure`] because of which no tool would run.
pub fn run(
    invocation: &Invocation,
    form: Form,
    child: LaunchChannel,
    tree: &mut ProcessTree,
) -> Result<i32, Failure> {
    let style = Style::of_standard_output();
    let surroundings = match Surroundings::look(child.is_scoped, child.shares_input) {
        Err(Failure::Internal("surroundings", wrong)) => Some(wrong),
        _ => None,
    };
    let findings = platform::look(&platform::Reach {
        descriptors: child.can_take_descriptors(),
        memory: inside::read_memory(tree.command),
        is_readable: child.must_be_readable().is_ok(),
        surroundings,
    });
    print(&lines::findings(&findings, form, style))?;
    attack(invocation, form, child, tree).inspect_err(|_| {
        // The error itself is told on standard error.
        let _ = print(&lines::nothing_runs(form, style));
    })
}

/// The second half of [`run`].
fn attack(
    invocation: &Invocation,
    form: Form,
    child: LaunchChannel,
    tree: &mut ProcessTree,
) -> Result<i32, Failure> {
    let style = Style::of_standard_output();
    let collected = Collected::open(invocation.trap_fd, invocation.debug)?;
    let traps = Arc::new(Traps::of(collected.clone(), false));
    let bait = Bait::lay_out();
    let surroundings = Surroundings::look(child.is_scoped, child.shares_input)?;
    let loaded = load(invocation, Remarks::wanted())?;
    let mut notes = loaded.notes();
    let Loaded { policy, reports, mut remarks, caller, .. } = loaded;
    collected.want(Wanted { reports, ..Wanted::default() });
    let platform = (&child, &surroundings);
    let mut prepared = Prepared::of(policy, reports, platform, &traps, &mut notes)?;
    Arc::make_mut(&mut prepared.judges).observer = Arc::new(Reporter::default());
    add(&mut remarks, notes);
    let proxy = prepared.judges.proxy.as_deref();
    let in_force = InForce {
        policy: &prepared.policy,
        judges: &prepared.judges,
        remarks: &remarks,
        caller: &caller,
        environment: &[],
        found: "",
        private_temporary: prepared.private_temporary,
    };
    let attempts = chosen::attempts(&in_force, bait.as_ref().ok(), proxy.is_some());
    print(&lines::heading(attempts.len(), form, style))?;
    let list = attempt::encode(form, style.is_colored(), &attempts);
    prepared.policy.variables.set.push((attempt::VARIABLE.to_owned(), list));
    let tool = Tool::this_program(environment::words)?;
    let (status, ended) = prepared.serve(&tool, child, tree, &traps)?;
    ended?;
    let taken = bait.map(|bait| bait.taken(&attempts)).unwrap_or_default();
    let holds = status == 0 && taken.is_empty();
    print(&lines::conclusion(holds, status, &taken, form, style))?;
    Ok(i32::from(!holds))
}
