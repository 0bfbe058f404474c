//! Denials: collected until the end, or written to --trap-fd at once.
//!
//! A denial that cannot be written is dropped; enforcement never waits for a reader.

use super::lines::denial_line;
use super::looks::Looks;
use super::stream::Stream;
use super::{names, query};
use crate::advice::noise::{is_noise, is_unserved};
use crate::observe::{Change, Changes};
use common::trap::FileOperation;
use kernel::threads::lock;
use landstrip_core::report::denials::Denial;
use landstrip_core::report::failure::Failure;
use landstrip_core::report::traps::{Reports, Sink};
use rules::socket::SocketKind;
use rustix::fd::RawFd;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// Most questions that are remembered, and most of what is not collected.
const ASKED_MAX: usize = 8;
/// Most distinct denials that are remembered; more are only counted.
const REMEMBERED_MAX: usize = 4096;

/// What becomes of denials.
#[derive(Debug, Default)]
pub struct Wanted {
    pub reports: Reports,
    /// Words of what is refused without a report: all in whose name one of them stands.
    pub ignored: Vec<String>,
    /// Who is told of each at once besides. It must not wait.
    pub tell: Option<fn(&Denial)>,
}

/// The denials of a run.
#[derive(Debug)]
pub struct Collected {
    known: Mutex<Known>,
    /// What is not worth being collected.
    is_noise: fn(&Denial) -> bool,
    /// All, until something else is wanted.
    wanted: OnceLock<Wanted>,
    /// Standard error, if --debug was given.
    debug: Option<Mutex<Stream>>,
    /// Calls that were let through and are still looked at.
    looks: Looks,
}

#[derive(Debug, Default)]
struct Known {
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
    /// What was to be removed, replaced, moved away or given another name, which takes a right to the directory.
    removals: BTreeSet<PathBuf>,
    /// The system calls that were refused and that no policy allows.
    refused: BTreeSet<&'static str>,
}

impl Changes for Collected {
    fn note(&self, path: &Path, change: Change) {
        let is_removal = match change {
            Change::Content => false,
            Change::Removal => true,
            Change::Replacement => path.symlink_metadata().is_ok(),
        };
        let removals = &mut lock(&self.known).removals;
        if is_removal && removals.len() < REMEMBERED_MAX {
            removals.insert(path.to_owned());
        }
    }
}

impl Collected {
    /// Collects denials but for noise, or writes all to the caller's descriptor `stream`; `debug` also logs
    /// each at once.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if the descriptor is not open for writing.
    pub fn open(stream: Option<RawFd>, debug: bool) -> Result<Arc<Self>, Failure> {
        let take_over = |number: RawFd| {
            Stream::take_over(number)
                .map_err(|_| Failure::Usage(format!("--trap-fd {number} is not open for writing")))
        };
        Ok(Arc::new(Self::new(stream.map(take_over).transpose()?, debug, is_noise)))
    }

