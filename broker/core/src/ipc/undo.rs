//! What is undone when a process ends: SEM_UNDO in semop(2).
//!
//! Nobody can see the value of a semaphore without a call that is answered here. So ends are looked for when there is
//! such a call: whoever has reaped the process finds it undone.

use kernel::request::Request;
use nix::libc;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, PidfdFlags};
use std::collections::HashMap;

/// Most processes that have something to undo: each is a descriptor of the broker's.
const PROCESSES_MAX: usize = 1024;
/// Most semaphores that one process adjusts.
const ADJUSTMENTS_MAX: usize = 2048;
/// Furthest from 0 that a value is adjusted by (`SEMAEM`).
const ADJUSTMENT_MAX: i32 = 32767;
/// How many ends are taken at a time.
const ENDS: usize = 16;

/// What each process would have undone.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// Tells which have ended.
    ends: Option<OwnedFd>,
    processes: HashMap<i32, Process>,
}

#[derive(Debug)]
struct Process {
    /// While it is open, the end is told of this process, whoever has its number by then.
    _handle: OwnedFd,
    adjustments: Adjustments,
}

/// By set and semaphore.
pub(super) type Adjustments = HashMap<(i32, u16), i32>;

impl Undo {
    /// Keeps account of what `process`, which makes this call, does from now on.
    ///
    /// # Errors
    /// Returns [`Errno::NOSPC`] if there are too many.
    pub(super) fn begin(&mut self, request: &Request<'_>, process: i32) -> io::Result<()> {
        if self.processes.contains_key(&process) {
            return Ok(());
        }
        if self.processes.len() >= PROCESSES_MAX {
            return Err(Errno::NOSPC);
        }
        let id = Pid::from_raw(process).ok_or(Errno::SRCH)?;
        let handle = process::pidfd_open(id, PidfdFlags::empty())?;
        request.confirm()?;
        if self.ends.is_none() {
            self.ends = Some(epoll::create(CreateFlags::CLOEXEC)?);
        }
        let ends = self.ends.as_ref().ok_or(Errno::NOMEM)?;
        let data = EventData::new_u64(u64::from(process.cast_unsigned()));
        epoll::add(ends, &handle, data, EventFlags::IN)?;
        let adjustments = Adjustments::new();
        self.processes.insert(process, Process { _handle: handle, adjustments });
        Ok(())
    }

    /// Notes an operation.
    ///
    /// # Errors
    /// Returns [`Errno::RANGE`] if that is too much to undo, [`Errno::NOSPC`] if too many semaphores are to be adjusted,
    /// [`Errno::SRCH`] if the process has ended.
    pub(super) fn note(
        &mut self,
        process: i32,
        set: i32,
        semaphore: u16,
        change: i16,
    ) -> io::Result<()> {
        let adjustments = &mut self.processes.get_mut(&process).ok_or(Errno::SRCH)?.adjustments;
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
    pub(super) fn forget(&mut self, set: i32, semaphore: Option<u16>) {
        for process in self.processes.values_mut() {
            let is_other = |&(of, number): &(i32, u16)| {
                of != set || semaphore.is_some_and(|semaphore| semaphore != number)
            };
            process.adjustments.retain(|place, _| is_other(place));
        }
    }

    /// What is to be undone for processes that have ended; some of them, and none when there are no more.
    pub(super) fn take_ended(&mut self) -> Vec<(i32, Adjustments)> {
        let Some(ends) = self.ends.as_ref().filter(|_| !self.processes.is_empty()) else {
            return Vec::new();
        };
        let empty = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut found = [empty; ENDS];
        let count = epoll::wait(ends, &mut found[..], Some(&Timespec::default())).unwrap_or(0);
        let ended = found[..count].iter().filter_map(|event| i32::try_from(event.data.u64()).ok());
        ended
            .filter_map(|id| self.processes.remove(&id).map(|process| (id, process.adjustments)))
            .collect()
    }
}

/// SEM_UNDO among the flags of an operation.
pub(super) fn is_wanted(flags: i16) -> bool {
    i32::from(flags) & libc::SEM_UNDO != 0
}
