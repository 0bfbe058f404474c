//! Signals, reaping and teardown: the broker stands for the command towards the caller.
//!
//! Sources: signalfd(2), waitpid(2), PR_SET_CHILD_SUBREAPER(2const), kill(2), and the section on
//! signal scoping in landlock(7).

#![allow(unsafe_code)] // for SIGCHLD's disposition

use common::wire::Handover;
use nix::libc;
use nix::sys::signal::{self, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, WaitOptions, WaitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long processes that were killed may take to go: only an uninterruptible wait in the
/// kernel, on a dead file server for instance, takes longer.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(10);

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
pub(crate) struct Signals {
    descriptor: SignalFd,
    /// The broker was told to stop, and since then neither stopped nor was told to continue.
    told_to_stop: AtomicBool,
}

impl Signals {
    /// Blocks the signals and opens the descriptor. The command was forked before and keeps the
    /// caller's mask and dispositions.
    ///
    /// # Errors
    /// Returns what signalfd(2) or sigprocmask(2) returns.
    pub(crate) fn block() -> io::Result<Self> {
        let mut set = SigSet::all();
        for fault in FAULTS {
            set.remove(fault);
        }
        // SAFETY: the default disposition runs no handler. An ignored SIGCHLD, which a caller can
        // leave behind, would make the kernel reap the command and lose its status.
        unsafe { signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map_err(errno)?;
        signal::sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None).map_err(errno)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&set, flags).map_err(errno)?;
        Ok(Self { descriptor, told_to_stop: AtomicBool::new(false) })
    }

    /// Passes on to `command` what was sent to the broker alone. What the terminal sends, it sends
    /// to the whole foreground process group, and the command has got it already.
    ///
    /// # Errors
    /// Returns what reading the descriptor returns.
    pub(crate) fn forward(&self, command: Option<Pid>) -> io::Result<()> {
        const SI_KERNEL: i32 = 0x80;
        while let Some(info) = self.descriptor.read_signal().map_err(errno)? {
            let number = info.ssi_signo.cast_signed();
            // SIGPIPE is our own when the reader of the traps has gone.
            let own = info.ssi_pid == std::process::id();
            match number {
                libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => {
                    self.told_to_stop.store(true, Ordering::Relaxed);
                }
                libc::SIGCONT => self.told_to_stop.store(false, Ordering::Relaxed),
                _ => {}
            }
            if number == libc::SIGCHLD || info.ssi_code == SI_KERNEL || own {
                continue;
            }
            if let Some(command) = command {
                // It may have ended meanwhile, but is not reaped: its id is still its own.
                let _ = send(command.as_raw_nonzero().get(), number);
            }
        }
        Ok(())
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// kill(2) for any signal number, also those that have no name.
fn send(process: i32, number: i32) -> io::Result<()> {
    // SAFETY: takes integers.
    if unsafe { libc::kill(process, number) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error()
            .raw_os_error()
            .map_or(Errno::IO, Errno::from_raw_os_error))
    }
}

fn errno(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}

/// The command and all that it started.
#[derive(Debug)]
pub(crate) struct Family {
    command: Pid,
    /// The signal scope D0 is in force, as the launcher saw.
    scoped: bool,
    /// The signal that the command is stopped by.
    stopped_by: Option<i32>,
    status: Option<WaitStatus>,
}

impl Family {
    /// Becomes the parent of every orphan: daemons too stay descendants, and end with the command.
    ///
    /// # Errors
    /// Returns what prctl(2) returns.
    pub(crate) fn adopt(handover: &Handover) -> io::Result<Self> {
        process::set_child_subreaper(Some(process::getpid()))?;
        let command = Pid::from_raw(handover.child).ok_or(Errno::SRCH)?;
        Ok(Self { command, scoped: handover.scope_errno == 0, stopped_by: None, status: None })
    }

    /// The command while it is not reaped: a process to signal.
    pub(crate) fn command(&self) -> Option<Pid> {
        self.status.is_none().then_some(self.command)
    }

    /// Reaps what has ended; returns the command's status once it is known. Call it after
    /// [`Signals::forward`]: it stops with the command, so that the shell sees its job stopped, and
    /// goes on when the shell continues both.
    ///
    /// # Errors
    /// Returns what waitpid(2) returns.
    pub(crate) fn reap(&mut self, signals: &Signals) -> io::Result<Option<WaitStatus>> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        loop {
            match process::wait(options) {
                Ok(Some((pid, status))) if pid == self.command => {
                    if status.stopped() || status.continued() {
                        self.stopped_by = status.stopping_signal();
                    } else {
                        self.status = Some(status);
                    }
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(Errno::CHILD) => break,
                Err(errno) => return Err(errno),
            }
        }
        self.stop_with_command(signals)?;
        Ok(self.status)
    }

    /// Stops if the command is stopped and the broker is meant as well. A process of the sandbox can
    /// stop the command and continue it, but not the broker, which would sleep for ever.
    ///
    /// The terminal tells both to stop, in either order: what the command did is remembered, and
    /// looked at anew when the broker's own signal comes.
    fn stop_with_command(&mut self, signals: &Signals) -> io::Result<()> {
        let Some(signal) = self.stopped_by.filter(|_| self.status.is_none()) else {
            return Ok(());
        };
        // An editor that reads the keyboard itself stops its process group for its user, but cannot
        // signal the broker. If that was a trick, the user sees a stopped job and continues it.
        let by_itself = signal != libc::SIGSTOP && is_job_in_foreground();
        if signals.told_to_stop.swap(false, Ordering::Relaxed) || by_itself {
            send(process::getpid().as_raw_nonzero().get(), libc::SIGSTOP)?;
            // What continued the broker continues the command too, or is forwarded to it. wait(2)
            // may not tell any more: a process that exits has forgotten that it was continued.
            self.stopped_by = None;
        }
        Ok(())
    }

    /// Ends everything that is left. Returns whether nothing is.
    pub(crate) fn end(&mut self, signals: &Signals) -> bool {
        let deadline = Instant::now() + TEARDOWN_LIMIT;
        while !self.all_reaped() {
            self.kill_all();
            if self.all_reaped() {
                break;
            }
            if Instant::now() > deadline {
                return false;
            }
            wait_readable(signals, Duration::from_millis(100));
            let _ = signals.forward(None);
        }
        true
    }

    fn kill_all(&self) {
        if self.scoped && !can_signal_parent() {
            // Confined by D0 to what this sandbox started, and without the broker itself.
            let _ = send(-1, libc::SIGKILL);
        } else {
            for child in children() {
                let _ = process::kill_process(child, process::Signal::KILL);
            }
        }
    }

    fn all_reaped(&mut self) -> bool {
        loop {
            match process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.command => self.status = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

/// Whether a shell waits at the terminal for this process group.
fn is_job_in_foreground() -> bool {
    use rustix::fs::{self, Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    fs::open("/dev/tty", flags, Mode::empty())
        .and_then(rustix::termios::tcgetpgrp)
        // A group from outside this PID namespace has the number 0, which rustix's getpgrp does not know.
        .is_ok_and(|group| group.as_raw_nonzero().get() == nix::unistd::getpgrp().as_raw())
}

/// Whether a signal reaches the caller, which lies outside: then the scope is not in force, and
/// kill(-1) would end everything the user runs.
fn can_signal_parent() -> bool {
    process::getppid().is_some_and(|parent| process::test_kill_process(parent).is_ok())
}

/// The broker's children: what it adopted and what it started.
fn children() -> Vec<Pid> {
    // Each thread has its own: the proxy is started by one that answers notifications.
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    lists
        .flat_map(|list| {
            let pids = list.unwrap_or_default();
            let pids = pids.split_ascii_whitespace();
            pids.filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect::<Vec<_>>()
        })
        .collect()
}

fn wait_readable(signals: &Signals, limit: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec::try_from(limit).ok();
    let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], limit.as_ref());
}
