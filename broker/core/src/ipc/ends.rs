//! Which processes have ended that semaphores are undone for: pidfd_open(2), poll(2).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, PidfdFlags};
use std::collections::HashMap;

/// Handles: while one is open, the end is told of this process, whoever has its number by then.
#[derive(Debug, Default)]
pub(super) struct Ends(HashMap<i32, OwnedFd>);

impl sysv::undo::Ends for Ends {
    fn watch(&mut self, process: i32, confirm: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        let id = Pid::from_raw(process).ok_or(Errno::SRCH)?;
        let handle = process::pidfd_open(id, PidfdFlags::empty())?;
        confirm()?;
        self.0.insert(process, handle);
        Ok(())
    }

    fn take(&mut self) -> Vec<i32> {
        let handles = self.0.values();
        let mut fds: Vec<_> = handles.map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        // Where it fails, none has.
        let _ = poll(&mut fds, Some(&Timespec::default()));
        let ended = self.0.keys().zip(&fds).filter(|(_, handle)| !handle.revents().is_empty());
        let ended: Vec<_> = ended.map(|(process, _)| *process).collect();
        ended.iter().for_each(|process| drop(self.0.remove(process)));
        ended
    }
}
