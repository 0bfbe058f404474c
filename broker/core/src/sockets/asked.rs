//! Addresses that no rule of the policy allows, and somebody who was asked does: by rules that are added, for the rest of
//! the run or for one call. What that one does by then is what was shown, or is refused.

use super::judge::Judge;
use crate::report::denials::Denial;
use common::trap::NetworkOperation;
use rules::files::push_new;
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

impl Judge {
    /// The same where what `denial` refused is allowed, of servers all of the command's own; if it `is_once`, for what
    /// was refused alone.
    pub(crate) fn allowing(&self, denial: &Denial, is_once: bool) -> Self {
        let mut rules = (*self.rules).clone();
        match denial {
            Denial::Network(NetworkOperation::Connect, path) => {
                push_new(&mut rules.unix.paths, OsStr::from_bytes(path).into());
            }
            Denial::Network(NetworkOperation::Bind, _) => rules.local_binding = true,
            _ => {}
        }
        let permitted = is_once.then(|| denial.clone());
        Self { rules: Arc::new(rules), permitted, ..self.clone() }
    }

    /// Checks that what is about to be done is what was permitted, if that is all.
    ///
    /// # Errors
    /// Returns [`Errno::ACCESS`] if it is something else by now.
    pub(super) fn must_be_permitted(
        &self,
        operation: NetworkOperation,
        name: impl FnOnce() -> Vec<u8>,
    ) -> io::Result<()> {
        let Some(permitted) = &self.permitted else { return Ok(()) };
        let denial = Denial::Network(operation, name());
        if denial == *permitted {
            return Ok(());
        }
        self.traps.report(denial, "not what was permitted");
        Err(Errno::ACCESS)
    }
}
