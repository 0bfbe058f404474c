//! Process groups that the kernel kills when this process ends, whatever ends it, and whoever ends with it.
//!
//! No process has to be left for that: a pipe whose write end is closed signals the owner of its read end (O_ASYNC and
//! F_SETOWN in fcntl(2); pipe_release in fs/pipe.c), and an owner can be a group, and the signal SIGKILL (F_SETSIG). All
//! members get it at once: a fork fails whose caller has a fatal signal pending (copy_process in kernel/fork.c, under
//! the same lock). The kernel closes the descriptors of a process that ends in descending order (task_work_run in
//! kernel/task_work.c, since Linux 4.3), so that of a pipe the write end has the higher number. The owner is the group
//! itself, not its number, which may become another's when all members have gone.
//!
//! A process that was let through to join another group can do so while they are signalled one after the other, from one
//! that is still to be signalled to one that was. So each is signalled twice, all for the first time before any for
//! the second: to move again a process has to ask.

#![allow(unsafe_code)] // for fcntl(2) with an owner and a signal

use super::errno;
use super::limits::own_descriptors;
use super::threads::lock;
use nix::libc::{self, c_int};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{self, Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{self, Pid};
use std::sync::Mutex;

/// F_SETSIG (include/uapi/asm-generic/fcntl.h), which libc lacks.
const F_SETSIG: c_int = 10;

/// Above all descriptors for the second time are those for the first; where a process may have fewer than four times as
/// many, there is no second time.
const FIRST: i32 = 2048;

/// From how many groups on it is asked which are left.
const SWEEP_MIN: usize = 16;

/// All groups of the sandbox, each added before its first member is in it.
#[derive(Debug, Default)]
pub struct KillOnExit(Mutex<Groups>);

#[derive(Debug, Default)]
struct Groups {
    armed: Vec<Armed>,
    /// When there are so many, it is looked which are left.
    sweep_at: usize,
}

/// A group with the pipes that it owns.
#[derive(Debug)]
struct Armed {
    group: Pid,
    pipes: Vec<Pipe>,
}

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    _write: OwnedFd,
}

impl KillOnExit {
    /// Adds the group with the number of `leader`, a process that must be known to be of the sandbox, also after this
    /// call: it need not lead the group yet.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if there is neither such a process nor such a group, [`Errno::AGAIN`] if there are too
    /// many, and the errors of pipe(2).
    pub fn add(&self, leader: Pid) -> io::Result<()> {
        let mut groups = lock(&self.0);
        if let Some(armed) = groups.armed.iter().find(|armed| armed.group == leader) {
            // The number may have been that of a group before.
            return armed.own();
        }
        if groups.armed.len() >= groups.sweep_at {
            groups.armed.retain(Armed::is_needed);
            let count = groups.armed.len();
            // The broker needs descriptors for more than this: half of them are for groups, four each, or two.
            let limit = own_descriptors() / if is_twice() { 8 } else { 4 };
            if count >= limit {
                return Err(Errno::AGAIN);
            }
            groups.sweep_at = SWEEP_MIN.max(2 * count).min(limit);
        }
        groups.armed.push(Armed::new(leader)?);
        Ok(())
    }
}

fn is_twice() -> bool {
    own_descriptors() >= 4 * FIRST.unsigned_abs() as usize
}

impl Armed {
    fn new(group: Pid) -> io::Result<Self> {
        let lowest = if is_twice() { &[FIRST, 0][..] } else { &[0] };
        let pipes: io::Result<_> = lowest.iter().map(|lowest| Pipe::new(*lowest)).collect();
        let armed = Self { group, pipes: pipes? };
        armed.own()?;
        Ok(armed)
    }

    /// Makes the group that has the number now the owner.
    fn own(&self) -> io::Result<()> {
        self.pipes.iter().try_for_each(|pipe| pipe.set(libc::F_SETOWN, -self.group.as_raw_pid()))
    }

    /// Whether the group has a member, or the process lives that was to lead it.
    fn is_needed(&self) -> bool {
        let has_gone = |found: io::Result<()>| found == Err(Errno::SRCH);
        !has_gone(process::test_kill_process_group(self.group))
            || !has_gone(process::test_kill_process(self.group))
    }
}

impl Pipe {
    /// One that signals whoever will own it, of which the write end has a number from `lowest` on.
    fn new(lowest: i32) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let lowest = lowest.max(read.as_raw_fd());
        let write = match write.as_raw_fd() > lowest {
            true => write,
            false => fcntl_dupfd_cloexec(&write, lowest)?,
        };
        // Nothing is written to it, and a user has only so many pages of pipes.
        let _ = fcntl_setpipe_size(&write, 1);
        let pipe = Self { read, _write: write };
        pipe.set(F_SETSIG, libc::SIGKILL)?;
        pipe.set(libc::F_SETFL, libc::O_ASYNC)?;
        Ok(pipe)
    }

    fn set(&self, command: c_int, value: c_int) -> io::Result<()> {
        // SAFETY: takes integers, and the descriptor is open.
        errno::result(unsafe { libc::fcntl(self.read.as_raw_fd(), command, value) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::process::{Resource, Rlimit, setrlimit};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    #[test]
    fn all_groups_are_killed_once_before_any_is_again() {
        let most = process::getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
        let sleep = || Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let mut children: Vec<Child> = (0..3).map(|_| sleep()).collect();
        let groups = KillOnExit::default();
        for child in &children {
            groups.add(Pid::from_child(child)).unwrap();
        }
        if is_twice() {
            let armed = &lock(&groups.0).armed;
            let ends = |time: usize| armed.iter().map(move |it| it.pipes[time]._write.as_raw_fd());
            assert!(ends(0).min() > ends(1).max());
        }
        // As the kernel does it.
        for pipe in groups.0.into_inner().unwrap().armed.into_iter().flat_map(|it| it.pipes) {
            drop(pipe._write);
            drop(pipe.read);
        }
        for child in &mut children {
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        }
    }
}
