//! Messages with an address: sendto, sendmsg and sendmmsg, where a Unix datagram socket is listed.
//!
//! Such a socket sends to whom each message names, so that none can be let through: the memory with
//! the name may change, and the descriptor become another socket. The broker sends all of them, on a
//! duplicate of the socket that it has looked at. Messages of the other kinds of sockets come here
//! too, for a filter cannot tell them apart.

use crate::answer::answer::{Server, Turn};
use crate::call::decode::{AddressUse, Messages};
use crate::kernel::rights;
use crate::kernel::target::{Status, Target};
use crate::report::denials::Denial;
use crate::rules::address::Endpoint;
use crate::sockets::judge::Goal;
use crate::sockets::message::Message;
use crate::sockets::outlet::{Control, NameUse, Outlet};
use crate::sockets::socket::Address;
use crate::sockets::unix::Peer;
use common::trap::NetworkOperation;
use rustix::io::{self, Errno};
use rustix::process::Signal;
use std::os::fd::RawFd;

/// Most messages of one sendmmsg(2) (UIO_MAXIOV).
const MESSAGES_MAX: u32 = 1024;

/// Who waits for which answer, and the turn in which it is found.
#[derive(Clone, Copy)]
struct Caller<'a> {
    turn: Turn<'a>,
    id: u64,
    target: Target,
}

/// Whom a message goes to.
enum Receiver {
    /// Whom the socket is connected to.
    Connected,
    /// Whoever has the address, if the kernel takes it.
    Address(Address),
    /// A pathname socket, which has this address as long as it is held.
    Held { address: Address, _peer: Peer },
}

impl Server {
    /// sendto, sendmsg or sendmmsg; returns what the call returns.
    pub(crate) fn send(
        &self,
        turn: Turn<'_>,
        id: u64,
        target: Target,
        call: (RawFd, u32, Messages),
    ) -> io::Result<i32> {
        let caller = Caller { turn, id, target };
        if self.same_credentials_as(target)? {
            return self.send_all(caller, call);
        }
        let credentials = target.status()?.credentials;
        // The filters that a process has put itself under have let the call come here, and to the
        // peer of its socket it sends by no other right.
        if self.own_credentials()?.has_rights_of(&credentials) {
            return self.send_all(caller, call);
        }
        // The receiver is told whose message it is.
        rights::with(&credentials, || self.send_all(caller, call))
    }

    fn send_all(
        &self,
        caller: Caller<'_>,
        (number, flags, messages): (RawFd, u32, Messages),
    ) -> io::Result<i32> {
        let target = caller.target;
        let socket = Outlet::of(self.stand_ins.duplicate(target, number)?, flags)?;
        let sent = match messages {
            Messages::Data(data, length, name, name_length) => {
                let message = Message::of_data(data, length, name, name_length)?;
                self.send_one(caller, &socket, &message)?
            }
            Messages::One(header) => {
                self.send_one(caller, &socket, &Message::read(target, header)?)?
            }
            Messages::Several(headers, count) => {
                self.send_several(caller, &socket, (headers, count))?
            }
        };
        // The kernel sends less than that in one call.
        i32::try_from(sent).map_err(|_| Errno::MSGSIZE)
    }

    /// Sends one message after the other until one cannot be sent, or not all of it; returns how many
    /// were. The error counts if there is none.
    fn send_several(
        &self,
        caller: Caller<'_>,
        socket: &Outlet,
        (headers, count): (u64, u32),
    ) -> io::Result<usize> {
        let target = caller.target;
        let memory = target.memory()?;
        let mut done = 0;
        let mut send_next = |index: u32| -> io::Result<bool> {
            let at = headers.checked_add(u64::from(index) * Message::STRIDE).ok_or(Errno::FAULT)?;
            let message = Message::read(target, at)?;
            let sent = self.send_one(caller, socket, &message)?;
            let written = u32::try_from(sent).map_err(|_| Errno::MSGSIZE)?.to_ne_bytes();
            memory.write(at + Message::SENT_AT, &written)?;
            done += 1;
            Ok(sent == message.length())
        };
        let mut last = Ok(true);
        for index in 0..count.min(MESSAGES_MAX) {
            last = send_next(index);
            if last != Ok(true) {
                break;
            }
        }
        match last {
            Err(errno) if done == 0 => Err(errno),
            _ => Ok(done),
        }
    }

