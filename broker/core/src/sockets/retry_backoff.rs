//! How those who wait for room in the queue of a Unix socket share the processors: nothing tells when there is some.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Those that try again now and then: the more there are, the less often each does, so that all of them
/// together leave the processors to others.
pub(super) struct RetryBackoff;

/// How many there are.
static CROWD: AtomicU32 = AtomicU32::new(0);

impl RetryBackoff {
    /// Joins them until what is returned is dropped.
    pub(super) fn join() -> Self {
        CROWD.fetch_add(1, Ordering::Relaxed);
        Self
    }

    /// How long one leaves it alone at least.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_micros(500) * CROWD.load(Ordering::Relaxed)
    }
}

impl Drop for RetryBackoff {
    fn drop(&mut self) {
        CROWD.fetch_sub(1, Ordering::Relaxed);
    }
}
