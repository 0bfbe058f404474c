//! The sockets of the sandbox that the broker cannot get at when it needs them.
//!
//! Where the platform refuses pidfd_getfd(2), as Docker's default seccomp profile does, the broker
//! makes the command's sockets and keeps a duplicate of each. It does so too when it has to put one
//! in the place of a socket that it did not make: one that was inherited, or made with other
//! credentials.
//!
//! A duplicate keeps a port taken and a connection open, and nothing tells when the sandbox has
//! closed the socket. So a socket that is connected is left to the sandbox, and the others are
//! looked for.

use kernel::fd_scan;
use kernel::limits;
use kernel::target::{Target, TargetFd};
use kernel::threads::{SMALL_STACK, lock, spawn};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::net::{self, SocketType, sockopt};
use rustix::process::Pid;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often it is looked whether the sandbox still has what is kept.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Most that are kept at a time, and no more than half of the descriptors that the broker may have: the
/// rest is for what it does.
const KEPT_MAX: usize = 4096;
/// Most that are remembered to be connected.
const LEFT_MAX: usize = 4096;

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct HeldSockets {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By inode.
    kept: HashMap<u64, HeldSocket>,
    /// Those that were connected last, and left to the sandbox.
    left: VecDeque<Left>,
    /// A thread looks after those that are kept.
    looked_after: bool,
}

#[derive(Debug)]
struct Left {
    inode: u64,
    /// Whether a connect has said so: the first that is made after the fact does (connect(2)).
    told: bool,
}

#[derive(Debug)]
struct HeldSocket {
    socket: OwnedFd,
    /// Who had it last, under which number: where to look first.
    holder: Pid,
    number: TargetFd,
    /// It was bound: others may find its port taken.
    bound: bool,
}

impl HeldSockets {
    /// A duplicate of descriptor `number` of `target`, which is a socket: taken from it, or of the
    /// one that was put there.
    ///
    /// # Errors
    /// As [`Target::duplicate`]; [`Errno::PERM`] if neither can be had.
    pub(crate) fn duplicate(&self, target: Target, number: TargetFd) -> io::Result<OwnedFd> {
        target.duplicate(number).or_else(|errno| match errno {
            Errno::PERM => self.find(target, number)?.ok_or(errno),
            _ => Err(errno),
        })
    }

    fn find(&self, target: Target, number: TargetFd) -> io::Result<Option<OwnedFd>> {
        let mut known = lock(&self.known);
        if known.kept.is_empty() {
            return Ok(None);
        }
        let there = fd_scan::socket_at(target.thread(), number);
        let Some(one) = there.and_then(|inode| known.kept.get_mut(&inode)) else {
            return Ok(None);
        };
        (one.holder, one.number) = (target.thread(), number);
        io::fcntl_dupfd_cloexec(&one.socket, 0).map(Some)
    }

    /// Leaves `socket` to the sandbox if it is connected: only the sandbox shall keep it open. `told`
    /// is whether the sandbox knows.
    pub(crate) fn leave_if_connected(&self, socket: impl AsFd, told: bool) {
        let mut known = lock(&self.known);
        if known.kept.is_empty() || !is_connected(&socket) {
            return;
        }
        if let Ok(stat) = fs::fstat(&socket) {
            known.leave(stat.st_ino, told);
        }
    }

    /// Whether descriptor `number` of `target` is a socket that was left to the sandbox.
    pub(crate) fn is_left(&self, target: Target, number: TargetFd) -> bool {
        lock(&self.known).left_at(target, number).is_some()
    }

    /// Whether it was left without the sandbox's knowledge, which it has from now on.
    pub(crate) fn tell(&self, target: Target, number: TargetFd) -> bool {
        let mut known = lock(&self.known);
        known.left_at(target, number).is_some_and(|left| !std::mem::replace(&mut left.told, true))
    }

    /// Keeps `socket`, which `target` has got as descriptor `number`, as long as the sandbox has it.
    ///
    /// # Errors
    /// Returns [`Errno::NOBUFS`] if too many are kept that are bound.
    pub(crate) fn keep(
        self: &Arc<Self>,
        target: Target,
        number: TargetFd,
        socket: impl AsFd,
    ) -> io::Result<()> {
        let inode = fs::fstat(&socket)?.st_ino;
        let socket = io::fcntl_dupfd_cloexec(&socket, 0)?;
        let mut known = lock(&self.known);
        if known.kept.contains_key(&inode) {
            return Ok(());
        }
        if known.kept.len() >= kept_max() {
            // One that is not bound can be replaced when it is used.
            let idle = known.kept.iter().find(|(_, one)| !one.bound).map(|(&inode, _)| inode);
            known.kept.remove(&idle.ok_or(Errno::NOBUFS)?);
        }
        if !known.looked_after {
            let all = Arc::clone(self);
            spawn(SMALL_STACK, move || all.look_after())?;
            known.looked_after = true;
        }
        let holder = target.thread();
        known.kept.insert(inode, HeldSocket { socket, holder, number, bound: false });
        Ok(())
    }

