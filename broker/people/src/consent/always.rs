//! A rule written into the policy that the run has it from, so that the next one has it as well: by a whole file that takes
//! the place of the former. It is made where no sandbox can write: one that may write beside the policy could put
//! another in its place.

use super::place;
use super::prompt::shown;
use landstrip_core::ask::Rule;
use landstrip_core::report::errno::strerror;
use policy::amend::{Amended, amend};
use policy::callers::Caller;
use policy::document::Format;
use policy::load::{Selection, to_amend};
use policy::merged::trail;
use policy::owners;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A policy that rules can be added to.
#[derive(Clone, Debug)]
pub(super) struct PolicyFile {
    /// Canonical.
    path: PathBuf,
    format: Format,
    /// Where relative paths begin in this run: in another they begin elsewhere.
    directory: PathBuf,
}

/// What is to be written.
#[derive(Debug)]
pub(super) struct Proposal {
    before: String,
    pub(super) amended: Amended,
}

impl PolicyFile {
    /// That of a run by this `selection`.
    ///
    /// # Errors
    /// Returns why no rule can be added to one.
    pub(super) fn of(selection: &Selection, caller: &Caller) -> Result<Self, String> {
        let Some((path, format)) = to_amend(selection, caller) else {
            return Err(match selection.sources.is_empty() {
                true => "there is no policy file; landstrip --init writes one, to be kept as ~/.config/landstrip/policy.yaml".to_owned(),
                false => "no policy file is in force; name one with -p, which can extend a preset".to_owned(),
            });
        };
        // Where it is made is not there before it is needed.
        let device =
            |path: &Path| path.ancestors().find_map(|path| Some(path.metadata().ok()?.dev()));
        if place::in_cache().is_none_or(|place| device(&place) != device(&path)) {
            let path = shown(&path.to_string_lossy(), 240);
            return Err(format!(
                "{path} is on another file system than ~/.cache; add the rule by hand"
            ));
        }
        Ok(Self { path, format, directory: caller.cwd.clone() })
    }

    /// What it is called.
    pub(super) fn name(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }

    /// What adding `rule` because of `program` comes to.
    ///
    /// # Errors
    /// Returns why it cannot be done.
    pub(super) fn propose(&self, rule: &Rule, program: &str) -> Result<Proposal, String> {
        let (_, before) = self.read()?;
        let by_hand = "its lines are of a kind that is changed by hand only";
        let is_relative =
            rule.key.starts_with("filesystem.") && !rule.value.starts_with(['/', '~']);
        let whole = self.directory.join(rule.value.trim_start_matches("./"));
        let whole = whole.to_str().ok_or("the path is not UTF-8")?;
        let rule = (rule.key.as_str(), if is_relative { whole } else { rule.value.as_str() });
        // What is a pattern in a policy may name more another time, also by the name of the working directory.
        if rule.1.contains(['*', '?', '[', '{']) || is_relative && whole.contains('\\') {
            return Err("the name is a pattern in a policy".to_owned());
        }
        let amended = amend(&before, self.format, rule, &comment(program)).ok_or(by_hand)?;
        Ok(Proposal { before, amended })
    }

    /// Opens the file, if it is this user's alone.
    fn read(&self) -> Result<(File, String), String> {
        let shown = |error: &dyn std::fmt::Display| error.to_string();
        let mut file = File::open(&self.path).map_err(|error| shown(&error))?;
        let trail = trail(&self.path).map_err(|error| shown(&error.message))?;
        if let Some(why) = owners::others(&file, &trail) {
            return Err(format!("others can change it: {why}"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| shown(&error))?;
        Ok((file, text))
    }

    /// Writes what was proposed, if the policy is still what it was.
    ///
    /// # Errors
    /// Returns why it was not written; then nothing has changed.
    pub(super) fn write(&self, proposal: &Proposal) -> Result<(), String> {
        const CHANGED: &str = "somebody else has changed it meanwhile";
        let (file, text) = self.read()?;
        fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| CHANGED)?;
        let found = file.metadata().map_err(|error| error.to_string())?;
        let there = self.path.symlink_metadata().map_err(|error| error.to_string())?;
        if (found.dev(), found.ino()) != (there.dev(), there.ino()) || text != proposal.before {
            return Err(CHANGED.to_owned());
        }
        let holder = place::open_in_cache()?;
        let name = format!("policy-{}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let shown = |errno: Errno| strerror(errno);
        let new = fs::openat(&holder, &name, flags, Mode::RUSR | Mode::WUSR).map_err(shown)?;
        let mut new = File::from(new);
        let written = new
            .write_all(proposal.amended.text.as_bytes())
            .and_then(|()| {
                new.set_permissions(std::fs::Permissions::from_mode(found.mode() & 0o777))
            })
            .and_then(|()| new.sync_all())
            .map_err(|error| error.to_string());
        let moved = written.and_then(|()| {
            fs::renameat(&holder, &name, fs::CWD, &self.path).map_err(|errno| match errno {
                Errno::XDEV => "it is on another file system than ~/.cache/landstrip".to_owned(),
                errno => strerror(errno),
            })
        });
        moved.inspect_err(|_| _ = fs::unlinkat(&holder, &name, AtFlags::empty()))
    }
}

/// What the policy says of the rule: who asked is a name that the command chose.
fn comment(program: &str) -> String {
    let is_plain =
        |character: &char| character.is_ascii_alphanumeric() || "._+-".contains(*character);
    let program: String = program.chars().filter(is_plain).take(32).collect();
    let day = crate::store::today();
    let who = if program.is_empty() { String::new() } else { format!(", asked for by {program}") };
    format!("allowed on {day}{who}")
}
