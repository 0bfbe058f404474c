//! Sockets of the broker's own that stand in the place of the target's.
//!
//! Where the platform refuses pidfd_getfd(2), as Docker's default seccomp profile does, the broker
//! binds a socket of its own and puts it in place. It could not get at that again when the target
//! makes it listen, connects or shuts it down, and keeps a duplicate therefore. A duplicate keeps
//! the port taken, and nothing tells when the sandbox has closed the socket: so it is looked for.

use crate::notify::target::Target;
use crate::perform::holders;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::process::Pid;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it is looked whether the sandbox still has what is kept.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Most that are kept at a time.
const KEPT_MAX: usize = 4096;

/// What is kept of them.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    kept: Mutex<Vec<StandIn>>,
}

#[derive(Debug)]
struct StandIn {
    socket: OwnedFd,
    inode: u64,
    /// Who had it last, under which number: where to look first.
    holder: Pid,
    number: RawFd,
}

impl StandIns {
    /// A duplicate of descriptor `number` of `target`, which is a socket: taken from it, or of the
    /// one that was put there.
    ///
    /// # Errors
    /// As [`Target::duplicate`]; [`Errno::PERM`] means that it is neither to be had.
    pub(crate) fn duplicate(&self, target: Target, number: RawFd) -> io::Result<OwnedFd> {
        target.duplicate(number).or_else(|errno| match errno {
            Errno::PERM => self.find(target, number)?.ok_or(errno),
            _ => Err(errno),
        })
    }

    fn find(&self, target: Target, number: RawFd) -> io::Result<Option<OwnedFd>> {
        let mut kept = self.kept();
        if kept.is_empty() {
            return Ok(None);
        }
        let there = holders::socket_at(target.thread(), number);
        let Some(one) = kept.iter_mut().find(|one| Some(one.inode) == there) else {
            return Ok(None);
        };
        (one.holder, one.number) = (target.thread(), number);
        io::fcntl_dupfd_cloexec(&one.socket, 0).map(Some)
    }

    /// Keeps `socket`, which `target` has got as descriptor `number`, as long as the sandbox has it.
    ///
    /// # Errors
    /// Returns [`Errno::NOBUFS`] if too many are kept.
    pub(crate) fn keep(
        self: &Arc<Self>,
        target: Target,
        number: RawFd,
        socket: impl AsFd,
    ) -> io::Result<()> {
        let inode = fs::fstat(&socket)?.st_ino;
        let socket = io::fcntl_dupfd_cloexec(&socket, 0)?;
        let mut kept = self.kept();
        if kept.iter().any(|one| one.inode == inode) {
            return Ok(());
        }
        if kept.len() >= KEPT_MAX {
            return Err(Errno::NOBUFS);
        }
        // While there are any, a thread looks after them.
        if kept.is_empty() {
            let all = Arc::clone(self);
            let thread = std::thread::Builder::new().stack_size(64 * 1024);
            thread.spawn(move || all.look_after()).map_err(|_| Errno::AGAIN)?;
        }
        kept.push(StandIn { socket, inode, holder: target.thread(), number });
        Ok(())
    }

    fn look_after(&self) {
        loop {
            std::thread::sleep(LOOK_INTERVAL);
            self.let_go();
            if self.kept().is_empty() {
                return;
            }
        }
    }

    /// Lets go of what nobody in the sandbox has any more; returns whether there was any.
    pub(crate) fn let_go(&self) -> bool {
        let mut kept = self.kept();
        let lost = |one: &StandIn| holders::socket_at(one.holder, one.number) != Some(one.inode);
        if !kept.iter().any(lost) {
            return false;
        }
        // Twice: a socket that goes from one process to another can be overlooked.
        let (Some(held), Some(later)) = (held_sockets(), held_sockets()) else { return false };
        let before = kept.len();
        kept.retain_mut(|one| {
            if !lost(one) {
                return true;
            }
            let holder = later.get(&one.inode).or_else(|| held.get(&one.inode));
            if let Some(&holder) = holder {
                (one.holder, one.number) = holder;
            }
            holder.is_some()
        });
        kept.len() < before
    }

    fn kept(&self) -> MutexGuard<'_, Vec<StandIn>> {
        // Each entry is whole by itself.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sockets that the sandbox has, and where; none if there are too many to look at.
fn held_sockets() -> Option<HashMap<u64, (Pid, RawFd)>> {
    let mut found = HashMap::new();
    let all = holders::each_socket(|process, number, inode| {
        found.insert(inode, (process, number));
        ControlFlow::Continue(())
    });
    all.then_some(found)
}
