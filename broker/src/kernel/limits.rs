//! How many descriptors a target may still open: prlimit(2), proc_pid_fd(5).

#![allow(unsafe_code)] // for prlimit(2) of another process

use super::target::Target;
use nix::libc;
use rustix::fs;

/// Other threads do not open as many in the moment that an open takes.
const MARGIN: u64 = 64;

/// Whether the target can surely get another descriptor.
pub(crate) fn has_room(target: Target) -> bool {
    let thread = target.thread().as_raw_nonzero().get();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads no new limit, and writes one structure of this type.
    let asked =
        unsafe { libc::prlimit(thread, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) };
    // The size of the directory is the number of open descriptors (Linux 6.2).
    let open = fs::stat(format!("/proc/{thread}/fd")).map(|stat| stat.st_size.unsigned_abs());
    asked == 0 && open.is_ok_and(|open| open.saturating_add(MARGIN) <= limit.rlim_cur)
}
