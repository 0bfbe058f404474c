//! The control socket to the broker: the setup comes in, then the sandbox's connections, and what somebody who was asked
//! has said; refusals, questions, and what is learned, go out.

use crate::asking::Waiting;
use crate::error::ProxyError;
use crate::resolve::Resolver;
use crate::rules::Rules;
use crate::upstream::Upstreams;
use common::asking::{Decision, Granted};
use common::proxy::{Client, SETUP_MAX, Setup};
use common::told::Told;
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno, IoSliceMut};
use rustix::net::{self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// How much of what was told is remembered, so that each is told once: at least so much of the latest, at most twice.
const REMEMBERED: usize = 4096;
/// Longest message after the setup.
const PACKET_MAX: usize = if Granted::MAX > Client::SIZE { Granted::MAX } else { Client::SIZE };

/// What the broker sends first.
#[derive(Debug)]
pub(crate) struct FromBroker {
    pub(crate) rules: Rules,
    pub(crate) upstreams: Upstreams,
    pub(crate) resolver: Resolver,
}

/// The socket that the broker leaves as standard input.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Control {
    /// Takes over standard input.
    ///
    /// # Errors
    /// Returns [`ProxyError::Control`] if there is none.
    pub(crate) fn take_over() -> Result<Self, ProxyError> {
        let socket = io::fcntl_dupfd_cloexec(std::io::stdin().as_fd(), 3);
        socket.map(Self).map_err(ProxyError::Control)
    }

    /// One that is not standard input.
    #[cfg(test)]
    pub(crate) fn of(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Waits for the setup.
    ///
    /// # Errors
    /// Returns [`ProxyError::Usage`] for a standard input that is no socket, [`ProxyError::Message`]
    /// for anything but the message.
    pub(crate) fn receive_setup(&self) -> Result<FromBroker, ProxyError> {
        let mut packet = vec![0; SETUP_MAX + 1];
        let (length, names) =
            receive_packet(&self.0, &mut packet).map_err(|errno| match errno {
                Errno::NOTSOCK => ProxyError::Usage,
                errno => ProxyError::Control(errno),
            })?;
        let setup = Setup::decode(&packet[..length]).ok_or(ProxyError::Message)?;
        let names = names.into_iter().next().ok_or(ProxyError::Message)?;
        let resolver = Resolver::read(names.into())?;
        let (rules, upstreams) = (Rules::parse(&setup)?, Upstreams::parse(&setup)?);
        Ok(FromBroker { rules, upstreams, resolver })
    }

    /// The same socket for what follows.
    ///
    /// # Errors
    /// Returns [`ProxyError::Runtime`] if tokio cannot watch it.
    pub(crate) fn into_broker(self) -> Result<Broker, ProxyError> {
        // Of another type, but recv(2) and send(2) keep the bounds of messages for this one too.
        let socket = std::os::unix::net::UnixDatagram::from(self.0);
        let watched =
            socket.set_nonblocking(true).and_then(|()| tokio::net::UnixDatagram::from_std(socket));
        let socket = watched.map_err(ProxyError::Runtime)?;
        Ok(Broker { socket, told: Mutex::default(), waiting: Mutex::default() })
    }
}

/// The broker, as the serving proxy sees it.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) socket: UnixDatagram,
    told: Mutex<Memory>,
    waiting: Mutex<Waiting>,
}

/// What was told lately. The oldest is forgotten, and told again if it comes again: who asks for many hosts is told of
/// the last of them too.
#[derive(Debug, Default)]
struct Memory {
    latest: HashSet<Known>,
    before: HashSet<Known>,
}

impl Memory {
    fn has(&self, told: &Known) -> bool {
        self.latest.contains(told) || self.before.contains(told)
    }

    fn add(&mut self, told: Known) {
        if self.latest.len() >= REMEMBERED {
            self.before = std::mem::take(&mut self.latest);
        }
        self.latest.insert(told);
    }
}

/// A host, a port, and what was told of them.
type Known = (String, u16, Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Refused,
    /// It was looked up, for no port.
    Unknown,
    Reached {
        is_private: bool,
    },
}

