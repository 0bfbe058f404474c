//! What remedies are found in view of.

use super::suggest::Grounds;
use crate::policy::callers::Caller;
use crate::policy::reach::linked_settings;
use crate::policy::remarks::Remarks;
use crate::rules::policy::Policy;
use crate::session::prepared::Prepared;

/// What `find` finds in view of `policy`, of a run that was `prepared`.
pub(crate) fn on_grounds<T>(
    (prepared, policy): (&Prepared, &Policy),
    remarks: &Remarks,
    caller: &Caller,
    find: impl FnOnce(&Grounds<'_>) -> T,
) -> T {
    let home = caller.home.as_ref().map(|home| home.canonicalize().unwrap_or(home.clone()));
    find(&Grounds {
        home: home.as_deref(),
        work: &caller.cwd,
        temporary: &std::fs::canonicalize(std::env::temp_dir()).unwrap_or_default(),
        settings: &home.as_deref().map(linked_settings).unwrap_or_default(),
        files: &policy.files,
        written: prepared.written,
        network: &policy.network,
        origins: remarks.origins(),
    })
}
