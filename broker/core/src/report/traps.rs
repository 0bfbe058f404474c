//! Denials: collected until the end, or written to --trap-fd at once.
//!
//! A denial that cannot be written is dropped; enforcement never waits for a reader.

use super::denials::Denial;
use super::failure::Failure;
use super::stream::{Stream, line};
use common::trap::FileOperation;
use kernel::threads::lock;
use rustix::fd::RawFd;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Most questions that are remembered, and most of what is not collected.
const ASKED_MAX: usize = 8;
/// Most distinct denials that are remembered; more are only counted.
const REMEMBERED_MAX: usize = 4096;
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

impl Reports {
    /// Whether denials of this operation on files are among them.
    fn has(self, operation: FileOperation) -> bool {
        match self {
            Self::All => true,
            Self::Changes => operation == FileOperation::Write,
            Self::Network | Self::Nothing => false,
        }
    }
}

/// What becomes of denials.
#[derive(Debug, Default)]
pub struct Wanted {
    pub reports: Reports,
    /// Words of what is refused without a report: all in whose name one of them stands.
    pub ignored: Vec<String>,
    /// Who is told of each at once besides. It must not wait.
    pub tell: Option<fn(&Denial)>,
}

/// Where denials go; shared by the threads that answer notifications.
#[derive(Debug)]
pub struct Traps {
    sink: Mutex<Sink>,
    /// What is not worth being collected.
    is_noise: fn(&Denial) -> bool,
    /// All, until something else is wanted.
    wanted: OnceLock<Wanted>,
    /// Standard error, if --debug was given.
    debug: Option<Mutex<Stream>>,
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

#[derive(Debug)]
struct Sink {
    /// Where they are written at once.
    stream: Option<Stream>,
    /// Kept until the end.
    seen: HashSet<Denial>,
    order: Vec<Denial>,
    uncounted: usize,
    /// What access(2) was answered no about.
    asked: Vec<Denial>,
    /// What was not worth being collected.
    noise: Vec<Denial>,
    /// The system calls that were refused and that no policy allows.
    refused: BTreeSet<&'static str>,
}

impl Traps {
    /// Collects denials but for what `is_noise`, or writes all to the caller's descriptor `stream`; `debug` also logs
    /// each at once.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if the descriptor is not open for writing.
    pub fn open(
        stream: Option<RawFd>,
        debug: bool,
        is_noise: fn(&Denial) -> bool,
    ) -> Result<Self, Failure> {
        let take_over = |number: RawFd| {
            Stream::take_over(number)
                .map_err(|_| Failure::Usage(format!("--trap-fd {number} is not open for writing")))
        };
        Ok(Self::new(stream.map(take_over).transpose()?, debug, is_noise))
    }

    fn new(stream: Option<Stream>, debug: bool, is_noise: fn(&Denial) -> bool) -> Self {
        let (seen, order, asked, noise) = (HashSet::new(), Vec::new(), Vec::new(), Vec::new());
        let refused = BTreeSet::new();
        let sink = Sink { stream, seen, order, uncounted: 0, asked, noise, refused };
        // A closed standard error is the caller's choice.
        let debug = debug.then(|| Stream::of_standard_error().ok()).flatten();
        Self {
            sink: Mutex::new(sink),
            is_noise,
            wanted: OnceLock::new(),
            debug: debug.map(Mutex::new),
            undecided: AtomicUsize::new(0),
            given_up: AtomicUsize::new(0),
            held: None,
        }
    }

    /// Says which denials are wanted, as soon as the policy is known.
    pub fn want(&self, wanted: Wanted) {
        let _ = self.wanted.set(wanted);
    }

    fn ignores(&self, denial: &Denial) -> bool {
        let is_in = |word: &String| {
            denial.target().windows(word.len().max(1)).any(|part| part == word.as_bytes())
        };
        self.wanted.get().is_some_and(|wanted| wanted.ignored.iter().any(is_in))
    }

    /// What was reported so far, but for noise, without repetitions.
    pub fn reported(&self) -> Vec<Denial> {
        lock(&self.sink).order.clone()
    }

    fn reports(&self) -> Reports {
        self.wanted.get().map(|wanted| wanted.reports).unwrap_or_default()
    }