    fn send_one(
        &self,
        caller: Caller<'_>,
        socket: &Outlet,
        message: &Message,
    ) -> io::Result<usize> {
        // Held until the message is sent.
        let receiver = self.receiver(caller, socket, message.name(caller.target)?)?;
        let name = match &receiver {
            Receiver::Connected => None,
            Receiver::Address(address) | Receiver::Held { address, .. } => Some(address),
        };
        let control = socket.control(caller.target, message)?;
        self.deliver(caller, socket, message, (name, &control))
    }

    /// Judges the address of a message.
    fn receiver(
        &self,
        Caller { id, target, .. }: Caller<'_>,
        socket: &Outlet,
        name: Option<Address>,
    ) -> io::Result<Receiver> {
        let Some(name) = name else { return Ok(Receiver::Connected) };
        match socket.use_of_name(self.judges.addresses.allow_network)? {
            NameUse::Ignored => return Ok(Receiver::Connected),
            NameUse::Free => return Ok(Receiver::Address(name)),
            NameUse::Path => {}
            NameUse::Unknown => {
                let name = name.endpoint()?.describe();
                if self.listener.is_waiting(id) {
                    let denial = Denial::Network(NetworkOperation::Connect, name);
                    self.traps.report(denial, "an address for such a socket");
                }
                return Err(Errno::ACCESS);
            }
        }
        let endpoint = name.endpoint()?;
        if !matches!(endpoint, Endpoint::UnixPath(_) | Endpoint::UnixAbstract(_)) {
            // As the kernel (unix_validate_addr in net/unix/af_unix.c).
            return Err(Errno::INVAL);
        }
        let Goal::Peer(peer) = self.judge(id, target, AddressUse::Connect, &endpoint)? else {
            return Err(Errno::ACCESS);
        };
        // Finding a path and writing to a socket are rights: they must be the target's own.
        if !self.same_credentials_as(target)?
            && Status::own()?.credentials != target.status()?.credentials
        {
            self.traps.log("refused: a socket address for a target with other credentials");
            return Err(Errno::ACCESS);
        }
        Ok(Receiver::Held { address: peer.address(), _peer: peer })
    }

    /// Sends a message whose receiver is permitted, and waits for room as long as the target does.
    fn deliver(
        &self,
        Caller { turn, id, target }: Caller<'_>,
        socket: &Outlet,
        message: &Message,
        (name, control): (Option<&Address>, &Control),
    ) -> io::Result<usize> {
        let mut patience = socket.patience()?;
        let mut sent = 0;
        loop {
            let is_there = || self.listener.is_waiting(id);
            let mut result = socket.send((target, message, sent), name, control, is_there);
            if let (Err(Errno::AGAIN), Some(patience)) = (result, &mut patience) {
                match patience.wait(socket, || self.look_after(turn, id, target)) {
                    Ok(()) => continue,
                    Err(errno) => result = Err(errno),
                }
            }
            match result {
                Ok(count) => sent += count,
                Err(_) if sent > 0 => return Ok(sent),
                Err(Errno::PIPE) if socket.signals_broken_pipe() => {
                    // As the call would have.
                    target.signal(Signal::PIPE, is_there)?;
                    return Err(Errno::PIPE);
                }
                Err(errno) => return Err(errno),
            }
            if sent >= message.length() {
                return Ok(sent);
            }
            if let Some(patience) = &mut patience {
                patience.restore();
            }
        }
    }
}
