//! Opens: what is the broker's to open, and what it refuses.
//!
//! Where something may not be read inside a place in which the command may make files, Landlock lets
//! all of that place be read: what is made there must be readable and executable, execve(2) needs the
//! right to read, and no rule can be added later. There the broker is the only judge of reads, so that
//! every open that can read is its own: none is let through. Where Landlock lets nothing be read that the
//! rules do not, reads are let through but for what is new where nothing is granted.
//!
//! It knows no pipes. Where one is standard input, and the caller reads it, too, every open that can write is
//! the broker's own: a path that was let through could lead to that pipe by then.
//!
//! A descriptor that the broker opened carries no restriction of the target's, and some files answer
//! according to who opens them. So devices are opened only if they are usable always, and of proc(5)
//! what is the target's own or, of others inside, says nothing that a process keeps to itself.

use super::entry::Entry;
use super::look;
use super::open::{self, Destination};
use super::path::{self, IsGranted, NOTHING};
use super::task::{Task, refuse_write};
use super::terminals;
use super::verdict::{LandlockReason, leave_entry};
use super::view::{Reads, View};
use super::walk::{self, Lost};
use crate::call::decode::{FileCall, PathArg};
use crate::call::how::{OpenHow, changes, writes};
use crate::report::denials::Denial;
use kernel::object::{Name, Object};
use kernel::proc;
use kernel::target::Target;
use nix::unistd::{Pid, getsid};
use rules::paths::{Access, Kind};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::path::Path;

/// Whether the broker alone answers the call, as Landlock would let be read or written what is denied, as far as registers
/// say.
pub(crate) fn is_own(view: &View, call: &FileCall) -> bool {
    let flags = match call {
        FileCall::Open(_, how) => how.flags,
        FileCall::Truncate(..) => return view.brokers_truncation || view.shared_input.is_some(),
        FileCall::Create(..) | FileCall::Remove(..) | FileCall::Rename(..) | FileCall::Link(..) => {
            return false;
        }
    };
    // A Landlock without truncation sees only that an open writes.
    let is_unseen = flags & (OFlags::RWMODE | OFlags::TRUNC | OFlags::PATH) == OFlags::TRUNC;
    view.brokers_truncation && is_unseen
        || view.grants.reads == Reads::More && flags & OFlags::RWMODE != OFlags::WRONLY
        || view.shared_input.is_some() && changes(flags)
}

/// Judges an open where Landlock lets nothing be opened that the rules do not, but not all that they do.
pub(crate) fn judge_open(
    view: &View,
    target: Target,
    arg: PathArg,
    how: OpenHow,
) -> Result<Task, Lost> {
    how.check()?;
    let writes = writes(how.flags);
    let is_left = !writes && view.grants.reads != Reads::Less;
    if is_left || how.flags.contains(OFlags::PATH) {
        return Err(Lost::ToLandlock(LandlockReason::Alone));
    }
    // So it is with most, and what is there need not be looked at. A process is another one for the broker, and
    // so is a terminal.
    let is_plain = |path: &Path| !["/proc", "/dev"].iter().any(|place| path.starts_with(place));
    let is_granted: IsGranted<'_> = &|_, path| match writes {
        true => view.is_granted(path),
        false => is_plain(path) && view.is_granted_to_read(path),
    };
    let object = match open::resolve(target, arg, &how, is_granted)? {
        Destination::Object(object) => object,
        Destination::New(entry) if makes_git_link(view, &entry, &how) => {
            return Ok(Task::MakeGitLink(entry, how));
        }
        Destination::New(entry) => {
            leave_entry(view, entry.directory(), entry.name())?;
            return Ok(create(view, entry, how));
        }
    };
    let kind = object.kind();
    match kind {
        // It has no name yet; a link gives it one, and is judged then.
        FileType::Directory if how.flags.contains(OFlags::TMPFILE) => {
            leave_entry(view, object.name()?.as_path(), UNNAMED.as_ref())?;
        }
        // It is not opened for writing, whoever asks: the kernel tells the broker why.
        FileType::Directory if writes => {}
        // Landlock also restricts what may be asked of a device once it is open.
        FileType::CharacterDevice | FileType::BlockDevice => {
            return Err(Lost::ToLandlock(LandlockReason::Alone));
        }
        _ => leave(view, target, &object, if writes { Kind::Write } else { Kind::Read })?,
    }
    Ok(Task::Open(object, kind, how))
}

