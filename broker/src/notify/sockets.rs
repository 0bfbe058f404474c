//! Calls on sockets: connect, bind, listen, shutdown, and pairs.
//!
//! All are performed on a duplicate of the target's socket, with the broker's own copy of the
//! address, or refused. What makes a socket of the internet listen, starts a connect to the sandbox's
//! own, or ends its listening, is done by one thread at a time, which has the lock on the ports.

use super::serve::Server;
use super::target::Target;
use crate::decide::address::{Endpoint, Verdict};
use crate::decide::call::AddressUse;
use crate::perform::local_ports::{self, Held, LocalPorts};
use crate::perform::socket::{Address, Progress, Socket};
use crate::perform::unix::{Peer, Place};
use crate::report::Denial;
use crate::view::Decider;
use common::trap::NetworkOperation;
use rustix::fd::AsFd;
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, MutexGuard, PoisonError};

/// What a permitted address leads to.
enum Goal {
    /// Whoever has the address.
    Address,
    /// A loopback address in the place of the unspecified one.
    Narrowed,
    /// This socket, which the sandbox listens on.
    Own(Held),
    /// This pathname socket.
    Peer(Peer),
    /// A new pathname socket.
    Place(Place),
}

impl Server {
    /// connect or bind.
    pub(super) fn address(
        &self,
        id: u64,
        target: Target,
        kind: AddressUse,
        (number, address, length): (RawFd, u64, u32),
    ) -> io::Result<()> {
        let address = Address::copy(target, address, length)?;
        let endpoint = address.endpoint()?;
        let goal = self.judge(id, target, kind, &endpoint)?;
        let socket = self.take(target, number, kind, &endpoint)?;
        // Binding a low port and passing a directory are rights: they must be the target's own.
        let needs_rights = kind == AddressUse::Bind || matches!(goal, Goal::Peer(_));
        if needs_rights && !self.same_credentials_as(target)? {
            self.traps.log("refused: a socket address for a target with other credentials");
            return Err(Errno::ACCESS);
        }
        // Only now is it certain that all this was the target's.
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        match (kind, goal) {
            (AddressUse::Bind, Goal::Place(place)) => {
                // Where Landlock grants nothing, the directory that was judged is what confines it.
                let entry = place.entry();
                match self.judges.view.entry(entry.directory(), entry.name()) {
                    Decider::Landlock => place.bind(&socket, self.judges.ruleset.as_fd()),
                    Decider::Broker => place.bind_in_directory(&socket),
                }
            }
            (AddressUse::Bind, Goal::Narrowed) => socket.bind_narrowed(&address),
            (AddressUse::Bind, _) => socket.bind(&address),
            (AddressUse::Connect, Goal::Own(held)) => {
                self.connect_own((id, target, number), socket, &address, &held)
            }
            (AddressUse::Connect, goal) => {
                let leads_to = match &goal {
                    Goal::Peer(peer) => peer.address(),
                    _ => address,
                };
                // Dissolving an association ends listening too.
                let _ports = (endpoint == Endpoint::Unspecified).then(|| {
                    let mut ports = self.ports();
                    ports.before_given_up(&socket);
                    ports
                });
                let result = socket.connect(&leads_to, || self.listener.is_waiting(id));
                if matches!(result, Ok(()) | Err(Errno::INPROGRESS)) {
                    if let Some(proxy) = &self.judges.proxy {
                        proxy.admit(&endpoint, &socket, &self.traps)?;
                    }
                    // In the target's own hands from now on, connected or not.
                    socket.put_in_place(&self.listener, id)?;
                }
                result
            }
        }
    }

