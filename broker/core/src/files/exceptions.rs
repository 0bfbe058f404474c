//! What Landlock does not let be opened, though the rules do: the outcome of such a call is made here, though it
//! is otherwise left to Landlock and looked at. It is held, and opened for the target.

use super::look::Look;
use super::opens::{is_hidden, may_see, names_thread};
use super::task::{After, Done, Opened};
use super::terminals;
use super::view::View;
use crate::call::how::writes;
use kernel::object::Object;
use kernel::request::Confirmed;
use rustix::fs::{Mode, OFlags};
use rustix::io::{self, Errno};

/// What the rules let be opened and Landlock does not, and how it is to be opened.
#[derive(Debug)]
pub(crate) struct Exception {
    object: Object,
    flags: OFlags,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Found,
    /// It is of proc(5), where everybody may search every directory on the way.
    OfProcesses,
    /// Of a process outside: as if it were not there.
    Hidden,
}

impl Exception {
    /// Opens what is held.
    pub(crate) fn open(&self, _: Confirmed<'_>) -> io::Result<Done> {
        if self.kind == Kind::Hidden {
            return Err(Errno::NOENT);
        }
        // O_NOFOLLOW was heeded on the way here, and would refuse the magic link.
        let heeded = OFlags::NOFOLLOW | OFlags::CREATE;
        let flags = (self.flags - heeded) | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = self.object.open(flags, Mode::empty())?;
        Ok(Done::Opened(Opened { file, flags: self.flags, after: After::Nothing }))
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
    is_own.then_some(Exception { object, flags, kind: Kind::OfProcesses })
}

/// A terminal of the sandbox's own: it was not there at launch.
fn terminal(look: &Look, flags: OFlags) -> Option<Exception> {
    let is_terminal = look.path.is_empty()
        || look.path.starts_with(b"/dev/pts/")
        || writes(flags) && look.follows_link(flags);
    let object = is_terminal.then(|| look.follow(true)).flatten()?;
    let is_own = terminals::is_of_sandbox(look.target, &object);
    is_own.then_some(Exception { object, flags, kind: Kind::Found })
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
        let is_shown = view.rules.access(path).read && may_see(look.target, path);
        let kind = match is_hidden(look.target, path, is_inside) {
            true => Kind::Hidden,
            false => Kind::OfProcesses,
        };
        return (is_shown || kind == Kind::Hidden).then_some(Exception { object, flags, kind });
    }
    // Another directory at this path is not the one that was found at launch.
    let is_listable = view.is_listable(path, &object);
    let flags = if is_listable { flags | OFlags::DIRECTORY } else { flags };
    (is_listable || view.is_replacement(path, &object)).then_some(Exception {
        object,
        flags,
        kind: Kind::Found,
    })
}
