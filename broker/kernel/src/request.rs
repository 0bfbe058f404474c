//! A notified call that waits for its answer, and the check on which everything rests that is done for
//! it.
//!
//! What is read under a thread's id belongs to the target only if it still waits afterwards: the id of
//! a thread that has died can be another's, and its memory another program's. So whatever acts for a
//! target takes a [`Confirmed`], which nothing but that check makes; and the answer takes the request
//! itself, so that there is one, given by who received it.

use super::listener::{Listener, Notification, Number};
use super::repetition::{Busy, Undelivered, says_done};
use super::target::{Memory, Target, TargetAddress, TargetFd};
use super::{pidfds, proc};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, Signal};
use std::fmt;
use std::ops::Deref;

/// The kernel's own ERESTARTSYS (linux/errno.h): on its way back the target runs the handler, and
/// makes the call again if that was installed with SA_RESTART, else gets EINTR. It never sees this
/// number, as long as a signal is pending for it.
///
/// The filter is installed so that signals other than fatal ones wait for the answer
/// (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV). For a call that waits long the broker looks for them
/// itself, and answers as the kernel would have.
pub const RESTART: Errno = Errno::from_raw_os_error(512);

/// ERESTARTNOHAND: the same for calls that are made again only if no handler runs.
pub const RESTART_UNHANDLED: Errno = Errno::from_raw_os_error(514);

/// A call that waits.
pub struct Request<'a> {
    listener: &'a Listener,
    pub call: &'a Notification,
    pass_on: PassOn<'a>,
    _busy: Option<Busy<'a>>,
}

/// Tells others of a call: whether it still waits, or was let through and is still to be done.
#[derive(Clone, Debug)]
pub struct Sign {
    listener: Listener,
    id: u64,
    /// Whose call it is.
    pub thread: Pid,
}

impl Sign {
    pub fn is_waiting(&self) -> bool {
        self.listener.is_waiting(self.id)
    }

    /// Whether the thread can still be about to do what it is let through for: until it has its answer it sleeps because
    /// it waits for that, and then it is ready to run (seccomp_notify_send in kernel/seccomp.c, both under one lock).
    pub fn is_pending(&self) -> bool {
        self.is_waiting() || proc::may_go_on(self.thread)
    }
}

/// Has another thread receive notifications; whether there is one.
pub type PassOn<'a> = &'a (dyn Fn(Wait) -> bool + Sync);

/// What a thread passes its turn on for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A peer of the target's, for as long as that likes: given up where too many wait.
    ForPeer,
    /// What ends by itself, or is bounded otherwise.
    Bounded,
}

/// Says that the call still waited: what was read before was the target's own.
#[derive(Clone, Copy, Debug)]
pub struct Confirmed<'a>(&'a Request<'a>);

impl<'a> Request<'a> {
    pub fn new(listener: &'a Listener, call: &'a Notification, pass_on: PassOn<'a>) -> Self {
        let repetitions = listener.repetitions();
        let _busy = repetitions.map(|repetitions| repetitions.begin(call.thread, pass_on));
        Self { listener, call, pass_on, _busy }
    }

    pub fn target(&self) -> Target {
        Target { thread: self.call.thread, call: Some(self.call.id) }
    }

