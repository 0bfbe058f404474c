//! Threads that can be taken out of a call in which they wait (signal(7)).
//!
//! A signal does it, which all other threads block, and for which a handler is installed that does
//! nothing. It may arrive before the call has begun: so it is sent until the thread has gone on.

#![allow(unsafe_code)] // for installing a handler, and for a signal to a single thread

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid};
use rustix::thread;
use std::sync::OnceLock;

/// Nothing else sends it (signal(7)).
const SIGNAL: Signal = Signal::SIGSTKFLT;

/// A thread of the broker's.
#[derive(Clone, Copy, Debug)]
pub struct Interruptible(Pid);

/// Lets the calling thread, which is to do nothing but wait, be interrupted.
///
/// # Errors
/// Returns [`Errno::AGAIN`] if the kernel refuses.
pub fn allow() -> io::Result<Interruptible> {
    static IS_INSTALLED: OnceLock<bool> = OnceLock::new();
    let is_installed = IS_INSTALLED.get_or_init(|| {
        // Without SA_RESTART, so that the call fails.
        let action =
            SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler touches nothing.
        unsafe { sigaction(SIGNAL, &action) }.is_ok()
    });
    let mut set = SigSet::empty();
    set.add(SIGNAL);
    if !is_installed || set.thread_unblock().is_err() {
        return Err(Errno::AGAIN);
    }
    Ok(Interruptible(thread::gettid()))
}

impl Interruptible {
    /// Has the call fail in which the thread waits, if it does. Where its number is another thread's by
    /// now, that one has the signal blocked.
    pub fn interrupt(self) {
        let (process, thread) = (process::getpid().as_raw_pid(), self.0.as_raw_pid());
        // SAFETY: takes integers.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL as i32) };
    }
}

extern "C" fn nothing(_: libc::c_int) {}
