//! Directories that are held, and what is in them.

use super::fold;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{self, Dir, FileType, Mode, OFlags};
use rustix::io;
use std::ffi::CStr;

/// Whether it is a directory.
pub(super) fn is_directory_now(object: BorrowedFd<'_>) -> bool {
    fs::fstat(object).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Holds what is called `name`, which may be a symbolic link.
pub(super) fn open(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    fs::openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a directory that is held to be listed.
pub(super) fn list(directory: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat(directory, c".", flags, Mode::empty())
}

/// What is in a directory.
pub(super) struct Listed {
    /// Without `.` and `..`.
    pub(super) entries: Vec<(Vec<u8>, FileType)>,
    /// It is flagged as one that ignores case.
    pub(super) is_folded: bool,
}

/// Lists a directory that is held.
pub(super) fn look_through(directory: &OwnedFd) -> io::Result<Listed> {
    let listed = list(directory)?;
    let is_folded = fold::is_flagged(&listed);
    let mut entries = Vec::new();
    for entry in Dir::new(listed)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            entries.push((name.to_vec(), entry.file_type()));
        }
    }
    Ok(Listed { entries, is_folded })
}
