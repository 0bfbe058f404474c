//! What is undone when a process ends: SEM_UNDO in semop(2).
//!
//! Nobody can see the value of a semaphore without a call that is answered here. So ends are looked for when there is
//! such a call: whoever has reaped the process finds it undone.

use crate::Caller;
use nix::libc;
use rustix::io::{self, Errno};
use std::collections::HashMap;
use std::fmt::Debug;

/// Most processes that have something to undo: each is a descriptor of the broker's.
const PROCESSES_MAX: usize = 1024;
/// Most semaphores that one process adjusts.
const ADJUSTMENTS_MAX: usize = 2048;
/// Furthest from 0 that a value is adjusted by (`SEMAEM`).
const ADJUSTMENT_MAX: i32 = 32767;
/// Tells which processes have ended.
pub trait Ends: Debug + Send {
    /// Tells it of `process`, whoever has its number by then; it is that of the caller if `confirm` says so afterwards.
    ///
    /// # Errors
    /// Returns what `confirm` does, and why the end cannot be told.
    fn watch(&mut self, process: i32, confirm: &dyn Fn() -> io::Result<()>) -> io::Result<()>;

    /// Some of those that have ended since, each once; none when there are no more.
    fn take(&mut self) -> Vec<i32>;
}

/// What each process would have undone.
#[derive(Debug)]
pub(crate) struct Undo {
    ends: Box<dyn Ends>,
    processes: HashMap<i32, Adjustments>,
}

/// By set and semaphore.
pub(crate) type Adjustments = HashMap<(i32, u16), i32>;

impl Undo {
    pub(crate) fn new(ends: Box<dyn Ends>) -> Self {
        Self { ends, processes: HashMap::new() }
    }

    /// Keeps account of what `process`, which makes this call, does from now on.
    ///
    /// # Errors
    /// Returns [`Errno::NOSPC`] if there are too many.
    pub(crate) fn begin(&mut self, caller: &dyn Caller, process: i32) -> io::Result<()> {
        if self.processes.contains_key(&process) {
            return Ok(());
        }
        if self.processes.len() >= PROCESSES_MAX {
            return Err(Errno::NOSPC);
        }
        self.ends.watch(process, &|| caller.confirm())?;
        self.processes.insert(process, Adjustments::new());
        Ok(())
    }

    /// Notes an operation.
    ///
    /// # Errors
    /// Returns [`Errno::RANGE`] if that is too much to undo, [`Errno::NOSPC`] if too many semaphores are to be adjusted,
    /// [`Errno::SRCH`] if the process has ended.
    pub(crate) fn note(
        &mut self,
        process: i32,
        set: i32,
        semaphore: u16,
        change: i16,
    ) -> io::Result<()> {
        let adjustments = self.processes.get_mut(&process).ok_or(Errno::SRCH)?;
        let place = (set, semaphore);
        let former = adjustments.get(&place);
        if former.is_none() && adjustments.len() >= ADJUSTMENTS_MAX {
            return Err(Errno::NOSPC);
        }
        let new = former.unwrap_or(&0) - i32::from(change);
        if !(-ADJUSTMENT_MAX - 1..=ADJUSTMENT_MAX).contains(&new) {
            return Err(Errno::RANGE);
        }
        match new {
            0 => adjustments.remove(&place),
            new => adjustments.insert(place, new),
        };
        Ok(())
    }

    /// Forgets what concerns a set, or a semaphore of it.
    pub(crate) fn forget(&mut self, set: i32, semaphore: Option<u16>) {
        for adjustments in self.processes.values_mut() {
            let is_other = |&(of, number): &(i32, u16)| {
                of != set || semaphore.is_some_and(|semaphore| semaphore != number)
            };
            adjustments.retain(|place, _| is_other(place));
        }
    }

    /// What is to be undone for processes that have ended; some of them, and none when there are no more.
    pub(crate) fn take_ended(&mut self) -> Vec<(i32, Adjustments)> {
        if self.processes.is_empty() {
            return Vec::new();
        }
        let ended = self.ends.take().into_iter();
        ended.filter_map(|id| self.processes.remove(&id).map(|undone| (id, undone))).collect()
    }
}

/// SEM_UNDO among the flags of an operation.
pub(crate) fn is_wanted(flags: i16) -> bool {
    i32::from(flags) & libc::SEM_UNDO != 0
}
