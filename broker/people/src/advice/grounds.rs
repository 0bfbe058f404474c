//! What remedies are found in view of.

use super::suggest::Grounds;
use landstrip_core::compile::runs::callers_temporary;
use landstrip_core::session::prepared::Prepared;
use policy::callers::Caller;
use policy::harmless::is_socket;
use policy::reach::linked_settings;
use policy::remarks::Remarks;
use rules::policy::Policy;
use std::collections::BTreeSet;

/// What `find` finds in view of `policy`, of a run that was `prepared`.
pub fn on_grounds<T>(
    (prepared, policy): (&Prepared, &Policy),
    remarks: &Remarks,
    caller: &Caller,
    find: impl FnOnce(&Grounds<'_>) -> T,
) -> T {
    let home = caller.home.as_ref().map(|home| home.canonicalize().unwrap_or(home.clone()));
    let missing = prepared.judges.view.missing_roots().cloned().collect::<Vec<_>>();
    find(&Grounds {
        home: home.as_deref(),
        work: &caller.cwd,
        temporary: &std::fs::canonicalize(callers_temporary()).unwrap_or_default(),
        settings: &home.as_deref().map(linked_settings).unwrap_or_default(),
        log: std::fs::canonicalize("/dev/log").ok().filter(|log| is_socket(log)).as_deref(),
        files: &policy.files,
        missing: &missing,
        removed: Some(&BTreeSet::new()),
        written: prepared.written,
        network: &policy.network,
        origins: remarks.origins(),
    })
}
