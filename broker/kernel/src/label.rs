//! What a security module calls a process: SELinux's context, AppArmor's profile (proc_pid_attr(5)).
//! It decides on what a process may do beside its credentials, and can change with each execve(2).

use super::proc;
use rustix::io::{self, Errno};
use rustix::process::Pid;
use std::sync::OnceLock;

/// Checks that `thread` has the label of the broker, where there are any.
///
/// # Errors
/// Returns [`Errno::ACCESS`] if not, or if the kernel does not tell.
pub fn must_be_own(thread: Pid) -> io::Result<()> {
    /// None where no security module has labels.
    static OWN: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let Some(own) = OWN.get_or_init(|| proc::read("/proc/thread-self/attr/current").ok()) else {
        return Ok(());
    };
    let theirs = proc::read(&format!("/proc/{}/attr/current", thread.as_raw_nonzero()));
    if theirs.as_ref() == Ok(own) { Ok(()) } else { Err(Errno::ACCESS) }
}
