//! What a policy means, in words: what becomes of each rule, and which one decides about a path, a host or a
//! socket. Whatever is said comes from the judges that a run would have.

pub(crate) mod answer;
pub(crate) mod costs;
mod directories;
mod hosts;
pub(crate) mod notes;
pub(crate) mod overview;
pub(crate) mod page;
mod paths;
pub(crate) mod question;

use crate::answer::answers::Judges;
use crate::domains::environment::Change;
use crate::policy::callers::Caller;
use crate::policy::origins::Origins;
use crate::policy::remarks::Remarks;
use crate::rules::policy::Policy;

/// What a run would be held to.
#[derive(Debug)]
pub(crate) struct InForce<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) judges: &'a Judges,
    pub(crate) remarks: &'a Remarks,
    pub(crate) caller: &'a Caller,
    /// What is different in the command's environment.
    pub(crate) environment: &'a [Change],
    /// How the policies were found.
    pub(crate) found: &'static str,
    /// Whether the command gets a temporary directory of its own.
    pub(crate) private_temporary: bool,
}

impl InForce<'_> {
    fn origins(&self) -> &Origins {
        self.remarks.origins()
    }
}
