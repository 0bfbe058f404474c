//! Calls that wait for what others do with an object. A thread of the broker's waits for each, and looks at times
//! whether the call is still wanted; who makes it possible does it for the one that has waited longest.

use crate::{Caller, Sign, lock};
use rustix::io::{self, Errno};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether a call is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);

/// Names a call that waits.
#[derive(Clone)]
pub(crate) struct Ticket {
    number: u64,
    bell: Arc<Condvar>,
    sign: Sign,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.number).finish()
    }
}

impl Ticket {
    /// Whether anybody would get the result.
    pub(crate) fn is_wanted(&self) -> bool {
        (self.sign)()
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

/// What calls got that have waited.
#[derive(Debug)]
pub(crate) struct Waits<R> {
    latest: u64,
    done: HashMap<u64, R>,
}

impl<R> Default for Waits<R> {
    fn default() -> Self {
        Self { latest: 0, done: HashMap::new() }
    }
}

impl<R> Waits<R> {
    pub(crate) fn enter(&mut self, caller: &dyn Caller) -> Ticket {
        self.latest += 1;
        Ticket { number: self.latest, bell: Arc::default(), sign: caller.sign() }
    }

    /// Ends the wait of a call, which is in no queue any more.
    pub(crate) fn finish(&mut self, ticket: &Ticket, result: R) {
        self.done.insert(ticket.number, result);
        ticket.bell.notify_one();
    }

    /// What the call got, if it did.
    pub(crate) fn take(&mut self, ticket: &Ticket) -> Option<R> {
        self.done.remove(&ticket.number)
    }
}

/// Waits until `take` takes what the call got.
///
/// # Errors
/// Returns [`Errno::AGAIN`] at the deadline, and what [`Caller::look_after`] returns; `withdraw` has taken the call
/// out of its queue then.
pub(crate) fn wait<S, R>(
    state: &Mutex<S>,
    caller: &dyn Caller,
    ticket: &Ticket,
    deadline: Option<Instant>,
    take: impl Fn(&mut S) -> Option<R>,
    withdraw: impl FnOnce(&mut S),
) -> io::Result<R> {
    loop {
        // First of all, so that no other call waits for this one. No lock is held.
        let looked = caller.look_after();
        let mut guard = lock(state);
        if let Some(result) = take(&mut guard) {
            return Ok(result);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let over = if left == Some(Duration::ZERO) { Err(Errno::AGAIN) } else { Ok(()) };
        if let Err(errno) = looked.and(over) {
            withdraw(&mut guard);
            return Err(errno);
        }
        let pause = left.map_or(PATIENCE, |left| left.min(PATIENCE));
        let waited = ticket.bell.wait_timeout(guard, pause);
        let (mut guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = take(&mut guard) {
            return Ok(result);
        }
    }
}

/// When a call that may wait for what is at `limit`, a `struct timespec`, gives up.
pub(crate) fn deadline(caller: &dyn Caller, limit: u64) -> io::Result<Option<Instant>> {
    if limit == 0 {
        return Ok(None);
    }
    let mut buffer = [0; 16];
    caller.read(limit, &mut buffer)?;
    let (seconds, nanoseconds) = buffer.split_at(8);
    let number = |bytes: &[u8]| bytes.first_chunk().copied().map(i64::from_ne_bytes);
    let seconds = number(seconds).and_then(|seconds| u64::try_from(seconds).ok());
    let nanoseconds = number(nanoseconds).and_then(|part| u32::try_from(part).ok());
    let nanoseconds = nanoseconds.filter(|part| *part < 1_000_000_000);
    let (seconds, nanoseconds) = seconds.zip(nanoseconds).ok_or(Errno::INVAL)?;
    Ok(Instant::now().checked_add(Duration::new(seconds, nanoseconds)))
}
