//! Job control: landstrip does for the command's process group what a shell does for a job, and is a job of its
//! caller's itself.
//!
//! Where the caller's group is in the foreground of the terminal, the command's takes its place: at once where nobody
//! else in the caller's job can want the terminal, as far as its standard streams tell, else when it is stopped for
//! wanting it (SIGTTIN, SIGTTOU), for then others may read there: `landstrip -- a | less`. It stops with the command,
//! and at the end gives the terminal back as it was. Sources: tcsetpgrp(3), termios(3), credentials(7), and
//! "Implementing a Job Control Shell" in the manual of the GNU C library.

use kernel::group;
use kernel::kill::{heeding, send};
use kernel::proc::Status;
use kernel::terminal::{self, Lent};
use nix::libc;
use rustix::fd::BorrowedFd;
use rustix::io;
use rustix::process::{self, Pid, Signal};
use std::sync::Arc;

/// The command as a job.
#[derive(Debug)]
pub(super) struct Job {
    command: Pid,
    /// Without one, the command has a session of its own.
    terminal: Option<Terminal>,
    /// What is given back.
    pub(super) lent: Arc<Lent>,
}

/// The caller's controlling terminal.
#[derive(Debug)]
struct Terminal {
    descriptor: BorrowedFd<'static>,
    /// The caller's job is landstrip alone, as far as can be seen.
    is_alone: bool,
}

impl Job {
    pub(super) fn of(command: Pid) -> Self {
        let terminal = terminal::controlling().map(|descriptor| Terminal {
            descriptor,
            is_alone: leads_group() && {
                let [input, output, _] = terminal::streams();
                [input, output].into_iter().all(|stream| terminal::foreground(stream).is_ok())
            },
        });
        Self { command, terminal, lent: Arc::new(Lent::look()) }
    }

    /// Puts the command into the foreground where that is landstrip's alone. Before it runs: a program may look.
    pub(super) fn start(&self) {
        if self.terminal.as_ref().is_some_and(|terminal| terminal.is_alone) {
            // It may not have made it yet; if it has executed the tool, it has (EACCES).
            let _ = process::setpgid(Some(self.command), Some(self.command));
            self.offer_terminal();
        }
    }

    /// Sends the command a signal that was sent to landstrip: with its group if the terminal sent it, or if landstrip
    /// leads a group of its own, which harnesses make to signal it as one.
    pub(super) fn signal(&self, number: i32, is_from_terminal: bool) {
        let number = match number {
            // In a session of its own a group is orphaned, and these would do nothing.
            libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU if self.terminal.is_none() => {
                libc::SIGSTOP
            }
            number => number,
        };
        let is_for_group = is_from_terminal || leads_group() && FOR_GROUPS.contains(&number);
        let command = self.command.as_raw_pid();
        // It may have ended meanwhile, or left its group, but is not reaped: its id is still its own.
        if !(is_for_group && group::of(command) == Some(command) && send(-command, number).is_ok())
        {
            let _ = send(command, number);
        }
    }

    /// What follows from a stop of the command by `signal`; `is_told` if landstrip was told to stop by a process.
    /// Returns whether the command is to be continued.
    ///
    /// A process of the sandbox can stop the command and continue it, but not the broker, which would sleep for ever.
    pub(super) fn stop(&self, signal: i32, is_told: bool) -> io::Result<bool> {
        let wants_terminal = [libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
        if wants_terminal && self.offer_terminal() {
            return Ok(true);
        }
        let is_in_foreground = match self.foreground() {
            Some(group) if group == self.command.as_raw_pid() => true,
            // An editor that reads the keyboard itself stops its process group for its user. If that was a trick,
            // the user sees a stopped job and continues it.
            Some(group) => group == group::own() && signal != libc::SIGSTOP,
            None => false,
        };
        // Whoever asks at the terminal continues it before it has that again.
        let state = || Status::of(self.command).ok()?.state();
        if signal == libc::SIGSTOP && state() != Some('T') {
            return Ok(false);
        }
        if is_told {
            self.take_terminal_back();
            send(std::process::id().cast_signed(), libc::SIGSTOP)?;
        } else if is_in_foreground || wants_terminal && self.terminal.is_some() {
            self.take_terminal_back();
            stop_by(match signal {
                libc::SIGTTIN => Signal::TTIN,
                libc::SIGTTOU => Signal::TTOU,
                _ => Signal::TSTP,
            })?;
        } else {
            return Ok(false);
        }
        if self.terminal.as_ref().is_some_and(|terminal| terminal.is_alone) {
            self.offer_terminal();
        }
        Ok(true)
    }

    /// Puts the command's group into the foreground if the caller's is. Returns whether it is there now.
    fn offer_terminal(&self) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        self.foreground() == Some(group::own())
            && terminal::set_foreground(terminal.descriptor, self.command.as_raw_pid()).is_ok()
    }

    /// Puts the caller's group into the foreground if the command's is.
    fn take_terminal_back(&self) {
        if let Some(terminal) = &self.terminal
            && self.foreground() == Some(self.command.as_raw_pid())
        {
            let _ = terminal::set_foreground(terminal.descriptor, group::own());
        }
    }

    /// Gives the terminal back as it was, once nothing of the sandbox is left: a group in the foreground that nobody is
    /// in any more was of it. Returns whether that has been done: until then, the guardian does should this be killed. It
    /// goes by the foreground, so that comes last.
    pub(super) fn end(&self) -> bool {
        self.lent.give_back();
        let Some(Terminal { descriptor, .. }) = self.terminal else { return true };
        // Some may be held for those who were to join them: their members have ended.
        let is_left = |group| group::lives(group) == Ok(false);
        terminal::foreground(descriptor).is_ok_and(|group| {
            group == group::own()
                || is_left(group) && terminal::set_foreground(descriptor, group::own()).is_ok()
        })
    }

    fn foreground(&self) -> Option<i32> {
        terminal::foreground(self.terminal.as_ref()?.descriptor).ok()
    }
}

/// What a terminal, a shell or a harness sends to all of a job; others may be meant for one program.
const FOR_GROUPS: [i32; 8] = {
    use libc::*;
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGSTOP, SIGCONT, SIGWINCH]
};

/// Stops this process as `signal` does by default: not at all where nobody could continue it, for its group is
/// orphaned.
fn stop_by(signal: Signal) -> io::Result<()> {
    process::kill_process(process::getpid(), signal)?;
    heeding(&[signal], || Ok(()))
}

fn leads_group() -> bool {
    group::own() == std::process::id().cast_signed()
}
