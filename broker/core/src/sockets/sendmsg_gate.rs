//! Whether the command can have a socket that sends to whom a message names.
//!
//! Most never make one. As long as there is none, sendmsg(2) is let through, whatever descriptor and memory
//! hold by then: no message of any socket in the sandbox goes anywhere but to the peer of that socket. From the
//! first one on the broker sends every message, and that one is given to the command only when nobody is left
//! who was let through and may not have taken its descriptor yet.
//!
//! None comes from another run either, by a Unix socket between both: the broker of that one passes none on
//! (`message_sender`). What others outside pass is theirs to answer for.
//!
//! Why it is worth that: a message that the broker sends names the broker as its sender's process (SCM_CREDENTIALS), by
//! which programs such as Chromium find their children.
//!
//! Who may be let through is counted until it is. From then on it is runnable, or waits uninterruptibly, until it
//! has its descriptor: before that it can wait for nothing else. So one that sleeps then, is stopped or has
//! ended is past it, and so is one that has itself run for some ticks of the clock since. Sources: `__seccomp_filter`
//! in kernel/seccomp.c, `__sys_sendmsg` in net/socket.c, proc_pid_stat(5), whose times are those of the whole
//! process but for what is beneath `task`.

use kernel::proc;
use kernel::request::{Request, Wait};
use kernel::shortcuts::Shortcut;
use kernel::threads::lock;
use rustix::io::{self, Errno};
use rustix::process::Pid;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Of how many is remembered that they were let through, before it is looked which are past it.
const PASSED_MAX: usize = 4096;
/// How long is waited for one that runs, and how long between two looks at it.
const LIMIT: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How many ticks (of USER_HZ, a hundredth of a second) one has to run: to get into its call takes less than a
/// thousandth of one.
const TICKS: u64 = 3;

/// Says that no message goes to a named receiver, whoever sends it. To be kept until the call was let through.
#[derive(Debug)]
pub(crate) struct NoNamedReceivers {
    state: Arc<Mutex<State>>,
    thread: Pid,
}

/// What is known of it.
#[derive(Debug, Default)]
pub(crate) struct SendmsgGate(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    /// How many are about to be let through.
    under_way: usize,
    /// Threads that were let through.
    passed: HashSet<Pid>,
}

impl Drop for NoNamedReceivers {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.under_way -= 1;
        state.passed.insert(self.thread);
    }
}

impl SendmsgGate {
    /// `is_over` if the command has such a socket from the beginning.
    pub(crate) fn new(is_over: bool) -> Self {
        let is_over = is_over || !Shortcut::SENDMSG_GATE.is_open();
        Self(Arc::new(Mutex::new(State { is_over, ..State::default() })))
    }

    /// Whether a message of `thread`, which waits, may be let through. It has to be from then on.
    pub(super) fn pass(&self, thread: Pid) -> Option<NoNamedReceivers> {
        let mut state = lock(&self.0);
        if state.is_over {
            return None;
        }
        if state.passed.len() >= PASSED_MAX {
            state.passed.retain(|&thread| Progress::of(thread) != Progress::Past);
        }
        // Where so many run at once, the broker sends: that is always safe.
        (state.passed.len() < PASSED_MAX).then(|| {
            state.under_way += 1;
            NoNamedReceivers { state: Arc::clone(&self.0), thread }
        })
    }

    /// Whether nobody passes any more, and nobody who did is left.
    pub(super) fn has_ended(&self) -> bool {
        let state = lock(&self.0);
        state.is_over && state.under_way == 0 && state.passed.is_empty()
    }

    /// Has nothing pass any more, and waits until nobody is left who was let through and may be anywhere.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if somebody is after a while, or [`Errno::SRCH`] if the target is gone.
    pub(super) fn end(&self, request: &Request<'_>) -> io::Result<()> {
        let deadline = Instant::now() + LIMIT;
        self.end_by(request.target().thread(), || {
            if Instant::now() >= deadline {
                return Err(Errno::AGAIN);
            }
            (request.turn())(Wait::Bounded);
            std::thread::sleep(LOOK_INTERVAL);
            request.confirm().map(drop)
        })
    }

    /// The same for the thread `asking`, which waits; between two looks there is a `pause`.
    fn end_by(&self, asking: Pid, mut pause: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let passed = loop {
            let mut state = lock(&self.0);
            state.is_over = true;
            if state.under_way == 0 {
                break state.passed.clone();
            }
            drop(state);
            pause()?;
        };
        // Who asks is past what it did before.
        let others = passed.into_iter().filter(|&thread| thread != asking);
        let mut left: Vec<_> = others.map(|thread| (thread, Progress::Unknown)).collect();
        loop {
            left.retain_mut(|(thread, before)| before.may_be_anywhere(Progress::of(*thread)));
            if left.is_empty() {
                break;
            }
            pause()?;
        }
        lock(&self.0).passed.clear();
        Ok(())
    }
}

/// How far a thread has come that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It sleeps, is stopped, or has ended.
    Past,
    /// It may run, and has run for so many ticks.
    Ran(u64),
    Unknown,
}