impl Broker {
    /// Waits for the sandbox's next connection, or a rule; `None` when the broker has gone.
    ///
    /// # Errors
    /// Returns [`ProxyError::Message`] for any other message.
    pub(crate) async fn next(&self) -> Result<Option<Next>, ProxyError> {
        loop {
            let received = self.socket.async_io(Interest::READABLE, || Ok(receive(&self.socket)?));
            match received.await {
                Ok(Received::End) => return Ok(None),
                Ok(Received::Next(next)) => return Ok(Some(next)),
                Ok(Received::Decision(decision)) => self.settle(decision),
                // There was no descriptor left for it: the connection is closed, or ended by the broker.
                Ok(Received::Lost) => {}
                Ok(Received::Other) => return Err(ProxyError::Message),
                // It ended with messages unread.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Ok(None);
                }
                Err(error) => return Err(ProxyError::Runtime(error)),
            }
        }
    }

    /// Tells of a refusal, once for each host and port.
    pub(crate) fn report(&self, host: &str, port: u16) {
        // An empty host is in no message.
        let named = if host.is_empty() { b"\"\"" } else { host.as_bytes() };
        let told = Told::Refused { host: named, port };
        self.tell((host.to_owned(), port, Kind::Refused), &told);
    }

    /// Tells of a lookup of a name that no rule permits, once for each name.
    pub(crate) fn report_lookup(&self, name: &str) {
        self.tell(looked_up(name), &Told::Unknown(name.as_bytes()));
    }

    /// Whether a lookup of `name` was told of.
    pub(crate) fn has_told(&self, name: &str) -> bool {
        self.told.lock().is_ok_and(|told| told.has(&looked_up(name)))
    }

    /// Tells of what was reached though no rule names it, once for each host and port.
    pub(crate) fn tell_reached(&self, host: &str, port: u16, is_private: bool, client: u16) {
        let told = Told::Reached { host: host.as_bytes(), port, is_private, client };
        self.tell((host.to_owned(), port, Kind::Reached { is_private }), &told);
    }

    /// Sends what was not told lately. What the broker is too busy to take is dropped: enforcement never waits for a
    /// reader.
    fn tell(&self, what: Known, message: &Told<'_>) {
        let mut packet = [0; Told::MAX];
        if let Ok(mut told) = self.told.lock()
            && !told.has(&what)
            && let Ok(length) = message.encode(&mut packet)
            && self.socket.try_send(&packet[..length]).is_ok()
        {
            told.add(what);
        }
    }

    /// The connections that wait for somebody's answer.
    pub(crate) fn waiting(&self) -> Option<MutexGuard<'_, Waiting>> {
        self.waiting.lock().ok()
    }
}

fn looked_up(name: &str) -> Known {
    (name.to_owned(), 0, Kind::Unknown)
}

/// A connection of the sandbox's, what it is, and what comes with that.
pub(crate) type Handed = (Client, OwnedFd, Vec<OwnedFd>);

/// What the broker wants next.
pub(crate) enum Next {
    /// This connection is to be served.
    Serve(Handed),
    /// What this pattern names may be reached.
    Grant(Vec<u8>),
}

enum Received {
    Next(Next),
    Decision(Decision),
    Lost,
    End,
    Other,
}

fn receive(socket: &UnixDatagram) -> io::Result<Received> {
    let mut packet = [0; PACKET_MAX + 1];
    let (length, mut descriptors) = receive_packet(socket, &mut packet)?;
    if let Some(decision) = Decision::decode(&packet[..length]) {
        return Ok(Received::Decision(decision));
    }
    if let Some(Granted(pattern)) = Granted::decode(&packet[..length]) {
        return Ok(Received::Next(Next::Grant(pattern.to_vec())));
    }
    Ok(match Client::decode(&packet[..length]) {
        Some(_) if descriptors.is_empty() => Received::Lost,
        Some(client) => Received::Next(Next::Serve((client, descriptors.remove(0), descriptors))),
        None if length == 0 => Received::End,
        None => Received::Other,
    })
}

/// One message: its length, and the descriptors that came with it, four at the most.
fn receive_packet(socket: impl AsFd, packet: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(packet)];
    let received = net::recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let messages = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, messages.flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

    #[test]
    fn the_last_of_many_names_is_told_too_and_each_once_as_long_as_it_is_remembered() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::empty());
            let (ours, theirs) = net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
            let broker = Control::of(ours).into_broker().unwrap();
            let heard = || {
                let mut packet = [0; Told::MAX];
                let (length, _) = net::recv(&theirs, &mut packet, RecvFlags::DONTWAIT).ok()?;
                match Told::decode(&packet[..length]) {
                    Some(Told::Unknown(name)) => Some(String::from_utf8_lossy(name).into_owned()),
                    _ => None,
                }
            };
            for number in 0..3 * REMEMBERED {
                let name = format!("{number}.test");
                broker.socket.writable().await.unwrap();
                for _ in 0..2 {
                    broker.report_lookup(&name);
                }
                assert!(broker.has_told(&name));
                assert_eq!((heard(), heard()), (Some(name), None));
            }
            // One that could not be told is told when it comes again.
            while net::send(&broker.socket, b"full", SendFlags::DONTWAIT).is_ok() {}
            broker.report_lookup("late.test");
            assert!(!broker.has_told("late.test"));
            while net::recv(&theirs, &mut [0; 16][..], RecvFlags::DONTWAIT).is_ok() {}
            broker.socket.writable().await.unwrap();
            broker.report_lookup("late.test");
            assert_eq!(heard().as_deref(), Some("late.test"));
        });
    }
}
