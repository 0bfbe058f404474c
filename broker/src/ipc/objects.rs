//! The System V objects of one sandbox: those that its processes made, and no others (sysvipc(7)).
//!
//! The kernel has one table of them for all processes, in which everyone finds an object by its key, and
//! reaches it by its id if its mode permits. So the broker makes them for the command, under keys of its
//! own choice, and the command's keys mean something in this sandbox only. What is used by id goes on to
//! the kernel if the id is one of these: both are in registers.
//!
//! An id is not another object's while the broker looks: the kernel counts on with each object that it
//! makes, and gives the same id again after 65 536 of them at the earliest (ipc/util.c). Between an
//! answer and the call that it lets through there is no time for that. What others removed meanwhile,
//! and what has its id by now, shows by the key, which is random.

use crate::kernel::credentials::Credentials;
use crate::kernel::ipc::{self, Kind, PRIVATE};
use crate::kernel::request::Request;
use crate::kernel::rights::{self, Rights};
use crate::kernel::threads::lock;
use nix::libc;
use rustix::io::{self, Errno};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::HashMap;
use std::sync::Mutex;

/// Most objects at a time: the whole system has 4096 segments (shmget(2)).
const OBJECTS_MAX: usize = 1024;

/// Those that the sandbox made; removed when they are told to be.
#[derive(Debug, Default)]
pub(crate) struct Objects(Mutex<Made>);

#[derive(Debug, Default)]
struct Made {
    by_id: HashMap<(Kind, i32), Object>,
    /// Nothing is made any more.
    is_closed: bool,
}

#[derive(Debug)]
struct Object {
    /// By which the kernel knows it.
    key: i32,
    /// By which the command knows it.
    alias: i32,
    /// Whose it is, if that is not the broker's own user.
    owner: Option<Credentials>,
}

impl Object {
    /// Whether it still has this id.
    ///
    /// # Errors
    /// As [`ipc::is_lingering`]: that is not known.
    fn has(&self, kind: Kind, id: i32) -> io::Result<bool> {
        match kind {
            _ if kind.get(self.key, 0, 0) == Ok(id) => Ok(true),
            Kind::Segment => ipc::is_lingering(id),
            Kind::Semaphores | Kind::Queue => Ok(false),
        }
    }

    /// Removes it as who made it: even root may have given up the right to remove what others made.
    fn remove(&self, kind: Kind, id: i32) -> io::Result<()> {
        match &self.owner {
            Some(owner) => rights::with(owner, || kind.remove(id)),
            None => kind.remove(id),
        }
    }
}

impl Objects {
    /// shmget(2), semget(2) or msgget(2) for a target that waits.
    ///
    /// # Errors
    /// Returns what the call would in a system where nobody else makes such objects.
    pub(crate) fn get(
        &self,
        request: &Request<'_>,
        rights: &Rights,
        kind: Kind,
        key: i32,
        size: u64,
        flags: i32,
    ) -> io::Result<i32> {
        let target = request.target();
        let size = usize::try_from(size).map_err(|_| Errno::INVAL)?;
        let as_target = |work: &(dyn Fn() -> io::Result<(i32, i32)> + Sync)| {
            rights.with_credentials_of(target, || request.confirm().and_then(|_| work()))
        };
        let mut made = lock(&self.0);
        if let Some(known) = made.find(kind, key) {
            if flags & EXCLUSIVE == EXCLUSIVE {
                return Err(Errno::EXIST);
            }
            let flags = flags & !EXCLUSIVE;
            return as_target(&|| Ok((kind.get(known, size, flags)?, known))).map(|(id, _)| id);
        }
        if key != PRIVATE && flags & libc::IPC_CREAT == 0 {
            return Err(Errno::NOENT);
        }
        made.make_room()?;
        let owner = match rights.are_those_of(target)? {
            true => None,
            false => Some(target.status()?.credentials()?),
        };
        let (id, own) = as_target(&|| make(kind, size, flags | EXCLUSIVE))?;
        made.by_id.insert((kind, id), Object { key: own, alias: key, owner });
        Ok(id)
    }

    /// Whether the sandbox made the object with this id.
    pub(crate) fn has(&self, kind: Kind, id: i32) -> bool {
        let mut made = lock(&self.0);
        let is_there = made.by_id.get(&(kind, id)).map(|object| object.has(kind, id));
        if is_there == Some(Ok(false)) {
            made.by_id.remove(&(kind, id));
        }
        is_there == Some(Ok(true))
    }

    /// Removes all of them, for good.
    pub(crate) fn remove(&self) {
        let mut made = lock(&self.0);
        made.is_closed = true;
        for ((kind, id), object) in made.by_id.drain() {
            // What others removed, or took over, is not ours.
            if object.has(kind, id) == Ok(true) {
                let _ = object.remove(kind, id);
            }
        }
    }
}

impl Made {
    /// The kernel's key for what the command knows by `alias`.
    fn find(&self, kind: Kind, alias: i32) -> Option<i32> {
        let is_it = |(&(of, id), object): (&(Kind, i32), &Object)| {
            let is_named = alias != PRIVATE && of == kind && object.alias == alias;
            // One that lingers has lost its key.
            let is_found = is_named && kind.get(object.key, 0, 0) == Ok(id);
            is_found.then_some(object.key)
        };
        self.by_id.iter().find_map(is_it)
    }

    /// Forgets what is gone where there are too many; what may be there counts.
    fn make_room(&mut self) -> io::Result<()> {
        if self.by_id.len() >= OBJECTS_MAX {
            self.by_id.retain(|&(kind, id), object| object.has(kind, id) != Ok(false));
        }
        let has_room = self.by_id.len() < OBJECTS_MAX && !self.is_closed;
        has_room.then_some(()).ok_or(Errno::NOSPC)
    }
}

const EXCLUSIVE: i32 = libc::IPC_CREAT | libc::IPC_EXCL;

/// Makes an object under a key that nobody has; returns its id and that key.
fn make(kind: Kind, size: usize, flags: i32) -> io::Result<(i32, i32)> {
    loop {
        let mut key = [0; 4];
        getrandom(&mut key, GetRandomFlags::empty())?;
        let key = i32::from_ne_bytes(key);
        // That key makes an object without one.
        if key == PRIVATE {
            continue;
        }
        match kind.get(key, size, flags) {
            Err(Errno::EXIST) => {}
            made => return made.map(|id| (id, key)),
        }
    }
}

/// Whether `command` is about the object with the id that is given, and not about whatever stands in a
/// row of the kernel's table (shmctl(2), semctl(2), msgctl(2)).
pub(crate) fn is_of_one_object(kind: Kind, command: i32) -> bool {
    /// semctl(2), which libc(3) leaves to programs to define.
    const SEMAPHORES: [i32; 7] = [
        libc::GETPID,
        libc::GETVAL,
        libc::GETALL,
        libc::GETNCNT,
        libc::GETZCNT,
        libc::SETVAL,
        libc::SETALL,
    ];
    let own = match kind {
        Kind::Segment => &[libc::SHM_LOCK, libc::SHM_UNLOCK][..],
        Kind::Semaphores => &SEMAPHORES,
        Kind::Queue => &[],
    };
    [libc::IPC_RMID, libc::IPC_SET, libc::IPC_STAT].contains(&command) || own.contains(&command)
}