impl Progress {
    fn of(thread: Pid) -> Self {
        let number = thread.as_raw_nonzero();
        match proc::read(&format!("/proc/{number}/task/{number}/stat")) {
            Ok(text) => Self::parse(&text),
            // A mount of proc(5) with hidepid does not show one of a process that is not dumpable.
            Err(_) if proc::is_gone(thread) => Self::Past,
            Err(_) => Self::Unknown,
        }
    }

    fn parse(text: &[u8]) -> Self {
        // A name may have anything in it, but what follows it has no parenthesis.
        let after = text.rsplit(|&byte| byte == b')').next().unwrap_or_default();
        let mut fields = after.split(|&byte| byte == b' ').skip(1);
        if matches!(fields.next(), Some(b"S" | b"T" | b"t" | b"Z" | b"X")) {
            return Self::Past;
        }
        let ticks = |field: Option<&[u8]>| str::from_utf8(field?).ok()?.parse::<u64>().ok();
        // utime and stime are the eleventh and the twelfth after the state.
        let mut times = fields.skip(10);
        let (user, system) = (ticks(times.next()), ticks(times.next()));
        user.zip(system).map_or(Self::Unknown, |(user, system)| Self::Ran(user + system))
    }

    /// Whether it may be anywhere still, where `now` is how far it has come since. What was not known before is
    /// counted from now on.
    fn may_be_anywhere(&mut self, now: Self) -> bool {
        match (*self, now) {
            (_, Self::Past) => false,
            (Self::Ran(before), Self::Ran(now)) => now < before + TICKS,
            (Self::Unknown, known) => {
                *self = known;
                true
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::thread::gettid;

    #[test]
    fn whoever_sleeps_or_has_run_is_past_its_call() {
        let stat = |state: &str, user: u64, system: u64| {
            let text = format!("7 (a) R b) {state} 1 7 7 0 -1 64 1 2 3 4 {user} {system} 0 0 20 0");
            Progress::parse(text.as_bytes())
        };
        for state in ["S", "T", "t", "Z", "X"] {
            assert_eq!(stat(state, 0, 0), Progress::Past);
        }
        for state in ["R", "D", "W"] {
            let mut before = stat(state, 4, 5);
            assert_eq!(before, Progress::Ran(9));
            assert!(before.may_be_anywhere(stat(state, 4, 7)));
            assert!(before.may_be_anywhere(Progress::Unknown));
            assert!(!before.may_be_anywhere(stat(state, 5, 7)));
            assert!(!before.may_be_anywhere(Progress::Past));
        }
        let mut unknown = Progress::parse(b"nothing");
        assert_eq!(unknown, Progress::Unknown);
        assert!(unknown.may_be_anywhere(Progress::Ran(100)));
        assert!(unknown.may_be_anywhere(Progress::Ran(100)));
        assert!(!unknown.may_be_anywhere(Progress::Ran(100 + TICKS)));
    }

    #[test]
    fn the_time_of_another_thread_is_not_its_own() {
        let Progress::Ran(start) = Progress::of(gettid()) else { panic!("it runs") };
        let is_busy = || matches!(Progress::of(gettid()), Progress::Ran(now) if now < start + 10);
        while is_busy() {}
        let other = std::thread::spawn(|| Progress::of(gettid())).join().unwrap();
        assert!(matches!(other, Progress::Ran(0..=5)), "{other:?}");
    }

    #[test]
    fn one_that_is_not_shown_has_not_ended() {
        assert!(!proc::is_gone(gettid()) && !proc::is_gone(Pid::INIT));
        let other = std::thread::spawn(gettid).join().unwrap();
        // The kernel wakes who waits for a thread a moment before it is gone.
        while !proc::is_gone(other) {}
        assert_eq!(Progress::of(other), Progress::Past);
    }

    #[test]
    fn nothing_passes_once_it_is_over() {
        assert!(SendmsgGate::new(false).pass(gettid()).is_some());
        assert!(SendmsgGate::new(true).pass(gettid()).is_none());
    }

    #[test]
    fn it_ends_when_everyone_was_let_through_and_is_past() {
        let asking = Pid::INIT;
        let sendmsg_gate = SendmsgGate::new(false);
        let under_way = sendmsg_gate.pass(gettid()).unwrap();
        let mut looks = 0;
        let mut twice = || {
            looks += 1;
            if looks < 3 { Ok(()) } else { Err(Errno::AGAIN) }
        };
        assert_eq!(sendmsg_gate.end_by(asking, &mut twice), Err(Errno::AGAIN), "it is under way");
        assert!(!sendmsg_gate.has_ended());
        drop(under_way);
        assert_eq!(sendmsg_gate.end_by(asking, || Err(Errno::AGAIN)), Err(Errno::AGAIN), "it runs");
        assert!(!sendmsg_gate.has_ended());
        assert_eq!(sendmsg_gate.end_by(gettid(), || Err(Errno::AGAIN)), Ok(()), "it asks");
        assert!(sendmsg_gate.has_ended());
    }
}
