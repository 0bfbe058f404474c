//! Message queues: msgget(2), msgsnd(2), msgrcv(2), msgctl(2), and ipc/msg.c in the kernel for what these leave open.

use crate::access::{Actor, Given, READ, SYS_RESOURCE, WORDS, WRITE};
use crate::table::{Object, Table};
use crate::waits::{self, Ticket, Waits};
use crate::{Argument, Caller, bytes, halves, lock, now};
use nix::libc;
use rustix::io::{self, Errno};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Most bytes of a message, and of a queue that nobody with more rights has set otherwise (`MSGMAX`, `MSGMNB`).
const MESSAGE_MAX: u64 = 8192;
const QUEUE_MAX: u64 = 16_384;
/// Most bytes of all queues, with what each message takes besides its text.
const ALL_MAX: usize = 64 << 20;
const OVERHEAD: usize = 64;
/// The type before the text.
const TYPE_SIZE: usize = 8;
/// `struct msqid64_ds` (asm-generic/msgbuf.h), in words; where it has the bytes that the queue may hold.
const STATUS_WORDS: usize = WORDS + 9;
const LIMIT_WORD: usize = WORDS + 5;

/// All queues.
#[derive(Debug, Default)]
pub struct Queues(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    table: Table<Queue>,
    waits: Waits<io::Result<Option<Message>>>,
    /// What all messages take.
    taken: usize,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    bytes: u64,
    limit: u64,
    sent: Last,
    received: Last,
    receivers: Vec<Receiver>,
    senders: Vec<Sender>,
}

/// When, and by which process.
#[derive(Clone, Copy, Debug, Default)]
struct Last(i64, i32);

#[derive(Debug)]
struct Message {
    kind: i64,
    text: Vec<u8>,
}

/// A call that waits for a message.
#[derive(Debug)]
struct Receiver {
    ticket: Ticket,
    wish: Wish,
    process: i32,
    actor: Arc<Actor>,
}

/// A call that waits for room.
#[derive(Debug)]
struct Sender {
    ticket: Ticket,
    message: Message,
    process: i32,
    actor: Arc<Actor>,
}

/// Which message is received.
#[derive(Clone, Copy, Debug)]
struct Wish {
    kind: i64,
    size: u64,
    flags: i32,
}

impl Wish {
    /// The place of the message among these.
    fn find(self, messages: &VecDeque<Message>) -> Option<usize> {
        let first = |is_it: &dyn Fn(i64) -> bool| messages.iter().position(|m| is_it(m.kind));
        match self.kind {
            0 => first(&|_| true),
            kind if kind < 0 => {
                let most = kind.checked_neg().unwrap_or(i64::MAX);
                let least = messages.iter().map(|m| m.kind).filter(|kind| *kind <= most).min()?;
                first(&|kind| kind == least)
            }
            wanted if self.has(libc::MSG_EXCEPT) => first(&|kind| kind != wanted),
            wanted => first(&|kind| kind == wanted),
        }
    }

    fn has(self, flag: i32) -> bool {
        self.flags & flag != 0
    }
}

impl Queues {
    pub fn get(&self, caller: &dyn Caller, key: i32, flags: i32) -> io::Result<i32> {
        caller.confirm()?;
        let make = |id| Ok((id, Queue { limit: QUEUE_MAX, ..Queue::default() }));
        lock(&self.0).table.get(caller.actor(), key, flags, |_| true, make)
    }

    pub fn send(
        &self,
        caller: &dyn Caller,
        id: i32,
        message: u64,
        size: u64,
        flags: i32,
    ) -> io::Result<i32> {
        if size > MESSAGE_MAX {
            return Err(Errno::INVAL);
        }
        let size = usize::try_from(size).map_err(|_| Errno::INVAL)?;
        let mut text = vec![0; TYPE_SIZE + size];
        caller.read(message, &mut text)?;
        let rest = text.split_off(TYPE_SIZE);
        let kind = text.first_chunk().copied().map_or(0, i64::from_ne_bytes);
        if kind < 1 {
            return Err(Errno::INVAL);
        }
        let process = caller.process()?;
        caller.confirm()?;
        let message = Message { kind, text: rest };
        let begun = lock(&self.0).send(caller, id, message, process, flags)?;
        let Some(ticket) = begun else { return Ok(0) };
        self.wait(caller, id, &ticket).map(|_| 0)
    }

    pub fn receive(
        &self,
        caller: &dyn Caller,
        id: i32,
        address: u64,
        size: u64,
        kind: i64,
        flags: i32,
    ) -> io::Result<i32> {
        // Needs a kernel that can restore processes; the page says what others return.
        if flags & libc::MSG_COPY != 0 {
            return Err(Errno::NOSYS);
        }
        if size.cast_signed() < 0 {
            return Err(Errno::INVAL);
        }
        // First: what cannot be written to takes no message.
        caller.open_memory()?;
        let process = caller.process()?;
        caller.confirm()?;
        let wish = Wish { kind, size, flags };
        let begun = lock(&self.0).receive(caller, id, wish, process)?;
        let message = match begun {
            Ok(message) => message,
            Err(ticket) => self.wait(caller, id, &ticket)?.ok_or(Errno::IO)?,
        };
        let length = message.text.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        let mut buffer = message.kind.to_ne_bytes().to_vec();
        buffer.extend_from_slice(&message.text[..length]);
        // If that fails the message is lost, as outside.
        caller.write(address, &buffer)?;
        i32::try_from(length).map_err(|_| Errno::IO)
    }

