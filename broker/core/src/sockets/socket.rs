//! connect, bind, listen and shutdown, done on a duplicate of the target's socket with the broker's own copy of the
//! address: connect(2), bind(2), listen(2), shutdown(2), pidfd_getfd(2).
//!
//! The target may meanwhile rewrite its memory or put another descriptor in the place of the socket:
//! the address was judged as copied here, and is permitted for any socket that passes
//! [`Socket::of`].

use super::held_sockets::inode;
use super::kinds::{is_of_use, kind_of, make};
use super::unwaiting::without_waiting;
use kernel::address::Address;
use kernel::fd_scan;
use kernel::options::{carry_over, is_kept_on_loopback, keep_on_loopback};
use kernel::request::{Confirmed, RESTART};
use kernel::socket_filter::hear_only;
use kernel::target::{Target, TargetFd};
use rules::address::{self, AddressRules, Endpoint, canonical};
use rules::socket::SocketKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, OFlags};
use rustix::io::{self, Errno};
use rustix::net::sockopt::Timeout;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How far a connect has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connecting {
    /// It is done.
    Done,
    /// The peer is to answer: the socket is writable once it is decided.
    Handshake,
    /// The queue of the listening Unix socket is full: to be tried again.
    Queue,
}

/// A socket that stands for one of the target's.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    pub(super) family: AddressFamily,
    /// The target waits in connect(2).
    pub(super) blocking: bool,
    /// The descriptor in the place of which the socket is put, and whether that is closed on exec: it is the broker's
    /// own, not a duplicate.
    replaces: Option<(TargetFd, bool)>,
}

/// How often a wait looks whether it is still wanted.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Held by each that waits for room in the queue of a peer, and how much longer each other has one pause.
static QUEUED: LazyLock<Arc<()>> = LazyLock::new(Arc::default);
const PAUSE_FOR_EACH: Duration = Duration::from_micros(500);
/// How long a full queue is left alone at first, and at most.
pub(crate) const QUEUE_PAUSE: Duration = Duration::from_millis(2);
pub(crate) const QUEUE_PAUSE_MAX: Duration = Duration::from_millis(50);

