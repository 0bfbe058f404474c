//! What the command may never write, whatever the policy says: the policy itself and the programs
//! that enforce it, or one run could take the next one's sandbox away; and what of the system
//! undoes every rule.

use crate::failure::Failure;
use crate::hard_links::other_names;
use crate::policy::load::{Environment, trail};
use crate::policy::resolve::Policy;
use std::path::{Path, PathBuf};

/// Adds the implicit denials to `policy`. They cost something only where `allowWrite` reaches.
///
/// # Errors
/// Returns the [`Failure`] that names what cannot be protected.
pub(crate) fn protect(policy: &mut Policy, environment: &Environment) -> Result<(), Failure> {
    let mut protected = policy.sources.clone();
    // Also where no policy is now, or another one is in force: the next run may look there, and a
    // link that the command could replace would lead it elsewhere.
    for path in environment.policy_places().iter().chain(&programs()) {
        protected.extend(trail(path)?);
    }
    let others = other_names(&protected, &policy.files.allow_write).map_err(|error| {
        let message = "a policy or a program of landstrip has several names (hard links), and";
        let advice = "install landstrip by copying (cp, install)";
        Failure::Internal("protect", format!("{message} {error}; {advice}"))
    })?;
    for path in protected.iter().chain(&others) {
        policy.files.deny_write_path(path);
    }
    // With CAP_DAC_OVERRIDE or as root, a disk read as a whole shows what is denied on it.
    if !policy.files.deny_read.is_empty() && rustix::process::geteuid().is_root() {
        for device in crate::compile::grants::block_devices() {
            policy.files.deny_read_path(&device);
        }
    }
    Ok(())
}

/// landstrip, landstrip-broker and landstrip-proxy, in either layout (see `execute_broker` of the
/// launcher).
fn programs() -> Vec<PathBuf> {
    let Ok(own) = std::fs::read_link("/proc/self/exe") else { return Vec::new() };
    let Some(directory) = own.parent() else { return Vec::new() };
    let mut programs = vec![own.clone(), directory.join("landstrip-proxy")];
    programs.push(directory.join("landstrip"));
    if directory.ends_with("libexec/landstrip") {
        let prefix = directory.parent().and_then(Path::parent);
        programs.extend(prefix.map(|prefix| prefix.join("bin/landstrip")));
    }
    programs
}
