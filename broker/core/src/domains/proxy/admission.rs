//! Which connects the proxy gets: those to its ports, and those that lead on from there, which are answered once the host
//! is reached ([`Door`]). Source: connect(2), EINPROGRESS.

use super::{NO_DATA, Proxy};
use crate::domains::clients::Connection;
use crate::domains::ports::Port;
use crate::report::traps::Traps;
use crate::sockets::dial::{Dial, Door, Led, Way, ready};
use crate::sockets::judge::Admission;
use crate::sockets::socket::Connecting;
use common::proxy::Client;
use kernel::threads::lock;
use rules::address::{Endpoint, canonical};
use rustix::event::PollFlags;
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;

impl Proxy {
    /// What a connect to `to` is for the proxy, if it is none to its ports.
    fn unasked(&self, to: SocketAddr) -> Option<Client> {
        self.unasked.as_ref()?.client(to, || self.names.hosts())
    }

    /// Has the connection taken that `socket` is about to make to `port`, unless it has one.
    fn expect(
        &self,
        (port, client): (&Port, Client),
        socket: BorrowedFd<'_>,
    ) -> io::Result<Option<u64>> {
        let mut running = lock(&self.running);
        self.ensure_start(&mut running)?;
        // So that there is room for what is begun now.
        running.clients.accept(&self.ports);
        if !is_unconnected(socket)? {
            return Ok(None);
        }
        let held = io::fcntl_dupfd_cloexec(socket, 3)?;
        let connection = Connection { client, socket: held, others: Vec::new() };
        Ok(Some(running.clients.begin(port.language, connection)))
    }

    /// The way of a connect that is answered once the proxy has reached the host: see [`Door`].
    fn lead(&self, client: Client, (socket, waits): (BorrowedFd<'_>, bool)) -> io::Result<Way> {
        self.ensure_start(&mut lock(&self.running))?;
        let [_, socks] = &self.ports;
        if !is_unconnected(socket)? {
            // The kernel says so. What it began meanwhile after all is closed there, as a stranger's.
            return Ok(Way::Port(socks.bound(), None));
        }
        let door = Door::open()?;
        let dial = waits.then(Dial::begin).transpose()?;
        Ok(Way::Door(door, client, io::fcntl_dupfd_cloexec(socket, 3)?, dial))
    }
}

impl Admission for Proxy {
    fn leads(&self, to: SocketAddr) -> bool {
        self.unasked(to).is_some()
    }

    /// If `endpoint` is one of the proxy's ports, or leads here, the proxy is started if it does not run.
    ///
    /// # Errors
    /// Returns [`Errno::CONNREFUSED`] if the proxy cannot be started.
    fn prepare(
        &self,
        endpoint: &Endpoint,
        (socket, waits): (BorrowedFd<'_>, bool),
    ) -> io::Result<Way> {
        let Endpoint::Internet(to) = endpoint else { return Ok(Way::Past) };
        let asked = self.ports.iter().find(|port| port.address() == canonical(*to));
        let [_, socks] = &self.ports;
        // Where a run learns, datagrams go by themselves.
        let is_stream = || sockopt::socket_type(socket) == Ok(SocketType::STREAM);
        let (port, client) = match asked {
            Some(port) => (port, port.language),
            None => match self.unasked(*to).filter(|_| is_stream()) {
                // Where it arrives does not matter.
                Some(client) => (socks, client),
                None => return Ok(Way::Past),
            },
        };
        // While somebody is asked, one that nobody waits for has to show when it is given up: only once it is connected
        // the other end does.
        if matches!(client, Client::Direct(_)) && (waits || !self.asks) {
            return self.lead(client, (socket, waits));
        }
        let begun = self.expect((port, client), socket)?;
        Ok(Way::Port(port.bound(), begun))
    }

    fn hand_over(
        &self,
        way: Way,
        started: io::Result<Connecting>,
        traps: &Traps,
    ) -> io::Result<Option<Dial>> {
        let mut running = lock(&self.running);
        let told = match way {
            Way::Port(_, begun) => {
                let is_under_way = matches!(started, Ok(_) | Err(Errno::INPROGRESS));
                begun.inspect(|begun| running.clients.settle(*begun, is_under_way));
                None
            }
            Way::Door(door, client, caller, dial) if is_begun(started) => {
                let (led, settled) = Led::new(&door.socket, &caller)?;
                // For want of memory it is looked at with the next one.
                let _ = epoll::add(&self.events, &led.settled, NO_DATA, EventFlags::empty());
                running.clients.lead(led);
                self.ensure_start(&mut running)?;
                let (dial, end) = dial.unzip();
                let others = [caller, settled].into_iter().chain(end).collect();
                running.clients.add(Connection { client, socket: door.socket, others });
                dial
            }
            Way::Past | Way::Door(..) => return Ok(None),
        };
        self.serve(&mut running, traps);
        Ok(told)
    }

    fn lookups(&self, mode: SocketFlags, traps: &Traps) -> io::Result<Option<OwnedFd>> {
        if self.unasked.is_none() {
            return Ok(None);
        }
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            net::socketpair(AddressFamily::UNIX, kind, mode | SocketFlags::CLOEXEC, None)?;
        let mut running = lock(&self.running);
        self.ensure_start(&mut running)?;
        let client = Client::LookupMessages;
        running.clients.add(Connection { client, socket: theirs, others: Vec::new() });
        self.serve(&mut running, traps);
        Ok(Some(ours))
    }
}

/// Whether a connect is under way that has `started` like this; one that was interrupted is (connect(2), EINTR).
fn is_begun(started: io::Result<Connecting>) -> bool {
    matches!(started, Ok(Connecting::Handshake) | Err(Errno::INPROGRESS | Errno::INTR))
}

/// Whether `socket` has no connect behind it, under way or done: a TCP socket without any state hangs
/// up (tcp(7) does not say so, the kernel's tcp_poll() does).
fn is_unconnected(socket: BorrowedFd<'_>) -> io::Result<bool> {
    ready(socket).map(|ready| ready.contains(PollFlags::HUP))
}