    fn wait(&self, caller: &dyn Caller, id: i32, ticket: &Ticket) -> io::Result<Option<Message>> {
        let take = |state: &mut State| state.waits.take(ticket);
        let withdraw = |state: &mut State| state.withdraw(id, ticket);
        waits::wait(&self.0, caller, ticket, None, take, withdraw)?
    }

    pub fn control(
        &self,
        caller: &dyn Caller,
        id: i32,
        command: i32,
        argument: Argument,
    ) -> io::Result<i32> {
        let confirmed = || caller.confirm().map(|_| lock(&self.0));
        match command {
            libc::IPC_RMID => confirmed()?.remove(caller, id),
            libc::IPC_SET => {
                let status = caller.words(argument.address, STATUS_WORDS)?;
                confirmed()?.set(caller, id, &status)
            }
            libc::IPC_STAT => {
                let status = confirmed()?.status(caller, id)?;
                caller.write(argument.address, &status).map(|()| 0)
            }
            // As for what stands in a row of the kernel's table, or for its limits.
            _ => Err(Errno::INVAL),
        }
    }
}

impl State {
    /// Sends a message, or has it wait for room.
    fn send(
        &mut self,
        caller: &dyn Caller,
        id: i32,
        message: Message,
        process: i32,
        flags: i32,
    ) -> io::Result<Option<Ticket>> {
        let object = self.table.find(id)?;
        object.permissions.allow(caller.actor(), WRITE)?;
        let queue = &mut object.content;
        if !queue.has_room(&message) {
            if flags & libc::IPC_NOWAIT != 0 {
                return Err(Errno::AGAIN);
            }
            let (ticket, actor) = (self.waits.enter(caller), Arc::clone(caller.actor()));
            queue.senders.push(Sender { ticket: ticket.clone(), message, process, actor });
            return Ok(Some(ticket));
        }
        if self.taken + message.size() > ALL_MAX {
            return Err(Errno::NOMEM);
        }
        self.taken += message.size();
        queue.put(message, process);
        self.advance(id);
        Ok(None)
    }

    /// Takes a message, or has the call wait for one.
    fn receive(
        &mut self,
        caller: &dyn Caller,
        id: i32,
        wish: Wish,
        process: i32,
    ) -> io::Result<Result<Message, Ticket>> {
        let object = self.table.find(id)?;
        object.permissions.allow(caller.actor(), READ)?;
        let queue = &mut object.content;
        if let Some(message) = queue.take(wish, process)? {
            self.taken -= message.size();
            self.advance(id);
            return Ok(Ok(message));
        }
        if wish.has(libc::IPC_NOWAIT) {
            return Err(Errno::NOMSG);
        }
        let (ticket, actor) = (self.waits.enter(caller), Arc::clone(caller.actor()));
        queue.receivers.push(Receiver { ticket: ticket.clone(), wish, process, actor });
        Ok(Err(ticket))
    }

    /// Does what waits and can be done by now.
    fn advance(&mut self, id: i32) {
        let Self { table, waits, taken } = self;
        let Ok(object) = table.find(id) else { return };
        while object.deliver(waits, taken) || object.admit(waits, taken) {}
    }

    fn withdraw(&mut self, id: i32, ticket: &Ticket) {
        if let Ok(object) = self.table.find(id) {
            object.content.receivers.retain(|receiver| receiver.ticket != *ticket);
            object.content.senders.retain(|sender| sender.ticket != *ticket);
        }
    }

    fn remove(&mut self, caller: &dyn Caller, id: i32) -> io::Result<i32> {
        self.table.find(id)?.permissions.must_own(caller.actor())?;
        let Some(queue) = self.table.remove(id) else { return Ok(0) };
        let receivers = queue.receivers.iter().map(|receiver| &receiver.ticket);
        for ticket in receivers.chain(queue.senders.iter().map(|sender| &sender.ticket)) {
            self.waits.finish(ticket, Err(Errno::IDRM));
        }
        self.taken -= queue.messages.iter().map(Message::size).sum::<usize>();
        Ok(0)
    }

    fn set(&mut self, caller: &dyn Caller, id: i32, status: &[u8]) -> io::Result<i32> {
        let limit = status.get(LIMIT_WORD * 8..).and_then(|rest| rest.first_chunk());
        let limit = limit.copied().map_or(0, u64::from_ne_bytes);
        let given = Given::read(status).ok_or(Errno::FAULT)?;
        let object = self.table.find(id)?;
        object.permissions.must_own(caller.actor())?;
        if limit > QUEUE_MAX && !caller.actor().has(SYS_RESOURCE) {
            return Err(Errno::PERM);
        }
        object.permissions.set(&given)?;
        object.content.limit = limit;
        object.changed = now();
        // What waits may be permitted no more, or have room.
        self.advance(id);
        Ok(0)
    }

