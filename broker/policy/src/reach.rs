//! What a policy allows that reaches further than its author may see: `/` and the home by way of the working
//! directory, and what programs outside the sandbox run, obey or serve ([`harmless`]).

use super::callers::Caller;
use super::error::{Origin, PolicyError};
use super::keys::Written;
use super::presets;
use super::remarks::Remarks;
use super::{domains, linked_trees};
use crate::harmless::{self, Ground};
use rustix::process::geteuid;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A path that is allowed, and where that is written.
pub(super) type Allowed<'a> = (&'a Path, &'a Origin);

/// The home as paths that were followed have it.
pub(super) fn home(caller: &Caller) -> Option<Cow<'_, Path>> {
    let home = caller.home.as_deref()?;
    Some(home.canonicalize().map_or(Cow::Borrowed(home), Cow::Owned))
}

/// The entries of the home, a canonical path, that links among its hidden ones lead into: where people keep their
/// start-up files and programs, whatever they call it. And the directories of PATH.
pub fn linked_settings(home: &Path) -> Vec<PathBuf> {
    let listed = [home.to_owned(), home.join(".config"), home.join(".local")];
    let listed = listed.map(|directory| directory.read_dir());
    let links = listed.into_iter().flatten().flatten().flatten().filter(|entry| {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".")
            || entry.path().parent() != Some(home);
        is_hidden && entry.file_type().is_ok_and(|kind| kind.is_symlink())
    });
    let targets = links.filter_map(|link| link.path().canonicalize().ok());
    let entries =
        targets.filter_map(|path| Some(home.join(path.strip_prefix(home).ok()?.iter().next()?)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Also what is missing: a command that makes it has its programs found.
    let programs = std::env::split_paths(&path).filter(|place| place.is_absolute());
    let programs = programs.map(|place| place.canonicalize().unwrap_or(place));
    entries.chain(programs).collect()
}

/// What speaks against letting the working directory be written as a whole because the command is started there.
pub(super) fn against(caller: &Caller) -> Option<&'static str> {
    let (home, cwd) = (home(caller), caller.cwd.as_path());
    let of_root = geteuid().is_root().then(|| Path::new("/root"));
    if [home.as_deref(), of_root].into_iter().any(|home| harmless::is_too_wide(cwd, home)) {
        return Some("all of it would be writable, start-up files included");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::split_paths(&path).filter(|place| place.is_absolute());
    // Links are looked for where the user makes them: most of the others lie in /usr.
    let is_link = |place: &Path| {
        home.as_ref().is_some_and(|home| place.starts_with(home)) && place.is_symlink()
    };
    let followed = |place: PathBuf| match is_link(&place) {
        true => place.canonicalize().unwrap_or(place),
        false => place,
    };
    let programs: Vec<PathBuf> = named.map(followed).collect();
    let is_obeyed = harmless::is_obeyed(cwd, home.as_deref(), &programs);
    // Agents keep work trees of projects in hidden directories.
    (is_obeyed && linked_trees::repository_of(caller).is_none())
        .then_some("programs outside run or obey what is there")
}

/// Refuses a preset that would make a directory writable, as the working directory, that is no project's: everything, the
/// home, or one of programs or settings. A policy that names the same path means it.
///
/// # Errors
/// Returns a [`PolicyError`] that says what to do.
pub(super) fn refuse_directory(
    written: &Written,
    writes: &[Allowed<'_>],
    caller: &Caller,
) -> Result<(), PolicyError> {
    let is_of_preset = |origin: &Origin| presets::is_file(&origin.file);
    let is_whole = |(path, origin): &&Allowed<'_>| *path == caller.cwd && is_of_preset(origin);
    let Some((path, origin)) = writes.iter().find(is_whole) else { return Ok(()) };
    let named = |origin: &Origin| {
        let mut items = written.allow_write.iter();
        items.any(|item| item.origin == *origin && item.text.starts_with(['/', '~']))
    };
    let is_meant = writes
        .iter()
        .any(|(other, origin)| other == path && !is_of_preset(origin) && named(origin));
    let Some(reason) = against(caller).filter(|_| !is_meant) else { return Ok(()) };
    let path = path.display();
    Err(origin.error(format!(
        "the working directory is {path}, and {reason}: start in the directory of a project, or add a policy whose \
         filesystem.allowWrite has \"{path}\""
    )))
}

/// Says that the working directory is no project's.
pub(super) fn warn_of_directory(caller: &Caller, remarks: &mut Remarks) {
    if remarks.are_wanted()
        && let Some(reason) = against(caller)
    {
        let path = caller.cwd.display();
        remarks.warn(format!(
            "the working directory is {path}, which is what '.' means in a policy, and {reason}"
        ));
    }
}

/// Says what is allowed to be written, or connected to, and is not known to be harmless. The presets' authors knew.
pub(super) fn warn_of_outside(
    written: &Written,
    writes: &[Allowed<'_>],
    sockets: &[Allowed<'_>],
    caller: &Caller,
    remarks: &mut Remarks,
) {
    let home = home(caller);
    let temporary = std::env::temp_dir().canonicalize().unwrap_or_default();
    let settings = home.as_deref().map(linked_settings).unwrap_or_default();
    let (work, settings) = (caller.cwd.as_path(), settings.as_slice());
    let ground = Ground { home: home.as_deref(), work, temporary: &temporary, settings };
    let is_own = |(_, origin): &&Allowed<'_>| !presets::is_file(&origin.file);
    let is_device = |path: &Path| path.starts_with("/dev");
    for (path, origin) in writes.iter().filter(is_own) {
        let reason = match ground.is_temporary(path) {
            _ if ground.is_harmless(path) || is_device(path) => continue,
            true => {
                "all programs have their temporary files and sockets there; without it the command has a $TMPDIR of its own"
            }
            false => "programs outside may run or obey what is there",
        };
        remarks
            .warn(origin.error(format!("{} can be written: {reason}", path.display())).to_string());
    }
    let message =
        "may run commands or hold keys outside the sandbox, which the command can then use";
    for (path, origin) in
        sockets.iter().filter(is_own).filter(|(path, _)| !harmless::is_socket(path))
    {
        remarks
            .warn(origin.error(format!("the server at {} {message}", path.display())).to_string());
    }
    for item in written.allowed_domains.iter().filter(|item| !presets::is_file(&item.origin.file)) {
        if domains::is_of_this_host(&item.text) {
            let message = format!("servers at {} {message}", item.text.trim());
            remarks.warn(item.origin.error(message).to_string());
        }
    }
    if written.allow_all_unix_sockets == Some(true) {
        remarks.warn(format!("network.allowAllUnixSockets: servers {message}"));
    }
}