    /// Notes that `socket` has been bound, if it is kept.
    pub(crate) fn note_bound(&self, socket: impl AsFd) {
        let mut known = lock(&self.known);
        if known.kept.is_empty() {
            return;
        }
        let inode = fs::fstat(socket).map(|stat| stat.st_ino);
        if let Some(one) = inode.ok().and_then(|inode| known.kept.get_mut(&inode)) {
            one.bound = true;
        }
    }

    fn look_after(&self) {
        loop {
            std::thread::sleep(LOOK_INTERVAL);
            self.leave_connected();
            self.let_go(|_| true);
            let mut known = lock(&self.known);
            if known.kept.is_empty() {
                known.looked_after = false;
                return;
            }
        }
    }

    /// Leaves those to the sandbox of which nobody waited until they were connected.
    fn leave_connected(&self) {
        let mut known = lock(&self.known);
        let connected = known.kept.iter().filter(|(_, one)| is_connected(&one.socket));
        let connected: Vec<u64> = connected.map(|(&inode, _)| inode).collect();
        connected.into_iter().for_each(|inode| known.leave(inode, false));
    }

    /// Lets go of what was bound, and nobody in the sandbox has any more.
    pub(crate) fn release_closed(&self) {
        self.let_go(|one| one.bound);
    }

    /// Lets go of those that are `meant` and that nobody in the sandbox has any more.
    fn let_go(&self, meant: impl Fn(&HeldSocket) -> bool) {
        let known = lock(&self.known);
        let lost = known.kept.iter().filter(|(inode, one)| meant(one) && one.is_lost(**inode));
        let lost: Vec<u64> = lost.map(|(&inode, _)| inode).collect();
        drop(known);
        if lost.is_empty() {
            return;
        }
        // Twice: a socket that goes from one process to another can be overlooked.
        let (Some(held), Some(later)) = (sockets_of_tree(), sockets_of_tree()) else { return };
        let mut known = lock(&self.known);
        for inode in lost {
            let holder = later.get(&inode).or_else(|| held.get(&inode));
            match (known.kept.get_mut(&inode), holder) {
                (Some(one), Some(&holder)) => (one.holder, one.number) = holder,
                (Some(one), None) if one.is_lost(inode) => drop(known.kept.remove(&inode)),
                _ => {}
            }
        }
    }
}

impl Known {
    /// What was left that `target` has as descriptor `number`.
    fn left_at(&mut self, target: Target, number: TargetFd) -> Option<&mut Left> {
        if self.left.is_empty() {
            return None;
        }
        // The inode numbers of sockets are reused only after all others were.
        let inode = fd_scan::socket_at(target.thread(), number)?;
        self.left.iter_mut().find(|left| left.inode == inode)
    }

    /// Leaves `inode` to the sandbox.
    fn leave(&mut self, inode: u64, told: bool) {
        if self.kept.remove(&inode).is_none() {
            return;
        }
        if self.left.len() >= LEFT_MAX {
            self.left.pop_front();
        }
        self.left.push_back(Left { inode, told });
    }
}

impl HeldSocket {
    /// Whether it is not any more where it was.
    fn is_lost(&self, inode: u64) -> bool {
        fd_scan::socket_at(self.holder, self.number) != Some(inode)
    }
}

fn kept_max() -> usize {
    KEPT_MAX.min(limits::own_descriptors() / 2)
}

/// Whether there is a peer that would notice that the socket is closed: not for datagram sockets,
/// which are connected again at will.
fn is_connected(socket: impl AsFd) -> bool {
    let kind = sockopt::socket_type(&socket);
    [Ok(SocketType::STREAM), Ok(SocketType::SEQPACKET)].contains(&kind)
        && net::getpeername(&socket).is_ok_and(|peer| peer.is_some())
}

/// The sockets that the sandbox has, and where; none if there are too many to look at.
pub(super) fn sockets_of_tree() -> Option<HashMap<u64, (Pid, TargetFd)>> {
    let mut found = HashMap::new();
    let all = fd_scan::each_socket(|process, number, inode| {
        found.insert(inode, (process, number));
        ControlFlow::Continue(())
    });
    all.then_some(found)
}