    fn status(&mut self, caller: &dyn Caller, id: i32) -> io::Result<Vec<u8>> {
        let object = self.table.find(id)?;
        object.permissions.allow(caller.actor(), READ)?;
        let queue = &object.content;
        let (Last(sent, sender), Last(received, receiver)) = (queue.sent, queue.received);
        let rest = [
            sent.cast_unsigned(),
            received.cast_unsigned(),
            object.changed.cast_unsigned(),
            queue.bytes,
            queue.messages.len() as u64,
            queue.limit,
            halves(sender.cast_unsigned(), receiver.cast_unsigned()),
            0,
            0,
        ];
        Ok(bytes(object.permissions.words(id, 0).into_iter().chain(rest)))
    }
}

impl Object<Queue> {
    /// Gives messages to those that wait for them, in the order in which they came. Whether there is more room.
    fn deliver(
        &mut self,
        waits: &mut Waits<io::Result<Option<Message>>>,
        taken: &mut usize,
    ) -> bool {
        let mut has_more_room = false;
        let receivers = std::mem::take(&mut self.content.receivers);
        // Whoever was killed takes nothing along.
        for receiver in receivers.into_iter().filter(|receiver| receiver.ticket.is_wanted()) {
            let allowed = self.permissions.allow(&receiver.actor, READ);
            let result = allowed.and_then(|()| self.content.take(receiver.wish, receiver.process));
            if let Ok(None) = result {
                self.content.receivers.push(receiver);
                continue;
            }
            if let Ok(Some(message)) = &result {
                *taken -= message.size();
                has_more_room = true;
            }
            waits.finish(&receiver.ticket, result);
        }
        has_more_room
    }

    /// Takes messages that wait for room, in the order in which they came. Whether there are more messages.
    fn admit(&mut self, waits: &mut Waits<io::Result<Option<Message>>>, taken: &mut usize) -> bool {
        let mut has_more = false;
        let senders = std::mem::take(&mut self.content.senders);
        for sender in senders.into_iter().filter(|sender| sender.ticket.is_wanted()) {
            let allowed = self.permissions.allow(&sender.actor, WRITE);
            let has_room = self.content.has_room(&sender.message);
            if allowed.is_ok() && !has_room {
                self.content.senders.push(sender);
                continue;
            }
            // As for one that does not wait: nothing would tell it when others have made room.
            let is_too_much = *taken + sender.message.size() > ALL_MAX;
            let allowed = allowed.and(if is_too_much { Err(Errno::NOMEM) } else { Ok(()) });
            if allowed.is_ok() {
                *taken += sender.message.size();
                self.content.put(sender.message, sender.process);
                has_more = true;
            }
            waits.finish(&sender.ticket, allowed.map(|()| None));
        }
        has_more
    }
}

impl Queue {
    fn has_room(&self, message: &Message) -> bool {
        self.bytes + message.text.len() as u64 <= self.limit
            && (self.messages.len() as u64) < self.limit
    }

    fn put(&mut self, message: Message, process: i32) {
        self.bytes += message.text.len() as u64;
        self.sent = Last(now(), process);
        self.messages.push_back(message);
    }

    /// Takes the message that is wanted, if there is one.
    ///
    /// # Errors
    /// Returns [`Errno::TOOBIG`] if it is too long, and is not to be cut.
    fn take(&mut self, wish: Wish, process: i32) -> io::Result<Option<Message>> {
        let Some(place) = wish.find(&self.messages) else { return Ok(None) };
        let length = self.messages[place].text.len() as u64;
        if length > wish.size && !wish.has(libc::MSG_NOERROR) {
            return Err(Errno::TOOBIG);
        }
        self.bytes -= length;
        self.received = Last(now(), process);
        let message = self.messages.remove(place);
        if self.messages.is_empty() {
            // With the memory that it had.
            self.messages = VecDeque::new();
        }
        Ok(message)
    }
}

impl Message {
    /// What it takes.
    fn size(&self) -> usize {
        self.text.len() + OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_says_which_message_is_received() {
        let messages = [3, 1, 2, 1].map(|kind| Message { kind, text: Vec::new() }).into();
        for (kind, flags, expected) in [
            (0, 0, Some(0)),
            (1, 0, Some(1)),
            (3, libc::MSG_EXCEPT, Some(1)),
            (-2, 0, Some(1)),
            (-3, 0, Some(1)),
            (i64::MIN, 0, Some(1)),
            (4, 0, None),
        ] {
            let wish = Wish { kind, size: 0, flags };
            assert_eq!(wish.find(&messages), expected, "{kind} {flags}");
        }
    }
}
