//! Opens: what is the broker's to open, and what it refuses.
//!
//! Where something may not be read inside a place in which the command may make files, Landlock lets
//! all of that place be read: what is made there must be readable and executable, execve(2) needs the
//! right to read, and no rule can be added later. There the broker is the only judge of reads, so that
//! every open that can read is its own: none is let through.
//!
//! A descriptor that the broker opened carries no restriction of the target's, and some files answer
//! according to who opens them. So devices are opened only if they are usable always, and of proc(5)
//! what is the target's own or says nothing that another process keeps to itself.

use crate::call::decode::{FileCall, Spot, writes};
use crate::call::how::OpenHow;
use crate::files::changes::{Task, is_content_ours, is_ours, refuse_write};
use crate::files::observe;
use crate::files::open::{self, Goal};
use crate::files::path;
use crate::files::view::View;
use crate::kernel::object::{Name, Object};
use crate::kernel::target::Target;
use crate::report::denials::Denial;
use crate::rules::paths::Access;
use nix::unistd::{Pid, getsid};
use rustix::fs::{self, FileType, OFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the flags come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Registers, which nothing can change while the target waits.
    Registers,
    /// Memory, which was copied.
    Memory,
}

/// Whether the call can open something for reading, as far as registers say.
pub(crate) fn may_read(call: &FileCall) -> bool {
    match call {
        FileCall::Open(_, how) => how.flags & OFlags::RWMODE != OFlags::WRONLY,
        FileCall::OpenBy(..) => true,
        _ => false,
    }
}

/// Copies a `struct open_how` (openat2(2)).
///
/// # Errors
/// Returns what the kernel returns for one that it does not know.
pub(crate) fn copy_how(target: Target, address: u64, size: u64) -> io::Result<OpenHow> {
    const SIZE: usize = 24;
    const SIZE_MAX: u64 = 4096;
    if size > SIZE_MAX {
        return Err(Errno::TOOBIG);
    }
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| Errno::TOOBIG)?];
    if bytes.len() < SIZE {
        return Err(Errno::INVAL);
    }
    target.read(address, &mut bytes)?;
    if bytes[SIZE..].iter().any(|&byte| byte != 0) {
        return Err(Errno::TOOBIG);
    }
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    OpenHow::of_words(word(0), word(8), word(16))
}

/// Follows the path and decides. `None` leaves it to Landlock.
///
/// # Errors
/// Returns what the kernel returns for such a path.
pub(crate) fn prepare(
    view: &View,
    target: Target,
    spot: Spot,
    how: OpenHow,
    source: Source,
) -> io::Result<Option<Task>> {
    how.check()?;
    if view.grants.brokers_reads {
        prepare_any(view, target, spot, how, source)
    } else if writes(how.flags) && !how.flags.contains(OFlags::PATH) {
        prepare_write(view, target, spot, how)
    } else {
        Ok(None)
    }
}

/// Where Landlock judges reads, and writes to what was there at launch.
fn prepare_write(
    view: &View,
    target: Target,
    spot: Spot,
    how: OpenHow,
) -> io::Result<Option<Task>> {
    match open::resolve(target, spot, &how)? {
        Goal::New(entry) => Ok(is_ours(view, &entry).then_some(Task::CreateFile(entry, how))),
        Goal::Object(object) => {
            let ours = match object.kind() {
                // It has no name yet; a link gives it one, and is judged then.
                FileType::Directory if how.flags.contains(OFlags::TMPFILE) => {
                    view.brokers_entry(&object.path()?, UNNAMED.as_ref())
                }
                // Landlock also restricts what may be asked of a device once it is open.
                FileType::Directory | FileType::CharacterDevice | FileType::BlockDevice => false,
                _ => is_content_ours(view, &object)?,
            };
            let kind = object.kind();
            Ok(ours.then_some(Task::Open(object, kind, how)))
        }
    }
}

/// As the name of a file without one: no rule singles it out but one that denies all names.
const UNNAMED: &str = "#";

