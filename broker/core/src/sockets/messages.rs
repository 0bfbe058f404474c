//! Messages with an address: sendto, sendmsg and sendmmsg, where there can be a socket that sends to it: a Unix
//! datagram socket, or one of UDP of the command's own.
//!
//! Such a socket sends to whom each message names, so that from the first one on none is let through: the memory with
//! the name may change, and the descriptor become another socket. The broker sends all of them, on a
//! duplicate of the socket that it has looked at. Messages of the other kinds of sockets come here
//! too, for a filter cannot tell them apart.

use super::judge::{Judge, Reach};
use super::message::OutgoingMessage;
use super::message_sender::{AncillaryBytes, MessageSender, NameUse};
use super::own_datagrams::Receiving;
use super::udp;
use super::unix::Peer;
use crate::call::decode::{AddressUse, Messages};
use crate::report::denials::Denial;
use crate::report::permitted::Permitted;
use kernel::address::Address;
use kernel::credentials::Credentials;
use kernel::nested_landlock::NestedLandlock;
use kernel::request::Request;
use kernel::rights;
use kernel::target::{TargetAddress, TargetFd};
use nix::libc;
use rules::address::{self, Endpoint};
use rustix::fd::AsFd;
use rustix::io::{self, Errno};
use rustix::process::Signal;

const MSG_MORE: u32 = libc::MSG_MORE.cast_unsigned();
/// Most messages of one sendmmsg(2) (UIO_MAXIOV).
const MESSAGES_MAX: u32 = 1024;
/// Most bytes of a query by UDP (RFC 1035, section 2.3.4).
const QUERY_MAX: usize = 512;

/// Whom a message goes to.
enum Receiver {
    /// Whom the socket is connected to.
    Connected,
    /// Whoever has the address, if the kernel takes it.
    Address(Address),
    /// One of UDP that the command has at this address, and what it is sent on.
    Own { address: Address, sender: MessageSender, _held: Receiving },
    /// A pathname socket, which has this address as long as it is held.
    Peer { address: Address, _held: Peer },
}

/// sendto, sendmsg or sendmmsg, which does not connect; returns what the call returns.
pub(crate) fn send(
    judge: &Judge,
    request: &Request<'_>,
    (number, flags, messages): (TargetFd, u32, Messages),
) -> io::Result<i32> {
    let target = request.target();
    let mut call = Sending { judge, request, number, flags, credentials: None };
    let send = |call: &Sending<'_>| call.send(&call.sender()?, messages);
    if judge.rights.are_those_of(target)? {
        return send(&call);
    }
    let credentials = target.status()?.credentials()?;
    // The filters that a process has put itself under have let the call come here, and to the
    // peer of its socket it sends by no other right.
    if judge.rights.own()?.has_rights_of(&credentials) {
        return send(&call);
    }
    // The receiver is told whose message it is.
    call.credentials = Some(credentials);
    rights::as_another(target, || send(&call))
}

/// Who waits for what is sent, and by what it is judged.
struct Sending<'a> {
    judge: &'a Judge,
    request: &'a Request<'a>,
    number: TargetFd,
    flags: u32,
    /// Those of a target that has others than the broker.
    credentials: Option<Credentials>,
}

