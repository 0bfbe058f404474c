//! The System V objects of one sandbox: those that its processes made, and no others (sysvipc(7)).
//!
//! The kernel has one table of them for all processes, in which everyone finds an object by its key, and reaches it by
//! its id if its mode permits. A call that is let through with an id reaches what has the id *then*, and who is let
//! through chooses when to go on: meanwhile another thread can remove the object, and have the kernel count through all
//! ids until this one is given to an object of a process outside. So semaphores and queues are the broker's own, in its
//! memory, with keys and ids that mean nothing outside, and no call on them is let through. Segments have to be the
//! kernel's: shmat(2) concerns the address space of its caller. The broker has each attached for as long as a call
//! can be under way with its id ([`segments`]). All of it ends with the broker, however that ends.

mod access;
mod messages;
mod segments;
mod semaphores;
mod set;
mod table;
mod undo;
mod waits;

use crate::call::ipc::{IpcCall, Kind};
use access::{Actor, Given};
use kernel::request::Request;
use kernel::rights::Rights;
use kernel::target::TargetAddress;
use messages::Queues;
use rustix::io::{self, Errno};
use segments::{Passage, Segments};
use semaphores::Semaphores;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// Those of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    segments: Segments,
    semaphores: Semaphores,
    queues: Queues,
    /// Who acts with the broker's own credentials.
    own: OnceLock<Arc<Actor>>,
}

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Verdict<'a> {
    /// It is done, or refused.
    Return(io::Result<i32>),
    /// The kernel does it, by its registers. The id stays what it is until the passage is dropped, which is to be after
    /// the answer, and the thread has been seen to rest.
    LetThrough(Passage<'a>),
}

/// A call, and who makes it.
pub(super) struct Caller<'a> {
    request: &'a Request<'a>,
    rights: &'a Rights,
    actor: Arc<Actor>,
}

impl Objects {
    /// Does what is asked for, for a target that waits.
    pub(crate) fn answer(
        &self,
        request: &Request<'_>,
        rights: &Rights,
        call: IpcCall,
    ) -> Verdict<'_> {
        let caller = match self.actor(request, rights) {
            Ok(actor) => Caller { request, rights, actor },
            Err(errno) => return Verdict::Return(Err(errno)),
        };
        Verdict::Return(match call {
            IpcCall::Get(Kind::Segment, key, size, flags) => {
                self.segments.get(&caller, key, size, flags)
            }
            IpcCall::Get(Kind::Semaphores, key, number, flags) => {
                self.semaphores.get(&caller, key, number, flags)
            }
            IpcCall::Get(Kind::Queue, key, _, flags) => self.queues.get(&caller, key, flags),
            IpcCall::Attach(id) => match self.segments.pass(&caller, id) {
                Ok(passage) => return Verdict::LetThrough(passage),
                Err(errno) => Err(errno),
            },
            IpcCall::Operate(id, operations, number, limit) => {
                self.semaphores.operate(&caller, id, operations, number, limit)
            }
            IpcCall::Send(id, message, size, flags) => {
                self.queues.send(&caller, id, message, size, flags)
            }
            IpcCall::Receive(id, message, size, kind, flags) => {
                self.queues.receive(&caller, id, message, size, kind, flags)
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
        })
    }

    /// Who makes the call: as cheaply as credentials are compared everywhere.
    fn actor(&self, request: &Request<'_>, rights: &Rights) -> io::Result<Arc<Actor>> {
        let target = request.target();
        if !rights.has_credentials(target)? {
            return Actor::new(&target.status()?.credentials()?).map(Arc::new);
        }
        if let Some(own) = self.own.get() {
            return Ok(Arc::clone(own));
        }
        let own = Arc::new(Actor::new(rights.own()?)?);
        Ok(Arc::clone(self.own.get_or_init(|| own)))
    }
}

/// The time as objects tell it.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs().cast_signed()
}

/// The structures of the calls that end in ctl, which consist of words of 64 bits.
fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

impl Caller<'_> {
    /// Writes to where a call wants its result.
    fn write(&self, address: TargetAddress, bytes: &[u8]) -> io::Result<()> {
        let memory = self.request.target().memory()?;
        self.request.confirm()?.write(&memory, address, bytes)
    }

    /// Copies a structure of so many words; it is the caller's own if that waits afterwards.
    fn words(&self, address: TargetAddress, words: usize) -> io::Result<Vec<u8>> {
        let mut status = vec![0; words * 8];
        self.request.target().read(address, &mut status)?;
        Ok(status)
    }

    /// Copies what IPC_SET gives in such a structure.
    fn given(&self, address: TargetAddress, words: usize) -> io::Result<Given> {
        Given::read(&self.words(address, words)?).ok_or(Errno::FAULT)
    }
}

/// A number of 32 bits in each half of a word, the lower first.
fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

const _: () = assert!(cfg!(target_endian = "little"), "halves of words are in this order");

/// What a call with an id that nobody has gets.
pub(crate) const NOBODYS: Errno = Errno::INVAL;
