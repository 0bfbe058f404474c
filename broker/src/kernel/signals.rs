//! Signals that a waiting target would be interrupted by (signal(7), proc(5)).
//!
//! The filter is installed so that signals other than fatal ones wait for the answer
//! (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV). For a call that waits long the broker looks for them
//! itself, and answers as the kernel would have.

use crate::kernel::target::Target;
use rustix::io::Errno;

/// The kernel's own ERESTARTSYS (linux/errno.h): on its way back the target runs the handler, and
/// makes the call again if that was installed with SA_RESTART, else gets EINTR. It never sees this
/// number, as long as a signal is pending for it.
pub(crate) const RESTART: Errno = Errno::from_raw_os_error(512);

/// Whether a signal is pending for the thread `target`.
///
/// One for the whole process is told to the main thread if that does not block it; another thread
/// is passed over here, for it may be told to a third.
pub(crate) fn is_signalled(target: Target) -> bool {
    let path = format!("/proc/{}/status", target.thread().as_raw_nonzero());
    std::fs::read_to_string(path).is_ok_and(|status| tells_of_signal(&status))
}

fn tells_of_signal(status: &str) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let signals = |name| field(name).and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0);
    let is_main = field("Tgid:").is_some() && field("Tgid:") == field("Pid:");
    let shared = if is_main { signals("ShdPnd:") } else { 0 };
    (signals("SigPnd:") | shared) & !signals("SigBlk:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signals_that_this_thread_gets_count() {
        for (pid, pending, shared, blocked, expected) in [
            (7, 0, 0, 0, false),
            (7, 2, 0, 0, true),
            (7, 2, 0, 2, false),
            (7, 0, 2, 0, true),
            (7, 0, 2, 2, false),
            (7, 0, 6, 2, true),
            (8, 0, 2, 0, false),
            (8, 2, 0, 0, true),
        ] {
            let status = format!(
                "Name:\tx\nTgid:\t7\nPid:\t{pid}\nTracerPid:\t0\nSigQ:\t1/9\nSigPnd:\t{pending:016x}\n\
                 ShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t0000000000001000\n"
            );
            assert_eq!(tells_of_signal(&status), expected, "{status}");
        }
        assert!(!tells_of_signal(""));
    }
}
