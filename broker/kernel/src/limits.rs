//! How many descriptors a target may still open, and how long it may make a file: prlimit(2),
//! proc_pid_fd(5), proc_pid_limits(5).

#![allow(unsafe_code)] // for prlimit(2) of another process

use super::proc;
use super::target::Target;
use nix::libc;
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::process::{self, Resource};

/// Other threads do not open as many in the moment that an open takes.
const MARGIN: u64 = 64;

/// Whether the target can surely get another descriptor.
pub fn has_room(target: Target) -> bool {
    let thread = target.thread().as_raw_pid();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads no new limit, and writes one structure of this type.
    let asked =
        unsafe { libc::prlimit(thread, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) };
    // The size of the directory is the number of open descriptors (Linux 6.2).
    let directory = format!("/proc/{thread}/fd");
    let open = match fs::stat(&directory).map(|stat| stat.st_size.unsigned_abs()) {
        Ok(0) => std::fs::read_dir(&directory).map(|entries| entries.count() as u64).ok(),
        open => open.ok(),
    };
    asked == 0 && open.is_some_and(|open| open.saturating_add(MARGIN) <= limit.rlim_cur)
}

/// How long the target may make a file (RLIMIT_FSIZE), whoever it is.
///
/// # Errors
/// Returns what reading proc(5) returns; [`Errno::IO`] if the kernel does not tell.
pub fn file_size(target: Target) -> io::Result<u64> {
    of(target, "Max file size").map(|[soft, _]| soft)
}

/// RLIMIT_LOCKS of the target, soft and hard.
pub(super) fn locks(target: Target) -> io::Result<[u64; 2]> {
    of(target, "Max file locks")
}

/// The hard RLIMIT_LOCKS that the command started with.
pub(super) fn own_locks() -> u64 {
    process::getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX)
}

/// The soft and the hard limit in the line that begins with `name`.
fn of(target: Target, name: &str) -> io::Result<[u64; 2]> {
    let text = proc::read(&format!("/proc/{}/limits", target.thread().as_raw_nonzero()))?;
    let mut words = proc::field(&text, name).ok_or(Errno::IO)?.split_ascii_whitespace();
    let mut next = || match words.next() {
        Some("unlimited") => Ok(u64::MAX),
        number => number.and_then(|number| number.parse().ok()).ok_or(Errno::IO),
    };
    Ok([next()?, next()?])
}

/// How many descriptors the broker may have.
pub fn own_descriptors() -> usize {
    let limit = process::getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