    /// Checks that the target still waits.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if it does not: nobody gets the answer.
    pub fn confirm(&self) -> io::Result<Confirmed<'_>> {
        if self.listener.is_waiting(self.call.id) { Ok(Confirmed(self)) } else { Err(Errno::SRCH) }
    }

    /// What tells other threads of the call.
    pub fn sign(&self) -> Sign {
        Sign { listener: self.listener.clone(), id: self.call.id, thread: self.call.thread }
    }

    /// Whether something is still to be waited for: the target can be gone, or have got a signal. From
    /// now on other calls do not wait for this one.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`], [`RESTART`], or [`Errno::AGAIN`] if too many calls wait: other calls
    /// would have to wait for this one.
    pub fn look_after(&self) -> io::Result<Confirmed<'_>> {
        if !(self.pass_on)(Wait::ForPeer) {
            return Err(Errno::AGAIN);
        }
        let status = self.target().status().ok().filter(|status| !status.has_ended());
        match (self.confirm(), status) {
            // A signal has ended the wait already.
            (Err(_), Some(_)) if self.listener.repetitions().is_some() => Err(RESTART),
            (Ok(_), Some(status)) if status.is_signalled() => Err(RESTART),
            (confirmed, _) => confirmed,
        }
    }

    /// What has another thread receive, before this one does what can have to wait long. If there is no
    /// other, calls wait for this one.
    pub fn turn(&self) -> PassOn<'a> {
        self.pass_on
    }

    /// Lets the call through: the kernel decides its outcome, by registers that were judged, by the target's
    /// Landlock domain, or with no right at stake (access(2), sendmsg(2) to a peer). Returns whether the target was still there.
    pub fn let_through(self) -> bool {
        match self.undelivered(|_| true) {
            Some(undelivered) => self.deliver(undelivered),
            None => self.listener.let_through(self.call.id),
        }
    }

    /// Makes the call return the number in `result`.
    pub fn complete(self, result: io::Result<i32>) {
        if result.is_err_and(says_done)
            && let Some(undelivered) = self.undelivered(|_| true)
        {
            self.deliver(undelivered);
        } else {
            self.deliver(Undelivered::Result(result));
        }
    }

    /// What reached nobody when the same call was done before.
    fn undelivered(&self, is_wanted: impl Fn(&Undelivered) -> bool) -> Option<Undelivered> {
        self.listener.repetitions()?.take(self.call, is_wanted)
    }

    /// Returns whether the target was still there.
    fn deliver(self, what: Undelivered) -> bool {
        let is_taken = match &what {
            Undelivered::Result(result) => self.listener.complete(self.call.id, *result),
            Undelivered::Given(number) => self.listener.complete(self.call.id, Ok(*number)),
            Undelivered::Descriptor(descriptor, close_on_exec)
            | Undelivered::End(descriptor, close_on_exec) => {
                let number = Number::Answer;
                match self.listener.add(self.call.id, descriptor.as_fd(), number, *close_on_exec) {
                    Err(Errno::NOENT) => false,
                    Err(errno) => return self.listener.complete(self.call.id, Err(errno)),
                    Ok(_) => true,
                }
            }
        };
        // Whoever was killed needs no answer.
        if let Some(repetitions) = self.listener.repetitions().filter(|_| !is_taken) {
            repetitions.keep(self.call, what);
        }
        is_taken
    }

    /// Forgets what was done for this thread and reached nobody: it gives up rights that it had then.
    pub fn forget_earlier(&self) {
        self.listener.repetitions().iter().for_each(|kept| kept.forget(self.call.thread));
    }

    /// Makes an open(2) return the number of a descriptor that the target was given.
    pub fn complete_open(self, number: TargetFd) {
        self.deliver(Undelivered::Given(number.raw()));
    }

    /// Keeps a descriptor for the same call, made again: what it was to be given for can be done once only; for one
    /// that had to be waited for, that is not even begun.
    pub fn keep(&self, descriptor: BorrowedFd<'_>, close_on_exec: bool, is_end: bool) {
        if let Some(repetitions) = self.listener.repetitions()
            && let Ok(descriptor) = io::fcntl_dupfd_cloexec(descriptor, 3)
        {
            let kind = if is_end { Undelivered::End } else { Undelivered::Descriptor };
            repetitions.keep(self.call, kind(descriptor, close_on_exec));
        }
    }

    /// Completes a call that was done before, where nothing says so if it is done again: it counts each time, or gives
    /// the target a descriptor.
    ///
    /// # Errors
    /// Returns the request if it is to be judged.
    pub fn repeat(self, counts: bool) -> Result<(), Self> {
        let is_all = |kept: &Undelivered| match kept {
            Undelivered::Result(_) => counts,
            kept => matches!(kept, Undelivered::Given(_) | Undelivered::End(..)),
        };
        let Some(undelivered) = self.undelivered(is_all) else { return Err(self) };
        self.deliver(undelivered);
        Ok(())
    }

    /// Puts a duplicate of `descriptor` into the target, the number of which the call returns.
    ///
    /// # Errors
    /// Returns [`Errno::MFILE`] if the target may have no more, with the request, which is still to be
    /// answered then, and [`Errno::NOENT`] if it does not wait any more.
    pub fn hand_over(
        self,
        descriptor: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> Result<(), (Self, Errno)> {
        let result = self.listener.add(self.call.id, descriptor, Number::Answer, close_on_exec);
        result.map(drop).map_err(|errno| (self, errno))
    }

    /// The same, with the call still to be answered. Returns the number there.
    ///
    /// # Errors
    /// Returns [`Errno::MFILE`] if the target may have no more, [`Errno::NOENT`] if it does not wait any more.
    pub fn give(&self, descriptor: BorrowedFd<'_>, close_on_exec: bool) -> io::Result<TargetFd> {
        self.listener.add(self.call.id, descriptor, Number::Free, close_on_exec)
    }

    /// Writes `bytes` at `address` into the target's memory, if it waits after that was opened: by its number.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if not all of it is mapped, [`Errno::SRCH`] if the target does not wait any more.
    pub fn write(&self, memory: &Memory, address: TargetAddress, bytes: &[u8]) -> io::Result<()> {
        self.confirm()?;
        memory.write(address, bytes)
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("id", &self.call.id)
            .field("target", &self.target())
            .finish()
    }
}

impl<'a> Deref for Confirmed<'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Request<'a> {
        self.0
    }
}

impl Confirmed<'_> {
    /// Whether it holds still.
    pub fn holds(self) -> bool {
        self.0.confirm().is_ok()
    }

    /// Puts a duplicate of `descriptor` in the place of the target's descriptor `number`, as dup2(2)
    /// would.
    ///
    /// # Errors
    /// Returns [`Errno::NOENT`] if the target is gone.
    pub fn replace(
        self,
        descriptor: BorrowedFd<'_>,
        number: TargetFd,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let number = Number::Given(number);
        self.0.listener.add(self.0.call.id, descriptor, number, close_on_exec).map(drop)
    }

    /// Sends the thread a signal, if it still waits when it is held.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if it has ended, or does not wait any more.
    pub fn signal(self, signal: Signal) -> io::Result<()> {
        pidfds::with(self.target().thread(), |thread| match self.holds() {
            true => process::pidfd_send_signal(thread, signal),
            false => Err(Errno::SRCH),
        })
    }
}
