//! Opens that Landlock does not grant: made by the broker, for a target with the same rights.
//!
//! What exists is held first (O_PATH), judged by its name, and then opened as the object it is. What
//! does not exist is created with O_EXCL, so that what another thread puts there first is looked at
//! too. The descriptor is the broker's, and carries no restriction of the target's: what is opened
//! must be judged for all that the flags allow. Source: open(2).

use super::entry::{Entry, masked};
use super::interruptible::wait_for;
use super::path::{self, Base, IsGranted, NOTHING};
use super::reserve::{Need, Reserve};
use super::walk::Lost;
use crate::call::decode::PathArg;
use crate::call::how::OpenHow;
use kernel::locate::LINKS_MAX;
use kernel::object::Object;
use kernel::request::Confirmed;
use kernel::target::Target;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::path::Path;

/// What an open leads to.
#[derive(Debug)]
pub enum Destination {
    /// An object that is there.
    Object(Object),
    /// An entry that is to be made.
    New(Entry),
}

/// Follows the path of an open as the kernel does, unless what is opened, or the directory in which it would be made,
/// `is_granted`.
pub(crate) fn resolve(
    target: Target,
    arg: PathArg,
    how: &OpenHow,
    is_granted: IsGranted<'_>,
) -> Result<Destination, Lost> {
    let path = target.read_path(arg.path)?;
    let base = Base::of(target, arg.directory, &path)?;
    resolve_from(target, &base, &path, how.flags, is_granted)
}

/// The same from where the path starts.
pub(crate) fn resolve_from(
    target: Target,
    base: &Base<'_>,
    path: &[u8],
    flags: OFlags,
    is_granted: IsGranted<'_>,
) -> Result<Destination, Lost> {
    let creates = flags.contains(OFlags::CREATE);
    let exclusive = creates && flags.contains(OFlags::EXCL);
    let follow = !exclusive && !flags.contains(OFlags::NOFOLLOW);
    if path.is_empty() {
        return Err(Errno::NOENT.into());
    }
    let Some((_, name)) = path::split(path).filter(|_| creates) else {
        let found = path::resolve_from(target, base, path, follow, is_granted);
        return found.map(Destination::Object);
    };
    // A symbolic link can lead to where it is not.
    let is_granted = |parent: BorrowedFd<'_>, directory: &Path| {
        is_granted(parent, directory) && (!follow || !may_be_link(parent, name))
    };
    let mut entry = Entry::resolve_from(target, base, path, &is_granted)?;
    for _ in 0..LINKS_MAX {
        let found = entry.hold();
        // Before it is looked up (open(2), O_CREAT).
        if entry.last().ends_with(b"/") {
            let refused = found.err().filter(|&errno| errno == Errno::ACCESS);
            return Err(refused.unwrap_or(Errno::ISDIR).into());
        }
        let object = match found {
            Err(Errno::NOENT) => return Ok(Destination::New(entry)),
            found => found?,
        };
        if object.kind() != FileType::Symlink || !follow {
            return Ok(Destination::Object(object));
        }
        // It may lead nowhere: what it names is made then.
        let text = fs::readlinkat(&object, c"", Vec::new())?.into_bytes();
        let base = (!text.starts_with(b"/")).then(|| entry.parent().as_fd());
        if path::split(&text).is_none() || object.is_on_proc()? {
            let base = Base::Borrowed(entry.parent().as_fd());
            let found = path::resolve_from(target, &base, entry.last(), true, NOTHING);
            return found.map(Destination::Object);
        }
        entry = Entry::resolve_from(target, &base.into(), &text, NOTHING)?;
    }
    Err(Errno::LOOP.into())
}

fn may_be_link(directory: BorrowedFd<'_>, name: &OsStr) -> bool {
    let mut text = [MaybeUninit::uninit()];
    let text = fs::readlinkat_raw(directory, name, &mut text);
    !matches!(text, Err(Errno::INVAL | Errno::NOENT))
}

/// What the broker adds: neither its own children nor its terminal are concerned.
const OURS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY);

/// Opens an object that is held, of this kind. A FIFO waits for its other end (fifo(7)), until the target is gone, or has
/// a signal to handle. The other end is never opened to let the open end, which whoever waits for that would notice.
///
/// # Errors
/// Returns what open(2) returns, and as [`wait_for`].
pub(crate) fn open(
    by: Confirmed<'_>,
    object: Object,
    kind: FileType,
    how: OpenHow,
    umask: Mode,
) -> io::Result<OwnedFd> {
    let ends = how.flags & OFlags::RWMODE != OFlags::RDWR && !how.flags.contains(OFlags::NONBLOCK);
    match kind == FileType::Fifo && ends {
        true => wait_for(by, move || open_held(&object, &how, umask)),
        false => open_held(&object, &how, umask),
    }
}

fn open_held(object: &Object, how: &OpenHow, umask: Mode) -> io::Result<OwnedFd> {
    if how.flags.contains(OFlags::CREATE | OFlags::EXCL) {
        return Err(Errno::EXIST);
    }
    if how.flags.contains(OFlags::CREATE) && object.kind() == FileType::Directory {
        return Err(Errno::ISDIR);
    }
    let mode = match how.flags.contains(OFlags::TMPFILE) {
        true => masked(object, how.mode, umask),
        false => Mode::empty(),
    };
    let flags = (how.flags - OFlags::CREATE) | OURS;
    if flags.contains(OFlags::NOFOLLOW) {
        // The open file says for good that it was asked for (fcntl(2), F_GETFL).
        if let Ok(directory) = fs::openat(object, c".", flags, mode) {
            return Ok(directory);
        }
    }
    // It was heeded on the way here, and would refuse the magic link: a file is opened without. By
    // its name, with O_NOFOLLOW, it could be another one by now. A symbolic link that was not
    // followed cannot be opened through the magic link either (ELOOP).
    object.open(flags - OFlags::NOFOLLOW, mode)
}

/// Opens a regular file that is held without heeding O_TRUNC; the second descriptor is for that.
pub(crate) fn open_untruncated(
    _: Confirmed<'_>,
    object: &Object,
    how: &OpenHow,
) -> io::Result<(OwnedFd, OwnedFd)> {
    let writer = object.open(OFlags::WRONLY | OURS, Mode::empty())?;
    let how = OpenHow { flags: how.flags - OFlags::TRUNC, ..*how };
    Ok((open_held(object, &how, Mode::empty())?, writer))
}

/// Creates and opens an entry: a file of the reserve, if one can take its place.
pub(crate) fn create(
    by: Confirmed<'_>,
    entry: &Entry,
    how: &OpenHow,
    umask: Mode,
    reserve: Option<&Reserve>,
) -> io::Result<OwnedFd> {
    let mode = entry.mode(how.mode, umask);
    let flags = (how.flags - (OFlags::CREATE | OFlags::EXCL)) | OURS;
    let placed = reserve.and_then(|reserve| reserve.make(by, entry, (mode, flags), Need::File));
    let create = || fs::openat(entry.parent(), entry.last(), how.flags | OFlags::EXCL | OURS, mode);
    placed.map_or_else(create, Ok)
}

/// Creates an entry with `text` in it, which the target cannot change: what it writes to the descriptor is lost.
pub(crate) fn create_with(
    by: Confirmed<'_>,
    entry: &Entry,
    how: &OpenHow,
    umask: Mode,
    text: &[u8],
) -> io::Result<OwnedFd> {
    let lost = fs::open(c"/dev/null", OFlags::WRONLY | OURS, Mode::empty())?;
    io::write(create(by, entry, how, umask, None)?, text)?;
    Ok(lost)
}
