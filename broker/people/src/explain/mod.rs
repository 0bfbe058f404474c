//! What a policy means, in words: what becomes of each rule, and which one decides about a path, a host or a
//! socket. Whatever is said comes from the judges that a run would have.

pub mod answer;
pub mod costs;
mod directories;
mod hosts;
pub mod notes;
pub mod overview;
pub mod page;
pub(crate) mod parts;
mod paths;
pub mod question;
pub mod shared_files;

use landstrip_core::answer::answers::Judges;
use landstrip_core::session::launch::Change;
use policy::callers::Caller;
use policy::origins::Origins;
use policy::remarks::Remarks;
use rules::policy::Policy;

/// What a run would be held to.
#[derive(Debug)]
pub struct InForce<'a> {
    pub policy: &'a Policy,
    pub judges: &'a Judges,
    pub remarks: &'a Remarks,
    pub caller: &'a Caller,
    /// What is different in the command's environment.
    pub environment: &'a [Change],
    /// How the policies were found.
    pub found: &'static str,
    /// Whether the command gets a temporary directory of its own.
    pub private_temporary: bool,
}

impl InForce<'_> {
    fn origins(&self) -> &Origins {
        self.remarks.origins()
    }
}
