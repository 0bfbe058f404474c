//! Calls on sockets: connect, bind, listen, shutdown, and the making of sockets and pairs.
//!
//! All are performed on a duplicate of the target's socket, with the broker's own copy of the
//! address, or refused. What makes a socket of the internet listen, starts a connect to the sandbox's
//! own, or ends its listening, is done by one thread at a time, which has the lock on the ports.

use crate::answer::answer::{Server, Turn};
use crate::call::decode::AddressUse;
use crate::files::view::Decider;
use crate::kernel::listener::Backstop;
use crate::kernel::signals::{RESTART, is_signalled};
use crate::kernel::target::Target;
use crate::report::denials::Denial;
use crate::rules::address::{Endpoint, Verdict};
use crate::rules::socket::Kind;
use crate::sockets::own_ports::{self, Held, LocalPorts};
use crate::sockets::socket::{Address, Progress, Socket, make};
use crate::sockets::unix::{Peer, Place};
use common::trap::NetworkOperation;
use rustix::fd::AsFd;
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, MutexGuard, PoisonError};

/// What a permitted address leads to.
pub(crate) enum Goal {
    /// Whoever has the address.
    Address,
    /// A loopback address in the place of the unspecified one.
    Narrowed,
    /// This socket, which the sandbox listens on.
    Own(Held),
    /// This pathname socket.
    Peer(Peer),
    /// A new pathname socket, and who decides about it.
    Place(Place, Decider),
}