/// Where the broker judges reads.
fn prepare_any(
    view: &View,
    target: Target,
    spot: Spot,
    how: OpenHow,
    source: Source,
) -> io::Result<Option<Task>> {
    // What is opened for writing only, by flags that nothing can change, gives no right to read.
    let by_landlock =
        matches!(source, Source::Registers) && how.flags & OFlags::RWMODE == OFlags::WRONLY;
    if by_landlock {
        return prepare_write(view, target, spot, how);
    }
    // The kernel puts no such descriptor into another process (seccomp_unotify(2)), and the flags are
    // in memory: those of open(2) and openat(2) the filter knows, and lets through.
    if how.flags.contains(OFlags::PATH) {
        return Err(Errno::NOSYS);
    }
    let object = match open::resolve(target, spot, &how)? {
        Goal::Object(object) => object,
        Goal::New(entry) if view.may_change(entry.directory(), entry.name()) => {
            return Ok(Some(Task::CreateFile(entry, how)));
        }
        Goal::New(entry) => return Ok(Some(refuse_write(&entry.path()))),
    };
    let object = match is_controlling_terminal(&object) {
        true => path::walk(None, own_terminal(target)?.as_os_str().as_bytes(), false)?,
        false => object,
    };
    let kind = object.kind();
    let name = object.name()?;
    if how.flags.contains(OFlags::TMPFILE) {
        return Ok(Some(if view.may_change(name.as_path(), UNNAMED.as_ref()) {
            Task::Open(object, kind, how)
        } else {
            refuse_write(name.as_path())
        }));
    }
    let wanted = Access {
        read: how.flags & OFlags::RWMODE != OFlags::WRONLY,
        write: writes(how.flags) && kind != FileType::Directory,
    };
    if is_permitted(view, target, &object, &name, wanted)? {
        // Only a FIFO with a name makes its ends wait for each other.
        let kind = if matches!(name, Name::Nameless(_)) { FileType::Unknown } else { kind };
        return Ok(Some(Task::Open(object, kind, how)));
    }
    Ok(Some(Task::Refuse(Errno::ACCESS, denial(view, &object, name.as_path(), wanted))))
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
        return Ok(true);
    }
    let path = name.as_path();
    match object.kind() {
        FileType::CharacterDevice => return Ok(path.starts_with("/dev/pts")),
        FileType::BlockDevice => return Ok(false),
        _ if object.is_on_proc()? => {
            return Ok(!wanted.write && view.rules.access(path).read && may_see(target, path));
        }
        _ => {}
    }
    Ok(name.candidates().all(|path| {
        path.is_absolute()
            && (!wanted.read || view.is_readable(path) || view.is_listable(path, object))
            && (!wanted.write || view.is_writable(path))
    }))
}

/// What is to be reported, if it is the rules that refuse.
fn denial(view: &View, object: &Object, name: &Path, wanted: Access) -> Option<Denial> {
    let by_identity = view.denies_object(object.identity(), Access { read: false, ..wanted });
    let write = wanted.write && (by_identity || !view.is_writable(name));
    let operation = observe::worth_reporting(object, Access { write, ..wanted })?;
    Some(Denial::file(operation, name))
}

/// Whether the target may see the file `name` of proc(5). Of other processes it may see what everyone
/// may: the kernel would ask whether the broker may see more, not whether the target may.
fn may_see(target: Target, name: &Path) -> bool {
    const PUBLIC: [&str; 7] = ["cgroup", "cmdline", "comm", "loginuid", "stat", "statm", "status"];
    let Ok(inside) = name.strip_prefix("/proc") else { return false };
    match path::proc_owner(name) {
        None => true,
        Some(process) if target.has_thread(process) => true,
        Some(_) => {
            let file = inside.iter().next_back().and_then(OsStr::to_str);
            let depth = inside.iter().count();
            let thread = inside.iter().nth(1) == Some(OsStr::new("task"));
            match depth {
                1 => true,
                2 => thread || file.is_some_and(|file| PUBLIC.contains(&file)),
                3 => thread,
                4 => thread && file.is_some_and(|file| PUBLIC.contains(&file)),
                _ => false,
            }
        }
    }
}

/// Whether `object` is /dev/tty, which is another terminal for each session (tty(4)).
fn is_controlling_terminal(object: &Object) -> bool {
    object.kind() == FileType::CharacterDevice && object.device() == fs::makedev(5, 0)
}

/// The controlling terminal of the target by a path that leads the broker there too.
fn own_terminal(target: Target) -> io::Result<PathBuf> {
    // A number of 0 is a session from outside this PID namespace (getsid(2)). There can only be the
    // one that the broker and so the target were born in, and rustix knows no such number.
    let session = |pid: i32| getsid(Some(Pid::from_raw(pid)));
    if session(target.thread().as_raw_nonzero().get()) == session(0) {
        return Ok("/dev/tty".into());
    }
    match target.terminal()? {
        (136..=143, minor) => Ok(format!("/dev/pts/{minor}").into()),
        _ => Err(Errno::NXIO),
    }
}
