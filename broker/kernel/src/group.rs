//! Process groups: a number that stays that of one group as long as it is held.
//!
//! A number is free when no process has it any more, nor as its group or session; a process that has ended has all three
//! until it is reaped (release_task in kernel/exit.rs). So the broker keeps one in the group, not reaped. Those that
//! have ended do not count for the kernel where it looks whether a group is orphaned.

use super::kill;
use super::proc::{self, Status};
use super::vfork_helper;
use nix::unistd::{self, Pid as Id};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid};

/// A process group of this process's session, the number of which stays its own.
#[derive(Debug)]
pub struct HeldGroup(Pid);

impl HeldGroup {
    /// Holds `group`, of which the caller knows that it is of the sandbox: to leave one of others can orphan it.
    ///
    /// # Errors
    /// Returns [`Errno::PERM`] if there is none in this session.
    pub fn of(group: Pid) -> io::Result<Self> {
        let (member, joined) = vfork_helper::start(|| process::setpgid(None, Some(group)))?;
        let held = Self(member);
        joined.map(|()| held)
    }
}

impl Drop for HeldGroup {
    fn drop(&mut self) {
        kill::reap_clone(self.0);
    }
}

/// The group of a process; none if there is no such process.
pub fn of(process: i32) -> Option<i32> {
    unistd::getpgid(Some(Id::from_raw(process))).ok().map(Id::as_raw)
}

/// The group of this process.
pub fn own() -> i32 {
    unistd::getpgrp().as_raw()
}

/// Whether a process is of the session of this one.
pub fn shares_session(process: i32) -> io::Result<bool> {
    let session = |id| unistd::getsid(id).map_err(|errno| Errno::from_raw_os_error(errno as i32));
    Ok(session(Some(Id::from_raw(process)))? == session(None)?)
}

/// Whether nobody beside `group` in its session is the parent of a member, who could continue it (credentials(7)).
pub fn is_orphaned(group: i32) -> io::Result<bool> {
    let session = |process| unistd::getsid(Some(Id::from_raw(process)));
    let is_parent = |parent: i32, of_whom: i32| {
        of(parent) != Some(group) && session(parent) == session(of_whom)
    };
    Ok(!members(group)?.into_iter().any(|member| {
        let parent = Pid::from_raw(member).and_then(|id| Status::of(id).ok()?.parent().ok());
        parent.is_some_and(|parent| is_parent(parent.as_raw_pid(), member))
    }))
}

/// Whether somebody of `group` has not ended. Where processes are hidden, those that have ended count as well.
pub fn lives(group: i32) -> io::Result<bool> {
    match Pid::from_raw(group).map(process::test_kill_process_group) {
        Some(Err(Errno::SRCH)) => Ok(false),
        Some(Ok(())) => Ok(!members(group)?.is_empty() || proc::hides_processes()?),
        // They may not be signalled, or are outside of this PID namespace.
        _ => Ok(true),
    }
}

/// The processes of `group` that have not ended.
pub fn members(group: i32) -> io::Result<Vec<i32>> {
    let lives = |id: &i32| {
        let status = Pid::from_raw(*id).ok_or(Errno::SRCH).and_then(Status::of);
        status.is_ok_and(|status| !status.has_ended())
    };
    let ids = proc::processes()?.into_iter().filter(|id| of(*id) == Some(group));
    Ok(ids.filter(lives).collect())
}
