//! The sockets of the sandbox that the broker holds.
//!
//! Stand-ins: where the platform refuses pidfd_getfd(2), as Docker's default seccomp profile does, the broker
//! makes the command's sockets and keeps a duplicate of each. It does so too when it has to put one
//! in the place of a socket that it did not make: one that was inherited, or made with other
//! credentials. And the sockets of UDP that the command has at loopback addresses ([`OwnDatagrams`]).
//!
//! A duplicate keeps a port taken and a connection open, and nothing tells when the sandbox has
//! closed the socket. So a stand-in that is connected is left to the sandbox, and the others are
//! looked for.

use super::own_datagrams::OwnDatagrams;
use kernel::fd_scan;
use kernel::limits;
use kernel::target::{Target, TargetFd};
use kernel::threads::{SMALL_STACK, lock, spawn};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::net::{self, SocketType, sockopt};
use rustix::process::Pid;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// How often it is looked whether the sandbox still has what is held.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Most stand-ins that are kept at a time, and no more than half of the descriptors that the broker may have: the
/// rest is for what it does.
const KEPT_MAX: usize = 4096;
/// Most that are remembered to be connected.
const LEFT_MAX: usize = 4096;

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct HeldSockets {
    stand_ins: Mutex<StandIns>,
    pub(super) datagrams: OwnDatagrams,
    /// Who binds a socket reads, from before until it is known: others reach it at its address, or find its file,
    /// a moment before that.
    binding: RwLock<()>,
    /// A thread looks after those that are held.
    looked_after: Mutex<bool>,
}

#[derive(Debug, Default)]
struct StandIns {
    /// By inode.
    kept: HashMap<u64, StandIn>,
    /// Those that were connected last, and left to the sandbox.
    left: VecDeque<Left>,
}

/// Who had a socket last, under which number: where to look first. None if nobody in the sandbox has it.
pub(super) type Holder = Option<(Pid, TargetFd)>;

#[derive(Debug)]
struct StandIn {
    socket: OwnedFd,
    holder: Holder,
    /// Others may find its port taken.
    is_bound: bool,
}

