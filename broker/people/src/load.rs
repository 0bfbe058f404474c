//! From the command line to a policy.

use crate::cli;
use kernel::kill::heeding;
use landstrip_core::compile::notes::Notes;
use landstrip_core::report::failure::{Failure, say};
use landstrip_core::report::traps::Reports;
use policy::callers::Caller;
use policy::error::{Escaped, PolicyError};
use policy::remarks::Remarks;
use policy::resolve;
use rules::policy::Policy;
use rustix::process::Signal;

/// What ends or stops a program that waits for its policy.
const HEEDED: [Signal; 5] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::TSTP];

/// A policy as it was written, before what it never may allow is taken out.
#[derive(Debug)]
pub struct Loaded {
    pub policy: Policy,
    /// Which denials are reported, as the caller wants it or else the policy says.
    pub reports: Reports,
    /// Whether refused reads are not watched though nobody on the command line asked for that.
    pub unwatched: bool,
    pub remarks: Remarks,
    pub caller: Caller,
}

/// Loads the policy that `invocation` names; adds to `remarks`.
///
/// # Errors
/// Returns [`Failure::Pairs`] for the first thing that is wrong with it.
pub fn load(invocation: &cli::Invocation, mut remarks: Remarks) -> Result<Loaded, Failure> {
    let caller = Caller::of_process().map_err(unusable)?;
    // Standard input or a FIFO may not come to its end, and nothing has begun yet.
    let policy = heeding(&HEEDED, || resolve::policy(&invocation.policies, &caller, &mut remarks));
    let policy = policy.map_err(unusable)?;
    // To hide what is kept is no reason to watch all reads.
    let reports =
        invocation.reports.unwrap_or(match policy.unwatched_reads || policy.hides_denials_alone {
            true => Reports::Changes,
            false => Reports::All,
        });
    let unwatched = policy.unwatched_reads && invocation.reports.is_none();
    remarks.told().iter().for_each(|text| say(&Escaped(text).to_string()));
    Ok(Loaded { policy, reports, unwatched, remarks, caller })
}

/// The failure that `error` is.
pub fn unusable(error: PolicyError) -> Failure {
    Failure::Pairs(error.report())
}

impl Loaded {
    /// For what compiling finds.
    pub fn notes(&self) -> Notes {
        let (are_wanted, keeps_rules) = (self.remarks.are_wanted(), self.remarks.keep_origins());
        Notes { are_wanted, keeps_rules, ..Notes::default() }
    }
}

/// Adds what compiling found to `remarks`.
pub fn add(remarks: &mut Remarks, notes: Notes) {
    for (list, pattern, why) in notes.rules {
        remarks.own_rule(list, &pattern, why);
    }
    notes.warnings.into_iter().for_each(|text| remarks.warn(text));
}
