//! A run that learns: the deny rules of its policy are enforced and nothing else, and what the policy would have
//! to allow besides is written as another that adds to it.
//!
//! It is for commands that are trusted. Besides deny rules it has what holds under every policy: the filter,
//! the end of all processes, shared memory of its own, a TMPDIR if the policy has one.

mod witness;

use crate::advice::draft::{Base, Draft, NAMED_MAX};
use crate::advice::grounds::on_grounds;
use crate::advice::needs::Needs;
use crate::advice::suggest;
use crate::cli::{Invocation, NewPolicy};
use crate::load::{Loaded, load, unusable};
use crate::observe::Reporter;
use crate::reports;
use crate::reports::collected::{Collected, Wanted};
use landstrip_core::report::denials::Denial;
use landstrip_core::report::errno::strerror;
use landstrip_core::report::failure::{Failure, say};
use landstrip_core::report::permitted::Witness;
use landstrip_core::report::traps::Traps;
use landstrip_core::session::launch::Tool;
use landstrip_core::session::launch_channel::LaunchChannel;
use landstrip_core::session::prepared::Prepared;
use landstrip_core::session::process_tree::ProcessTree;
use landstrip_core::session::surroundings::Surroundings;
use policy::callers;
use policy::document::Format;
use policy::load::to_extend;
use policy::presets;
use policy::remarks::Remarks;
use rules::policy::Network;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, Access, AtFlags, Mode, OFlags};
use rustix::io::{self, Errno};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use witness::Reader;

/// Runs `tool`, writes what it needed to `file`, and returns its status.
///
/// # Errors
/// Returns the [`Failure`] because of which the tool did not run, or had to be ended, or the policy could not be
/// written.
pub fn run(
    invocation: &Invocation,
    file: &NewPolicy,
    tool: &Tool<'_>,
    child: LaunchChannel,
    tree: &mut ProcessTree,
) -> Result<i32, Failure> {
    let collected = Collected::open(invocation.trap_fd, invocation.debug)?;
    let place = Place::find(&file.path);
    let outcome =
        place.and_then(|place| learn((invocation, file, place), &collected, tool, child, tree));
    reports::tell_status(&collected, &outcome);
    outcome
}

/// The same with its reports, once there is a place for the policy.
fn learn(
    (invocation, file, place): (&Invocation, &NewPolicy, Place),
    collected: &Arc<Collected>,
    tool: &Tool<'_>,
    child: LaunchChannel,
    tree: &mut ProcessTree,
) -> Result<i32, Failure> {
    let reports = invocation.reports.unwrap_or_default();
    collected.want(Wanted { reports, ..Wanted::default() });
    let traps = &Arc::new(Traps::of(collected.clone(), false));
    let surroundings = Surroundings::look(child.is_scoped, child.shares_input)?;
    let Loaded { mut policy, remarks, caller, .. } = load(invocation, Remarks::unwanted())?;
    let base = Base {
        extends: to_extend(&invocation.policies, &caller).map_err(unusable)?,
        tool: tool.name().to_vec(),
    };
    // The command must not write what decides on its next run.
    policy.sources.push(place.path());
    if policy.built_in {
        // A policy in a file is told of them.
        policy.network.callers = callers::proxies(&caller, &mut Remarks::unwanted());
    }
    let platform = (&child, &surroundings);
    let denied_domains = policy.network.denied_domains.clone();
    let reader = OnceLock::new();
    let (mut prepared, policy) = Prepared::permitting(policy, platform, traps, |addresses| {
        let reading = Reader { addresses, needs: Needs::default(), denied_domains };
        Arc::clone(reader.get_or_init(|| Arc::new(reading))) as Arc<dyn Witness>
    })?;

    say(
        "--learn: this run is not confined: everything that no deny rule names is permitted, and recorded",
    );
    let reporter = reader.get().cloned().map_or_else(Reporter::default, |it| Reporter::of(it));
    Arc::make_mut(&mut prepared.judges).observer = Arc::new(reporter);
    let umask = tree.umask;
    let (status, ended) = prepared.serve(tool, child, tree, traps)?;
    let grounded = |denials: &[&Denial]| {
        let in_force = (&prepared, &prepared.policy);
        on_grounds(in_force, &remarks, &caller, |grounds| suggest::remedies(denials, grounds))
    };
    collected.settle();
    reports::print((collected, tree.as_fd()), status != 0, || None, grounded);
    ended?;
    let draft = on_grounds((&prepared, &policy), &remarks, &caller, |grounds| {
        let lessons = reader.get().map(|reader| reader.needs.take());
        Draft::of(lessons.unwrap_or_default(), base, grounds)
    });
    place.write(&draft, file.format, umask)?;
    tell(&draft, file, &policy.network, status);
    Ok(status)
}

