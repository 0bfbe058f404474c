//! What the command may never write, whatever the policy says: the policy itself and the programs
//! that enforce it, or one run could take the next one's sandbox away; and what of the system
//! undoes every rule.

use super::device_mounts::DEVICES;
use super::hard_links::{names_nearby, other_names};
use super::notes::Notes;
use super::other_places::{self, Places};
use super::runs;
use crate::report::failure::Failure;
use kernel::locate::locate_in;
use kernel::mounts::Mount;
use kernel::proc;
use rules::files::{Files, push_new};
use rules::memory;
use rules::pattern::{Component, Pattern};
use rules::policy::Policy;
use std::path::{Path, PathBuf};

/// Why rules are added.
const PROTECTS: &str =
    "what decides on the sandbox of this run or the next: policies, landstrip's programs";
const OTHER_NAME: &str = "another name (hard link) of a denied file";

/// Adds the implicit denials to `policy`, which is what is enforced from here on. They cost something
/// only where `allowWrite` reaches.
pub(crate) fn protect(
    mut policy: Policy,
    mounts: &[Mount],
    notes: &mut Notes,
) -> Result<Policy, Failure> {
    deny_other_names(&mut policy.files, mounts, notes);
    let mut protected = policy.sources.clone();
    protected.extend(programs()?);
    let others = names_nearby(&protected, &policy.files.allow_write, mounts);
    for path in protected.iter().chain(&others.found) {
        notes.own_rule("filesystem.denyWrite", &Pattern::literal(path), PROTECTS);
        push_new(&mut policy.files.deny_write, Pattern::literal(path));
        // Nothing opens it.
        policy.files.allow_write_inside.retain(|inside| !inside.starts_with(path));
    }
    if !others.may_be_in.is_empty() {
        judge_by_identity(&mut policy.files.deny_write, &others.may_be_in);
        notes.warn(
            "a policy or a program of landstrip has other names (hard links): the broker opens every \
             file that is written where they can be; install landstrip by copying (cp, install)",
        );
    }
    let places = Places::among(mounts);
    other_places::deny(&mut policy.files, mounts, &places, notes);
    keep_controls(&mut policy.files, mounts, notes);
    for holder in runs::holders().flat_map(|holder| places.all(&holder)) {
        // This run's own lie in them.
        if policy.files.allow_write.iter().any(|path| holder.starts_with(path)) {
            push_new(&mut policy.files.controls, holder);
        }
    }
    // What all may write the runs beside this one still have to themselves.
    let of_runs = Component::parse(&[memory::OF_RUNS, b"*"].concat()).ok();
    if let Some(of_runs) = of_runs.filter(|_| memory::is_named_by(&policy.files.allow_write)) {
        let of_runs = Pattern::new(Path::new(memory::PLACE), vec![of_runs]);
        notes.own_rule("filesystem.denyWrite", &of_runs, "shared memory of other runs");
        policy.files.deny_write.push(of_runs);
    }
    Ok(policy)
}

/// Denies the other names (hard links) that files which the policy denies by name have in what may be
/// written.
fn deny_other_names(files: &mut Files, mounts: &[Mount], notes: &mut Notes) {
    let Files { allow_write, deny_write, deny_read, .. } = files;
    for (list, patterns) in
        [("filesystem.denyWrite", deny_write), ("filesystem.denyRead", deny_read)]
    {
        let named: Vec<_> = patterns.iter().filter_map(Pattern::as_file).collect();
        let others = other_names(&named, allow_write, mounts);
        for path in &others.found {
            push_new(patterns, Pattern::literal(path));
            notes.own_rule(list, &Pattern::literal(path), OTHER_NAME);
            let path = path.display();
            notes.warn(format!(
                "{path} is another name (hard link) of a denied file, and denied too"
            ));
        }
        if !others.may_be_in.is_empty() {
            judge_by_identity(patterns, &others.may_be_in);
            notes.warn(
                "a denied file has other names (hard links), and what may be written cannot be searched \
                 for them: the broker opens every file there; copy it to have but one",
            );
        }
    }
}

/// Leaves all in `trees` to the broker, which knows the files that are denied, whatever they are called:
/// a rule could single out something anywhere in them.
fn judge_by_identity(patterns: &mut Vec<Pattern>, trees: &[PathBuf]) {
    // No name holds a slash.
    let nothing = Component::Literal(b"/"[..].into());
    for tree in trees {
        push_new(patterns, Pattern::new(tree, vec![Component::AnyDepth, nothing.clone()]));
    }
}

/// Keeps what allows "/", or any place with a mount in it, from allowing the kernel's own controls
/// (kernel/core_pattern of sysctl runs programs outside), and devices: whole disks hold what is denied on
/// them. Who names a path inside means it: nobody does so by accident.
fn keep_controls(files: &mut Files, mounts: &[Mount], notes: &mut Notes) {
    let controls = mounts.iter().filter(|mount| mount.is_of_controls()).map(|mount| &*mount.point);
    for point in controls.chain([Path::new(DEVICES)]) {
        if !files.allow_write.iter().any(|path| point.starts_with(path)) {
            continue;
        }
        if files.allow_write.iter().any(|path| path == point) {
            let point = point.display();
            notes.warn(format!("{point} stays unwritable; name what is meant inside it"));
        }
        push_new(&mut files.controls, point.to_owned());
    }
    // What is mounted among the devices is none. Shared memory has to be named: that of others is not meant by "/".
    if files.controls.iter().any(|path| path == Path::new(DEVICES)) {
        let names_memory = memory::is_named_by(&files.allow_write);
        let other = mounts.iter().filter(|mount| !mount.is_of_controls());
        let inside = other.filter(|mount| mount.point != Path::new(DEVICES));
        let inside = inside.filter(|mount| names_memory || !mount.point.starts_with(memory::PLACE));
        for mount in inside.filter(|mount| mount.point.starts_with(DEVICES)) {
            push_new(&mut files.allow_write, mount.point.clone());
        }
    }
}

/// landstrip, landstrip-broker and landstrip-proxy, in either layout (see `broker::execute` of the launcher), unless they
/// lie in memory. The launcher looks for a broker beside itself first: where there is none, none may come to be.
fn programs() -> Result<Vec<PathBuf>, Failure> {
    let (Ok(own), None) = (proc::own_program(), proc::started_in_memory()) else {
        return Ok(Vec::new());
    };
    let called = proc::called();
    let is_apart = called.ends_with("../libexec/landstrip/landstrip-broker");
    let launcher = called.ancestors().nth(if is_apart { 4 } else { 1 }).unwrap_or(called);
    let proxy = own.with_file_name("landstrip-proxy");
    let mut programs = vec![own.to_owned()];
    for name in [Path::new("landstrip"), Path::new("landstrip-broker"), called, &proxy] {
        let located = locate_in(launcher, name).map_err(|error| {
            Failure::Internal("protect", format!("{}: {error}", launcher.join(name).display()))
        })?;
        located.trail().into_iter().for_each(|path| push_new(&mut programs, path));
    }
    Ok(programs)
}
