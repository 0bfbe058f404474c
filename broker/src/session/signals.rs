//! Signals: they arrive on a descriptor, and are passed on to the command (signalfd(2)).

use crate::kernel::kill;
use nix::libc;
use nix::sys::signal::{self, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{self, Errno};
use rustix::process::Pid;
use std::cell::Cell;

/// Signals that a fault of our own raises: they stay as they are.
const FAULTS: [Signal; 7] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGTRAP,
    Signal::SIGABRT,
    Signal::SIGSYS,
];

/// Signals arrive here instead of ending the broker.
#[derive(Debug)]
pub(super) struct Signals {
    descriptor: SignalFd,
    /// The broker was told to stop, and since then neither stopped nor was told to continue.
    told_to_stop: Cell<bool>,
}

impl Signals {
    /// Blocks the signals and opens the descriptor. The command was cloned before and keeps the
    /// caller's mask and dispositions.
    pub(super) fn block() -> io::Result<Self> {
        let mut set = SigSet::all();
        for fault in FAULTS {
            set.remove(fault);
        }
        // An ignored SIGCHLD, which a caller can leave behind, would make the kernel reap the command
        // and lose its status.
        kill::reset(Signal::SIGCHLD)?;
        signal::sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None).map_err(errno)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&set, flags).map_err(errno)?;
        Ok(Self { descriptor, told_to_stop: Cell::new(false) })
    }

    /// Passes on to `command` what was sent to the broker alone. What the terminal sends, it sends
    /// to the whole foreground process group, and the command has got it already; but of its hang-up it
    /// tells the leader of the session alone (__tty_hangup in drivers/tty/tty_io.c).
    pub(super) fn forward(&self, command: Option<Pid>) -> io::Result<()> {
        const SI_KERNEL: i32 = 0x80;
        while let Some(info) = self.descriptor.read_signal().map_err(errno)? {
            let number = info.ssi_signo.cast_signed();
            // SIGPIPE is our own when the reader of the traps has gone.
            let own = info.ssi_pid == std::process::id();
            match number {
                libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => {
                    self.told_to_stop.set(true);
                }
                libc::SIGCONT => self.told_to_stop.set(false),
                _ => {}
            }
            let hang_up = matches!(number, libc::SIGHUP | libc::SIGCONT) && leads_session();
            let from_terminal = info.ssi_code == SI_KERNEL && !hang_up;
            if number == libc::SIGCHLD || from_terminal || own {
                continue;
            }
            if let Some(command) = command {
                // It may have ended meanwhile, but is not reaped: its id is still its own.
                let _ = kill::send(command.as_raw_pid(), number);
            }
        }
        Ok(())
    }

    /// Whether the broker was told to stop; asked once.
    pub(super) fn take_told_to_stop(&self) -> bool {
        self.told_to_stop.take()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether the broker is the leader of its session, as under tmux, sshd or an editor's terminal.
fn leads_session() -> bool {
    nix::unistd::getsid(None) == Ok(nix::unistd::getpid())
}

fn errno(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}
