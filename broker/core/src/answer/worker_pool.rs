//! The threads that answer notifications.
//!
//! One at a time, the receiver, takes notifications. What can have to wait, for a peer or for a lock of
//! the target's making, it answers only after another thread has taken its place, so that no call
//! delays another. The other threads are parked: waiting for notifications too, all of them would be
//! woken for each.

use super::again::FIRST;
use super::answers::Answerer;
use super::watch::Watch;
use crate::ask::{Job, Waiting};
use crate::call::decode::Call;
use crate::report::failure::warn;
use kernel::limits;
use kernel::listener::Listener;
use kernel::request::{Request, Wait};
use kernel::threads::{CALL_STACK, SMALL_STACK, lock, spawn};
use rustix::event::{self, EventfdFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

/// Most threads while all but one wait for peers. A call more that would have to fails, so that nobody
/// waits for a thread.
const WAITING_MAX: usize = 1024;
/// Most threads: with those for what ends by itself.
const THREADS_MAX: usize = WAITING_MAX + 256;
/// Threads that stay when there is nothing to do.
const PARKED_MAX: usize = 8;
/// Most threads that do what was answered to questions.
const RESUMING_MAX: usize = 128;

/// Those of one listener.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    listener: Listener,
    answerer: Answerer,
    threads: Mutex<Threads>,
    /// Wakes a parked thread when there is no receiver.
    vacancy: Condvar,
    /// Ends the turn of a receiver that has to wait unexpectedly.
    watch: Watch,
    /// Where a thread that cannot receive any more says so (eventfd(2)): there since the start.
    alarm: OnceLock<OwnedFd>,
    /// Held by each thread that does what was answered to questions.
    resuming: Arc<()>,
}

#[derive(Debug, Default)]
struct Threads {
    all: usize,
    parked: usize,
    has_receiver: bool,
    /// The number of the latest turn as receiver.
    turn: u64,
}

impl WorkerPool {
    /// The pool that serves `listener`, once [`WorkerPool::start`] was called.
    pub(crate) fn new(listener: OwnedFd, answerer: Answerer) -> Arc<Self> {
        Arc::new(Self {
            listener: Listener::new(listener, |one, other| {
                Call::decode(one) == Call::decode(other)
            }),
            answerer,
            threads: Mutex::default(),
            vacancy: Condvar::new(),
            watch: Watch::default(),
            alarm: OnceLock::new(),
            resuming: Arc::default(),
        })
    }

