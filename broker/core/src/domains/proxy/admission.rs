//! Which connects the proxy gets: those to its ports, and those that lead on from there, which are answered once the host
//! is reached ([`Door`]). Source: connect(2), EINPROGRESS.

use super::Proxy;
use crate::domains::clients::{Begun, Connection};
use crate::domains::ports::Port;
use crate::report::traps::Traps;
use crate::sockets::dial::{Dial, Door};
use crate::sockets::judge::Admission;
use crate::sockets::socket::Connecting;
use common::proxy::Client;
use kernel::threads::lock;
use rules::address::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::iter;
use std::net::{SocketAddr, SocketAddrV4};

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
    ) -> io::Result<Option<Begun>> {
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

    /// Has `start` begin a connect that is answered once the proxy has reached the host: see [`Door`].
    fn lead(
        &self,
        client: Client,
        (socket, waits): (BorrowedFd<'_>, bool),
        traps: &Traps,
        start: &dyn Fn(Option<SocketAddrV4>) -> io::Result<Connecting>,
    ) -> io::Result<(Connecting, Option<Dial>)> {
        self.ensure_start(&mut lock(&self.running))?;
        let Door { socket: door, address } = Door::open()?;
        let (dial, end) = waits.then(Dial::begin).transpose()?.unzip();
        let held = io::fcntl_dupfd_cloexec(socket, 3)?;
        let is_first = is_unconnected(socket)?;
        // Without the lock, as below.
        let started = start(Some(address));
        if !is_first || !matches!(started, Ok(Connecting::Handshake) | Err(Errno::INPROGRESS)) {
            return Ok((started?, None));
        }
        let mut running = lock(&self.running);
        self.ensure_start(&mut running)?;
        let others = iter::once(held).chain(end).collect();
        running.clients.add(Connection { client, socket: door, others });
        self.serve(&mut running, traps);
        Ok((started?, dial))
    }
}

impl Admission for Proxy {
    fn leads(&self, to: SocketAddr) -> bool {
        self.unasked(to).is_some()
    }

    /// If `endpoint` is one of the proxy's ports, or leads here, the proxy is started if it does not run, and gets
    /// the connection.
    ///
    /// # Errors
    /// Returns what `start` returns, and [`Errno::CONNREFUSED`] if the proxy cannot be started.
    fn watch(
        &self,
        endpoint: &Endpoint,
        (socket, waits): (BorrowedFd<'_>, bool),
        traps: &Traps,
        start: &dyn Fn(Option<SocketAddrV4>) -> io::Result<Connecting>,
    ) -> io::Result<(Connecting, Option<Dial>)> {
        let asked = self.port_at(endpoint).map(|port| (port, port.language));
        let [_, socks] = &self.ports;
        // Where it arrives does not matter.
        let unasked = || match endpoint {
            // Where a run learns, datagrams go by themselves.
            Endpoint::Internet(to) if sockopt::socket_type(socket) == Ok(SocketType::STREAM) => {
                self.unasked(*to).map(|client| (socks, client))
            }
            _ => None,
        };
        let Some((port, client)) = asked.or_else(unasked) else { return Ok((start(None)?, None)) };
        // While somebody is asked, one that nobody waits for has to show when it is given up: only once it is connected
        // the other end does.
        if matches!(client, Client::Direct(_)) && (waits || !self.asks) {
            return self.lead(client, (socket, waits), traps, start);
        }
        let begun = self.expect((port, client), socket)?;
        // Without the lock: the command can make it wait.
        let started = start(port.bound());
        let mut running = lock(&self.running);
        if let Some(begun) = begun {
            let is_under_way = matches!(started, Ok(_) | Err(Errno::INPROGRESS));
            running.clients.settle(begun, is_under_way);
        }
        self.serve(&mut running, traps);
        Ok((started?, None))
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

/// Whether `socket` has no connect behind it, under way or done: a TCP socket without any state hangs
/// up (tcp(7) does not say so, the kernel's tcp_poll() does).
fn is_unconnected(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::new(&socket, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(fds[0].revents().contains(PollFlags::HUP))
}
