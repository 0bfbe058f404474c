//! Calls that were let through and are still looked at: of those a denial may still be reported.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the end of a run waits for reports of calls that were let through last.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);
/// How long another call waits for them.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long one waits without giving up the processor, and how long it is given up then.
const PAUSE: Duration = Duration::from_micros(50);

#[derive(Debug, Default)]
pub(super) struct Looks {
    under_way: AtomicUsize,
    /// For how many of them nobody waits any more.
    given_up: AtomicUsize,
}

impl Looks {
    pub(super) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        let before = self.under_way.fetch_sub(1, Ordering::AcqRel);
        self.given_up.fetch_min(before - 1, Ordering::AcqRel);
    }

    /// Waits until all have ended. Most often they have; on a busy machine the thread that looks may have lost the
    /// processor, and gets it by a pause. One that takes longer, on a file system that hangs, is waited for once.
    pub(super) fn catch_up(&self) {
        let start = Instant::now();
        while self.under_way.load(Ordering::Acquire) > self.given_up.load(Ordering::Acquire) {
            match start.elapsed() {
                waited if waited < PAUSE => thread::yield_now(),
                waited if waited < PATIENCE => thread::sleep(PAUSE),
                _ => self.given_up.store(self.under_way.load(Ordering::Acquire), Ordering::Release),
            }
        }
    }

    /// The same at the end of a run, for longer.
    pub(super) fn settle(&self) {
        let deadline = Instant::now() + SETTLE_LIMIT;
        while self.under_way.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
    }
}