    /// Connects to a listening socket of the sandbox, and to nothing else: from the first packet
    /// until it is decided that socket is held, and ends listening only after the connect has ended.
    fn connect_own(
        &self,
        (id, target, number): (u64, Target, RawFd),
        socket: Socket,
        address: &Address,
        held: &Held,
    ) -> io::Result<()> {
        let socket = Arc::new(socket);
        let started = self.ports().start(held, &socket, address);
        let ended = match started {
            Ok(Progress::Connected) => return socket.put_in_place(&self.listener, id),
            Ok(_) => {
                // Given up by the sandbox, it is to be free.
                socket.wait(|| self.listener.is_waiting(id) && self.ports().has(held))
            }
            Err(Errno::INPROGRESS) => {
                socket.put_in_place(&self.listener, id)?;
                if socket.is_decided() {
                    // What is held is let go of before the target goes on.
                    self.ports().finish(&socket, true);
                    return started.map(drop);
                }
                // The target goes on, and this thread looks after the connect. The answer that
                // follows this one finds nobody.
                self.listener.complete(id, Err(Errno::INPROGRESS));
                let is_there = || target.duplicate(number).is_ok_and(|there| socket.is(&there));
                socket.wait(|| is_there() && self.ports().has(held))
            }
            Err(errno) => return Err(errno),
        };
        // Nobody would look after it any more.
        let wanted = !matches!(ended, Err(Errno::INTR | Errno::INPROGRESS));
        let was_ours = self.ports().finish(&socket, wanted);
        match ended {
            Err(Errno::INPROGRESS) => ended,
            Err(Errno::INTR) => Err(Errno::CONNREFUSED),
            _ if !was_ours => Err(Errno::CONNREFUSED),
            Ok(()) if started.is_ok() => socket.put_in_place(&self.listener, id),
            ended => ended,
        }
    }

    fn ports(&self) -> MutexGuard<'_, LocalPorts> {
        // What it knows is compared with the kernel's truth whenever it is used.
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges the address, and follows it to what it names where that is what decides.
    fn judge(
        &self,
        id: u64,
        target: Target,
        kind: AddressUse,
        endpoint: &Endpoint,
    ) -> io::Result<Goal> {
        let (operation, verdict) = match kind {
            AddressUse::Connect => {
                (NetworkOperation::Connect, self.judges.addresses.connect(endpoint))
            }
            AddressUse::Bind => (NetworkOperation::Bind, self.judges.addresses.bind(endpoint)),
        };
        let mut name = endpoint.describe();
        let mut reason = "address rules";
        match (verdict, endpoint) {
            (Verdict::Perform, _) => return Ok(Goal::Address),
            (Verdict::Narrow, _) => return Ok(Goal::Narrowed),
            (Verdict::OwnPort(address), _) => match self.own_port(address) {
                Ok(held) => return Ok(Goal::Own(held)),
                // Nobody listens there: a client that waits for its server tries again.
                Err(Errno::CONNREFUSED) => return Err(Errno::CONNREFUSED),
                Err(_) => reason = "another program listens there",
            },
            (Verdict::ByPath | Verdict::Refuse, Endpoint::UnixPath(path))
                if kind == AddressUse::Connect =>
            {
                // Where nobody listens, looking for a name service daemon is not worth a report.
                let peer = Peer::resolve(target, path)?;
                if verdict == Verdict::ByPath && self.judges.addresses.unix.permit(peer.name()) {
                    return Ok(Goal::Peer(peer));
                }
                name = peer.name().as_os_str().as_bytes().to_vec();
            }
            (Verdict::ByPath, Endpoint::UnixPath(path)) => {
                let place = Place::resolve(target, path)?;
                let listed = self.judges.addresses.unix.permit(&place.name());
                match (
                    listed,
                    self.judges.view.may_change(place.entry().directory(), place.entry().name()),
                ) {
                    (true, true) => return Ok(Goal::Place(place)),
                    (true, false) => reason = "the path may not be written",
                    (false, _) => {}
                }
                name = place.name().into_os_string().into_vec();
            }
            (Verdict::ByPath | Verdict::Refuse, _) => {}
        }
        if self.listener.is_waiting(id) {
            self.traps.report(Denial::Network(operation, name), reason);
        }
        Err(Errno::ACCESS)
    }

    /// The socket of the sandbox that listens on `address`.
    fn own_port(&self, address: SocketAddr) -> io::Result<Held> {
        let held = self.ports().hold(address);
        match held {
            Some(held) => Ok(held),
            None if local_ports::anybody_listens(address) => Err(Errno::ACCESS),
            None => Err(Errno::CONNREFUSED),
        }
    }

