//! Which processes have ended that semaphores are undone for: pidfd_open(2), epoll(7).

use kernel::threads::once;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, PidfdFlags};
use std::collections::HashMap;
use std::sync::OnceLock;

/// How many ends are taken at a time.
const TAKEN: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Ends {
    all: OnceLock<OwnedFd>,
    /// While one is open, the end is told of this process, whoever has its number by then.
    handles: HashMap<i32, OwnedFd>,
}

impl sysv::undo::Ends for Ends {
    fn watch(&mut self, process: i32, confirm: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        let id = Pid::from_raw(process).ok_or(Errno::SRCH)?;
        let handle = process::pidfd_open(id, PidfdFlags::empty())?;
        confirm()?;
        let all = once(&self.all, || epoll::create(CreateFlags::CLOEXEC))?;
        let data = EventData::new_u64(u64::from(process.cast_unsigned()));
        epoll::add(all, &handle, data, EventFlags::IN)?;
        self.handles.insert(process, handle);
        Ok(())
    }

    fn take(&mut self) -> Vec<i32> {
        let empty = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut found = [empty; TAKEN];
        let wait = |all| epoll::wait(all, &mut found[..], Some(&Timespec::default())).ok();
        let count = self.all.get().and_then(wait).unwrap_or(0);
        let ended = found[..count].iter().filter_map(|event| i32::try_from(event.data.u64()).ok());
        ended.filter(|process| self.handles.remove(process).is_some()).collect()
    }
}
