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
//! Who is let through is runnable from then on, or waits uninterruptibly, until it has its descriptor: before that it
//! can wait for nothing else. So one that sleeps then, is stopped or has ended is past it ([`Sign::is_pending`]), and so is
//! one that has itself run for some ticks of the clock since. Sources: `__seccomp_filter` in kernel/seccomp.c,
//! `__sys_sendmsg` in net/socket.c, proc_pid_stat(5), whose times are those of the whole process but for what is beneath
//! `task`.

use kernel::proc;
use kernel::request::{Request, Sign, Wait};
use kernel::shortcuts::Shortcut;
use kernel::threads::lock;
use rustix::io::{self, Errno};
use rustix::process::Pid;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Of how many is remembered that they were let through, before it is looked which are past it.
const PASSED_MAX: usize = 4096;
/// How long is waited for one that runs, and how long between two looks at it.
const LIMIT: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How many ticks (of USER_HZ, a hundredth of a second) one has to run: to get into its call takes less than a
/// thousandth of one.
const TICKS: u64 = 3;

/// Says that no message goes to a named receiver, whoever sends it: the call that it was made for may be let through.
#[derive(Debug)]
pub(crate) struct NoNamedReceivers(());

/// What is known of it.
#[derive(Debug)]
pub(crate) struct SendmsgGate(Mutex<State>);

#[derive(Debug)]
struct State {
    is_over: bool,
    /// Of each thread the last call that may be let through.
    passed: HashMap<Pid, Sign>,
}

impl SendmsgGate {
    /// `is_over` if the command has such a socket from the beginning.
    pub(crate) fn new(is_over: bool) -> Self {
        let is_over = is_over || !Shortcut::SENDMSG_GATE.is_open();
        Self(Mutex::new(State { is_over, passed: HashMap::new() }))
    }

    /// Whether the message that `request` is to send may be let through. It has to be from then on.
    pub(super) fn pass(&self, request: &Request<'_>) -> Option<NoNamedReceivers> {
        let mut state = lock(&self.0);
        if state.is_over {
            return None;
        }
        if state.passed.len() >= PASSED_MAX {
            state.passed.retain(|_, call| call.is_pending());
        }
        // Where so many run at once, the broker sends: that is always safe.
        (state.passed.len() < PASSED_MAX).then(|| {
            let call = request.sign();
            state.passed.insert(call.thread, call);
            NoNamedReceivers(())
        })
    }

    /// Whether nobody passes any more, and nobody who did is left.
    pub(super) fn has_ended(&self) -> bool {
        let state = lock(&self.0);
        state.is_over && state.passed.is_empty()
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
        let mut state = lock(&self.0);
        state.is_over = true;
        // Who asks is past what it did before.
        let others = state.passed.values().filter(|call| call.thread != asking);
        let mut left: Vec<_> = others.map(|call| (call.clone(), None)).collect();
        drop(state);
        loop {
            left.retain_mut(|(call, before)| {
                call.is_pending() && (call.is_waiting() || !has_run(before, ticks(call.thread)))
            });
            if left.is_empty() {
                break;
            }
            pause()?;
        }
        lock(&self.0).passed.clear();
        Ok(())
    }
}

/// Whether a thread that has run for `now` ticks is past what it was to do after `before`. What was not known before is
/// counted from now on.
fn has_run(before: &mut Option<u64>, now: Option<u64>) -> bool {
    now.is_some_and(|now| now >= *before.get_or_insert(now) + TICKS)
}

/// For how many ticks `thread` has run, if that is shown.
fn ticks(thread: Pid) -> Option<u64> {
    let number = thread.as_raw_nonzero();
    ticks_in(&proc::read(&format!("/proc/{number}/task/{number}/stat")).ok()?)
}

