//! Signals: they arrive on a descriptor, and are passed on to the command (signalfd(2)).

use super::job::Job;
use kernel::kill;
use nix::libc;
use nix::sys::signal::{self, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{self, Errno};
use std::cell::Cell;

/// Signals that a fault of our own raises: they stay as they are.
const FAULTS: [Signal; 7] = {
    use Signal::*;
    [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS]
};

/// Signals arrive here instead of ending the broker.
#[derive(Debug)]
pub(super) struct Signals {
    descriptor: SignalFd,
    /// The broker was told to stop, and since then neither stopped nor was told to continue; taken when it is asked.
    pub(super) told_to_stop: Cell<bool>,
}

impl Signals {
    /// Blocks the signals and opens the descriptor. The launcher has blocked all of them for the
    /// guardian. The command was cloned before and keeps the caller's mask and dispositions.
    pub(super) fn block() -> io::Result<Self> {
        // An ignored SIGCHLD, which a caller can leave behind, would make the kernel reap the command
        // and lose its status.
        kill::reset(Signal::SIGCHLD)?;
        let set = Self::mask()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&set, flags).map_err(errno)?;
        Ok(Self { descriptor, told_to_stop: Cell::new(false) })
    }

    /// Blocks them in the calling thread and those that it begins: as the first one begins, musl lets 34 through again.
    pub(super) fn mask() -> io::Result<SigSet> {
        let set = kill::all_but(&FAULTS);
        signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&set), None).map_err(errno)?;
        Ok(set)
    }

    /// Passes on to the command of `job` what was sent to the broker. Returns whether that continued it.
    pub(super) fn forward(&self, job: Option<&Job>) -> io::Result<bool> {
        const SI_KERNEL: i32 = 0x80;
        let mut is_continued = false;
        while let Some(info) = self.descriptor.read_signal().map_err(errno)? {
            let number = info.ssi_signo.cast_signed();
            // SIGPIPE is our own when the reader of the traps has gone.
            let own = info.ssi_pid == std::process::id();
            if number == libc::SIGCHLD || own {
                continue;
            }
            let is_from_terminal = info.ssi_code == SI_KERNEL;
            match number {
                // What the terminal does, the command's own stop tells of.
                libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU if !is_from_terminal => {
                    self.told_to_stop.set(true);
                }
                libc::SIGCONT => self.told_to_stop.set(false),
                _ => {}
            }
            if let Some(job) = job {
                job.signal(number, is_from_terminal);
                is_continued |= number == libc::SIGCONT;
            }
        }
        Ok(is_continued)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn errno(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}