    /// Starts the first thread, and the one that watches it, asleep, before that needs it.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if the system has no more.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        let alarm = event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let pool = Arc::clone(self);
        let watch = move || pool.watch.keep(|turn| _ = pool.leave_vacancy(turn, Wait::Bounded));
        spawn(SMALL_STACK, watch)?;
        self.alarm.get_or_init(|| alarm);
        self.add_thread(&mut lock(&self.threads), THREADS_MAX)
    }

    /// Whether it was started.
    pub(crate) fn has_started(&self) -> bool {
        self.alarm.get().is_some()
    }

    /// What to poll: readable when there is the first notification to start for; afterwards, when no
    /// thread can receive any more, for the reason that [`WorkerPool::failure`] tells.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.alarm.get().map_or_else(|| self.listener.as_fd(), AsFd::as_fd)
    }

    /// Why no thread can receive any more.
    pub(crate) fn failure(&self) -> Errno {
        let mut value = [0; 8];
        let read = self.alarm.get().map(|alarm| io::read(alarm, &mut value));
        let errno = read.and_then(|_| i32::try_from(u64::from_ne_bytes(value)).ok());
        errno.map_or(Errno::IO, Errno::from_raw_os_error)
    }

    fn raise_alarm(&self, errno: Errno) {
        let errno = u64::from(errno.raw_os_error().unsigned_abs());
        let _ = self.alarm.get().map(|alarm| io::write(alarm, &errno.to_ne_bytes()));
    }

    fn add_thread(self: &Arc<Self>, threads: &mut Threads, most: usize) -> io::Result<()> {
        if threads.all >= most {
            return Err(Errno::AGAIN);
        }
        let pool = Arc::clone(self);
        spawn(CALL_STACK, move || pool.work())?;
        threads.all += 1;
        Ok(())
    }

    /// The life of a thread: parked, receiver, busy with a call that can wait, parked again.
    fn work(self: Arc<Self>) {
        while let Some(turn) = self.take_vacancy() {
            while !self.is_over(turn) {
                match self.listener.receive() {
                    Ok(Some(notification)) => {
                        let pass_on = |wait| self.leave_vacancy(turn, wait);
                        let request = Request::new(&self.listener, &notification, &pass_on);
                        let call = Call::decode(&notification);
                        if call.is_some_and(|call| call.can_wait()) && pass_on(Wait::Bounded) {
                            self.answerer.answer(request, call, FIRST);
                        } else {
                            // That seldom has to wait: for the lock of an inode or a directory, which a long write or
                            // a slow file system holds, for the other end of a FIFO, or for a peer although the
                            // broker asked not to wait. If it does, another thread receives after a moment; to have
                            // one wake up each time would cost more than what is done.
                            let number = self.watch.begin(turn);
                            self.answerer.answer(request, call, FIRST);
                            self.watch.end(number);
                        }
                    }
                    Ok(None) if self.listener.is_orphaned() => return,
                    Ok(None) => {}
                    // Nothing can be served any more: everything ends.
                    Err(errno) => return self.raise_alarm(errno),
                }
            }
        }
    }

    fn is_over(&self, turn: u64) -> bool {
        let threads = lock(&self.threads);
        threads.turn != turn || !threads.has_receiver
    }

    /// Parks until there is no receiver, to become it. Returns the number of the turn; none if enough
    /// threads are parked.
    fn take_vacancy(&self) -> Option<u64> {
        let mut threads = lock(&self.threads);
        if threads.has_receiver && threads.parked >= PARKED_MAX {
            threads.all -= 1;
            return None;
        }
        threads.parked += 1;
        while threads.has_receiver {
            threads = self.vacancy.wait(threads).unwrap_or_else(PoisonError::into_inner);
        }
        threads.parked -= 1;
        threads.has_receiver = true;
        threads.turn += 1;
        Some(threads.turn)
    }

    /// Ends a turn, unless that is over already, so that another thread receives. If there can be no
    /// other, the turn goes on, and calls wait for it.
    fn leave_vacancy(self: &Arc<Self>, turn: u64, wait: Wait) -> bool {
        let mut threads = lock(&self.threads);
        if !threads.has_receiver || threads.turn != turn {
            return true;
        }
        let most = match wait {
            // Each has a socket of the target's, and what it holds of that.
            Wait::ForPeer => WAITING_MAX.min(limits::own_descriptors() / 3),
            Wait::Bounded => THREADS_MAX,
        };
        let has_other = match threads.parked {
            0 => self.add_thread(&mut threads, most).is_ok(),
            _ => {
                self.vacancy.notify_one();
                true
            }
        };
        threads.has_receiver = !has_other;
        drop(threads);
        if !has_other && wait == Wait::ForPeer {
            self.report_limit();
        }
        has_other
    }

    /// Has a thread do what is left of a job: to add a rule and to judge calls can take long.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if there can be none now.
    pub(crate) fn resume(self: &Arc<Self>, job: &Arc<Mutex<Job>>) -> io::Result<()> {
        let (pool, job, counted) = (Arc::clone(self), Arc::clone(job), Arc::clone(&self.resuming));
        if Arc::strong_count(&counted) > RESUMING_MAX + 1 {
            return Err(Errno::AGAIN);
        }
        spawn(CALL_STACK, move || {
            let _counted = counted;
            pool.work_off(&job);
        })
    }

    /// Adds the rule, then judges the calls again, one after the other: one that waits leaves the rest to another
    /// thread.
    fn work_off(self: &Arc<Self>, job: &Arc<Mutex<Job>>) {
        let grant = lock(job).grant.take();
        grant.into_iter().for_each(|grant| self.answerer.add_rule(grant));
        let is_left = AtomicBool::new(false);
        let pass_on = |_| {
            is_left.load(Ordering::SeqCst) || {
                let passed = self.resume(job).is_ok();
                is_left.store(passed, Ordering::SeqCst);
                passed
            }
        };
        // The lock is not held meanwhile.
        let next = || lock(job).calls.pop_front();
        while !is_left.load(Ordering::SeqCst)
            && let Some((waiting, fate)) = next()
        {
            let parked = match waiting {
                Waiting::Call(parked) => parked,
                Waiting::Connection(connection, granted) => {
                    let asking = self.answerer.judges.asking.iter();
                    asking.for_each(|asking| asking.decide(connection, granted.as_ref(), fate));
                    continue;
                }
            };
            let request = Request::new(&self.listener, &parked.notification, &pass_on);
            self.answerer.answer_again(request, &parked, fate);
        }
    }

    /// Says once that calls fail that would be waited for outside.
    fn report_limit(&self) {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Ordering::SeqCst) {
            warn("broker", "too many calls wait for peers: more of them fail with EAGAIN");
        }
    }
}