fn makes_git_link(view: &View, entry: &Entry, how: &OpenHow) -> bool {
    how.flags & OFlags::RWMODE == OFlags::WRONLY
        && view.may_make_git_link(entry.directory(), entry.name())
}

/// Makes a new entry, which may be made and is no link of git's.
fn create(view: &View, entry: Entry, how: OpenHow) -> Task {
    let (directory, name) = (entry.directory(), entry.name());
    // Nothing lies beneath a file.
    let is_fit = || view.needs_reserve(directory) && view.settled(directory, name).read;
    let reserve = view.reserve.clone().filter(|_| is_fit());
    Task::CreateFile(entry, how, reserve)
}

/// Judges a truncate to `length`; one that `is_own` the broker does, or refuses.
pub(crate) fn judge_truncate(
    view: &View,
    target: Target,
    arg: PathArg,
    length: i64,
    is_own: bool,
) -> Result<Task, Lost> {
    if length < 0 {
        return Err(Errno::INVAL.into());
    }
    let path = target.read_path(arg.path)?;
    let object = path::resolve(target, arg.directory, &path, AtFlags::empty())?;
    if !is_own {
        leave(view, target, &object, Kind::Write)?;
        return Ok(Task::Truncate(object, length));
    }
    let name = object.name()?;
    Ok(match is_permitted(view, target, &object, &name, Access::WRITE)? {
        true => Task::Truncate(object, length),
        false => Task::Refuse(Errno::ACCESS, denial(view, &object, name.as_path(), Access::WRITE)),
    })
}

/// Leaves it to Landlock to open an object that is held, to read it alone or for writing, which permits to read it, too,
/// unless that is the broker's to do. Callers leave devices to Landlock.
fn leave(view: &View, target: Target, object: &Object, kind: Kind) -> Result<(), Lost> {
    let leave = |reason| Err(Lost::ToLandlock(reason));
    // What proc(5) holds is about who opens it.
    if object.is_on_proc()? {
        return leave(LandlockReason::Alone);
    }
    if kind == Kind::Write && view.denies_object(object.identity(), Access::WRITE) {
        return leave(LandlockReason::DeniedAnyway);
    }
    // Where Landlock grants the whole tree, it does not matter whether the name still is one: whatever
    // was found, Landlock decides.
    let is_granted = match kind {
        Kind::Read => view.is_granted_to_read(object.path()?),
        Kind::Write => view.is_granted(object.path()?),
    };
    if is_granted {
        return leave(LandlockReason::Granted);
    }
    let name = match object.name()? {
        Name::Nameless(_) => return leave(LandlockReason::Alone),
        // A former name says nothing of an object any more if it has others. If it has none, whatever
        // its name can have been must be permitted.
        Name::Former(_) if !object.is_unlinked() => return Err(Lost::Changed),
        name => name,
    };
    let permitted = match kind {
        Kind::Read => is_permitted(view, target, object, &name, Access::READ)?,
        Kind::Write => name.candidates().all(|name| view.is_writable(name)),
    };
    if permitted { Ok(()) } else { leave(LandlockReason::DeniedAnyway) }
}

/// Where tmpfile(3) has its files, whatever TMPDIR says.
const TEMPORARY: &str = "/tmp";

/// Whether a file is asked for that never gets a name.
pub(crate) fn is_unnamed(call: &FileCall) -> bool {
    let unnamed = OFlags::TMPFILE | OFlags::EXCL;
    matches!(call, FileCall::Open(_, how) if how.flags.contains(unnamed))
}

