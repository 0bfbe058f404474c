//! Reaping and teardown: the broker stands for the command towards the caller, and ends all that the
//! command started.
//!
//! Sources: waitpid(2), PR_SET_CHILD_SUBREAPER(2const), kill(2), and the section on signal scoping in
//! landlock(7).

use super::job::Job;
use super::signals::Signals;
use crate::report::failure::Failure;
use common::wire::Handover;
use kernel::kill::{self, send};
use kernel::kill_on_exit::KillOnExit;
use kernel::proc;
use nix::libc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Mode;
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long processes that were killed may take to go: only an uninterruptible wait in the
/// kernel, on a dead file server for instance, takes longer.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(10);

/// The command and all that it started.
#[derive(Debug)]
pub struct ProcessTree {
    pub command: Pid,
    /// What the kernel ends if the broker does not.
    pub(super) groups: Arc<KillOnExit>,
    /// The command as a job of the caller's.
    pub(super) job: Job,
    signals: Signals,
    /// Ends the sandbox too if the broker does not; see `guardian` of the launcher.
    pub guardian: Option<Pid>,
    /// Something did not end, and is not waited for again.
    gave_up: bool,
    /// The signal scope D0 is in force, as the launcher saw.
    scoped: bool,
    /// The signal that the command is stopped by.
    stopped_by: Option<i32>,
    status: Option<WaitStatus>,
    /// That which the command started with. The broker's own is empty.
    pub umask: Mode,
}

impl ProcessTree {
    /// Takes signals, umask and orphans over from the process that the caller started: daemons too stay
    /// descendants, and end with the command.
    ///
    /// # Errors
    /// Returns a [`Failure`] if it cannot, or may not: without scopes the children that this process had before, and what
    /// they leave behind, could not be told from the command's.
    pub fn adopt(handover: &Handover) -> Result<Self, Failure> {
        let tree = Self::take_over(handover).map_err(|errno| Failure::system("signals", errno))?;
        let own = [Some(tree.command), tree.guardian];
        if !tree.scoped && proc::own_children().iter().any(|child| !own.contains(&Some(*child))) {
            let message = "before Linux 6.12 no process can become landstrip that has children, as a shell with jobs in the \
                           background does by exec: start it without exec";
            return Err(Failure::Internal("platform", message.to_owned()));
        }
        Ok(tree)
    }

