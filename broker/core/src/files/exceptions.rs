//! What Landlock does not let be opened, though the rules do: the outcome of such a call is made here, though it
//! is otherwise left to Landlock and looked at. It is held, and opened for the target.

use super::look::Look;
use super::opens::{is_hidden, may_see, names_thread};
use super::task::Task;
use super::terminals;
use super::view::View;
use crate::call::how::{OpenHow, writes};
use kernel::object::Object;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// What is done in the place of a call that opens what the rules let be opened and Landlock does not.
#[derive(Debug)]
pub(super) struct Exception {
    pub(super) task: Task,
    /// It is of proc(5), where everybody may search every directory on the way.
    pub(super) is_of_processes: bool,
}

impl Exception {
    fn open(object: Object, flags: OFlags, is_of_processes: bool) -> Self {
        let kind = object.kind();
        // Nothing is made by it.
        Self { task: Task::Open(object, kind, OpenHow { flags, mode: 0 }), is_of_processes }
    }
}

/// What to open for the target, if this opens what Landlock does not grant but the rules do; of proc(5) nothing of
/// processes for which `is_inside` says no.
pub(super) fn of(look: &Look, view: &View, is_inside: impl Fn(i32) -> bool) -> Option<Exception> {
    let flags = look.opens()?;
    if flags.contains(OFlags::PATH) || flags.contains(OFlags::CREATE | OFlags::EXCL) {
        return None;
    }
    terminal(look, flags)
        .or_else(|| thread_name(look, flags))
        .or_else(|| unknown_to_landlock(look, view, flags, is_inside))
}

/// The name of a thread, to be written by its own process, as pthread_setname_np(3) does.
fn thread_name(look: &Look, flags: OFlags) -> Option<Exception> {
    let object = (writes(flags) && look.path.is_empty()).then(|| look.follow(true))??;
    let is_own = object.is_on_proc().ok()? && names_thread(look.target, object.path().ok()?);
    is_own.then(|| Exception::open(object, flags, true))
}

/// A terminal of the sandbox's own: it was not there at launch.
fn terminal(look: &Look, flags: OFlags) -> Option<Exception> {
    let is_terminal = look.path.is_empty()
        || look.path.starts_with(b"/dev/pts/")
        || writes(flags) && look.follows_link(flags);
    let object = is_terminal.then(|| look.follow(true)).flatten()?;
    let is_own = terminals::is_of_sandbox(look.target, &object);
    is_own.then(|| Exception::open(object, flags, false))
}

/// A directory to list, a file that others have put in the place of one that may be read, or one of proc(5).
fn unknown_to_landlock(
    look: &Look,
    view: &View,
    flags: OFlags,
    is_inside: impl Fn(i32) -> bool,
) -> Option<Exception> {
    let follow = !flags.contains(OFlags::NOFOLLOW);
    // Spares a path walk for most files that are read.
    let starts_there = || view.brokers_processes && look.starts_on_proc();
    let may_be_one = || look.may_name_exception(view) || look.follows_link(flags) || starts_there();
    if writes(flags) || !view.has_exceptions() || !may_be_one() {
        return None;
    }
    let object = look.follow(follow)?;
    let name = object.name().ok()?;
    let path = name.as_path();
    if view.brokers_processes && object.is_on_proc().ok()? {
        // As if it were not there.
        if is_hidden(look.target, path, is_inside) {
            return Some(Exception {
                task: Task::Refuse(Errno::NOENT, None),
                is_of_processes: true,
            });
        }
        let is_shown = view.rules.access(path).read && may_see(look.target, path);
        return is_shown.then(|| Exception::open(object, flags, true));
    }
    // Another directory at this path is not the one that was found at launch.
    let is_listable = view.is_listable(path, &object);
    let flags = if is_listable { flags | OFlags::DIRECTORY } else { flags };
    let is_one = is_listable || view.is_replacement(path, &object);
    is_one.then(|| Exception::open(object, flags, false))
}
