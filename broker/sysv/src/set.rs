//! One set of semaphores: its values, and the operations on them, which are done together or not at all (semop(2)).

use crate::undo::{self, Undo};
use crate::waits::{Ticket, Waits};
use crate::{Caller, now};
use nix::libc;
use rustix::io::{self, Errno};

/// Most operations of a call, and the highest value (`SEMOPM`, `SEMVMX`).
const OPERATIONS_MAX: u32 = 500;
pub(crate) const VALUE_MAX: i32 = 32_767;
/// `struct sembuf`.
const OPERATION_SIZE: usize = 6;

/// The semaphores of a set.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) values: Vec<Semaphore>,
    /// When there was an operation last.
    pub(crate) operated: i64,
    /// In the order in which they came.
    pub(crate) waiters: Vec<Waiter>,
}

/// One of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Semaphore {
    pub(crate) value: i32,
    /// Who changed it last.
    pub(crate) process: i32,
}

/// A call that cannot be done yet.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pub(crate) operations: Vec<Operation>,
    pub(crate) process: i32,
    /// The operation that it waits for.
    pub(crate) blocked: Operation,
}

/// An operation on one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) number: u16,
    pub(crate) change: i16,
    pub(crate) flags: i16,
}

impl Operation {
    /// Copies operations of a target.
    pub(crate) fn read(caller: &dyn Caller, address: u64, number: u32) -> io::Result<Vec<Self>> {
        if number > OPERATIONS_MAX {
            return Err(Errno::TOOBIG);
        }
        if number == 0 {
            return Err(Errno::INVAL);
        }
        let mut buffer = vec![0; number as usize * OPERATION_SIZE];
        caller.read(address, &mut buffer)?;
        let operation = |bytes: &[u8]| {
            let part = |at: usize| [bytes[at], bytes[at + 1]];
            let [change, flags] = [part(2), part(4)].map(i16::from_ne_bytes);
            Self { number: u16::from_ne_bytes(part(0)), change, flags }
        };
        Ok(buffer.chunks_exact(OPERATION_SIZE).map(operation).collect())
    }

    pub(crate) fn is_undone(self) -> bool {
        undo::is_wanted(self.flags)
    }
}

impl Set {
    /// # Errors
    /// Returns [`Errno::INVAL`] if there is no such semaphore.
    pub(crate) fn number(&self, semaphore: i32) -> io::Result<u16> {
        let number = u16::try_from(semaphore).map_err(|_| Errno::INVAL)?;
        let is_there = usize::from(number) < self.values.len();
        is_there.then_some(number).ok_or(Errno::INVAL)
    }

    /// Does all of the operations, or none. Returns the first that has to wait.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if that is not to wait, [`Errno::RANGE`] for what leads too far, and
    /// [`Errno::SRCH`] if the process has ended.
    pub(crate) fn attempt(
        &mut self,
        id: i32,
        undo: &mut Undo,
        operations: &[Operation],
        process: i32,
    ) -> io::Result<Option<Operation>> {
        for (done, operation) in operations.iter().enumerate() {
            let outcome = match self.apply(id, undo, *operation, process) {
                Ok(true) => continue,
                Ok(false) if i32::from(operation.flags) & libc::IPC_NOWAIT != 0 => {
                    Err(Errno::AGAIN)
                }
                Ok(false) => Ok(Some(*operation)),
                Err(errno) => Err(errno),
            };
            for done in operations[..done].iter().rev() {
                self.values[usize::from(done.number)].value -= i32::from(done.change);
                if done.is_undone() {
                    let _ = undo.note(process, id, done.number, done.change.wrapping_neg());
                }
            }
            return outcome;
        }
        for operation in operations {
            self.values[usize::from(operation.number)].process = process;
        }
        self.operated = now();
        Ok(None)
    }

    /// Does one operation; whether it could be done.
    fn apply(
        &mut self,
        id: i32,
        undo: &mut Undo,
        operation: Operation,
        process: i32,
    ) -> io::Result<bool> {
        let Operation { number, change, .. } = operation;
        let value = &mut self.values[usize::from(number)].value;
        let new = *value + i32::from(change);
        if new < 0 || (change == 0 && *value != 0) {
            return Ok(false);
        }
        if new > VALUE_MAX {
            return Err(Errno::RANGE);
        }
        if operation.is_undone() {
            undo.note(process, id, number, change)?;
        }
        *value = new;
        Ok(true)
    }

    /// Does what waits and can be done by now, in the order in which it came.
    pub(crate) fn wake(&mut self, id: i32, undo: &mut Undo, waits: &mut Waits<io::Result<()>>) {
        let mut waiters = std::mem::take(&mut self.waiters);
        let mut next = 0;
        while next < waiters.len() {
            let waiter = &mut waiters[next];
            // Whoever was killed takes nothing along.
            if !waiter.ticket.is_wanted() {
                waiters.remove(next);
                continue;
            }
            match self.attempt(id, undo, &waiter.operations, waiter.process) {
                Ok(Some(blocked)) => {
                    waiter.blocked = blocked;
                    next += 1;
                }
                done => {
                    waits.finish(&waiter.ticket, done.map(drop));
                    waiters.remove(next);
                    // Those before it may be able to now.
                    next = 0;
                }
            }
        }
        self.waiters = waiters;
    }
}
