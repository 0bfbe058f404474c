//! Semaphores: semget(2), semop(2), semctl(2), and ipc/sem.c in the kernel for what these leave open.

use crate::access::{READ, WORDS, WRITE};
use crate::set::{Operation, Semaphore, Set, VALUE_MAX, Waiter};
use crate::table::Table;
use crate::undo::{Ends, Undo};
use crate::waits::{self, Ticket, Waits};
use crate::{Argument, Caller, NOBODYS, bytes, lock, now};
use nix::libc;
use rustix::io::{self, Errno};
use std::sync::{Mutex, MutexGuard};

/// Most semaphores of a set (`SEMMSL`).
const SET_MAX: u64 = 32_000;
/// Most semaphores of all sets, which the kernel has no limit for that counts.
const ALL_MAX: usize = 256_000;

/// All sets.
#[derive(Debug)]
pub struct Semaphores(Mutex<State>);

#[derive(Debug)]
struct State {
    table: Table<Set>,
    undo: Undo,
    waits: Waits<io::Result<()>>,
}

impl Semaphores {
    /// Undone for processes that have ended as `ends` tells.
    pub fn new(ends: Box<dyn Ends>) -> Self {
        let (table, undo, waits) = (Table::default(), Undo::new(ends), Waits::default());
        Self(Mutex::new(State { table, undo, waits }))
    }

    /// With what processes had undone that have ended.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.0);
        state.settle();
        state
    }

    pub fn get(&self, caller: &dyn Caller, key: i32, number: u64, flags: i32) -> io::Result<i32> {
        if number > SET_MAX {
            return Err(Errno::INVAL);
        }
        let number = usize::try_from(number).map_err(|_| Errno::INVAL)?;
        caller.confirm()?;
        let mut state = self.lock();
        let all: usize = state.table.iter().map(|set| set.values.len()).sum();
        let make = |id| match number {
            0 => Err(Errno::INVAL),
            _ if all + number > ALL_MAX => Err(Errno::NOSPC),
            _ => {
                let values = vec![Semaphore::default(); number];
                Ok((id, Set { values, operated: 0, waiters: Vec::new() }))
            }
        };
        let fits = |set: &Set| number <= set.values.len();
        state.table.get(caller.actor(), key, flags, fits, make)
    }

    /// semtimedop(2); without a limit, `limit` is null.
    pub fn operate(
        &self,
        caller: &dyn Caller,
        id: i32,
        operations: u64,
        number: u32,
        limit: u64,
    ) -> io::Result<i32> {
        let deadline = waits::deadline(caller, limit)?;
        let operations = Operation::read(caller, operations, number)?;
        let process = caller.process()?;
        caller.confirm()?;
        let begun = self.lock().operate(caller, id, &operations, process)?;
        let Some(ticket) = begun else { return Ok(0) };
        let take = |state: &mut State| {
            state.settle();
            state.waits.take(&ticket)
        };
        let withdraw = |state: &mut State| state.withdraw(id, &ticket);
        waits::wait(&self.0, caller, &ticket, deadline, take, withdraw)?.map(|()| 0)
    }

    pub fn control(
        &self,
        caller: &dyn Caller,
        id: i32,
        command: i32,
        argument: Argument,
    ) -> io::Result<i32> {
        let actor = caller.actor();
        let confirmed = || caller.confirm().map(|_| self.lock());
        match command {
            libc::IPC_RMID => confirmed()?.remove(caller, id),
            libc::IPC_SET => {
                let given = caller.given(argument.address, STATUS_WORDS)?;
                let mut state = confirmed()?;
                let object = state.table.find(id)?;
                object.permissions.must_own(actor)?;
                object.permissions.set(&given)?;
                object.changed = now();
                Ok(0)
            }
            libc::IPC_STAT => {
                let status = confirmed()?.status(caller, id)?;
                caller.write(argument.address, &status).map(|()| 0)
            }
            libc::GETALL => {
                let values = confirmed()?.values(caller, id)?;
                caller.write(argument.address, &values).map(|()| 0)
            }
            libc::SETALL => {
                let mut values = {
                    let mut state = confirmed()?;
                    let object = state.table.find(id)?;
                    object.permissions.allow(actor, WRITE)?;
                    vec![0; object.content.values.len() * 2]
                };
                caller.read(argument.address, &mut values)?;
                let process = caller.process()?;
                confirmed()?.set_all(caller, id, &values, process)
            }
            _ if id < 0 => Err(NOBODYS),
            libc::SETVAL if !(0..=VALUE_MAX).contains(&argument.value) => Err(Errno::RANGE),
            libc::SETVAL => {
                let process = caller.process()?;
                confirmed()?.set(caller, id, argument, process)
            }
            libc::GETVAL | libc::GETPID | libc::GETNCNT | libc::GETZCNT => {
                confirmed()?.ask(caller, id, command, argument.semaphore)
            }
            // As for what stands in a row of the kernel's table, or for its limits.
            _ => Err(Errno::INVAL),
        }
    }
}

impl State {
    /// Undoes what processes did that have ended.
    fn settle(&mut self) {
        loop {
            let ended = self.undo.take_ended();
            if ended.is_empty() {
                return;
            }
            for (process, adjustments) in ended {
                for ((id, number), adjustment) in adjustments {
                    let Ok(object) = self.table.find(id) else { continue };
                    let set = &mut object.content;
                    let Some(semaphore) = set.values.get_mut(usize::from(number)) else { continue };
                    semaphore.value = (semaphore.value + adjustment).clamp(0, VALUE_MAX);
                    semaphore.process = process;
                    set.operated = now();
                    set.wake(id, &mut self.undo, &mut self.waits);
                }
            }
        }
    }

