//! What is said when a run has ended: what was refused and what to do about it, what the command may have left, and what
//! is kept. People are told of it once nothing of the command runs any more.

use crate::advice::entered::entered;
use crate::advice::grounds::on_grounds;
use crate::advice::launch::{self, Written};
use crate::advice::suggest::{self, Grounds};
use crate::advice::unseen::{denied_tool, unseen};
use crate::reports::collected::Collected;
use crate::reports::{self, Remedies};
use crate::store;
use common::exit;
use landstrip_core::report::failure::Failure;
use landstrip_core::report::traps::{Reports, Sink};
use landstrip_core::session::launch::Tool;
use landstrip_core::session::prepared::Prepared;
use policy::callers::Caller;
use policy::remarks::Remarks;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// In the place of what is looked for in the work tree once the command has ended.
const NO_ANSWER: &str = "a file system that may be written, or the working directory is on, does not answer: nothing is advised, \
    nor looked for in the work tree, and directories of this run are removed by a later one";

/// A run that has ended.
pub struct Ending<'a> {
    pub collected: &'a Collected,
    pub prepared: &'a Prepared,
    pub tool: &'a Tool<'a>,
    pub caller: &'a Caller,
    pub reports: Reports,
    /// Whether refused reads were not watched though nobody on the command line asked for that.
    pub unwatched: bool,
    /// Whether the policy lets anything be written, besides the directories of the run.
    pub writes: bool,
    /// By what the broker gets signals (signalfd(2)).
    pub signals: BorrowedFd<'a>,
}

impl Ending<'_> {
    /// Tells of a run whose command ended with `status`.
    pub fn tell(&self, status: i32, remarks: &Remarks) {
        let policy = &self.prepared.policy;
        if self.reports == Reports::Nothing && !policy.keeps_denials {
            return;
        }
        // What can be advised, and what is left in the work tree, is looked for there.
        let answers = self.prepared.file_systems_answer();
        if status == exit::CANNOT_EXECUTE && answers && self.reports != Reports::Nothing {
            self.note_denied_tool();
        }
        self.print(status, remarks, answers);
        let left = || match answers {
            true => entered(policy, self.caller),
            false => Some(NO_ANSWER.to_owned()),
        };
        if self.reports != Reports::Nothing
            && let Some(what) = left()
        {
            reports::warn((self.collected, self.signals), &what);
        }
        if policy.keeps_denials && answers {
            on_grounds((self.prepared, policy), remarks, self.caller, |grounds| {
                store::keep(&self.collected.reported(), self.tool, self.caller, grounds);
            });
        }
    }

    /// Tells why a tool was not executed, as far as its policy is the reason; what is to be said of it then.
    pub fn explain(&self, failure: Failure, remarks: &Remarks) -> Failure {
        match failure {
            Failure::Launch(tool, Errno::ACCESS, _) if self.prepared.file_systems_answer() => {
                Failure::Launch(tool, Errno::ACCESS, self.rule_against_tool(remarks))
            }
            Failure::Step(step, errno) => {
                let written = Written::of(self.prepared, self.writes);
                let text = launch::about_step(step, errno, Some(&written));
                Failure::Internal("platform", text)
            }
            failure => failure,
        }
    }

    /// The rule that denies a tool which was not executed, as a message about that goes on.
    fn rule_against_tool(&self, remarks: &Remarks) -> String {
        let policy = &self.prepared.policy;
        let Some(denial) = denied_tool(self.tool, &policy.files, self.caller) else {
            return String::new();
        };
        let remedies = on_grounds((self.prepared, policy), remarks, self.caller, |grounds| {
            suggest::remedies(&[&denial], grounds)
        });
        self.collected.write(|stream| {
            remedies.lines.iter().for_each(|line| stream.write(line.as_bytes()));
        });
        let line = remedies.line.unwrap_or_default();
        line.trim_end()
            .strip_prefix("landstrip: ")
            .map_or(String::new(), |line| format!(": {line}"))
    }

    /// Notes a program that may not be read, and so not be executed: Landlock refuses that, and tells nobody.
    fn note_denied_tool(&self) {
        if let Some(denial) = denied_tool(self.tool, &self.prepared.policy.files, self.caller) {
            self.collected.note_question(denial);
        }
    }

    fn print(&self, status: i32, remarks: &Remarks, answers: bool) {
        let (policy, collected) = (&self.prepared.policy, self.collected);
        let removed = collected.removals();
        let unseen = || match self.reports {
            Reports::Nothing => None,
            _ => {
                let seen = (&*collected.refused(), collected.leaves_out());
                unseen(status, self.tool, policy, self.unwatched, seen)
            }
        };
        reports::print((collected, self.signals), status != 0, unseen, |denials| match answers {
            true => on_grounds((self.prepared, policy), remarks, self.caller, |grounds| {
                suggest::remedies(denials, &Grounds { removed: Some(&removed), ..*grounds })
            }),
            false => Remedies::default(),
        });
    }
}