/// Says how the draft is to be used, and what is special about it.
fn tell(draft: &Draft, file: &NewPolicy, base: &Network, status: i32) {
    let path = file.path.display().to_string();
    let path = path.escape_debug();
    let usage = usage(file);
    say(&format!("--learn: wrote {path}; read it, then use it with {}", usage.escape_debug()));
    if status != 0 {
        say("--learn: the command failed: it may need more than it got to ask for");
    }
    if draft.opens_network() {
        say("--learn: something bypassed the proxy, so the policy allows the whole network");
        if !base.denied_domains.is_empty() {
            say("--learn: so the deniedDomains that it extends restrict nothing");
        }
    }
    if let Some(paths) = draft.left_out(NAMED_MAX) {
        say(&format!("--learn: left out, as not known to be harmless outside: {paths}"));
    }
    if let Some(paths) = draft.wide(NAMED_MAX) {
        say(&format!("--learn: left out, as only a rule for the directory would help: {paths}"));
    }
    if draft.forgotten() > 0 {
        say(&format!("--learn: incomplete: {} more accesses were seen", draft.forgotten()));
    }
    if file.format == Format::Json {
        say("--learn: JSON has no comments: a .yaml file says which program asked for what");
    }
}

/// The options that have `file` read: a name alone is a preset's.
fn usage(NewPolicy { path, format }: &NewPolicy) -> String {
    let text = path.display();
    let here = if presets::is_name(&text.to_string()) { "./" } else { "" };
    let by_name = Format::named_by(path);
    let format = match format {
        _ if by_name.as_ref() == Some(format) => "",
        Format::Yaml => " --format yaml",
        Format::Json => " --format json",
    };
    format!("-p {here}{text}{format}")
}

/// Where the draft goes: an entry of a directory that is held, where nothing is.
struct Place {
    directory: OwnedFd,
    /// The canonical path of that.
    above: PathBuf,
    name: OsString,
}

impl Place {
    /// Finds the place of `path`.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if something is there, or nothing can be made.
    fn find(path: &Path) -> Result<Self, Failure> {
        let unusable = |reason: &str| {
            let path = path.display();
            Failure::Usage(format!("--learn {path}: {reason}"))
        };
        let name = path.file_name().ok_or_else(|| unusable("this names no file"))?.to_owned();
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let above = std::fs::canonicalize(above.unwrap_or(Path::new(".")));
        let failed = |errno: Errno| unusable(&strerror(errno));
        let above =
            above.map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(&above, flags, Mode::empty()).map_err(failed)?;
        match fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
            Ok(_) => return Err(unusable("it exists; a policy is never overwritten")),
        }
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        fs::accessat(fs::CWD, &above, wanted, AtFlags::EACCESS).map_err(failed)?;
        Ok(Self { directory, above, name })
    }

    fn path(&self) -> PathBuf {
        self.above.join(&self.name)
    }

    /// Writes `draft` there.
    ///
    /// # Errors
    /// Returns [`Failure::Internal`]; then nothing is there.
    fn write(&self, draft: &Draft, format: Format, umask: Mode) -> Result<(), Failure> {
        let failed = |reason: String| {
            let path = self.path();
            Failure::Internal("learn", format!("{}: {reason}", path.display()))
        };
        let text = draft.text(format).map_err(failed)?;
        let written = self.create(umask).and_then(|mut file| {
            let kept = file.write_all(text.as_bytes());
            kept.map_err(|error| {
                // Half a policy is none.
                let _ = fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
                Errno::from_io_error(&error).unwrap_or(Errno::IO)
            })
        });
        written.map_err(|errno| failed(strerror(errno)))
    }

    fn create(&self, umask: Mode) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666) - umask;
        fs::openat(&self.directory, self.name.as_bytes(), flags, mode).map(File::from)
    }
}