impl Socket {
    /// Takes over a duplicate of the target's. Only what the filter lets the command create under
    /// these rules is acted on: descriptors that it inherited may be anything.
    ///
    /// # Errors
    /// Returns [`Errno::NOTSOCK`] as the call does, [`Errno::ACCESS`] for another kind of socket.
    pub(crate) fn of(socket: OwnedFd, rules: &AddressRules) -> io::Result<Self> {
        let kind = kind_of(&socket)?;
        let family = kind.domain.try_into().map_err(|_| Errno::AFNOSUPPORT)?;
        let family = AddressFamily::from_raw(family);
        let blocking = !fs::fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK);
        if is_of_use(kind, rules) {
            Ok(Self { descriptor: socket, family, blocking, replaces: None })
        } else {
            Err(Errno::ACCESS)
        }
    }

    /// Makes a socket to put in the place of the one at descriptor `number`, where the platform
    /// refuses pidfd_getfd(2), as Docker's default seccomp profile does, and the broker has not made
    /// that one either. Flags of the descriptor carry over; socket options and other descriptors of
    /// the same socket do not.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] and [`Errno::NOTSOCK`] as the call does, [`Errno::ACCESS`] if the
    /// socket there is of another kind.
    pub(crate) fn replace(
        target: Target,
        number: TargetFd,
        rules: &AddressRules,
    ) -> io::Result<Self> {
        let kind = SocketKind::named(&target.socket_protocol(number)?)
            .filter(|&kind| is_of_use(kind, rules))
            .ok_or(Errno::ACCESS)?;
        Self::in_place_of(target, number, |mode| {
            let socket = make(kind, mode, rules)?;
            let family = sockopt::socket_domain(&socket)?;
            if family != AddressFamily::UNIX && sockopt::socket_type(&socket)? == SocketType::STREAM
            {
                // What servers set before they bind, and what cannot be seen any more.
                sockopt::set_socket_reuseaddr(&socket, true)?;
            }
            Ok(socket)
        })
    }

    /// Makes one of UDP that can send, to put in the place of a mute one, which stands at descriptor `number`
    /// and of which `mute` is a duplicate. It hears nobody. Flags of the descriptor and options carry over; other
    /// descriptors of the mute one stay behind.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] as the call does, and what socket(2) returns.
    pub(super) fn in_place_of_mute(
        target: Target,
        number: TargetFd,
        mute: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        Self::in_place_of(target, number, |mode| {
            let (family, mode) = (sockopt::socket_domain(mute)?, mode | SocketFlags::CLOEXEC);
            let socket = net::socket_with(family, SocketType::DGRAM, mode, None)?;
            hear_only(socket.as_fd(), &[])?;
            carry_over(mute, socket.as_fd());
            Ok(socket)
        })
    }

    /// What `make` makes, with the flags of the descriptor `number`, to put there.
    fn in_place_of(
        target: Target,
        number: TargetFd,
        make: impl FnOnce(SocketFlags) -> io::Result<OwnedFd>,
    ) -> io::Result<Self> {
        let flags = target.descriptor_flags(number)?;
        let blocking = !flags.contains(OFlags::NONBLOCK);
        let mode = if blocking { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
        let descriptor = make(mode)?;
        let family = sockopt::socket_domain(&descriptor)?;
        let place = (number, flags.contains(OFlags::CLOEXEC));
        Ok(Self { descriptor, family, blocking, replaces: Some(place) })
    }

    /// bind(2) to `address`.
    pub(crate) fn bind(&self, _: Confirmed<'_>, address: &Address) -> io::Result<()> {
        net::bind(&self.descriptor, address)
    }

    /// bind(2) to a loopback address in the place of the unspecified one in `address`; a server for both
    /// families to that itself, on the loopback interface.
    pub(crate) fn bind_narrowed(&self, by: Confirmed<'_>, address: &Address) -> io::Result<()> {
        // The target may change the option meanwhile: either way it is an address of loopback, and which ones reach
        // it is asked once it is bound (`reached_at`).
        let only_v6 = self.family == AddressFamily::INET6 && sockopt::ipv6_v6only(self)?;
        let is_for_both = !only_v6 && is_unspecified_v6(address);
        let is_kept =
            || is_kept_on_loopback(self.as_fd()) || keep_on_loopback(self.as_fd()).is_ok();
        if is_for_both && is_kept() {
            return self.bind(by, address);
        }
        let narrowed = address::narrowed(address.as_bytes().to_vec(), only_v6);
        self.bind(by, &Address::of_bytes(narrowed))
    }

    /// One of UDP that can send and is not bound, `open`, itself.
    pub(super) fn open(open: BorrowedFd<'_>) -> io::Result<Self> {
        let family = sockopt::socket_domain(open)?;
        let descriptor = io::fcntl_dupfd_cloexec(open, 0)?;
        Ok(Self { descriptor, family, blocking: false, replaces: None })
    }

    /// Where [`Socket::bind`] or [`Socket::bind_narrowed`] binds it for `address`, as a canonical address.
    pub(super) fn address_narrowed(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let ip = match address.ip() {
            ip if !ip.to_canonical().is_unspecified() => ip.to_canonical(),
            IpAddr::V6(ip) if ip.is_unspecified() => match sockopt::ipv6_v6only(self)? {
                true => Ipv6Addr::LOCALHOST.into(),
                false => ip.into(),
            },
            _ => Ipv4Addr::LOCALHOST.into(),
        };
        Ok(SocketAddr::new(ip, address.port()))
    }

    /// listen(2) on a Unix socket, or on a TCP one that is bound to a loopback address; one that is
    /// not bound yet gets one, where listen(2) by itself would take the unspecified address. Or on
    /// one of the internet at `any_address`.
    ///
    /// Nothing but the broker binds a socket of the target's, or connects it, which can give up the address
    /// that it has: while the ports are locked, what is seen here stays.
    ///
    /// # Errors
    /// Returns [`Errno::ACCESS`] for another address, else what the kernel returns.
    pub(crate) fn listen(
        &self,
        by: Confirmed<'_>,
        backlog: i32,
        any_address: bool,
    ) -> io::Result<()> {
        if self.is_internet() && !any_address {
            let mut local = self.local_address()?;
            if local.port() == 0 {
                self.bind_narrowed(by, &Address::unspecified(self.family))?;
                local = self.local_address()?;
            }
            let local = local.ip();
            let is_kept = local.is_unspecified() && is_kept_on_loopback(self.as_fd());
            if !is_kept && !address::is_loopback(local) {
                return Err(Errno::ACCESS);
            }
        }
        net::listen(&self.descriptor, backlog)
    }

    /// Whether it is a socket of the internet.
    pub(crate) fn is_internet(&self) -> bool {
        [AddressFamily::INET, AddressFamily::INET6].contains(&self.family)
    }

    /// Whether it is one of UDP.
    pub(crate) fn is_udp(&self) -> bool {
        kind_of(self).is_ok_and(|kind| kind.is_udp())
    }

    /// Whether it is bound to a path.
    pub(crate) fn has_path(&self) -> bool {
        let name = net::getsockname(&self.descriptor).and_then(SocketAddrUnix::try_from);
        name.is_ok_and(|name| name.path().is_some())
    }

    /// Whether it is a Unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        self.family == AddressFamily::UNIX
    }

    /// The address that it is bound to.
    ///
    /// # Errors
    /// Returns what getsockname(2) returns; [`Errno::AFNOSUPPORT`] if it is not of the internet.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        local_address(&self.descriptor)
    }

    /// Where it is reached, as a canonical address: one that is bound to the unspecified one for one family alone, which
    /// the target can have made it while it was bound, only by that one. Of a bound socket that does not change.
    ///
    /// # Errors
    /// As [`Socket::local_address`], and what getsockopt(2) returns.
    pub(crate) fn reached_at(&self) -> io::Result<SocketAddr> {
        let mut address = self.local_address()?;
        if let IpAddr::V6(ip) = address.ip()
            && ip.is_unspecified()
            && sockopt::ipv6_v6only(self)?
        {
            address.set_ip(Ipv6Addr::LOCALHOST.into());
        }
        Ok(canonical(address))
    }

    /// The cookie of a socket that listens (SO_ACCEPTCONN, SO_COOKIE).
    pub(crate) fn listening_cookie(socket: impl AsFd) -> Option<u64> {
        let listens = sockopt::socket_acceptconn(&socket).unwrap_or(false);
        listens.then(|| sockopt::socket_cookie(&socket).ok())?
    }

    /// Whether `target` still has it as its descriptor `number`.
    pub(crate) fn is_at(&self, target: Target, number: TargetFd) -> bool {
        let there = || fd_scan::socket_at(target.thread(), number);
        inode(self).is_ok_and(|own| there() == Some(own))
    }

    /// Ends a connect that is under way. To be called with the ports locked: what listens by now keeps its address.
    pub(crate) fn give_up(&self) {
        if Self::listening_cookie(self).is_none() {
            // It fails only if there is none.
            let _ = net::connect_unspec(&self.descriptor);
        }
    }

    /// connect(2) to `address`, without waiting. The flag that says so is shared with the target: if that changes it at
    /// the wrong moment, this blocks after all. So the caller holds no lock.
    ///
    /// # Errors
    /// Returns what the kernel returns; [`Errno::INPROGRESS`] and, from a Unix socket,
    /// [`Errno::AGAIN`] if the target does not wait itself.
    pub(crate) fn start(&self, _: Confirmed<'_>, address: &Address) -> io::Result<Connecting> {
        match without_waiting(self, || net::connect(self, address))? {
            result if !self.blocking => result.map(|()| Connecting::Done),
            Ok(()) => Ok(Connecting::Done),
            Err(Errno::INPROGRESS | Errno::ALREADY) => Ok(Connecting::Handshake),
            Err(Errno::AGAIN) if self.is_unix() => Ok(Connecting::Queue),
            Err(errno) => Err(errno),
        }
    }

    /// Sees a connect to `address` through that has come as far as `progress`. A target that waits in
    /// its call is waited for as long as `look`, which is asked before each wait, finds no reason to end
    /// that.
    pub(crate) fn finish<'a>(
        &self,
        progress: Connecting,
        address: &Address,
        look: impl Fn() -> io::Result<Confirmed<'a>>,
    ) -> io::Result<()> {
        match progress {
            Connecting::Done => Ok(()),
            Connecting::Handshake => {
                self.wait(|| look().map(drop))?;
                self.outcome()
            }
            Connecting::Queue => self.wait_for_room(address, look),
        }
    }

    /// Has the kernel take note that a [`Connecting::Handshake`] is done, as it does where a call waits for it: else
    /// the target's next connect(2) would say that it is, in the place of [`Errno::ISCONN`].
    pub(crate) fn note_connected(&self, by: Confirmed<'_>) {
        // Of no family of the internet: should the target have given the connection up, it leads nowhere.
        let _ = self.start(by, &Address::unspecified(AddressFamily::UNIX));
    }

    /// Connects a Unix socket when its peer's queue has room: nothing tells when that is.
    fn wait_for_room<'a>(
        &self,
        address: &Address,
        look: impl Fn() -> io::Result<Confirmed<'a>>,
    ) -> io::Result<()> {
        let deadline = deadline(&self.descriptor)?;
        let queued = Arc::clone(&QUEUED);
        let mut pause = QUEUE_PAUSE;
        loop {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Errno::AGAIN);
            }
            let by = look().map_err(|errno| interrupted(errno, deadline))?;
            // The more there are, the less often each tries: together they leave the processors to others.
            let others = u32::try_from(Arc::strong_count(&queued)).unwrap_or(u32::MAX) - 1;
            std::thread::sleep(pause.max(PAUSE_FOR_EACH.saturating_mul(others)));
            pause = (pause * 2).min(QUEUE_PAUSE_MAX);
            if !by.holds() {
                continue;
            }
            match self.start(by, address)? {
                Connecting::Queue => {}
                Connecting::Done | Connecting::Handshake => return Ok(()),
            }
        }
    }

    /// Waits until a connect that is under way is decided (connect(2), EINPROGRESS). The wait is a
    /// poll instead of a blocking connect, so that it can be ended.
    ///
    /// # Errors
    /// Returns [`Errno::INPROGRESS`] when the target's SO_SNDTIMEO has run out (socket(7)), and what
    /// `look` returns.
    pub(crate) fn wait(&self, look: impl Fn() -> io::Result<()>) -> io::Result<()> {
        // On loopback most connects are decided at once.
        if has_room_within(self, Duration::ZERO)? {
            return Ok(());
        }
        let deadline = if self.blocking { deadline(&self.descriptor)? } else { None };
        loop {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Errno::INPROGRESS);
            }
            look().map_err(|errno| interrupted(errno, deadline))?;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if has_room_within(self, left.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL))? {
                return Ok(());
            }
        }
    }

    /// How a connect was decided. It can be asked once, so only by who tells the target.
    pub(crate) fn outcome(&self) -> io::Result<()> {
        sockopt::socket_error(&self.descriptor)?
    }

    /// Whether a connect that is under way is decided; on loopback it usually is by now, or at once.
    pub(crate) fn is_decided(&self) -> bool {
        has_room_within(self, Duration::from_millis(1)).unwrap_or(false)
    }

    /// Whether it is the broker's own, to be put in the place of the target's.
    pub(crate) fn is_stand_in(&self) -> bool {
        self.replaces.is_some()
    }

    /// Puts a socket of the broker's own in the place of the target's. A duplicate needs nothing.
    pub(crate) fn put_in_place(&self, by: Confirmed<'_>) -> io::Result<()> {
        self.put_other_in_place(by, self.descriptor.as_fd())
    }

    /// Puts `other` there instead.
    pub(super) fn put_other_in_place(
        &self,
        by: Confirmed<'_>,
        other: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let Some((number, close_on_exec)) = self.replaces else { return Ok(()) };
        by.replace(other, number, close_on_exec)
    }
}