    /// The same where somebody can be asked about denials before they are reported.
    pub fn with_questions(self) -> Self {
        Self { held: Some(Mutex::default()), ..self }
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
    fn settle(&self) {
        let deadline = Instant::now() + SETTLE_LIMIT;
        while self.undecided.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether denials of this operation on files are wanted, or are to be asked about.
    pub fn wants(&self, operation: FileOperation) -> bool {
        self.reports().has(operation) || self.held.is_some() && operation == FileOperation::Write
    }

    /// Reports one denial; `reason` is for --debug.
    pub fn report(&self, denial: Denial, reason: &str) {
        if let Some(held) = &self.held
            && let Some(held) = lock(held).get_mut(&thread::current().id())
        {
            return held.push(Held { denial, reason: reason.to_owned() });
        }
        if self.debug.is_some() {
            self.log(&format!("refused ({reason}): {}", line(&denial.trap()).trim_end()));
        }
        if self.reports() == Reports::Nothing
            || matches!(denial, Denial::File(operation, _) if !self.reports().has(operation))
            || self.ignores(&denial)
        {
            return;
        }
        let Sink { stream, seen, order, uncounted, noise, .. } = &mut *lock(&self.sink);
        if let Some(stream) = stream {
            stream.write(line(&denial.trap()).as_bytes());
        }
        if (self.is_noise)(&denial) {
            return remember(noise, denial);
        }
        self.wanted.get().and_then(|wanted| wanted.tell).inspect(|tell| tell(&denial));
        if seen.contains(&denial) {
            return;
        }
        if seen.len() < REMEMBERED_MAX {
            seen.insert(denial.clone());
            order.push(denial);
        } else {
            *uncounted += 1;
        }
    }

    /// Notes that access(2) was answered no: programs may give up by that alone.
    pub(crate) fn note_question(&self, denial: Denial) {
        if !(self.is_noise)(&denial) {
            remember(&mut lock(&self.sink).asked, denial);
        }
    }

    /// What was not worth being collected, the first of it.
    pub fn noise(&self) -> Vec<Denial> {
        lock(&self.sink).noise.clone()
    }

    /// Notes that this system call was refused, which no policy allows.
    pub(crate) fn note_refused(&self, call: &'static str) {
        self.log(&format!("refused: {call}, which no policy allows"));
        lock(&self.sink).refused.insert(call);
    }

    /// The system calls that were refused and that no policy allows.
    pub fn refused(&self) -> Vec<&'static str> {
        lock(&self.sink).refused.iter().copied().collect()
    }

    /// Logs `message` if --debug was given and standard error takes it now.
    pub fn log(&self, message: &str) {
        if let Some(stream) = &self.debug {
            lock(stream).write(format!("landstrip: {message}\n").as_bytes());
        }
    }

    /// What was collected about a command that `failed` or did not, once all reports that are still to come have, and how
    /// much more there was; what was written at once is among it. If it failed and nothing was refused, what access(2) was
    /// answered no about counts.
    pub fn collected(&self, failed: bool) -> (Vec<Denial>, usize) {
        self.settle();
        let mut sink = lock(&self.sink);
        let Sink { stream, order, uncounted, asked, .. } = &mut *sink;
        if failed && order.is_empty() {
            for denial in asked.drain(..) {
                stream.iter_mut().for_each(|stream| stream.write(line(&denial.trap()).as_bytes()));
                order.push(denial);
            }
        }
        (order.clone(), *uncounted)
    }

    /// Has `write` write to the caller's descriptor, if reports go there; whether they do.
    pub fn write(&self, write: impl FnOnce(&mut Stream)) -> bool {
        lock(&self.sink).stream.as_mut().map(write).is_some()
    }
}

/// Keeps `denial` among the first of its kind.
fn remember(first: &mut Vec<Denial>, denial: Denial) {
    if first.len() < ASKED_MAX && !first.contains(&denial) {
        first.push(denial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn denial(path: &str) -> Denial {
        Denial::file(FileOperation::Write, Path::new(path))
    }

    #[test]
    fn each_denial_is_collected_once_and_noise_not_at_all() {
        let traps = Traps::new(None, false, |denial| *denial == self::denial("/noise"));
        for path in ["/a", "/a", "/b", "/noise"] {
            traps.report(denial(path), "test");
        }
        assert_eq!(lock(&traps.sink).order, [denial("/a"), denial("/b")]);
        assert_eq!(traps.noise(), [denial("/noise")]);
    }

    #[test]
    fn only_what_is_wanted_is_collected() {
        for (wanted, expected) in [
            (Reports::All, [1, 1, 1]),
            (Reports::Changes, [0, 1, 1]),
            (Reports::Network, [0, 0, 1]),
            (Reports::Nothing, [0, 0, 0]),
        ] {
            let read = Denial::file(FileOperation::Read, Path::new("/a"));
            let domain = Denial::Domain(b"example.com:443".to_vec());
            let found = [read, denial("/a"), domain].map(|denial| {
                let traps = Traps::new(None, false, |_| false);
                traps.want(Wanted { reports: wanted, ..Wanted::default() });
                traps.report(denial, "test");
                lock(&traps.sink).order.len()
            });
            assert_eq!(found, expected, "{wanted:?}");
        }
    }
}
