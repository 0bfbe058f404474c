//! A notified call that waits for its answer, and the check on which everything rests that is done for
//! it.
//!
//! What is read under a thread's id belongs to the target only if it still waits afterwards: the id of
//! a thread that has died can be another's, and its memory another program's. So whatever acts for a
//! target takes a [`Confirmed`], which nothing but that check makes; and the answer takes the request
//! itself, so that there is one, given by who received it.

use super::listener::{Listener, Number};
use super::pidfds;
use super::target::{Memory, Target, TargetAddress, TargetFd};
use rustix::fd::BorrowedFd;
use rustix::io::{self, Errno};
use rustix::process::{self, Signal};
use std::fmt;

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
    /// Names the call to the kernel while it waits.
    id: u64,
    target: Target,
    pass_on: PassOn<'a>,
}

/// Tells others whether a call still waits.
#[derive(Clone, Debug)]
pub struct Sign {
    listener: Listener,
    id: u64,
}

impl Sign {
    pub fn is_waiting(&self) -> bool {
        self.listener.is_waiting(self.id)
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
    pub fn new(listener: &'a Listener, id: u64, target: Target, pass_on: PassOn<'a>) -> Self {
        Target::begin();
        Self { listener, id, target, pass_on }
    }

    pub fn target(&self) -> Target {
        self.target
    }

    /// Checks that the target still waits.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if it does not: nobody gets the answer.
    pub fn confirm(&self) -> io::Result<Confirmed<'_>> {
        if self.listener.is_waiting(self.id) { Ok(Confirmed(self)) } else { Err(Errno::SRCH) }
    }

    /// What tells other threads whether the target still waits.
    pub fn sign(&self) -> Sign {
        Sign { listener: self.listener.clone(), id: self.id }
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
        let signalled = self.target.status().is_ok_and(|status| status.is_signalled());
        let confirmed = self.confirm()?;
        if signalled { Err(RESTART) } else { Ok(confirmed) }
    }

    /// What has another thread receive, before this one does what can have to wait long. If there is no
    /// other, calls wait for this one.
    pub fn turn(&self) -> PassOn<'a> {
        self.pass_on
    }

    /// Lets the call through: the kernel decides its outcome, by registers that were judged, by the target's
    /// Landlock domain, or with no right at stake (access(2), sendmsg(2) to a peer). Returns whether the target was still there.
    pub fn let_through(self) -> bool {
        self.listener.let_through(self.id)
    }

    /// Makes the call return the number in `result`.
    pub fn complete(self, result: io::Result<i32>) {
        // Whoever was killed needs no answer.
        let _ = self.listener.complete(self.id, result);
    }

    /// Puts a duplicate of `descriptor` into the target, the number of which the call returns.
    ///
    /// # Errors
    /// Returns [`Errno::MFILE`] if the target may have no more, with the request, which is still to be
    /// answered then.
    pub fn hand_over(
        self,
        descriptor: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> Result<(), (Self, Errno)> {
        let result = self.listener.add(self.id, descriptor, Number::Answer, close_on_exec);
        result.map(drop).map_err(|errno| (self, errno))
    }

    /// The same, with the call still to be answered. Returns the number there.
    ///
    /// # Errors
    /// Returns [`Errno::MFILE`] if the target may have no more.
    pub fn give(&self, descriptor: BorrowedFd<'_>, close_on_exec: bool) -> io::Result<TargetFd> {
        self.listener.add(self.id, descriptor, Number::Free, close_on_exec)
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("id", &self.id).field("target", &self.target).finish()
    }
}

impl Confirmed<'_> {
    pub fn target(self) -> Target {
        self.0.target
    }

    /// As [`Request::look_after`].
    pub fn look_after(self) -> io::Result<()> {
        self.0.look_after().map(drop)
    }

    /// Whether it holds still.
    pub fn holds(self) -> bool {
        self.0.confirm().is_ok()
    }

    /// Puts a duplicate of `descriptor` into the target and returns its number there.
    ///
    /// # Errors
    /// Returns [`Errno::MFILE`] if the target may have no more.
    pub fn give(self, descriptor: BorrowedFd<'_>, close_on_exec: bool) -> io::Result<TargetFd> {
        self.0.give(descriptor, close_on_exec)
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
        self.0.listener.add(self.0.id, descriptor, number, close_on_exec).map(drop)
    }

    /// Writes `bytes` at `address` into the target's memory, which was taken before.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if not all of it is mapped.
    pub fn write(self, memory: &Memory, address: TargetAddress, bytes: &[u8]) -> io::Result<()> {
        memory.write(address, bytes)
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