fn is_unspecified_v6(address: &Address) -> bool {
    let endpoint = Endpoint::parse(address.as_bytes());
    matches!(endpoint, Ok(Endpoint::Internet(SocketAddr::V6(v6))) if v6.ip().is_unspecified())
}

/// Whether there is room to send by then, or a connect that is under way is decided. A signal ends the wait.
pub(crate) fn has_room_within(socket: impl AsFd, limit: Duration) -> io::Result<bool> {
    ready_within(socket, PollFlags::OUT, limit)
}

/// Whether it is ready for what `on` says by then, or has failed. A signal ends the wait.
pub(super) fn ready_within(socket: impl AsFd, on: PollFlags, limit: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(&socket, on)];
    match poll(&mut fds, Timespec::try_from(limit).ok().as_ref()) {
        Err(Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

/// When SO_SNDTIMEO ends a wait that starts now, if one is set (socket(7)).
pub(crate) fn deadline(socket: impl AsFd) -> io::Result<Option<Instant>> {
    let limit = sockopt::socket_timeout(socket, Timeout::Send)?;
    Ok(limit.map(|limit| Instant::now() + limit))
}

/// With SO_SNDTIMEO a call is not made again after a signal (signal(7)).
pub(crate) fn interrupted(errno: Errno, deadline: Option<Instant>) -> Errno {
    if errno == RESTART && deadline.is_some() { Errno::INTR } else { errno }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The address of the internet that `socket` is bound to; its port is 0 if to none.
pub(super) fn local_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    SocketAddr::try_from(net::getsockname(socket)?)
}