    fn new(stream: Option<Stream>, debug: bool, is_noise: fn(&Denial) -> bool) -> Self {
        // A closed standard error is the caller's choice.
        let debug = debug.then(|| Stream::of_standard_error().ok()).flatten();
        Self {
            known: Mutex::new(Known { stream, ..Known::default() }),
            is_noise,
            wanted: OnceLock::new(),
            debug: debug.map(Mutex::new),
            looks: Looks::default(),
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

    fn reports(&self) -> Reports {
        self.wanted.get().map(|wanted| wanted.reports).unwrap_or_default()
    }

    /// What was reported so far, but for noise, without repetitions.
    pub fn reported(&self) -> Vec<Denial> {
        lock(&self.known).order.clone()
    }

    /// What was not worth being collected, the first of it.
    pub fn noise(&self) -> Vec<Denial> {
        lock(&self.known).noise.clone()
    }

    /// Whether some may have been refused that is not told of.
    pub fn leaves_out(&self) -> bool {
        !lock(&self.known).noise.is_empty()
            || self.wanted.get().is_some_and(|wanted| !wanted.ignored.is_empty())
    }

    /// The first of what was to be removed, replaced, moved away or given another name.
    pub fn removals(&self) -> BTreeSet<PathBuf> {
        lock(&self.known).removals.clone()
    }

    /// The system calls that were refused and that no policy allows.
    pub fn refused(&self) -> Vec<&'static str> {
        lock(&self.known).refused.iter().copied().collect()
    }

    /// What was collected about a command that `failed` or did not, and how much more there was; what was written at once
    /// is among it. If it failed and nothing was refused, what access(2) was answered no about counts.
    pub fn all(&self, failed: bool) -> (Vec<Denial>, usize) {
        let Known { stream, order, uncounted, asked, .. } = &mut *lock(&self.known);
        if failed && order.is_empty() {
            for denial in asked.drain(..) {
                stream.iter_mut().for_each(|stream| stream.write(denial_line(&denial).as_bytes()));
                order.push(denial);
            }
        }
        (order.clone(), *uncounted)
    }

    /// Waits for the denials that are still to come, though not for a file system that hangs.
    pub fn settle(&self) {
        self.looks.settle();
    }

    /// Has `write` write to the caller's descriptor, if reports go there; whether they do.
    pub fn write(&self, write: impl FnOnce(&mut Stream)) -> bool {
        lock(&self.known).stream.as_mut().map(write).is_some()
    }
}

impl Sink for Collected {
    fn wants(&self, operation: FileOperation) -> bool {
        match self.reports() {
            Reports::All => true,
            Reports::Changes => operation == FileOperation::Write,
            Reports::Network | Reports::Nothing => false,
        }
    }

    fn report(&self, denial: Denial, reason: &str) {
        if self.debug.is_some() {
            self.log(&format!("refused ({reason}): {}", denial_line(&denial).trim_end()));
        }
        if self.reports() == Reports::Nothing
            || matches!(denial, Denial::File(operation, _) if !self.wants(operation))
                && !(self.reports() == Reports::Changes && is_unserved(&denial))
            || self.ignores(&denial)
        {
            return;
        }
        let Known { stream, seen, order, uncounted, noise, .. } = &mut *lock(&self.known);
        if let Some(stream) = stream {
            stream.write(denial_line(&denial).as_bytes());
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

    fn begin_look(&self) {
        self.looks.begin();
    }

    fn end_look(&self) {
        self.looks.end();
    }

    fn catch_up(&self) {
        self.looks.catch_up();
    }

    fn note_question(&self, denial: Denial) {
        if !(self.is_noise)(&denial) {
            remember(&mut lock(&self.known).asked, denial);
        }
    }

    fn note_refused(&self, call: &'static str) {
        self.log(&format!("refused: {call}, which no policy allows"));
        lock(&self.known).refused.insert(call);
    }

    fn name_asked_for(&self, query: &[u8]) -> Option<String> {
        query::name(query)
    }

    fn name_of_kind(&self, kind: SocketKind) -> Vec<u8> {
        names::kind(kind)
    }

    fn name_of_option(&self, option: (i32, i32)) -> Option<Vec<u8>> {
        names::option(option)
    }

    fn log(&self, message: &str) {
        if let Some(stream) = &self.debug {
            lock(stream).write(format!("landstrip: {message}\n").as_bytes());
        }
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
        let collected = Collected::new(None, false, |denial| *denial == self::denial("/noise"));
        for path in ["/a", "/a", "/b", "/noise"] {
            collected.report(denial(path), "test");
        }
        assert_eq!(collected.reported(), [denial("/a"), denial("/b")]);
        assert_eq!(collected.noise(), [denial("/noise")]);
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
                let collected = Collected::new(None, false, |_| false);
                collected.want(Wanted { reports: wanted, ..Wanted::default() });
                collected.report(denial, "test");
                collected.reported().len()
            });
            assert_eq!(found, expected, "{wanted:?}");
        }
    }
}
