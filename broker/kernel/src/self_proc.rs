//! The broker's own descriptors: the names by which its system calls reach what they refer to (proc_pid_fd(5)).

use super::threads::once;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The path of what a descriptor refers to, as the kernel writes it.
pub fn path_of(descriptor: impl AsFd) -> io::Result<PathBuf> {
    let (directory, number) = place(descriptor)?;
    let path = fs::readlinkat(directory, number, Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

/// A descriptor as an entry of a directory that is held: spares the way there.
pub(super) fn place(descriptor: impl AsFd) -> io::Result<(BorrowedFd<'static>, String)> {
    Ok((own_descriptors()?, descriptor.as_fd().as_raw_fd().to_string()))
}

/// The magic link by which the broker names what a descriptor of its own refers to. By number, which
/// spares the kernel the way over the link `self`.
pub fn own_link(descriptor: &OwnedFd) -> String {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    let process = PROCESS.get_or_init(std::process::id);
    format!("/proc/{process}/fd/{}", descriptor.as_raw_fd())
}

/// The directory of the broker's descriptors, which its threads share.
fn own_descriptors() -> io::Result<BorrowedFd<'static>> {
    static DIRECTORY: OnceLock<OwnedFd> = OnceLock::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    once(&DIRECTORY, || fs::open("/proc/self/fd", flags, Mode::empty())).map(AsFd::as_fd)
}
