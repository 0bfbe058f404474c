//! What the command may never write, whatever the policy says: the policy itself and the programs
//! that enforce it, or one run could take the next one's sandbox away; and what of the system
//! undoes every rule.

use super::grants::block_devices;
use super::hard_links::other_names;
use crate::policy::callers::Caller;
use crate::policy::error::PolicyError;
use crate::policy::merged::trail_in;
use crate::policy::remarks::Remarks;
use crate::policy::resolve::Policy;
use crate::report::failure::Failure;
use crate::rules::paths::Files;
use crate::rules::pattern::Pattern;
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// Adds the implicit denials to `policy`, which is what is enforced from here on. They cost something
/// only where `allowWrite` reaches.
///
/// # Errors
/// Returns the [`Failure`] that names what cannot be protected.
pub(crate) fn protect(
    mut policy: Policy,
    remarks: &mut Remarks,
    caller: &Caller,
) -> Result<Policy, Failure> {
    let mut protected = policy.sources.clone();
    // Also where no policy is now, or another one is in force: the next run may look there, and a
    // link that the command could replace would lead it elsewhere.
    protected.extend(caller.policy_trails()?);
    protected.extend(programs()?);
    let others = other_names(&protected, &policy.files.allow_write).map_err(|error| {
        let message = "a policy or a program of landstrip has several names (hard links), and";
        let advice = "install landstrip by copying (cp, install)";
        Failure::Internal("protect", format!("{message} {error}; {advice}"))
    })?;
    for path in protected.iter().chain(&others) {
        policy.files.deny_write_path(path);
    }
    deny_other_names(&mut policy.files, remarks)?;
    protect_system(&mut policy.files, remarks);
    Ok(policy)
}

/// Denies the other names (hard links) that files which the policy denies by name have in what may be
/// written.
fn deny_other_names(files: &mut Files, remarks: &mut Remarks) -> Result<(), Failure> {
    let named = |patterns: &[Pattern]| patterns.iter().filter_map(Pattern::as_path).collect();
    let (unwritable, unreadable): (Vec<_>, Vec<_>) =
        (named(&files.deny_write), named(&files.deny_read));
    let search = |denied: &[PathBuf]| {
        other_names(denied, &files.allow_write).map_err(|error| {
            let message = "a denied file has several names (hard links), and";
            Failure::Internal("protect", format!("{message} {error}; copy it to have but one"))
        })
    };
    let (unwritable, unreadable) = (search(&unwritable)?, search(&unreadable)?);
    for path in &unwritable {
        files.deny_write_path(path);
    }
    for path in &unreadable {
        files.deny_read_path(path);
    }
    for path in unwritable.iter().chain(&unreadable) {
        let path = path.display();
        remarks
            .warn(format!("{path} is another name (hard link) of a denied file, and denied too"));
    }
    Ok(())
}

/// Keeps what allows "/" or "/dev" from allowing the kernel's own controls (/proc/sys/kernel/core_pattern
/// runs programs outside) and whole disks, which hold what is denied on them.
fn protect_system(files: &mut Files, remarks: &mut Remarks) {
    for tree in ["/proc", "/sys"].map(Path::new) {
        // Who names a path inside means it: nobody does so by accident.
        let chosen = |path: &PathBuf| path != tree && path.starts_with(tree);
        if files.allow_write.iter().any(chosen) {
            continue;
        }
        if files.allow_write.iter().any(|path| path == tree) {
            let tree = tree.display();
            remarks.warn(format!("{tree} stays unwritable; name what is meant inside it"));
        }
        files.deny_write_path(tree);
    }
    let covers_devices = |path: &PathBuf| Path::new("/dev").starts_with(path);
    let covers_devices = files.allow_write.iter().any(covers_devices);
    let denies_read = !files.deny_read.is_empty();
    if !covers_devices && !denies_read {
        return;
    }
    // Whose disks they are depends on more than the user: groups, modes, capabilities.
    let usable = |device: &Path, access| rustix::fs::access(device, access).is_ok();
    for device in block_devices() {
        if covers_devices && usable(&device, Access::WRITE_OK) {
            files.deny_write_path(&device);
        }
        if denies_read && usable(&device, Access::READ_OK) {
            files.deny_read_path(&device);
        }
    }
}

/// landstrip, landstrip-broker and landstrip-proxy, in either layout (see `execute_broker` of the
/// launcher).
fn programs() -> Result<Vec<PathBuf>, PolicyError> {
    // The kernel's own name for it: a canonical path.
    let Ok(own) = std::fs::read_link("/proc/self/exe") else { return Ok(Vec::new()) };
    let Some(directory) = own.parent() else { return Ok(Vec::new()) };
    let mut programs = trail_in(directory, "landstrip-proxy")?;
    programs.extend(trail_in(directory, "landstrip")?);
    if directory.ends_with("libexec/landstrip")
        && let Some(prefix) = directory.parent().and_then(Path::parent)
    {
        programs.extend(trail_in(prefix, "bin/landstrip")?);
    }
    programs.push(own);
    Ok(programs)
}