/// Where tmpfile(3) wants such a file and none may be made, it is one of the private TMPDIR. The path is known by its text
/// alone: wherever it leads, the target gets nothing else.
///
/// # Errors
/// Returns none where that is not so.
pub(crate) fn judge_unnamed(
    view: &View,
    target: Target,
    call: &FileCall,
) -> Result<Task, Option<Errno>> {
    let own = view.temporary.as_ref().filter(|own| view.is_granted(own)).ok_or(None)?;
    let FileCall::Open(PathArg { path, .. }, how) = *call else { return Err(None) };
    let is_meant = target.read_path(path)? == TEMPORARY.as_bytes()
        && !view.may_change(Path::new(TEMPORARY), UNNAMED.as_ref());
    how.check()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = is_meant.then(|| fs::open(own, flags, Mode::empty())).ok_or(None)?;
    Ok(Task::Open(Object::of(own?)?, FileType::Directory, how))
}

/// As the name of a file without one: no rule singles it out but one that denies all names.
const UNNAMED: &str = "#";

/// Judges an open that Landlock does not decide about: the broker opens what it may. What proc(5) tells of processes for
/// which `is_inside` says no is as if it were not there where all that is read is the broker's to open, as with `hidepid`:
/// programs that list processes pass over those.
pub(crate) fn judge_own_open(
    view: &View,
    target: Target,
    is_inside: impl Fn(i32) -> bool,
    arg: PathArg,
    how: OpenHow,
) -> Result<Task, Lost> {
    how.check()?;
    // The kernel puts no such descriptor into another process (seccomp_unotify(2)), and the flags are
    // in memory: those of open(2) and openat(2) the filter knows, and lets through.
    if how.flags.contains(OFlags::PATH) {
        return Err(Errno::NOSYS.into());
    }
    let object = match open::resolve(target, arg, &how, NOTHING)? {
        Destination::Object(object) => object,
        Destination::New(entry) if makes_git_link(view, &entry, &how) => {
            return Ok(Task::MakeGitLink(entry, how));
        }
        Destination::New(entry)
            if view.may_change(entry.directory(), entry.name())
                && view.grants_or_brokers(entry.directory()) =>
        {
            return Ok(create(view, entry, how));
        }
        Destination::New(entry) => return Ok(refuse_write(&entry.path())),
    };
    let object = match is_controlling_terminal(&object) {
        true => own_terminal(target)?,
        false => object,
    };
    let kind = object.kind();
    let name = object.name()?;
    if view.grants.reads == Reads::More
        && object.is_on_proc()?
        && is_hidden(target, name.as_path(), is_inside)
    {
        return Err(Errno::NOENT.into());
    }
    if how.flags.contains(OFlags::TMPFILE) {
        return Ok(match view.may_change(name.as_path(), UNNAMED.as_ref()) {
            true => Task::Open(object, kind, how),
            false => refuse_write(name.as_path()),
        });
    }
    let wanted = Access {
        read: how.flags & OFlags::RWMODE != OFlags::WRONLY,
        write: changes(how.flags) && kind != FileType::Directory,
    };
    if is_permitted(view, target, &object, &name, wanted)? {
        // Only a FIFO with a name makes its ends wait for each other.
        let kind = if matches!(name, Name::Nameless(_)) { FileType::Unknown } else { kind };
        return Ok(Task::Open(object, kind, how));
    }
    Ok(Task::Refuse(Errno::ACCESS, denial(view, &object, name.as_path(), wanted)))
}

