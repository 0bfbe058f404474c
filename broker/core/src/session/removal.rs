//! Removes a directory tree, whatever the command made of it: deep, closed, wide, full of links.
//!
//! It goes down by openat(2) and up by "..", so that depth costs neither stack nor descriptors (two
//! are held at a time). It follows no symbolic link and stays on one device.

use kernel::identity::{self, Identity};
use kernel::self_proc::own_link;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::{self, Errno};
use std::ffi::CString;

/// A directory that is being emptied.
struct Level {
    identity: Identity,
    /// Its name in the one above.
    name: CString,
    /// The directories in it that are still to be removed.
    directories: Vec<CString>,
}

/// Removes what is in `top`, but not `top` itself, and takes each entry off `left`.
///
/// # Errors
/// Returns the first error; what can be removed in spite of it is removed. E2BIG if nothing was `left`
/// before the end.
pub(crate) fn empty(top: BorrowedFd<'_>, left: &mut usize) -> io::Result<()> {
    fs::fchmod(top, Mode::RWXU)?;
    let device = fs::fstat(top)?.st_dev;
    let mut removal = Removal { device, left, result: Ok(()) };
    let mut directory = enter(top, c".", device)?;
    let mut level = removal.clear(&directory, CString::default())?;
    let mut above: Vec<Level> = Vec::new();
    loop {
        if let Some(name) = level.directories.pop() {
            match removal.descend(&directory, name) {
                Ok((next, inner)) => {
                    above.push(std::mem::replace(&mut level, inner));
                    directory = next;
                }
                Err(errno @ Errno::TOOBIG) => return Err(errno),
                Err(errno) => removal.note(errno),
            }
            continue;
        }
        let Some(parent) = above.pop() else { return removal.result };
        directory = fs::openat(&directory, c"..", TO_PASS, Mode::empty())?;
        if identity(&directory)? != parent.identity {
            // Somebody moved it: ".." is no directory of ours.
            return Err(Errno::STALE);
        }
        if let Err(errno) = fs::unlinkat(&directory, &level.name, AtFlags::REMOVEDIR) {
            removal.note(errno);
        }
        level = parent;
    }
}

struct Removal<'a> {
    device: u64,
    left: &'a mut usize,
    result: io::Result<()>,
}

impl Removal<'_> {
    fn note(&mut self, errno: Errno) {
        self.result = self.result.and(Err(errno));
    }

    fn descend(&mut self, parent: &OwnedFd, name: CString) -> io::Result<(OwnedFd, Level)> {
        let directory = enter(parent.as_fd(), &name, self.device)?;
        let level = self.clear(&directory, name)?;
        Ok((directory, level))
    }

    /// Removes what is no directory; returns the rest.
    fn clear(&mut self, directory: &OwnedFd, name: CString) -> io::Result<Level> {
        let mut level = Level { identity: identity(directory)?, name, directories: Vec::new() };
        // Read to the end first: a file system may skip entries when others are removed meanwhile.
        let mut others = Vec::new();
        let mut exhausted = false;
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(fs::openat(directory, c".", readable, Mode::empty())?)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if *self.left == 0 {
                exhausted = true;
                break;
            }
            *self.left -= 1;
            let is_directory = entry.file_type() == FileType::Directory;
            let list = if is_directory { &mut level.directories } else { &mut others };
            list.push(name.to_owned());
        }
        for name in others {
            match fs::unlinkat(directory, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                // The file system does not say what is a directory.
                Err(Errno::ISDIR) => level.directories.push(name),
                Err(errno) => self.note(errno),
            }
        }
        if exhausted { Err(Errno::TOOBIG) } else { Ok(level) }
    }
}

/// To pass through and to name what is inside, not to read.
const TO_PASS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Holds a directory on `device` and gives its owner back the rights that removing needs (Go's
/// module cache is read-only, for instance).
fn enter(parent: BorrowedFd<'_>, name: &std::ffi::CStr, device: u64) -> io::Result<OwnedFd> {
    let directory = fs::openat(parent, name, TO_PASS, Mode::empty())?;
    let stat = fs::fstat(&directory)?;
    if stat.st_dev != device {
        return Err(Errno::XDEV);
    }
    if !Mode::from_raw_mode(stat.st_mode).contains(Mode::RWXU) {
        // By the object that is held: chmod(2) of the name could follow a link.
        fs::chmod(own_link(&directory), Mode::RWXU)?;
    }
    Ok(directory)
}

pub(crate) fn identity(object: impl AsFd) -> io::Result<Identity> {
    Ok(identity::identity(&fs::fstat(object)?))
}