    /// Does the operations, or has them wait.
    fn operate(
        &mut self,
        caller: &dyn Caller,
        id: i32,
        operations: &[Operation],
        process: i32,
    ) -> io::Result<Option<Ticket>> {
        let Self { table, undo, waits } = self;
        let object = table.find(id)?;
        let set = &mut object.content;
        if operations.iter().any(|operation| usize::from(operation.number) >= set.values.len()) {
            return Err(Errno::FBIG);
        }
        let changes = operations.iter().any(|operation| operation.change != 0);
        object.permissions.allow(caller.actor(), if changes { WRITE } else { READ })?;
        if operations.iter().any(|operation| operation.is_undone()) {
            undo.begin(caller, process)?;
        }
        Ok(match set.attempt(id, undo, operations, process)? {
            None => {
                set.wake(id, undo, waits);
                None
            }
            Some(blocked) => {
                let (ticket, operations) = (waits.enter(caller), operations.to_vec());
                set.waiters.push(Waiter { ticket: ticket.clone(), operations, process, blocked });
                Some(ticket)
            }
        })
    }

    fn withdraw(&mut self, id: i32, ticket: &Ticket) {
        if let Ok(object) = self.table.find(id) {
            object.content.waiters.retain(|waiter| waiter.ticket != *ticket);
        }
    }

    fn remove(&mut self, caller: &dyn Caller, id: i32) -> io::Result<i32> {
        self.table.find(id)?.permissions.must_own(caller.actor())?;
        for waiter in self.table.remove(id).into_iter().flat_map(|set| set.waiters) {
            self.waits.finish(&waiter.ticket, Err(Errno::IDRM));
        }
        self.undo.forget(id, None);
        Ok(0)
    }

    /// `struct semid64_ds` (asm/sembuf.h).
    fn status(&mut self, caller: &dyn Caller, id: i32) -> io::Result<Vec<u8>> {
        let object = self.table.find(id)?;
        object.permissions.allow(caller.actor(), READ)?;
        let [operated, changed] = [object.content.operated, object.changed].map(i64::cast_unsigned);
        let number = object.content.values.len() as u64;
        let rest = match HAS_GAPS {
            true => [operated, 0, changed, 0, number, 0, 0],
            false => [operated, changed, number, 0, 0, 0, 0],
        };
        let words = object.permissions.words(id, 0).into_iter().chain(rest);
        Ok(bytes(words.take(STATUS_WORDS)))
    }

    fn values(&mut self, caller: &dyn Caller, id: i32) -> io::Result<Vec<u8>> {
        let object = self.table.find(id)?;
        object.permissions.allow(caller.actor(), READ)?;
        // No value is beyond 16 bits.
        let value = |semaphore: &Semaphore| u16::try_from(semaphore.value).unwrap_or(u16::MAX);
        let values = object.content.values.iter().map(value);
        Ok(values.flat_map(u16::to_ne_bytes).collect())
    }

    fn set_all(
        &mut self,
        caller: &dyn Caller,
        id: i32,
        values: &[u8],
        process: i32,
    ) -> io::Result<i32> {
        let values = values.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]]));
        let values: Vec<i32> = values.map(i32::from).collect();
        if values.iter().any(|value| *value > VALUE_MAX) {
            return Err(Errno::RANGE);
        }
        let Self { table, undo, waits } = self;
        let object = table.find(id)?;
        object.permissions.allow(caller.actor(), WRITE)?;
        let set = &mut object.content;
        if values.len() != set.values.len() {
            return Err(Errno::IDRM);
        }
        set.values = values.into_iter().map(|value| Semaphore { value, process }).collect();
        object.changed = now();
        undo.forget(id, None);
        object.content.wake(id, undo, waits);
        Ok(0)
    }

    fn set(
        &mut self,
        caller: &dyn Caller,
        id: i32,
        argument: Argument,
        process: i32,
    ) -> io::Result<i32> {
        let Self { table, undo, waits } = self;
        let object = table.find(id)?;
        let number = object.content.number(argument.semaphore)?;
        object.permissions.allow(caller.actor(), WRITE)?;
        let set = &mut object.content;
        set.values[usize::from(number)] = Semaphore { value: argument.value, process };
        object.changed = now();
        undo.forget(id, Some(number));
        set.wake(id, undo, waits);
        Ok(0)
    }

    fn ask(
        &mut self,
        caller: &dyn Caller,
        id: i32,
        command: i32,
        semaphore: i32,
    ) -> io::Result<i32> {
        let object = self.table.find(id)?;
        object.permissions.allow(caller.actor(), READ)?;
        let set = &object.content;
        let number = set.number(semaphore)?;
        let found = set.values[usize::from(number)];
        let waiting = |for_zero: bool| {
            let waits = |waiter: &&Waiter| {
                waiter.blocked.number == number
                    && (waiter.blocked.change == 0) == for_zero
                    && waiter.ticket.is_wanted()
            };
            i32::try_from(set.waiters.iter().filter(waits).count()).unwrap_or(i32::MAX)
        };
        Ok(match command {
            libc::GETVAL => found.value,
            libc::GETPID => found.process,
            command => waiting(command == libc::GETZCNT),
        })
    }
}

/// On this architecture times are followed by a word that is not used (asm/sembuf.h).
const HAS_GAPS: bool = cfg!(target_arch = "x86_64");
const STATUS_WORDS: usize = WORDS + if HAS_GAPS { 7 } else { 5 };