    fn take_over(handover: &Handover) -> io::Result<Self> {
        let signals = Signals::block()?;
        process::set_child_subreaper(Some(process::getpid()))?;
        let command = Pid::from_raw(handover.child).ok_or(Errno::SRCH)?;
        let scoped = handover.scope_errno == 0;
        // What is made for a target has the target's umask, which is computed.
        let umask = process::umask(Mode::empty());
        let guardian = Pid::from_raw(handover.guardian);
        let groups = Arc::new(KillOnExit::default());
        match groups.add(command) {
            // A sandbox around this one forbids it, and ends all itself when it ends.
            Ok(()) | Err(Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        Ok(Self {
            command,
            groups,
            job: Job::of(command),
            signals,
            guardian,
            gave_up: false,
            scoped,
            stopped_by: None,
            status: None,
            umask,
        })
    }

    /// Passes signals on to the command and reaps what has ended; returns the command's status once it
    /// is known. It stops with the command, so that the shell sees its job stopped, and goes on when
    /// the shell continues both.
    pub(super) fn attend(&mut self) -> io::Result<Option<WaitStatus>> {
        self.pass_signals_on()?;
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
                // What has happened since it was continued may have been told together with that.
                Ok(None) | Err(Errno::CHILD) if self.stop_with_command()? => {}
                Ok(None) | Err(Errno::CHILD) => return Ok(self.status),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Returns whether the command was continued.
    fn pass_signals_on(&self) -> io::Result<bool> {
        // While it is not reaped, its id is its own.
        self.signals.forward(self.status.is_none().then_some(&self.job))
    }

    /// Does what follows from a stop of the command. Returns whether it was continued.
    ///
    /// The terminal tells both to stop, in either order: what the command did is remembered, and
    /// looked at anew when the broker's own signal comes.
    fn stop_with_command(&mut self) -> io::Result<bool> {
        let Some(signal) = self.stopped_by.filter(|_| self.status.is_none()) else {
            return Ok(false);
        };
        let is_continued = self.job.stop(signal, self.signals.told_to_stop.take())?;
        if is_continued {
            // wait(2) may not tell any more that it was continued: a process that exits has forgotten that.
            self.stopped_by = None;
            if !self.pass_signals_on()? {
                self.job.signal(libc::SIGCONT, true);
            }
        }
        Ok(is_continued)
    }

    /// Whether nothing is left of the command and what it started, beside `helper`. What it left behind the broker has
    /// adopted.
    pub(super) fn is_left_with(&self, helper: Option<Pid>) -> bool {
        // The guardian is no child that is waited for so, and what is adopted is. To list the threads in /proc has the
        // kernel take them out of there as this process ends, which can hold up who waits for it by milliseconds.
        let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(process::waitid(WaitId::All, any), Err(Errno::CHILD)) {
            return true;
        }
        let own = [helper, self.guardian];
        proc::children_of_run().into_iter().all(|child| own.contains(&Some(child)))
    }

    /// Whether the children that are left are all those that this process had before it was landstrip, as a shell that
    /// executed it: who expects them to end waits for them.
    fn is_left_with_strangers(&self) -> bool {
        let own = [Some(process::getpid()), self.guardian];
        let goes_on = |id: i32| {
            let process = Pid::from_raw(id).filter(|process| !own.contains(&Some(*process)));
            process.is_some_and(|process| {
                proc::is_of_run(process)
                    && proc::Status::of(process).is_ok_and(|it| !it.has_ended())
            })
        };
        // That list can lack some that go on (proc_tid_children(5)), the one of all processes none.
        self.scoped
            && proc::own_children().into_iter().any(|child| !proc::is_of_run(child))
            && proc::processes().is_ok_and(|all| !all.into_iter().any(goes_on))
    }

    /// Ends everything that is left. Returns whether nothing is.
    pub fn end(&mut self) -> bool {
        kill::begin();
        let deadline = Instant::now() + TEARDOWN_LIMIT;
        while !self.all_reaped() {
            self.kill_all();
            if self.all_reaped() {
                break;
            }
            if self.gave_up || Instant::now() > deadline {
                self.gave_up = true;
                return false;
            }
            let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let _ = poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], Some(&limit));
            let _ = self.signals.forward(None);
        }
        self.job.end();
        self.dismiss_guardian();
        true
    }

    /// It has nothing to guard any more, and has gone by the time at which it is reaped. Returns whether it goes.
    pub(super) fn dismiss_guardian(&self) -> bool {
        let kill = |guardian| process::kill_process(guardian, process::Signal::KILL);
        self.guardian.is_some_and(|guardian| kill(guardian).is_ok())
    }

    pub(super) fn reap_guardian(&mut self) {
        // Where the caller's filter refuses kill(2), it goes with the broker.
        if self.dismiss_guardian()
            && let Some(guardian) = self.guardian.take()
        {
            kill::reap_clone(guardian);
        }
    }

    fn kill_all(&self) {
        let reaches = |parent| process::test_kill_process(parent).is_ok();
        // A signal that reaches the caller, which lies outside, says that the scope is not in force: then kill(-1) would
        // end everything the user runs.
        if self.scoped && !process::getppid().is_some_and(reaches) {
            // Confined by D0 to what this sandbox started, and without the broker itself.
            let _ = send(-1, libc::SIGKILL);
        } else {
            // What it adopted and what it started, each thread its own. The children of those whom this
            // ends it adopts, and nobody forks any more: a fork asks the broker there, which has begun to
            // end them, or has gone. No id is another's: the broker alone reaps its children.
            for child in proc::own_children() {
                let _ = process::kill_process(child, process::Signal::KILL);
            }
        }
    }

    fn all_reaped(&mut self) -> bool {
        loop {
            match process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.command => self.status = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return self.is_left_with_strangers(),
                Err(_) => return true,
            }
        }
    }
}

impl Drop for ProcessTree {
    /// In a container, who adopts orphans may be a program that expects none.
    fn drop(&mut self) {
        self.reap_guardian();
    }
}

impl AsFd for ProcessTree {
    /// Readable when `ProcessTree::attend` has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}
