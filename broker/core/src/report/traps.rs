//! The way of denials to whom they are told, which is outside of the core.

use super::denials::Denial;
use common::trap::FileOperation;
use kernel::threads::lock;
use rules::socket::SocketKind;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long the end of a run waits for reports of calls that were let through last.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);
/// How long another call waits for them.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long one waits without giving up the processor, and how long it is given up then.
const PAUSE: Duration = Duration::from_micros(50);

/// Which denials are reported. What nobody asks for is enforced all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reports {
    /// All of them.
    #[default]
    All,
    /// Not those of reading files.
    Changes,
    /// Not those of files.
    Network,
    /// None.
    Nothing,
}

/// Who is told of what is refused. Nothing of it waits.
pub trait Sink: Debug + Send + Sync {
    /// Whether denials of this operation on files are wanted.
    fn wants(&self, operation: FileOperation) -> bool;

    /// Takes note of one denial; `reason` is for --debug.
    fn report(&self, denial: Denial, reason: &str);

    /// Notes that access(2) was answered no: programs may give up by that alone.
    fn note_question(&self, denial: Denial);

    /// Notes that this system call was refused, which no policy allows.
    fn note_refused(&self, call: &'static str);

    /// The name that a query to a name server asks for, as far as it is told.
    fn name_asked_for(&self, query: &[u8]) -> Option<String>;

    /// What a kind of sockets is called.
    fn name_of_kind(&self, kind: SocketKind) -> Vec<u8>;

    /// What an option of sockets is called, by its level and number, if a program misses it.
    fn name_of_option(&self, option: (i32, i32)) -> Option<Vec<u8>>;

    /// Logs `message` if --debug was given.
    fn log(&self, message: &str);
}

/// What is refused; shared by the threads that answer notifications.
#[derive(Debug)]
pub struct Traps {
    sink: Arc<dyn Sink>,
    /// Calls that were let through and are still looked at.
    undecided: AtomicUsize,
    /// For how many of them nobody waits any more.
    given_up: AtomicUsize,
    /// What threads hold back of what they refuse, where somebody can be asked about it.
    held: Option<Mutex<HashMap<ThreadId, Vec<Held>>>>,
}

/// A denial that is not reported yet, and the reason.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) denial: Denial,
    reason: String,
}

/// While this lives, a denial may still be reported.
#[derive(Debug)]
pub struct Undecided<'a>(&'a Traps);

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        let before = self.0.undecided.fetch_sub(1, Ordering::AcqRel);
        self.0.given_up.fetch_min(before - 1, Ordering::AcqRel);
    }
}

impl Traps {
    /// Those that `sink` is told of. Where somebody `asks`, some are held back before.
    pub fn of(sink: Arc<dyn Sink>, asks: bool) -> Self {
        let (undecided, given_up) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { sink, undecided, given_up, held: asks.then(Mutex::default) }
    }

    /// Does `work`, and returns with what comes of it what was to be reported meanwhile and still is. Nothing is held
    /// back where nobody can be asked.
    pub(crate) fn holding<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Held>) {
        let Some(held) = &self.held else { return (work(), Vec::new()) };
        let thread = thread::current().id();
        lock(held).insert(thread, Vec::new());
        let done = work();
        let denials = lock(held).remove(&thread);
        (done, denials.unwrap_or_default())
    }

    /// Reports what was held back.
    pub(crate) fn report_held(&self, held: Vec<Held>) {
        held.into_iter().for_each(|Held { denial, reason }| self.report(denial, &reason));
    }

    /// Says that a denial may follow of a call that is about to be let through.
    pub fn undecided(&self) -> Undecided<'_> {
        self.undecided.fetch_add(1, Ordering::Relaxed);
        Undecided(self)
    }

    /// Waits until all calls that were let through have been looked at, before another changes what their
    /// paths led to, or is reported itself. Most often they have been; on a busy machine the thread that looks
    /// may have lost the processor, and gets it by a pause. One that takes longer, on a file system that hangs, is
    /// waited for once.
    pub fn catch_up(&self) {
        let start = Instant::now();
        while self.undecided.load(Ordering::Acquire) > self.given_up.load(Ordering::Acquire) {
            match start.elapsed() {
                waited if waited < PAUSE => std::thread::yield_now(),
                waited if waited < PATIENCE => std::thread::sleep(PAUSE),
                _ => self.given_up.store(self.undecided.load(Ordering::Acquire), Ordering::Release),
            }
        }
    }

    /// Waits for the denials that are still to come, though not for a file system that hangs.
    pub fn settle(&self) {
        let deadline = Instant::now() + SETTLE_LIMIT;
        while self.undecided.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether denials of this operation on files are wanted, or are to be asked about.
    pub(crate) fn wants(&self, operation: FileOperation) -> bool {
        self.sink.wants(operation) || self.held.is_some() && operation == FileOperation::Write
    }

    /// Reports one denial; `reason` is for --debug.
    pub fn report(&self, denial: Denial, reason: &str) {
        if let Some(held) = &self.held
            && let Some(held) = lock(held).get_mut(&thread::current().id())
        {
            return held.push(Held { denial, reason: reason.to_owned() });
        }
        self.sink.report(denial, reason);
    }

    /// Who is told of it, for what is neither held back nor waited for.
    pub(crate) fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    /// As [`Sink::log`].
    pub fn log(&self, message: &str) {
        self.sink.log(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sink for () {
        fn wants(&self, _: FileOperation) -> bool {
            true
        }

        fn report(&self, _: Denial, _: &str) {}
        fn note_question(&self, _: Denial) {}
        fn note_refused(&self, _: &'static str) {}
        fn name_asked_for(&self, _: &[u8]) -> Option<String> {
            None
        }
        fn name_of_kind(&self, _: SocketKind) -> Vec<u8> {
            Vec::new()
        }
        fn name_of_option(&self, _: (i32, i32)) -> Option<Vec<u8>> {
            None
        }
        fn log(&self, _: &str) {}
    }
}
