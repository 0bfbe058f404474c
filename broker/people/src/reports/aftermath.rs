//! What a run leaves to say once nothing of the command runs any more.

use super::Remedies;
use super::collected::Collected;
use crate::advice::entered::entered;
use crate::advice::grounds::on_grounds;
use crate::advice::suggest;
use crate::advice::unseen::unseen;
use crate::load::add;
use crate::store;
use landstrip_core::compile::notes::Notes;
use landstrip_core::report::traps::Reports;
use landstrip_core::session::launch::Tool;
use landstrip_core::session::prepared::Prepared;
use policy::callers::Caller;
use policy::remarks::Remarks;

/// In the place of what is looked for in the work tree once the command has ended.
const NO_ANSWER: &str = "a file system that may be written, or the working directory is on, does not answer: nothing is advised, \
    nor looked for in the work tree, and directories of this run are removed by a later one";

/// What was loaded with the policy.
#[derive(Debug)]
pub struct Aftermath {
    pub reports: Reports,
    pub unwatched: bool,
    pub remarks: Remarks,
    pub caller: Caller,
}

impl Aftermath {
    /// Prints what was `collected` of a run of `tool` that ended with `status`, with what can be done about it, and
    /// keeps it if the policy says so. `notes` are those on what was enforced.
    pub fn print(
        self,
        collected: &Collected,
        (prepared, notes): (&Prepared, Notes),
        (tool, status): (&Tool<'_>, i32),
    ) {
        let Self { reports, unwatched, mut remarks, caller } = self;
        add(&mut remarks, notes);
        let policy = &prepared.policy;
        let unseen = || match reports {
            Reports::Nothing => None,
            _ => unseen(status, tool, policy, unwatched, &collected.refused()),
        };
        // What can be advised, and what is left in the work tree, is looked for there.
        let answers = prepared.file_systems_answer();
        super::print(collected, status != 0, unseen, |denials| match answers {
            true => on_grounds((prepared, policy), &remarks, &caller, |grounds| {
                suggest::remedies(denials, grounds)
            }),
            false => Remedies::default(),
        });
        let left = || match answers {
            true => entered(policy, &caller),
            false => Some(NO_ANSWER.to_owned()),
        };
        if !matches!(reports, Reports::Nothing)
            && let Some(what) = left()
        {
            super::warn(collected, &what);
        }
        if policy.keeps_denials && answers {
            on_grounds((prepared, policy), &remarks, &caller, |grounds| {
                store::keep(&collected.reported(), tool, &caller, grounds);
            });
        }
        // The kernel takes them back at once as the process ends.
        std::mem::forget((remarks, caller));
    }
}
