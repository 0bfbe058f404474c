//! Opens that Landlock does not grant: made by the broker, for a target with the same rights.
//!
//! What exists is held first (O_PATH), judged by its name, and then opened as the object it is. What
//! does not exist is created with O_EXCL, so that what another thread puts there first is looked at
//! too. The descriptor is the broker's, and carries no restriction of the target's: what is opened
//! must be judged for all that the flags allow. Sources: open(2), openat2(2).

use super::entry::{Entry, masked};
use super::object::Object;
use super::path;
use crate::decide::call::{OpenHow, Spot};
use crate::notify::target::Target;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Most symbolic links in a path (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// What an open leads to.
#[derive(Debug)]
pub(crate) enum Goal {
    /// An object that is there.
    Object(Object),
    /// An entry that is to be made.
    New(Entry),
}

/// Follows the path of an open as the kernel does.
///
/// # Errors
/// Returns what the kernel returns for such a path.
pub(crate) fn resolve(target: Target, spot: Spot, how: &OpenHow) -> io::Result<Goal> {
    let path = target.read_path(spot.path)?;
    if !how.resolve.is_empty() {
        return resolve_within(target, spot, &path, how);
    }
    let base = path::base(target, spot.directory, &path)?;
    resolve_from(target, base.as_ref().map(AsFd::as_fd), &path, how.flags)
}

/// The same from a directory that is held already; none is needed for an absolute path.
///
/// # Errors
/// As [`resolve`].
pub(crate) fn resolve_from(
    target: Target,
    base: Option<BorrowedFd<'_>>,
    path: &[u8],
    flags: OFlags,
) -> io::Result<Goal> {
    let creates = flags.contains(OFlags::CREATE);
    let exclusive = creates && flags.contains(OFlags::EXCL);
    let follow = !exclusive && !flags.contains(OFlags::NOFOLLOW);
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    if !creates || path::split(path).is_none() {
        return path::resolve_from(target, base, path, follow).map(Goal::Object);
    }
    let mut entry = Entry::resolve_from(target, base, path)?;
    for _ in 0..LINKS_MAX {
        let object = match entry.hold() {
            Err(Errno::NOENT) => return Ok(Goal::New(entry)),
            found => found?,
        };
        if object.kind() != FileType::Symlink || !follow {
            return Ok(Goal::Object(object));
        }
        // It may lead nowhere: what it names is made then.
        let text = fs::readlinkat(&object, c"", Vec::new())?.into_bytes();
        let base = (!text.starts_with(b"/")).then(|| entry.parent().as_fd());
        if path::split(&text).is_none() || object.is_on_proc()? {
            return path::resolve_from(target, Some(entry.parent().as_fd()), entry.last(), true)
                .map(Goal::Object);
        }
        entry = Entry::resolve_from(target, base, &text)?;
    }
    Err(Errno::LOOP)
}

/// With RESOLVE_ flags the path is the kernel's to follow. A symbolic link that leads nowhere is not
/// followed to where a file could be made.
fn resolve_within(target: Target, spot: Spot, path: &[u8], how: &OpenHow) -> io::Result<Goal> {
    let base = target.directory(spot.directory)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = how.resolve | ResolveFlags::NO_MAGICLINKS;
    let exclusive = how.flags.contains(OFlags::CREATE | OFlags::EXCL);
    let nofollow = if exclusive { OFlags::NOFOLLOW } else { how.flags & OFlags::NOFOLLOW };
    match fs::openat2(&base, path, flags | nofollow, Mode::empty(), resolve) {
        Err(Errno::NOENT) if how.flags.contains(OFlags::CREATE) => {
            let (above, _) = path::split(path).ok_or(Errno::NOENT)?;
            let last = path[above.len()..].to_vec();
            let above = if above.is_empty() { b"." } else { above };
            let parent =
                fs::openat2(&base, above, flags | OFlags::DIRECTORY, Mode::empty(), resolve)?;
            let entry = Entry::of(Object::of(parent)?, last)?;
            match entry.hold() {
                Err(Errno::NOENT) => Ok(Goal::New(entry)),
                _ => Err(Errno::ACCESS),
            }
        }
        found => {
            let object = Object::of(found?)?;
            // The broker's own, perhaps.
            if object.is_on_proc()? { Err(Errno::ACCESS) } else { Ok(Goal::Object(object)) }
        }
    }
}

/// What the broker adds: neither its own children nor its terminal are concerned.
const OURS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY);

/// Opens an object that is held.
///
/// # Errors
/// Returns what open(2) returns.
pub(crate) fn open(object: &Object, how: &OpenHow, umask: Mode) -> io::Result<OwnedFd> {
    if how.flags.contains(OFlags::CREATE | OFlags::EXCL) {
        return Err(Errno::EXIST);
    }
    let mode = match how.flags.contains(OFlags::TMPFILE) {
        true => masked(object, how.mode, umask),
        false => Mode::empty(),
    };
    // O_NOFOLLOW was heeded on the way here, and would refuse the magic link. A symbolic link that
    // was not followed cannot be opened through it either (ELOOP).
    let flags = how.flags - (OFlags::CREATE | OFlags::NOFOLLOW);
    object.open(flags | OURS, mode)
}

/// Opens a FIFO, which waits for its other end. It is given up when `is_waited_for` no longer holds.
///
/// # Errors
/// Returns what open(2) returns; [`Errno::INTR`] when it was given up; [`Errno::AGAIN`] if too many wait.
pub(crate) fn open_fifo(
    object: Object,
    how: OpenHow,
    is_waited_for: impl Fn() -> bool,
) -> io::Result<OwnedFd> {
    const PATIENCE: Duration = Duration::from_millis(50);
    /// Most threads that wait for the other end of a FIFO; those that were given up among them.
    const OPENERS_MAX: usize = 256;
    static OPENERS: AtomicUsize = AtomicUsize::new(0);
    let link = object.link();
    if OPENERS.fetch_add(1, Ordering::SeqCst) >= OPENERS_MAX {
        OPENERS.fetch_sub(1, Ordering::SeqCst);
        return Err(Errno::AGAIN);
    }
    let (sender, opened) = mpsc::channel();
    let opener = move || {
        // Nobody listens to one that was given up.
        let _ = sender.send(open(&object, &how, Mode::empty()));
        OPENERS.fetch_sub(1, Ordering::SeqCst);
    };
    if std::thread::Builder::new().stack_size(64 * 1024).spawn(opener).is_err() {
        OPENERS.fetch_sub(1, Ordering::SeqCst);
        return Err(Errno::AGAIN);
    }
    loop {
        match opened.recv_timeout(PATIENCE) {
            Ok(result) => return result,
            Err(_) if is_waited_for() => {}
            Err(_) => {
                // The missing end for a moment, if it may be opened, lets the thread end.
                let other = match how.flags & OFlags::RWMODE {
                    OFlags::RDONLY => OFlags::WRONLY,
                    _ => OFlags::RDONLY,
                };
                let other = other | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let _end = fs::open(link, other, Mode::empty());
                let _ = opened.recv_timeout(PATIENCE);
                return Err(Errno::INTR);
            }
        }
    }
}

/// Creates and opens an entry.
///
/// # Errors
/// Returns what open(2) with O_EXCL returns.
pub(crate) fn create(entry: &Entry, how: &OpenHow, umask: Mode) -> io::Result<OwnedFd> {
    let flags = how.flags | OFlags::EXCL | OURS;
    fs::openat(entry.parent(), entry.last(), flags, entry.mode(how.mode, umask))
}
