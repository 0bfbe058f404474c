//! The sockets that messages of the target's are sent on: duplicates of its own.
//!
//! Of all that the kernel would read from the target's memory, and of the descriptors that go along,
//! the broker sends what it has copied. So a thread that changes them meanwhile changes at most what
//! the receiver gets, which was its own to choose, and never who the receiver is. Sources: sendmsg(2),
//! unix(7), socket(7).

use super::message::OutgoingMessage;
use super::socket::{
    LOOK_INTERVAL, QUEUE_PAUSE, QUEUE_PAUSE_MAX, deadline, has_room_within, interrupted,
};
use crate::call::ancillary::{Ancillary, Sender};
use kernel::address::{self, Address};
use kernel::credentials::Credentials;
use kernel::request::Request;
use kernel::target::Target;
use nix::libc;
use rules::address::{AddressRules, Endpoint};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, OFlags};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, SocketType, ipproto, sockopt};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// No datagram of the internet is longer.
const DATAGRAM_MAX: usize = 65_535;
/// What is copied at a time of what need not stay together.
const PORTION: usize = 256 * 1024;

const MSG_OOB: u32 = libc::MSG_OOB.cast_unsigned();
const MSG_DONTWAIT: u32 = libc::MSG_DONTWAIT.cast_unsigned();
const MSG_NOSIGNAL: u32 = libc::MSG_NOSIGNAL.cast_unsigned();
const MSG_ZEROCOPY: u32 = 0x0400_0000;

/// What the kernel makes of the address of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameUse {
    /// Nothing: it sends to the peer that the socket is connected to.
    Ignored,
    /// It refuses it, or reaches nobody whom the rules keep from the command.
    Free,
    /// It sends to the Unix socket there.
    Path,
    /// It sends to the socket of UDP there.
    Port,
    /// Not known: nothing that the command can have made.
    Unknown,
}

/// Ancillary data as the broker sends it, and the descriptors in it.
#[derive(Debug, Default)]
pub(crate) struct AncillaryBytes {
    bytes: Vec<u8>,
    _descriptors: Vec<OwnedFd>,
}

/// A duplicate of the target's socket, to send on.
#[derive(Debug)]
pub(crate) struct MessageSender {
    descriptor: OwnedFd,
    family: AddressFamily,
    kind: SocketType,
    flags: u32,
    /// The target waits until there is room.
    waits: bool,
}

impl MessageSender {
    /// Takes the duplicate over, for a call with these flags. It may be any socket: without an
    /// address it reaches whom it is connected to.
    ///
    /// # Errors
    /// Returns [`Errno::NOTSOCK`] as the call does.
    pub(crate) fn of(descriptor: OwnedFd, flags: u32) -> io::Result<Self> {
        let family = sockopt::socket_domain(&descriptor)?;
        let kind = sockopt::socket_type(&descriptor)?;
        let waits =
            flags & MSG_DONTWAIT == 0 && !fs::fcntl_getfl(&descriptor)?.contains(OFlags::NONBLOCK);
        let sender = Self { descriptor, family, kind, flags, waits };
        // The kernel would send from the broker's memory as it is later on. Programs that get this
        // error send without the flag (Documentation/networking/msg_zerocopy.rst).
        if flags & MSG_ZEROCOPY != 0 && sender.is_internet() {
            return Err(Errno::NOBUFS);
        }
        Ok(sender)
    }

    /// Whether it is one of UDP.
    pub(crate) fn is_udp(&self) -> bool {
        self.is_internet() && self.kind == SocketType::DGRAM
    }

    /// Whom it is connected to.
    ///
    /// # Errors
    /// Returns what getpeername(2) returns; [`Errno::ACCESS`] for an address that is not of the internet.
    pub(crate) fn peer(&self) -> io::Result<Endpoint> {
        let peer = net::getpeername(&self.descriptor)?.ok_or(Errno::NOTCONN)?;
        SocketAddr::try_from(peer).map(Endpoint::Internet).map_err(|_| Errno::ACCESS)
    }

    fn is_internet(&self) -> bool {
        [AddressFamily::INET, AddressFamily::INET6].contains(&self.family)
    }

    /// What becomes of an address. `allow_network` says that IP networking is not restricted.
    pub(crate) fn use_of_name(&self, allow_network: bool) -> io::Result<NameUse> {
        let protocol = || sockopt::socket_protocol(&self.descriptor);
        Ok(match (self.family, self.kind) {
            (AddressFamily::UNIX, SocketType::DGRAM) => NameUse::Path,
            (AddressFamily::UNIX, SocketType::STREAM) => NameUse::Free,
            (AddressFamily::UNIX, SocketType::SEQPACKET) => NameUse::Ignored,
            (AddressFamily::INET | AddressFamily::INET6, _) if allow_network => NameUse::Free,
            // With MSG_FASTOPEN nothing comes here.
            (AddressFamily::INET | AddressFamily::INET6, SocketType::STREAM)
                if protocol()? == Some(ipproto::TCP) =>
            {
                NameUse::Ignored
            }
            (AddressFamily::INET | AddressFamily::INET6, SocketType::DGRAM)
                if protocol()? == Some(ipproto::UDP) =>
            {
                NameUse::Port
            }
            // NETLINK_ROUTE is protocol 0, and nobody but the kernel can be sent to.
            (AddressFamily::NETLINK, _) if protocol()?.is_none() => NameUse::Free,
            _ => NameUse::Unknown,
        })
    }

