//! Calls that a signal interrupts when they are done already, on kernels before Linux 5.19.
//!
//! Without SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV a handled signal ends the wait of a thread whose call the broker is
//! about to answer. That answer reaches nobody, and the thread makes the call again: the kernel has it do so
//! (SA_RESTART), or it was told EINTR. What was asked for is there then, and mkdir(2) would say that it exists. So an
//! answer that reached nobody is kept for a moment, and given to the same call of the same thread in the place of an
//! error that says that it is done already, and of having the kernel find that out. What may be done is judged each
//! time; only what the caller is told rests on this.

use super::listener::Notification;
use super::request::{PassOn, Wait};
use super::threads::lock;
use rustix::fd::{OwnedFd, RawFd};
use rustix::io::{self, Errno};
use rustix::process::Pid;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A call is made again as soon as the handler of the signal returns.
const KEPT: Duration = Duration::from_secs(1);
const KEPT_MAX: usize = 64;

/// What reached nobody.
#[derive(Debug)]
pub(super) enum Undelivered {
    Result(io::Result<i32>),
    /// The number of a descriptor that the target has.
    Given(RawFd),
    /// A descriptor that was to be given, and whether it is closed when a program is executed.
    Descriptor(OwnedFd, bool),
    /// The same of one that had to be waited for.
    End(OwnedFd, bool),
}

/// Whether two calls of a thread are the same, of which registers that a call does not use tell nothing.
pub type IsSame = fn(&Notification, &Notification) -> bool;

#[derive(Debug)]
pub(super) struct Repetitions {
    is_same: IsSame,
    kept: Mutex<Vec<(Instant, Notification, Undelivered)>>,
    /// Threads whose calls are being answered.
    busy: Mutex<Vec<Pid>>,
    rest: Condvar,
}

/// A call is being answered.
#[derive(Debug)]
pub(super) struct Busy<'a>(&'a Repetitions, Pid);

impl Repetitions {
    pub(super) fn new(is_same: IsSame) -> Self {
        Self { is_same, kept: Mutex::default(), busy: Mutex::default(), rest: Condvar::new() }
    }

    /// A call begins to be answered, after the call of the same thread that was interrupted: what becomes of that is
    /// known then.
    pub(super) fn begin(&self, thread: Pid, pass_on: PassOn<'_>) -> Busy<'_> {
        lock(&self.kept).retain(|(since, ..)| since.elapsed() < KEPT);
        let mut busy = lock(&self.busy);
        if busy.contains(&thread) {
            drop(busy);
            pass_on(Wait::Bounded);
            busy = lock(&self.busy);
            while busy.contains(&thread) {
                busy = self.rest.wait(busy).unwrap_or_else(PoisonError::into_inner);
            }
        }
        busy.push(thread);
        Busy(self, thread)
    }

    pub(super) fn keep(&self, call: &Notification, undelivered: Undelivered) {
        // What failed fails again; but a connect(2) that goes on is told that it does so already.
        if matches!(undelivered, Undelivered::Result(Err(errno)) if errno != Errno::INPROGRESS) {
            return;
        }
        let mut kept = lock(&self.kept);
        kept.retain(|(_, other, _)| !self.is_same(other, call));
        if kept.len() < KEPT_MAX {
            kept.push((Instant::now(), *call, undelivered));
        }
    }

    /// Keeps nothing of what `thread` has called.
    pub(super) fn forget(&self, thread: Pid) {
        lock(&self.kept).retain(|(_, call, _)| call.thread != thread);
    }

    fn is_same(&self, one: &Notification, other: &Notification) -> bool {
        one.thread == other.thread && (self.is_same)(one, other)
    }

    /// What was kept for this call, if it is wanted.
    pub(super) fn take(
        &self,
        call: &Notification,
        is_wanted: impl Fn(&Undelivered) -> bool,
    ) -> Option<Undelivered> {
        let mut kept = lock(&self.kept);
        let position = kept
            .iter()
            .position(|(_, other, what)| self.is_same(other, call) && is_wanted(what))?;
        Some(kept.swap_remove(position).2)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(&self.0.busy).retain(|thread| *thread != self.1);
        self.0.rest.notify_all();
    }
}

/// Whether a call can fail so when it is made after it was done.
pub(super) fn says_done(errno: Errno) -> bool {
    use Errno as E;
    matches!(
        errno,
        // An entry is there or gone; a socket has its address or its peer; an attribute is gone.
        E::EXIST | E::NOENT | E::ADDRINUSE | E::INVAL | E::ISCONN | E::ALREADY | E::NODATA
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_for_the_same_call_of_the_same_thread() {
        let call = |thread, number, argument| Notification {
            id: 1,
            thread: Pid::from_raw(thread).unwrap(),
            number,
            arguments: [argument, 0, 0, 0, 0, 0],
        };
        let repetitions = Repetitions::new(|one, other| {
            one.number == other.number && one.arguments[0] == other.arguments[0]
        });
        let keep = |call| repetitions.keep(&call, Undelivered::Result(Ok(7)));
        let is_kept = |call| repetitions.take(&call, |_| true).is_some();
        keep(call(5, 83, 1));
        for other in [call(6, 83, 1), call(5, 84, 1), call(5, 83, 2)] {
            assert!(!is_kept(other), "{other:?}");
        }
        assert!(is_kept(Notification { id: 2, ..call(5, 83, 1) }));
        assert!(!is_kept(call(5, 83, 1)), "given once");
        keep(call(5, 83, 1));
        repetitions.forget(Pid::from_raw(5).unwrap());
        assert!(!is_kept(call(5, 83, 1)), "forgotten");
        (0..200).for_each(|number| keep(call(5, number, 1)));
        assert_eq!((0..200).filter(|number| is_kept(call(5, *number, 1))).count(), KEPT_MAX);
    }
}
