//! A run that permits and reports: its calls are compared with what the policy allows that it enforces no more of than
//! the deny rules.
//!
//! What is noted decides nothing; a target that changes its arguments meanwhile deceives the draft, which a person reads.

use super::look::{self, Observer};
use super::verdict::{FileVerdict, LandlockReason};
use super::view::View;
use crate::call::decode::FileCall;
use crate::report::permitted::{Permitted, Witness};
use kernel::target::Target;
use std::path::PathBuf;
use std::sync::Arc;

/// What such a run is compared with, and who is told what that lacks.
#[derive(Debug)]
pub(crate) struct Learning {
    /// The file rules of the policy.
    pub(crate) view: View,
    pub(crate) witness: Arc<dyn Witness>,
}

impl Learning {
    /// What of `call` the policy does not allow to be changed, looked at before it is done.
    pub(crate) fn lacks(
        &self,
        observer: &dyn Observer,
        target: Target,
        call: &FileCall,
    ) -> Vec<PathBuf> {
        let denials = observer.denials(&look::look(target, call, None), &self.view).into_iter();
        let paths = denials.filter_map(|denial| denial.written());
        paths.filter(|path| !self.view.leads_to_missing(path)).collect()
    }

    /// Tells what a call lacked that became `verdict`: what is refused is not needed.
    pub(crate) fn note_call(&self, target: Target, lacks: Vec<PathBuf>, verdict: &FileVerdict) {
        let is_done = match verdict {
            FileVerdict::Answer(answer) => answer.is_ok(),
            FileVerdict::Continue(reason, _) => {
                !matches!(reason, LandlockReason::DeniedAnyway | LandlockReason::Futile)
            }
        };
        if is_done {
            lacks.into_iter().for_each(|path| self.note(Permitted::Write(path), target));
        }
    }

    pub(crate) fn note(&self, what: Permitted<'_>, by: Target) {
        self.witness.note(what, Some(by));
    }
}