    /// The target's socket, or one in its place where the platform refuses to duplicate it.
    fn take(
        &self,
        target: Target,
        number: RawFd,
        kind: AddressUse,
        endpoint: &Endpoint,
    ) -> io::Result<Socket> {
        Socket::take(target, number, &self.judges.addresses).or_else(|errno| {
            self.traps.log(&format!("cannot duplicate the socket for {endpoint:?}: {errno}"));
            match (errno, kind) {
                (Errno::PERM, AddressUse::Connect) => {
                    Socket::replace(target, number, &self.judges.addresses)
                }
                (Errno::PERM, AddressUse::Bind) => {
                    let denial = Denial::Network(NetworkOperation::Bind, endpoint.describe());
                    self.traps.report(denial, "the platform refuses to duplicate descriptors");
                    Err(errno)
                }
                _ => Err(errno),
            }
        })
    }

    /// listen.
    pub(super) fn listen(
        &self,
        id: u64,
        target: Target,
        (number, backlog): (RawFd, i32),
    ) -> io::Result<()> {
        let rules = &self.judges.addresses;
        let socket = if rules.local_binding || rules.unix.any() {
            Socket::take(target, number, rules).map(Some)?
        } else {
            None
        };
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        let Some(socket) = socket.filter(|socket| socket.is_unix() || rules.local_binding) else {
            let name = local_name(target, number);
            self.traps.report(Denial::Network(NetworkOperation::Bind, name), "listen");
            return Err(Errno::ACCESS);
        };
        let mut ports = self.ports();
        socket.listen(backlog)?;
        if socket.is_internet() {
            ports.add(target, number, &socket)?;
        }
        Ok(())
    }

    /// shutdown, of which the filter notifies what can end listening.
    pub(super) fn shutdown(
        &self,
        id: u64,
        target: Target,
        (number, how): (RawFd, i32),
    ) -> io::Result<()> {
        let how = match how {
            0 => Shutdown::Read,
            2 => Shutdown::Both,
            _ => return Err(Errno::INVAL),
        };
        let socket = target.duplicate(number)?;
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        let mut ports = self.ports();
        ports.before_given_up(&socket);
        net::shutdown(&socket, how)
    }

    /// socketpair of datagram sockets: the target gets a pair of seqpacket ones. They keep messages
    /// apart too, but ignore addresses, where a datagram socket sends to any it is told.
    ///
    /// If the target may have only one more descriptor, it keeps the one that it got first.
    ///
    /// # Errors
    /// Returns what making, handing over and writing the numbers returns.
    pub(super) fn pair(
        &self,
        id: u64,
        target: Target,
        (kind, numbers): (i32, u64),
    ) -> io::Result<()> {
        let flags = SocketFlags::from_bits_retain(kind.cast_unsigned() & !0xf);
        if !(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).contains(flags) {
            return Err(Errno::INVAL);
        }
        let memory = target.memory()?;
        let ours = flags | SocketFlags::CLOEXEC;
        let (one, two) = net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, ours, None)?;
        // Only now is it certain that the memory is the target's.
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        // Before anything is handed over: what is, cannot be taken back.
        memory.write(numbers, &[0xff; 8])?;
        let close_on_exec = flags.contains(SocketFlags::CLOEXEC);
        let mut written = Vec::with_capacity(8);
        for socket in [&one, &two] {
            let number = self.listener.give(id, socket.as_fd(), close_on_exec)?;
            written.extend(number.to_ne_bytes());
        }
        memory.write(numbers, &written)
    }
}

/// The local address of a socket, for the report of a refused listen.
fn local_name(target: Target, socket: RawFd) -> Vec<u8> {
    let address = target
        .duplicate(socket)
        .and_then(|socket| net::getsockname(&socket))
        .and_then(SocketAddr::try_from);
    address.map_or_else(|_| b"socket".to_vec(), |address| address.to_string().into_bytes())
}
