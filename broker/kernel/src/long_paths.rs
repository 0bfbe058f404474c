//! Directories so deep that their path is longer than the kernel writes or takes (PATH_MAX).
//!
//! Such a path is found as getcwd(3) finds it: upward, by the name that each directory has in the one above,
//! until there is one whose path the kernel writes. And it is followed part by part. Between two of the names
//! a directory can be moved by others; the command moves one only to where the same rules hold for all that is in
//! it, so that what is said of the path that comes of it holds for the one before and after.
//! Sources: readlink(2), getcwd(3), path_resolution(7).

use super::identity::{HELD, Identity, identity};
use super::self_proc::path_of;
use super::threads::lock;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Longest path that a system call takes, with the byte that ends it (linux/limits.h).
pub const PATH_MAX: usize = 4096;

/// Most directories and entries that are looked at for one path: some milliseconds' worth.
const LOOKED_AT_MAX: usize = 10_000;

/// Opens what a path of any length leads to, followed as `links` says if that takes one step.
///
/// # Errors
/// Returns what openat2(2) returns; where the path is longer than that takes, also [`Errno::LOOP`] for a
/// symbolic link on the way.
pub fn open(path: &Path, flags: OFlags, mut links: ResolveFlags) -> io::Result<OwnedFd> {
    let mut rest = path.as_os_str().as_bytes();
    let mut above = None;
    while rest.len() >= PATH_MAX {
        let end = rest[..PATH_MAX].iter().rposition(|&byte| byte == b'/').filter(|&end| end > 0);
        let (part, after) = rest.split_at(end.ok_or(Errno::NAMETOOLONG)?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let from = above.as_ref().map_or(fs::CWD, AsFd::as_fd);
        above = Some(fs::openat2(from, part, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?);
        rest = &after[1..];
        links = ResolveFlags::NO_SYMLINKS;
    }
    let from = above.as_ref().map_or(fs::CWD, AsFd::as_fd);
    fs::openat2(from, rest, flags, Mode::empty(), links)
}

/// The object that `path` names now.
pub fn identity_of(path: &Path) -> Option<Identity> {
    let stat = match fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NAMETOOLONG) => open(path, HELD, ResolveFlags::NO_SYMLINKS).and_then(fs::fstat),
        stat => stat,
    };
    stat.ok().as_ref().map(identity)
}

/// The path of a directory that is held, and that the kernel does not write.
///
/// # Errors
/// Returns [`Errno::NOENT`] if it was removed, and [`Errno::NAMETOOLONG`] if its path is not found: where the
/// calling thread may not list what is above, too much is there, or a file system is mounted.
pub(super) fn path_of_directory(directory: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let mut names = Vec::new();
    let mut here = directory.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    let object = identity(&fs::fstat(directory)?);
    let mut left = LOOKED_AT_MAX;
    let top = loop {
        if let Some(path) = known_path(&here)? {
            break path;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = fs::openat(&here, c"..", flags, Mode::empty())?;
        names.push(name_in(&above, &here, &mut left)?);
        here = above;
    };
    let path = names.iter().rev().fold(top, |path, name| path.join(name));
    let mut found = lock(&FOUND);
    found.retain(|(other, _)| *other != object);
    found.truncate(FOUND_MAX - 1);
    found.insert(0, (object, path.clone()));
    Ok(path)
}

/// What was found last: who works there does so again, or right beneath.
static FOUND: Mutex<Vec<(Identity, PathBuf)>> = Mutex::new(Vec::new());
const FOUND_MAX: usize = 16;

/// The path of a directory if the kernel writes it, or the one that was found before if it still leads there.
fn known_path(directory: &OwnedFd) -> io::Result<Option<PathBuf>> {
    match path_of(directory) {
        Err(Errno::NAMETOOLONG) => {}
        path => return path.map(Some),
    }
    let object = identity(&fs::fstat(directory)?);
    let found = lock(&FOUND);
    let before = found.iter().find(|(other, _)| *other == object).map(|(_, path)| path.clone());
    drop(found);
    Ok(before.filter(|path| identity_of(path) == Some(object)))
}

/// The path of what is called `name` in a directory, if that still is the object.
pub(super) fn path_of_entry(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    object: Identity,
) -> io::Result<PathBuf> {
    let path = path_of_directory(directory)?.join(name);
    if is_called(directory, name, object) { Ok(path) } else { Err(Errno::NOENT) }
}

/// The name that the directory `inner` has in the one above it.
fn name_in(above: &OwnedFd, inner: &OwnedFd, left: &mut usize) -> io::Result<OsString> {
    let stat = fs::fstat(inner)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = fs::openat(above, c".", flags, Mode::empty()).map_err(|_| Errno::NAMETOOLONG)?;
    let mut entries = Vec::new();
    for entry in Dir::new(listed)? {
        let entry = entry?;
        *left = left.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            entries.push((entry.ino() != stat.st_ino, name));
        }
    }
    // The one whose number it is first: overlays tell others.
    entries.sort_unstable();
    let mut names = entries.into_iter().map(|(_, name)| name);
    let found = names.find(|name| name != "." && is_called(above.as_fd(), name, identity(&stat)));
    let lost = if stat.st_nlink == 0 { Errno::NOENT } else { Errno::NAMETOOLONG };
    found.ok_or(lost)
}

fn is_called(directory: BorrowedFd<'_>, name: &OsStr, object: Identity) -> bool {
    let stat = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| identity(&stat) == object)
}