fn ticks_in(text: &[u8]) -> Option<u64> {
    // A name may have anything in it, but what follows it has no parenthesis.
    let after = str::from_utf8(text.rsplit(|&byte| byte == b')').next()?).ok()?;
    // utime and stime are the eleventh and the twelfth after the state.
    let mut times = after.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_call::TestCall;
    use rustix::thread::gettid;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn whoever_has_run_is_past_its_call() {
        let stat = |user: u64, system: u64| {
            let text = format!("7 (a) R b) R 1 7 7 0 -1 64 1 2 3 4 {user} {system} 0 0 20 0");
            ticks_in(text.as_bytes())
        };
        let mut before = stat(4, 5);
        assert_eq!(before, Some(9));
        assert!(!has_run(&mut before, stat(4, 7)));
        assert!(!has_run(&mut before, None));
        assert!(has_run(&mut before, stat(5, 7)));
        assert_eq!(ticks_in(b"nothing"), None);
        assert_eq!(ticks_in(b"7 (a) R 1 7 7 0 -1 64 1 2 3 4 8"), None);
        let mut unknown = None;
        assert!(!has_run(&mut unknown, None));
        assert!(!has_run(&mut unknown, Some(100)));
        assert!(!has_run(&mut unknown, Some(100)));
        assert!(has_run(&mut unknown, Some(100 + TICKS)));
    }

    #[test]
    fn the_time_of_another_thread_is_not_its_own() {
        let start = ticks(gettid()).unwrap();
        while ticks(gettid()).unwrap() < start + 10 {}
        let other = std::thread::spawn(|| ticks(gettid())).join().unwrap();
        assert!(matches!(other, Some(0..=5)), "{other:?}");
    }

    #[test]
    fn nothing_passes_once_it_is_over() {
        let (call, caller) = TestCall::before(|| {});
        let request = call.request();
        assert!(SendmsgGate::new(false).pass(&request).is_some());
        assert!(SendmsgGate::new(true).pass(&request).is_none());
        request.complete(Ok(0));
        caller.join().unwrap();
    }

    #[test]
    fn it_ends_when_everyone_was_let_through_and_is_past() {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let (call, caller) = TestCall::before(move || while !over.load(Ordering::SeqCst) {});
        let request = call.request();
        let thread = request.target().thread();
        let gate = SendmsgGate::new(false);
        assert!(gate.pass(&request).is_some());
        assert_eq!(gate.end_by(Pid::INIT, || Err(Errno::AGAIN)), Err(Errno::AGAIN), "it waits");
        assert!(!gate.has_ended());
        request.complete(Ok(0));
        assert_eq!(gate.end_by(Pid::INIT, || Err(Errno::AGAIN)), Err(Errno::AGAIN), "it runs");
        assert!(!gate.has_ended());
        assert_eq!(gate.end_by(thread, || Err(Errno::AGAIN)), Ok(()), "it asks");
        assert!(gate.has_ended());
        is_over.store(true, Ordering::SeqCst);
        caller.join().unwrap();
    }

    #[test]
    fn who_goes_on_running_is_not_waited_for_without_end() {
        for ends in [true, false] {
            let is_over = Arc::new(AtomicBool::new(false));
            let over = Arc::clone(&is_over);
            let (call, caller) = TestCall::before(move || while !over.load(Ordering::SeqCst) {});
            let request = call.request();
            let gate = SendmsgGate::new(false);
            assert!(gate.pass(&request).is_some());
            request.complete(Ok(0));
            is_over.store(ends, Ordering::SeqCst);
            let deadline = Instant::now() + Duration::from_secs(60);
            let pause = || {
                std::thread::sleep(LOOK_INTERVAL);
                if Instant::now() < deadline { Ok(()) } else { Err(Errno::AGAIN) }
            };
            assert_eq!(gate.end_by(Pid::INIT, pause), Ok(()));
            assert!(gate.has_ended());
            is_over.store(true, Ordering::SeqCst);
            caller.join().unwrap();
        }
    }
}