fn is_permitted(
    view: &View,
    target: Target,
    object: &Object,
    name: &Name,
    wanted: Access,
) -> io::Result<bool> {
    if view.is_always_usable(object.identity(), wanted) {
        return Ok(true);
    }
    if view.denies_object(object.identity(), wanted) {
        return Ok(false);
    }
    // Only a descriptor that the target holds, or its own process, leads there.
    if matches!(name, Name::Nameless(_)) {
        return Ok(!wanted.write || view.shared_input != Some(object.identity()));
    }
    let path = name.as_path();
    match object.kind() {
        FileType::CharacterDevice | FileType::BlockDevice => {
            return Ok(
                view.is_named_device(path, wanted) || terminals::is_of_sandbox(target, object)
            );
        }
        _ if object.is_on_proc()? => {
            let writes = !wanted.write || names_thread(target, path);
            return Ok(writes && view.rules.access(path).read && may_see(target, path));
        }
        _ => {}
    }
    Ok(name.candidates().all(|path| {
        path.is_absolute()
            && (!wanted.read
                || view.is_readable(path)
                || view.is_listable(path, object)
                || view.is_replacement(path, object))
            && (!wanted.write || view.is_writable(path) && view.grants_or_brokers(path))
    }))
}

/// What is to be reported, if it is the rules that refuse.
fn denial(view: &View, object: &Object, name: &Path, wanted: Access) -> Option<Denial> {
    let by_identity = view.denies_object(object.identity(), Access { read: false, ..wanted });
    let write = wanted.write && (by_identity || !view.is_writable(name));
    let operation = look::worth_reporting(object, Access { write, ..wanted })?;
    Some(Denial::file(operation, name))
}

/// Whether `name`, which is held, is of a process outside. The object is one process's, whatever has its number later;
/// of one that has ended, nothing is told.
pub(super) fn is_hidden(target: Target, name: &Path, is_inside: impl Fn(i32) -> bool) -> bool {
    proc::owner(name).is_some_and(|process| !target.has_thread(process) && !is_inside(process))
}

/// Whether the target may see the file `name` of proc(5). Of other processes inside it may see what everyone may, and
/// what the kernel asks for no more about than whose the reader is (PTRACE_MODE_READ in ptrace(2)). Of what only a
/// tracer may have, as memory, it would ask whether the broker may, of which all descend, not whether the target may.
pub(super) fn may_see(target: Target, name: &Path) -> bool {
    const SHOWN: [&str; 12] = [
        "auxv", "cgroup", "cmdline", "comm", "environ", "limits", "loginuid", "maps", "smaps",
        "stat", "statm", "status",
    ];
    let Ok(inside) = name.strip_prefix("/proc") else { return false };
    match proc::owner(name) {
        None => true,
        Some(process) if target.has_thread(process) => true,
        Some(_) => {
            let names: Vec<_> = inside.iter().skip(1).map(OsStr::to_str).collect();
            match names[..] {
                [] | [Some("task")] | [Some("task"), _] => true,
                [Some(file)] | [Some("task"), _, Some(file)] => SHOWN.contains(&file),
                _ => false,
            }
        }
    }
}

/// Whether `name` of proc(5) is that of a thread of the target's own process. The kernel lets no other process write to it,
/// whoever has it open (comm_write in fs/proc/base.c).
pub(super) fn names_thread(target: Target, name: &Path) -> bool {
    name.ends_with("comm") && proc::owner(name).is_some_and(|owner| target.has_thread(owner))
}

/// Whether `object` is /dev/tty, which is another terminal for each session (tty(4)).
fn is_controlling_terminal(object: &Object) -> bool {
    object.kind() == FileType::CharacterDevice && object.device() == fs::makedev(5, 0)
}

/// The controlling terminal of the target, by a path that leads the broker there too.
fn own_terminal(target: Target) -> io::Result<Object> {
    // A number of 0 is a session from outside this PID namespace (getsid(2)). There can only be the
    // one that the broker and so the target were born in, and rustix knows no such number.
    let session = |pid: i32| getsid(Some(Pid::from_raw(pid)));
    let path = match session(target.thread().as_raw_pid()) == session(0) {
        true => "/dev/tty".to_owned(),
        false => match target.terminal()? {
            (136..=143, minor) => format!("/dev/pts/{minor}"),
            _ => return Err(Errno::NXIO),
        },
    };
    let barred = ResolveFlags::NO_MAGICLINKS;
    walk::hold_by_kernel(fs::CWD, path.as_bytes(), false, barred).and_then(Object::of)
}
