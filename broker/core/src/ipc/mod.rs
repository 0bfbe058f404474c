//! The System V objects of one sandbox: those that its processes made, and no others (sysvipc(7)).
//!
//! The kernel has one table of them for all processes, in which everyone finds an object by its key, and reaches it by
//! its id if its mode permits. A call that is let through with an id reaches what has the id *then*, and who is let
//! through chooses when to go on: meanwhile another thread can remove the object, and have the kernel count through all
//! ids until this one is given to an object of a process outside. So semaphores and queues are the broker's own, in its
//! memory, with keys and ids that mean nothing outside ([`sysv`]), and no call on them is let through. Segments have to be the
//! kernel's: shmat(2) concerns the address space of its caller. The broker has each attached for as long as a call
//! can be under way with its id ([`segments`]). All of it ends with the broker, however that ends.

mod ends;
mod segments;

use crate::call::ipc::{IpcCall, Kind};
use ends::Ends;
use kernel::credentials::Credentials;
use kernel::request::{RESTART, RESTART_UNHANDLED, Request};
use kernel::rights::Rights;
use kernel::target::{Memory, TargetAddress};
use kernel::threads::once;
use rustix::io::{self, Errno};
use segments::Segments;
use std::sync::{Arc, OnceLock};
use sysv::access::Actor;
use sysv::messages::Queues;
use sysv::semaphores::Semaphores;

/// Those of one sandbox.
#[derive(Debug)]
pub(crate) struct Objects {
    segments: Segments,
    semaphores: Semaphores,
    queues: Queues,
    /// Who acts with the broker's own credentials.
    own: OnceLock<Arc<Actor>>,
}

/// What becomes of a call that is not refused.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is done, and returns this.
    Value(i32),
    /// The kernel does it, by its registers. The id stays what it is until the thread was seen to rest after the answer.
    LetThrough,
}

/// A call, and who makes it.
pub(super) struct Caller<'a> {
    request: &'a Request<'a>,
    rights: &'a Rights,
    actor: Arc<Actor>,
    memory: OnceLock<Memory>,
}

impl Default for Objects {
    fn default() -> Self {
        Self {
            segments: Segments::default(),
            semaphores: Semaphores::new(Box::new(Ends::default())),
            queues: Queues::default(),
            own: OnceLock::new(),
        }
    }
}

impl Objects {
    /// Does what is asked for, for a target that waits.
    pub(crate) fn answer(
        &self,
        request: &Request<'_>,
        rights: &Rights,
        call: IpcCall,
    ) -> io::Result<Answer> {
        let actor = self.actor(request, rights)?;
        let caller = Caller { request, rights, actor, memory: OnceLock::new() };
        let value = match call {
            IpcCall::Get(Kind::Segment, key, size, flags) => {
                self.segments.get(&caller, key, size, flags)
            }
            IpcCall::Get(Kind::Semaphores, key, number, flags) => {
                self.semaphores.get(&caller, key, number, flags)
            }
            IpcCall::Get(Kind::Queue, key, _, flags) => self.queues.get(&caller, key, flags),
            IpcCall::Attach(id) => return self.segments.pass(&caller, id),
            IpcCall::Operate(id, operations, number, limit) => {
                let done = self.semaphores.operate(&caller, id, operations, number, limit);
                // Whatever the handler was installed with (signal(7)).
                interrupted(done, Errno::INTR)
            }
            IpcCall::Send(id, message, size, flags) => {
                interrupted(self.queues.send(&caller, id, message, size, flags), RESTART_UNHANDLED)
            }
            IpcCall::Receive(id, message, size, kind, flags) => {
                let received = self.queues.receive(&caller, id, message, size, kind, flags);
                interrupted(received, RESTART_UNHANDLED)
            }
            IpcCall::Control(Kind::Segment, id, command, argument) => {
                return self.segments.control(&caller, id, command, argument);
            }
            IpcCall::Control(Kind::Semaphores, id, command, argument) => {
                self.semaphores.control(&caller, id, command, argument)
            }
            IpcCall::Control(Kind::Queue, id, command, argument) => {
                self.queues.control(&caller, id, command, argument)
            }
        };
        value.map(Answer::Value)
    }

    /// Who makes the call: as cheaply as credentials are compared everywhere.
    fn actor(&self, request: &Request<'_>, rights: &Rights) -> io::Result<Arc<Actor>> {
        let target = request.target();
        if !rights.has_credentials(target)? {
            return Ok(Arc::new(actor(&target.status()?.credentials()?)));
        }
        once(&self.own, || Ok(Arc::new(actor(rights.own()?)))).map(Arc::clone)
    }
}

/// By the effective user and group, the other groups, and the capabilities in effect.
fn actor(credentials: &Credentials) -> Actor {
    let Credentials {
        users: [_, user, ..], groups: [_, group, ..], more_groups, effective, ..
    } = credentials;
    let groups = std::iter::once(group).chain(more_groups).map(|group| group.as_raw()).collect();
    Actor { user: user.as_raw(), groups, capabilities: effective.bits() }
}

/// What a call gets, `instead` of being made again after a handler of a signal has run.
fn interrupted(result: io::Result<i32>, instead: Errno) -> io::Result<i32> {
    result.map_err(|errno| if errno == RESTART { instead } else { errno })
}

impl sysv::Caller for Caller<'_> {
    fn actor(&self) -> &Arc<Actor> {
        &self.actor
    }

    fn process(&self) -> io::Result<i32> {
        self.request.target().process()
    }

    fn confirm(&self) -> io::Result<()> {
        self.request.confirm().map(drop)
    }

    fn look_after(&self) -> io::Result<()> {
        self.request.look_after().map(drop)
    }

    fn sign(&self) -> sysv::Sign {
        let call = self.request.sign();
        Arc::new(move || call.is_waiting())
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.request.target().read(TargetAddress::new(address), buffer)
    }

    fn open_memory(&self) -> io::Result<()> {
        once(&self.memory, || self.request.target().memory()).map(drop)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let memory = once(&self.memory, || self.request.target().memory())?;
        self.request.write(memory, TargetAddress::new(address), bytes)
    }
}
