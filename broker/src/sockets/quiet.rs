//! Whether the command can have a socket that sends to whom a message names.
//!
//! Most never make one. As long as there is none, sendmsg(2) is let through, whatever descriptor and memory
//! hold by then: no message of any socket in the sandbox goes anywhere but to the peer of that socket. From the
//! first one on the broker sends every message, and that one is given to the command only when nobody is left
//! who was let through and may not have taken its descriptor yet.
//!
//! Who is let through is runnable from then on until its call is under way or done: it waits for the broker
//! uninterruptibly (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), and has its descriptor before it can wait for
//! anything else. So one that sleeps, is stopped or has ended is past it, and so is one that has run for some
//! ticks of the clock since. Sources: `__seccomp_filter` in kernel/seccomp.c, `__sys_sendmsg` in net/socket.c,
//! proc_pid_stat(5).

use crate::kernel::proc;
use crate::kernel::request::{Request, Wait};
use rustix::io::{self, Errno};
use rustix::process::Pid;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Of how many is remembered that they were let through, before it is looked which are past it.
const PASSED_MAX: usize = 4096;
/// How long is waited for one that runs, and how long between two looks at it.
const LIMIT: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How many ticks (of USER_HZ, a hundredth of a second) one has to run: to get into its call takes less than a
/// thousandth of one.
const TICKS: u64 = 3;

/// Says that no message goes to a named receiver, whoever sends it.
#[derive(Debug)]
pub(crate) struct Harmless {
    _private: (),
}

/// What is known of it.
#[derive(Debug, Default)]
pub(crate) struct Quiet(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    /// Threads that were let through.
    passed: HashSet<Pid>,
}

impl Quiet {
    /// `is_over` if the command has such a socket from the beginning.
    pub(super) fn new(is_over: bool) -> Self {
        Self(Mutex::new(State { is_over, ..State::default() }))
    }

    /// Whether a message of `thread`, which waits, may be let through. It has to be from then on.
    pub(super) fn pass(&self, thread: Pid) -> Option<Harmless> {
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        if state.passed.len() >= PASSED_MAX {
            state.passed.retain(|&thread| Progress::of(thread).is_some());
        }
        // Where so many run at once, the broker sends: that is always safe.
        (state.passed.len() < PASSED_MAX).then(|| {
            state.passed.insert(thread);
            Harmless { _private: () }
        })
    }

    /// Whether nobody passes any more, and nobody who did is left.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.state();
        state.is_over && state.passed.is_empty()
    }

    /// Has nothing pass any more, and waits until nobody is left who was let through and may be anywhere.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if somebody is after a while, or [`Errno::SRCH`] if the target is gone.
    pub(super) fn end(&self, request: &Request<'_>) -> io::Result<()> {
        let mut state = self.state();
        state.is_over = true;
        if state.passed.is_empty() {
            return Ok(());
        }
        let mut left: Vec<_> = state
            .passed
            .iter()
            .filter_map(|&thread| Some((thread, Progress::of(thread)?)))
            .collect();
        drop(state);
        let deadline = Instant::now() + LIMIT;
        while !left.is_empty() {
            (request.turn())(Wait::Bounded);
            std::thread::sleep(LOOK_INTERVAL);
            request.confirm()?;
            left.retain(|(thread, start)| start.may_be_anywhere(Progress::of(*thread)));
            if Instant::now() >= deadline && !left.is_empty() {
                return Err(Errno::AGAIN);
            }
        }
        self.state().passed.clear();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole whenever the lock is free.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a thread that may run has come: the ticks that it has run for.
#[derive(Clone, Copy, Debug)]
struct Progress(u64);

impl Progress {
    /// None for one that sleeps, is stopped, or is gone.
    fn of(thread: Pid) -> Option<Self> {
        let text = match proc::read(&format!("/proc/{}/stat", thread.as_raw_nonzero())) {
            Ok(text) => text,
            Err(Errno::NOENT | Errno::SRCH) => return None,
            // Not known: as one that has not run.
            Err(_) => return Some(Self(0)),
        };
        Self::parse(&text)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // A name may have anything in it, but what follows it has no parenthesis.
        let after = text.rsplit(|&byte| byte == b')').next().unwrap_or_default();
        let mut fields = after.split(|&byte| byte == b' ').skip(1);
        if matches!(fields.next(), Some(b"S" | b"T" | b"t" | b"Z" | b"X")) {
            return None;
        }
        let ticks = |field: Option<&[u8]>| str::from_utf8(field?).ok()?.parse::<u64>().ok();
        // utime and stime are the eleventh and the twelfth after the state.
        let mut times = fields.skip(10);
        let (user, system) = (ticks(times.next()), ticks(times.next()));
        Some(Self(user.zip(system).map_or(0, |(user, system)| user + system)))
    }

    fn may_be_anywhere(self, later: Option<Self>) -> bool {
        later.is_some_and(|later| later.0 < self.0 + TICKS)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn whoever_sleeps_or_has_run_is_past_its_call() {
        let stat = |state: &str, user: u64, system: u64| {
            let text = format!("7 (a) R b) {state} 1 7 7 0 -1 64 1 2 3 4 {user} {system} 0 0 20 0");
            Progress::parse(text.as_bytes())
        };
        for state in ["S", "T", "t", "Z", "X"] {
            assert!(stat(state, 0, 0).is_none());
        }
        for state in ["R", "D", "W"] {
            let before = stat(state, 4, 5).unwrap();
            assert!(before.may_be_anywhere(stat(state, 4, 7)));
            assert!(!before.may_be_anywhere(stat(state, 5, 7)));
            assert!(!before.may_be_anywhere(None));
        }
        assert!(Progress::parse(b"nothing").unwrap().may_be_anywhere(Some(Progress(0))));
        let own = rustix::thread::gettid();
        assert!(Progress::of(own).is_some(), "it runs");
    }

    #[test]
    fn nothing_passes_once_it_is_over() {
        let own = rustix::thread::gettid();
        assert!(Quiet::new(false).pass(own).is_some());
        assert!(Quiet::new(true).pass(own).is_none());
    }
}
