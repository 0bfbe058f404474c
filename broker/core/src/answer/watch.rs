//! Watches the receiver while it does what seldom has to wait: an inode's lock can be held by a long
//! write of the target's making. If it takes longer than a moment, another thread takes its turn.
//!
//! While there is such work, a thread looks once in that moment; it sleeps when there has been none
//! for a while. So beginning and ending cost some memory accesses each.

use kernel::pidfds;
use kernel::threads::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long other calls may have to wait behind one.
const MOMENT: Duration = Duration::from_millis(1);
/// After how many moments without work the watching thread sleeps.
const IDLE: u32 = 100;

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The work under way: its number, odd while it lasts.
    work: AtomicU64,
    /// Whose turn it is done in.
    turn: AtomicU64,
    awake: AtomicBool,
    sleep: Mutex<()>,
    wake: Condvar,
}

impl Watch {
    /// The receiver, in its turn `turn`, begins something. Returns the number of the work.
    pub(super) fn begin(&self, turn: u64) -> u64 {
        self.turn.store(turn, Ordering::SeqCst);
        let number = (self.work.load(Ordering::SeqCst) | 1) + 2;
        self.work.store(number, Ordering::SeqCst);
        if !self.awake.swap(true, Ordering::SeqCst) {
            drop(lock(&self.sleep));
            self.wake.notify_one();
        }
        number
    }

    /// Ends work `number`. If that took so long that it is another's turn, what that does stays
    /// watched.
    pub(super) fn end(&self, number: u64) {
        let _ = self.work.compare_exchange(number, number & !1, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The life of the watching thread: ends the turn of a receiver that takes too long.
    pub(super) fn keep(&self, end_turn: impl Fn(u64)) {
        loop {
            self.sleep_until_awake();
            self.look_until_idle(&end_turn);
        }
    }

    fn sleep_until_awake(&self) {
        let mut asleep = lock(&self.sleep);
        while !self.awake.load(Ordering::SeqCst) {
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Looks once in each moment, until there was no work for a while.
    fn look_until_idle(&self, end_turn: impl Fn(u64)) {
        let mut before = 0;
        let mut idle = 0;
        loop {
            std::thread::sleep(MOMENT);
            let now = self.work.load(Ordering::SeqCst);
            if now & 1 == 1 && now == before {
                end_turn(self.turn.load(Ordering::SeqCst));
                // Another's turn now: of this there is nothing left to watch.
                self.end(now);
            }
            idle = if now == before { idle + 1 } else { 0 };
            before = now;
            if idle < IDLE || now & 1 == 1 {
                continue;
            }
            pidfds::forget_all();
            self.awake.store(false, Ordering::SeqCst);
            if self.work.load(Ordering::SeqCst) == now {
                return;
            }
            // Begun just before.
            self.awake.store(true, Ordering::SeqCst);
            idle = 0;
        }
    }
}