#[derive(Debug)]
struct Left {
    inode: u64,
    /// Whether a connect has said so: the first that is made after the fact does (connect(2)).
    told: bool,
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
        let mut all = lock(&self.stand_ins);
        if all.kept.is_empty() {
            return Ok(None);
        }
        let there = fd_scan::socket_at(target.thread(), number);
        let Some(one) = there.and_then(|inode| all.kept.get_mut(&inode)) else {
            return Ok(None);
        };
        one.holder = Some((target.thread(), number));
        io::fcntl_dupfd_cloexec(&one.socket, 0).map(Some)
    }

    /// Leaves `socket` to the sandbox if it is connected: only the sandbox shall keep it open. `told`
    /// is whether the sandbox knows.
    pub(crate) fn leave_if_connected(&self, socket: impl AsFd, told: bool) {
        let mut all = lock(&self.stand_ins);
        if !all.kept.is_empty()
            && is_connected(&socket)
            && let Ok(inode) = inode(&socket)
        {
            all.leave(inode, told);
        }
    }

    /// Whether descriptor `number` of `target` is a socket that was left to the sandbox.
    pub(crate) fn is_left(&self, target: Target, number: TargetFd) -> bool {
        lock(&self.stand_ins).left_at(target, number).is_some()
    }

    /// Whether it was left without the sandbox's knowledge, which it has from now on.
    pub(crate) fn tell(&self, target: Target, number: TargetFd) -> bool {
        let mut all = lock(&self.stand_ins);
        all.left_at(target, number).is_some_and(|left| !std::mem::replace(&mut left.told, true))
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
        let inode = inode(&socket)?;
        let socket = io::fcntl_dupfd_cloexec(&socket, 0)?;
        let _until_known = self.look_after()?;
        let mut all = lock(&self.stand_ins);
        if all.kept.contains_key(&inode) {
            return Ok(());
        }
        if all.kept.len() >= KEPT_MAX.min(limits::own_descriptors() / 2) {
            // One that is not bound can be replaced when it is used.
            let idle = all.kept.iter().find(|(_, one)| !one.is_bound).map(|(&inode, _)| inode);
            all.kept.remove(&idle.ok_or(Errno::NOBUFS)?);
        }
        let holder = Some((target.thread(), number));
        all.kept.insert(inode, StandIn { socket, holder, is_bound: false });
        Ok(())
    }

    /// Notes that `socket` has been bound, if it is kept.
    pub(crate) fn note_bound(&self, socket: impl AsFd) {
        let mut all = lock(&self.stand_ins);
        if !all.kept.is_empty()
            && let Some(one) = inode(socket).ok().and_then(|inode| all.kept.get_mut(&inode))
        {
            one.is_bound = true;
        }
    }

    /// To be held from before a socket is bound until it is known.
    pub(super) fn begin_to_bind(&self) -> RwLockReadGuard<'_, ()> {
        self.binding.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until each socket that is bound by now is known. As long as what is returned is held, none is bound.
    pub(super) fn wait_for_binding(&self) -> RwLockWriteGuard<'_, ()> {
        self.binding.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread look after what is held, as long as there is anything. To be kept until that is known.
    pub(super) fn look_after(self: &Arc<Self>) -> io::Result<MutexGuard<'_, bool>> {
        let mut looked_after = lock(&self.looked_after);
        if !*looked_after {
            let all = Arc::clone(self);
            spawn(SMALL_STACK, move || all.sweep())?;
            *looked_after = true;
        }
        Ok(looked_after)
    }

    fn sweep(&self) {
        loop {
            std::thread::sleep(LOOK_INTERVAL);
            lock(&self.stand_ins).leave_connected();
            self.release_closed();
            let mut looked_after = lock(&self.looked_after);
            if lock(&self.stand_ins).kept.is_empty() && self.datagrams.is_empty() {
                *looked_after = false;
                return;
            }
        }
    }

    /// Lets go of what nobody in the sandbox has any more.
    pub(crate) fn release_closed(&self) {
        let mut lost = HashSet::new();
        self.each_holder(|inode, holder| {
            if is_lost(inode, *holder) {
                lost.insert(inode);
            }
        });
        // Twice: a socket that goes from one process to another can be overlooked.
        let seen = if lost.is_empty() { None } else { sockets_of_tree().zip(sockets_of_tree()) };
        if let Some((first, second)) = seen {
            self.each_holder(|inode, holder| {
                let seen = second.get(&inode).or_else(|| first.get(&inode));
                if lost.contains(&inode) && (seen.is_some() || is_lost(inode, *holder)) {
                    *holder = seen.copied();
                }
            });
        }
        lock(&self.stand_ins).kept.retain(|_, one| one.holder.is_some());
        self.datagrams.release();
    }

    fn each_holder(&self, mut look: impl FnMut(u64, &mut Holder)) {
        lock(&self.stand_ins)
            .kept
            .iter_mut()
            .for_each(|(&inode, one)| look(inode, &mut one.holder));
        self.datagrams.each_holder(look);
    }
}

impl StandIns {
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

    /// Leaves those to the sandbox of which nobody waited until they were connected.
    fn leave_connected(&mut self) {
        let connected = self.kept.iter().filter(|(_, one)| is_connected(&one.socket));
        let connected: Vec<u64> = connected.map(|(&inode, _)| inode).collect();
        connected.into_iter().for_each(|inode| self.leave(inode, false));
    }
}

/// Whether the sandbox had it and has it no more where it was.
fn is_lost(inode: u64, holder: Holder) -> bool {
    holder.is_some_and(|(process, number)| fd_scan::socket_at(process, number) != Some(inode))
}

/// By what a socket is known as long as somebody has it.
pub(super) fn inode(socket: impl AsFd) -> io::Result<u64> {
    fs::fstat(socket).map(|stat| stat.st_ino)
}

/// Whether there is a peer that would notice that the socket is closed: not for datagram sockets,
/// which are connected again at will.
fn is_connected(socket: impl AsFd) -> bool {
    let kind = sockopt::socket_type(&socket);
    [Ok(SocketType::STREAM), Ok(SocketType::SEQPACKET)].contains(&kind)
        && net::getpeername(&socket).is_ok_and(|peer| peer.is_some())
}

/// The sockets that the sandbox has, and where; none if there are too many to look at.
fn sockets_of_tree() -> Option<HashMap<u64, (Pid, TargetFd)>> {
    let mut found = HashMap::new();
    let all = fd_scan::each_socket(|process, number, inode| {
        found.insert(inode, (process, number));
        ControlFlow::Continue(())
    });
    all.then_some(found)
}