    /// Copies the ancillary data of `message`, and takes the descriptors that it names, but none that sends to whom a
    /// message names by a right that `rules` give here alone: another run can have the other end, and sendmsg(2) is let
    /// through there as long as it has made no such socket itself.
    ///
    /// The sender's process can only be the broker's, as everything that the receiver is told of it
    /// is by the kernel: the target has to have named its own. User and group are the target's, which `credentials`
    /// are if they are not the broker's: this thread acts with the effective ones, and the kernel would tell of and
    /// permit the real and saved ones, too (unix(7), scm_send in include/net/scm.h).
    ///
    /// # Errors
    /// Returns what sendmsg(2) returns; [`Errno::ACCESS`] for a family that the broker does not know; [`Errno::PERM`]
    /// for such a descriptor.
    pub(crate) fn control(
        &self,
        target: Target,
        message: &OutgoingMessage,
        (rules, credentials): (&AddressRules, Option<&Credentials>),
    ) -> io::Result<AncillaryBytes> {
        let mut bytes = message.control(target)?;
        let mut descriptors = Vec::new();
        if [AddressFamily::UNIX, AddressFamily::NETLINK].contains(&self.family) {
            let Ancillary { descriptors: theirs, mut sender } = Ancillary::parse(&bytes)?;
            let process = std::process::id().cast_signed();
            for number in theirs {
                let descriptor = target.duplicate(number)?;
                if sends_by_judgement(&descriptor, rules) {
                    return Err(Errno::PERM);
                }
                descriptors.push(descriptor);
            }
            if let Some(sender) = &mut sender {
                let may_claim = |own: &Credentials| own.may_claim(sender.user, sender.group);
                if sender.process != target.process()? || !credentials.is_none_or(may_claim) {
                    return Err(Errno::PERM);
                }
                sender.process = process;
            } else if let Some(own) = credentials {
                let (user, group) = (own.users[0].as_raw(), own.groups[0].as_raw());
                sender = Some(Sender { process, user, group });
            }
            let ours: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
            bytes = Ancillary::encode(&ours, sender);
        } else if !bytes.is_empty() && !self.is_internet() {
            // Some have pointers in there.
            return Err(Errno::ACCESS);
        }
        Ok(AncillaryBytes { bytes, _descriptors: descriptors })
    }

    /// Sends what there is room for of `message` from its byte `sent` on, without waiting, if the
    /// target still waits once that is copied.
    ///
    /// # Errors
    /// Returns what sendmsg(2) returns; [`Errno::SRCH`] if the target is gone.
    pub(crate) fn send(
        &self,
        request: &Request<'_>,
        (message, sent): (&OutgoingMessage, usize),
        name: Option<&Address>,
        control: &AncillaryBytes,
    ) -> io::Result<usize> {
        let left = message.length() - sent;
        let mut flags = self.flags & !MSG_ZEROCOPY | MSG_DONTWAIT | MSG_NOSIGNAL;
        let mut portion = left;
        if self.kind != SocketType::STREAM {
            // All of it is sent at once, or not at all: as by the kernel, but before it is copied. Protocols of the internet have
            // a limit of their own.
            if left > sockopt::socket_send_buffer_size(&self.descriptor)?.max(DATAGRAM_MAX) {
                return Err(Errno::MSGSIZE);
            }
        } else if left > PORTION {
            // The urgent byte is the last.
            flags &= !MSG_OOB;
            portion = PORTION;
        }
        let data = message.data(request.target(), sent, portion)?;
        request.confirm()?;
        // What travels along goes with the first bytes.
        let control = if sent == 0 { &control.bytes[..] } else { &[] };
        address::send(self.as_fd(), name.map_or(&[], Address::as_bytes), &data, control, flags)
    }

    /// How to wait for room; none if the target does not.
    pub(crate) fn patience(&self) -> io::Result<Option<Patience>> {
        if !self.waits {
            return Ok(None);
        }
        let deadline = deadline(&self.descriptor)?;
        Ok(Some(Patience { deadline, was_ready: false, pause: QUEUE_PAUSE }))
    }

    /// Whether a target that sends when nobody can receive any more gets SIGPIPE, besides the error.
    pub(crate) fn signals_broken_pipe(&self) -> bool {
        self.kind == SocketType::STREAM && self.flags & MSG_NOSIGNAL == 0
    }
}

impl AsFd for MessageSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether `descriptor` is a socket of whose messages each is judged.
fn sends_by_judgement(descriptor: impl AsFd, rules: &AddressRules) -> bool {
    sockopt::socket_type(&descriptor) == Ok(SocketType::DGRAM)
        && match sockopt::socket_domain(descriptor) {
            Ok(AddressFamily::UNIX) => !rules.unix.all,
            Ok(AddressFamily::INET | AddressFamily::INET6) => !rules.allow_network,
            // Netlink: nobody but the kernel can be sent to.
            _ => false,
        }
}

/// Waits for room to send.
#[derive(Debug)]
pub(crate) struct Patience {
    deadline: Option<Instant>,
    /// The socket had room by itself the last time.
    was_ready: bool,
    pause: Duration,
}

impl Patience {
    /// Waits a while until there may be room, if `look` finds no reason to end that.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] when SO_SNDTIMEO has run out (socket(7)), and what `look` returns.
    pub(crate) fn wait(
        &mut self,
        sender: &MessageSender,
        look: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let left = self.deadline.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(Errno::AGAIN);
        }
        look().map_err(|errno| interrupted(errno, self.deadline))?;
        let limit = left.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL);
        let ready = has_room_within(sender, limit)?;
        // Then it is the receiver's queue that is full, and nothing tells when it has room.
        if ready && self.was_ready {
            std::thread::sleep(self.pause.min(limit));
            self.pause = (self.pause * 2).min(QUEUE_PAUSE_MAX);
        }
        self.was_ready = ready;
        Ok(())
    }

    /// Something was sent: what comes next is waited for anew.
    pub(crate) fn restore(&mut self) {
        (self.was_ready, self.pause) = (false, QUEUE_PAUSE);
    }
}
