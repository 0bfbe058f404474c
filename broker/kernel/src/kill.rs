//! Signals as the broker sends and takes them itself (kill(2), sigaction(2)).

#![allow(unsafe_code)]

use super::errno;
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::wait::{WaitPidFlag, waitpid};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The sandbox is being ended: where that is done one by one, nobody in it may fork any more.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Signals, as proc(5) tells sets, that are no reason for a call to wait no longer: SIGSTOP while somebody is asked at the
/// terminal, for which the sandbox stands still.
pub static UNHEEDED: AtomicU64 = AtomicU64::new(0);

/// Begins to end the sandbox.
pub fn begin() {
    BEGUN.store(true, Ordering::SeqCst);
}

/// Whether that has begun.
pub fn has_begun() -> bool {
    BEGUN.load(Ordering::SeqCst)
}

/// kill(2) for any signal number, also those that have no name.
pub fn send(process: i32, number: i32) -> io::Result<()> {
    // SAFETY: takes integers.
    errno::result(unsafe { libc::kill(process, number) })
}

/// All signals but `these`, and those that the C library uses among threads (32 and 33; musl leaves 34 out of its own
/// sets too, which is SIGRTMIN for programs with glibc).
pub fn all_but(these: &[Signal]) -> SigSet {
    const OF_LIBRARY: u64 = 0b11 << 31;
    let bits = these.iter().fold(!OF_LIBRARY, |bits, signal| bits & !(1 << (*signal as i32 - 1)));
    // SAFETY: plain integers.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel's set, a bit a signal, is what both C libraries begin theirs with.
    unsafe { (&raw mut set).cast::<u64>().write(bits) };
    // SAFETY: it was made above.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

/// Does `work`, in which `signals` have their effect, which this process blocks.
pub fn heeding<T>(signals: &[process::Signal], work: impl FnOnce() -> T) -> T {
    let known = |signal: &process::Signal| Signal::try_from(signal.as_raw()).ok();
    let signals: SigSet = signals.iter().filter_map(known).collect();
    let _ = signals.thread_unblock();
    let done = work();
    let _ = signals.thread_block();
    done
}

/// Gives a signal its default disposition.
pub fn reset(number: Signal) -> io::Result<()> {
    // SAFETY: the default disposition runs no handler.
    let former = unsafe { signal(number, SigHandler::SigDfl) };
    former.map(drop).map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// Waits for a child of whose end no signal tells (clone(2)).
pub fn reap_clone(child: Pid) {
    let child = nix::unistd::Pid::from_raw(child.as_raw_pid());
    while waitpid(child, Some(WaitPidFlag::__WCLONE)) == Err(nix::errno::Errno::EINTR) {}
}