impl Server {
    /// connect or bind.
    pub(crate) fn address(
        &self,
        turn: Turn<'_>,
        id: u64,
        target: Target,
        kind: AddressUse,
        (number, address, length): (RawFd, u64, u32),
    ) -> io::Result<()> {
        let address = Address::copy(target, address, length)?;
        let endpoint = address.endpoint()?;
        let goal = self.judge(id, target, kind, &endpoint)?;
        let operation = match kind {
            AddressUse::Connect => NetworkOperation::Connect,
            AddressUse::Bind => NetworkOperation::Bind,
        };
        let socket = match self.take(target, number, operation, || endpoint.describe()) {
            // Decided since the last call was interrupted, or did not wait.
            Err(Errno::ISCONN) if self.listener.is_waiting(id) => {
                let told = self.stand_ins.tell(target, number);
                return if told { Ok(()) } else { Err(Errno::ISCONN) };
            }
            socket => socket?,
        };
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
            (AddressUse::Bind, goal) => {
                let bind = || match &goal {
                    Goal::Place(place, Decider::Landlock) => {
                        place.bind(&socket, self.judges.ruleset.as_fd())
                    }
                    // Landlock grants nothing: the directory that was judged is what confines it.
                    Goal::Place(place, Decider::Broker) => place.bind_in_directory(&socket),
                    Goal::Narrowed => socket.bind_narrowed(&address),
                    _ => socket.bind(&address),
                };
                bind().or_else(|errno| match errno {
                    // Perhaps by one that the sandbox has closed just now.
                    Errno::ADDRINUSE => {
                        self.stand_ins.let_ports_go();
                        bind()
                    }
                    _ => Err(errno),
                })?;
                self.put_in_place(id, target, number, &socket)
            }
            (AddressUse::Connect, Goal::Own(held)) => {
                self.connect_own(turn, (id, target, number), socket, &address, &held)
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
                let start = || socket.start(&leads_to);
                let started = match &self.judges.proxy {
                    Some(proxy) => proxy.watch(&endpoint, &socket, &self.traps, start),
                    None => start(),
                };
                let result = started.and_then(|progress| {
                    socket.finish(progress, &leads_to, || self.look_after(turn, id, target))
                });
                self.stand_ins.leave_if_connected(&socket, result.is_ok());
                let goes_on = Err(Errno::INPROGRESS);
                if [Ok(()), goes_on, Err(RESTART), Err(Errno::INTR)].contains(&result) {
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
        turn: Turn<'_>,
        (id, target, number): (u64, Target, RawFd),
        socket: Socket,
        address: &Address,
        held: &Held,
    ) -> io::Result<()> {
        let socket = Arc::new(socket);
        let result = self.connect_held(turn, (id, target, number), &socket, address, held);
        self.stand_ins.leave_if_connected(&*socket, result.is_ok());
        result
    }

    fn connect_held(
        &self,
        turn: Turn<'_>,
        (id, target, number): (u64, Target, RawFd),
        socket: &Arc<Socket>,
        address: &Address,
        held: &Held,
    ) -> io::Result<()> {
        let started = self.ports().start(held, socket, address);
        let answer = match started {
            Ok(Progress::Connected) => return socket.put_in_place(&self.listener, id),
            Ok(_) => {
                // Given up by the sandbox, it is to be free.
                let ended = socket.wait(|| self.look_after(turn, id, target).and(self.has(held)));
                if !matches!(ended, Err(RESTART | Errno::INTR)) {
                    // Nobody would look after it any more.
                    let was_ours = self.ports().finish(socket, ended.is_ok());
                    return match ended {
                        Ok(()) if was_ours => {
                            socket.outcome().and_then(|()| socket.put_in_place(&self.listener, id))
                        }
                        Err(Errno::INPROGRESS) => ended,
                        _ => Err(Errno::CONNREFUSED),
                    };
                }
                if !self.ports().leave_unattended(socket) {
                    self.ports().finish(socket, false);
                    return Err(Errno::CONNREFUSED);
                }
                ended
            }
            Err(Errno::INPROGRESS) => Err(Errno::INPROGRESS),
            Err(errno) => return Err(errno),
        };
        let placed = socket.put_in_place(&self.listener, id);
        if placed.is_err() || socket.is_decided() {
            // What is held is let go of before the target goes on.
            self.ports().finish(socket, placed.is_ok());
            return placed.and(answer);
        }
        // The target goes on, and this thread looks after the connect. The answer that follows this
        // one finds nobody.
        self.listener.complete(id, answer);
        turn.pass_on();
        let is_there = || if socket.is_at(target, number) { Ok(()) } else { Err(Errno::BADF) };
        let ended = socket.wait(|| is_there().and(self.has(held)));
        self.ports().finish(socket, ended.is_ok());
        answer
    }

    /// Whether a peer is still to be waited for: the target can be gone, or have got a signal.
    pub(crate) fn look_after(&self, turn: Turn<'_>, id: u64, target: Target) -> io::Result<()> {
        turn.pass_on();
        let signalled = is_signalled(target);
        match self.listener.is_waiting(id) {
            true if signalled => Err(RESTART),
            true => Ok(()),
            false => Err(Errno::SRCH),
        }
    }

    fn ports(&self) -> MutexGuard<'_, LocalPorts> {
        // What it knows is compared with the kernel's truth whenever it is used.
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the sandbox still has what is held.
    fn has(&self, held: &Held) -> io::Result<()> {
        let has = self.ports().has(held, &self.stand_ins);
        if has { Ok(()) } else { Err(Errno::CONNREFUSED) }
    }

    /// Gives the target, for good, a socket of the broker's own that is bound.
    fn put_in_place(
        &self,
        id: u64,
        target: Target,
        number: RawFd,
        socket: &Socket,
    ) -> io::Result<()> {
        if socket.is_stand_in() {
            socket.put_in_place(&self.listener, id)?;
            self.stand_ins.keep(target, number, socket)?;
        }
        self.stand_ins.note_bound(socket);
        Ok(())
    }

    /// Judges the address, and follows it to what it names where that is what decides.
    pub(crate) fn judge(
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
                let entry = place.entry();
                match (listed, self.judges.view.entry(entry.directory(), entry.name())) {
                    (true, Some((_, decider))) => return Ok(Goal::Place(place, decider)),
                    (true, None) => reason = "the path may not be written",
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
        let held = self.ports().hold(address, &self.stand_ins);
        if let Some(held) = held {
            return Ok(held);
        }
        let anybody_listens = || own_ports::anybody_listens(address);
        // Unless that is what the sandbox has closed just now.
        let somebody_does = anybody_listens() && {
            self.stand_ins.let_ports_go();
            anybody_listens()
        };
        if somebody_does { Err(Errno::ACCESS) } else { Err(Errno::CONNREFUSED) }
    }

    /// The target's socket, or one in its place where the platform refuses to duplicate it. `name` is
    /// what a report says of it.
    fn take(
        &self,
        target: Target,
        number: RawFd,
        operation: NetworkOperation,
        name: impl Fn() -> Vec<u8>,
    ) -> io::Result<Socket> {
        let rules = &self.judges.addresses;
        match self.stand_ins.duplicate(target, number) {
            Ok(socket) => Socket::of(socket, rules),
            Err(Errno::PERM) if self.stand_ins.is_left(target, number) => Err(match operation {
                NetworkOperation::Connect => Errno::ISCONN,
                NetworkOperation::Bind => Errno::INVAL,
            }),
            Err(Errno::PERM) => Socket::replace(target, number, rules).inspect_err(|errno| {
                if *errno == Errno::ACCESS {
                    let denial = Denial::Network(operation, name());
                    self.traps.report(denial, "the platform refuses to duplicate such a socket");
                }
            }),
            Err(errno) => Err(errno),
        }
    }

    /// listen.
    pub(crate) fn listen(
        &self,
        id: u64,
        target: Target,
        (number, backlog): (RawFd, i32),
    ) -> io::Result<()> {
        let rules = &self.judges.addresses;
        let socket = if rules.local_binding || rules.unix.any() {
            Some(self.take(target, number, NetworkOperation::Bind, || b"socket".to_vec())?)
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
        self.put_in_place(id, target, number, &socket)?;
        if socket.is_internet() {
            ports.add(target, number, &socket)?;
        }
        Ok(())
    }

    /// shutdown, of which the filter notifies what can end listening.
    pub(crate) fn shutdown(
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
        let socket = self.stand_ins.duplicate(target, number)?;
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        let mut ports = self.ports();
        ports.before_given_up(&socket);
        net::shutdown(&socket, how)
    }

    /// socket of a permitted kind, where the broker could not get at it later: it makes it. Of a target
    /// with other credentials it does not, nor where it cannot: all arguments are registers.
    pub(crate) fn make(&self, id: u64, target: Target, kind: Kind, flags: SocketFlags) {
        let made = self.same_credentials_as(target).and_then(|same| match same {
            true => make(kind, flags),
            false => Err(Errno::ACCESS),
        });
        let Ok(socket) = made else {
            self.listener.let_through(id, Backstop::Registers);
            return;
        };
        let close_on_exec = flags.contains(SocketFlags::CLOEXEC);
        let number = self.listener.give(id, socket.as_fd(), close_on_exec);
        if let Ok(number) = number {
            // Before the target can use it. If it cannot be kept, one is put in its place then.
            let _ = self.stand_ins.keep(target, number, socket);
        }
        self.listener.complete_with(id, number);
    }

    /// socketpair of datagram sockets: the target gets a pair of seqpacket ones. They keep messages
    /// apart too, but ignore addresses, where a datagram socket sends to any it is told.
    ///
    /// If the target may have only one more descriptor, it keeps the one that it got first.
    ///
    /// # Errors
    /// Returns what making, handing over and writing the numbers returns.
    pub(crate) fn pair(
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