impl Sending<'_> {
    /// A duplicate of the target's socket, to send on.
    fn sender(&self) -> io::Result<MessageSender> {
        let socket = self.judge.own.held.duplicate(self.request.target(), self.number)?;
        MessageSender::of(socket, self.flags)
    }

    fn send(&self, socket: &MessageSender, messages: Messages) -> io::Result<i32> {
        let target = self.request.target();
        let sent = match messages {
            Messages::Data(data, length, name, name_length) => {
                let message = OutgoingMessage::of_data(data, length, name, name_length)?;
                self.send_one(socket, &message)?
            }
            Messages::One(header) => {
                self.send_one(socket, &OutgoingMessage::read(target, header)?)?
            }
            Messages::Several(headers, count) => self.send_several(socket, (headers, count))?,
        };
        // The kernel sends less than that in one call.
        i32::try_from(sent).map_err(|_| Errno::MSGSIZE)
    }

    /// Sends one message after the other until one cannot be sent, or not all of it; returns how many
    /// were. The error counts if there is none.
    fn send_several(
        &self,
        socket: &MessageSender,
        (headers, count): (TargetAddress, u32),
    ) -> io::Result<usize> {
        let target = self.request.target();
        let memory = target.memory()?;
        self.request.confirm()?;
        let mut done = 0;
        let send_next = |index: u32| -> io::Result<bool> {
            let at = headers.plus(u64::from(index) * OutgoingMessage::STRIDE)?;
            let message = OutgoingMessage::read(target, at)?;
            // The one before may have put a live one in its place.
            let renewed = if socket.is_udp() { Some(self.sender()?) } else { None };
            let sent = self.send_one(renewed.as_ref().unwrap_or(socket), &message)?;
            let written = u32::try_from(sent).map_err(|_| Errno::MSGSIZE)?.to_ne_bytes();
            let at = at.plus(OutgoingMessage::SENT_AT)?;
            self.request.write(&memory, at, &written)?;
            done += 1;
            Ok(sent == message.length())
        };
        let last = (0..count.min(MESSAGES_MAX)).map(send_next).find(|sent| *sent != Ok(true));
        match last {
            Some(Err(errno)) if done == 0 => Err(errno),
            _ => Ok(done),
        }
    }

    fn send_one(&self, socket: &MessageSender, message: &OutgoingMessage) -> io::Result<usize> {
        let target = self.request.target();
        // Held until the message is sent.
        let receiver = self.receiver(socket, message)?;
        let (socket, name) = match &receiver {
            Receiver::Connected => (socket, None),
            Receiver::Address(address) | Receiver::Peer { address, .. } => (socket, Some(address)),
            Receiver::Own { address, sender, .. } => (sender, Some(address)),
        };
        let control = match socket.is_udp() && !self.judge.rules.allow_network {
            // Parts of it name an interface, or another receiver (IP_RETOPTS).
            true => AncillaryBytes::default(),
            false => {
                socket.control(target, message, (&self.judge.rules, self.credentials.as_ref()))?
            }
        };
        match self.deliver(socket, message, (name, &control)) {
            // It is mute.
            Err(Errno::PIPE) if socket.is_udp() => Err(self.refuse(socket, message, None)?),
            result => result,
        }
    }

    /// Reports a message that nobody gets: whose name it asks for, or who was to get it. Returns the error
    /// for the target.
    fn refuse(
        &self,
        socket: &MessageSender,
        message: &OutgoingMessage,
        name: Option<Address>,
    ) -> io::Result<Errno> {
        let receiver = match name {
            Some(name) => Endpoint::parse(name.as_bytes())?,
            None => socket.peer()?,
        };
        let data = message.data(self.request.target(), 0, QUERY_MAX)?;
        let asked = Some(&receiver).filter(|there| udp::is_name_server(there));
        let denial = match asked.and_then(|_| self.judge.traps.sink().name_asked_for(&data)) {
            Some(name) => Denial::lookup(Some(&name)),
            None => Denial::Datagram(receiver.describe()),
        };
        self.request.confirm()?;
        if let Denial::Datagram(_) = denial {
            return Ok(udp::refuse_foreign(self.judge, &receiver));
        }
        self.judge.traps.report(denial, "a name server");
        Ok(Errno::ACCESS)
    }

    /// Judges the address of a message.
    fn receiver(&self, socket: &MessageSender, message: &OutgoingMessage) -> io::Result<Receiver> {
        let (judge, target) = (self.judge, self.request.target());
        let Some(name) = message.name(target)? else { return Ok(Receiver::Connected) };
        match socket.use_of_name(judge.rules.allow_network)? {
            NameUse::Ignored => return Ok(Receiver::Connected),
            NameUse::Free => {
                if let Ok(Endpoint::Internet(to)) = Endpoint::parse(name.as_bytes()) {
                    judge.note(target, Permitted::Send(to));
                }
                return Ok(Receiver::Address(name));
            }
            NameUse::Path => {}
            NameUse::Port => return self.own_port(socket, message, name),
            NameUse::Unknown => return Err(self.refuse(socket, message, Some(name))?),
        }
        let endpoint = Endpoint::parse(name.as_bytes())?;
        if !matches!(endpoint, Endpoint::UnixPath(_) | Endpoint::UnixAbstract(_)) {
            // As the kernel (unix_validate_addr in net/unix/af_unix.c).
            return Err(Errno::INVAL);
        }
        let Reach::Peer(peer) = judge.judge(self.request, AddressUse::Connect, &endpoint)? else {
            return Err(Errno::ACCESS);
        };
        judge.note_peer(target, &peer);
        // Finding a path and writing to a socket are rights: they must be the target's own.
        if judge.rights.domains.of(target)? != NestedLandlock::None
            || !judge.rights.are_those_of(target)?
                && !rights::of_this_thread()?.act_as(&target.status()?.credentials()?)
        {
            judge.traps.log("refused: a socket address for a target with other rights");
            return Err(Errno::ACCESS);
        }
        Ok(Receiver::Peer { address: peer.address(), _held: peer })
    }

    /// The address of a message by UDP, if it is that of one of the command's own.
    fn own_port(
        &self,
        socket: &MessageSender,
        message: &OutgoingMessage,
        name: Address,
    ) -> io::Result<Receiver> {
        let (judge, request) = (self.judge, self.request);
        let address = Address::of_bytes(address::written_out(name.as_bytes().to_vec()));
        let to = udp::own_port(judge, &Endpoint::parse(address.as_bytes())?);
        if self.flags & MSG_MORE != 0 {
            // It would go there whenever the next one is sent.
            return Err(Errno::OPNOTSUPP);
        }
        if let Some(to) = to.filter(|_| !udp::is_a_standard_stream(socket)) {
            let socket = udp::live(judge, request, (self.number, socket.as_fd()))?;
            if let Some(held) = judge.own.held.datagrams.introduce(&socket, to)? {
                let sender = MessageSender::of(socket, self.flags)?;
                return Ok(Receiver::Own { address, sender, _held: held });
            }
        }
        Err(self.refuse(socket, message, Some(name))?)
    }

    /// Sends a message whose receiver is permitted, and waits for room as long as the target does.
    fn deliver(
        &self,
        socket: &MessageSender,
        message: &OutgoingMessage,
        (name, control): (Option<&Address>, &AncillaryBytes),
    ) -> io::Result<usize> {
        let mut patience = socket.patience()?;
        let mut sent = 0;
        loop {
            let mut result = socket.send(self.request, (message, sent), name, control);
            if let (Err(Errno::AGAIN), Some(patience)) = (result, &mut patience) {
                match patience.wait(socket, || self.request.look_after().map(drop)) {
                    Ok(()) => continue,
                    Err(errno) => result = Err(errno),
                }
            }
            match result {
                Ok(count) => sent += count,
                Err(_) if sent > 0 => return Ok(sent),
                Err(Errno::PIPE) if socket.signals_broken_pipe() => {
                    // As the call would have.
                    self.request.confirm()?.signal(Signal::PIPE)?;
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
