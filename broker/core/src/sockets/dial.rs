//! A connect that goes on where the command does not see it: the proxy dials in its place, and tells how that ended.
//!
//! Until then nobody answers it: it is under way, as one to a host far away. It leads to a [`Door`], a port of its own that
//! takes no connection; once the host is reached, the proxy connects from there to where it comes from, and the two
//! connects meet (simultaneous open, RFC 9293 section 3.5). Else the proxy ends it.
//!
//! Until it has done either, the broker holds both sockets as well ([`Led`]): the kernel repeats what was not answered, and
//! whoever had the port by then would be connected. Should the proxy end, or lack the descriptors, the broker ends it.

use super::socket::ready_within;
use common::proxy::Client;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, Shutdown, SocketAddrAny, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

/// How often a port is chosen.
const PORTS_TRIED: usize = 16;
/// How long a connect to a port of this host may take.
const FILLING_LIMIT: Duration = Duration::from_secs(10);
const MODE: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A port that takes no connection.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddrV4,
}

impl Door {
    /// One on a free port, which it keeps when it does not listen any more.
    ///
    /// # Errors
    /// Returns what the calls return.
    pub(crate) fn open() -> io::Result<Self> {
        let mut tries = 1..PORTS_TRIED;
        loop {
            // The kernel leaves a socket only the port that it was asked for.
            let scout = bound_to(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
            let address = SocketAddrV4::try_from(net::getsockname(&scout)?)?;
            drop(scout);
            let socket = match bound_to(address) {
                // Somebody else was faster.
                Err(Errno::ADDRINUSE) if tries.next().is_some() => continue,
                bound => bound?,
            };
            // The kernel passes over those that come to a full queue: this one is, with whoever comes first.
            net::listen(&socket, 0)?;
            let first = tcp()?;
            let begun = net::connect(&first, &address);
            // It fails where there is no loopback interface.
            begun.or_else(|errno| if errno == Errno::INPROGRESS { Ok(()) } else { Err(errno) })?;
            return match ready_within(&socket, PollFlags::IN, FILLING_LIMIT)? {
                true => Ok(Self { socket, address }),
                false => Err(Errno::TIMEDOUT),
            };
        }
    }
}

/// A connect that leads to a door, and is the proxy's to answer.
#[derive(Debug)]
pub(crate) struct Led {
    /// Hangs up once the proxy has none of its descriptors any more: to be watched.
    pub(crate) settled: OwnedFd,
    _door: OwnedFd,
    caller: OwnedFd,
    /// Where it connects from.
    from: Option<SocketAddrAny>,
}

impl Led {
    /// What `caller` has begun to connect to `door`, and the end for who answers it: see [`common::proxy::Client`].
    ///
    /// # Errors
    /// Returns what the calls return, for want of descriptors above all; then the connect was ended.
    pub(crate) fn new(door: &OwnedFd, caller: &OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let new = || {
            let (settled, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
            let from = net::getsockname(caller).ok();
            let [door, caller] = [door, caller].map(|socket| io::fcntl_dupfd_cloexec(socket, 3));
            Ok((Self { settled, _door: door?, caller: caller?, from }, theirs))
        };
        new().inspect_err(|_| end(caller))
    }

    /// Ends it unless it was answered, if nobody is left to do that; returns whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = ready(&self.settled).is_ok_and(|ready| ready.contains(PollFlags::HUP));
        if is_over && net::getsockname(&self.caller).ok() == self.from {
            end(&self.caller);
        }
        is_over
    }
}

/// Ends a connect that is under way.
fn end(caller: &OwnedFd) {
    // One that is connected may have no room for what it is to send.
    if ready(caller) == Ok(PollFlags::empty()) && net::getpeername(caller) == Err(Errno::NOTCONN) {
        // Unlike connect(2), that never ends listening, which it may have begun (inet_shutdown in net/ipv4/af_inet.c).
        let _ = net::shutdown(caller, Shutdown::Write);
    }
}

/// What `socket` is ready for now, but for being read; that it has failed or hung up is among it.
///
/// # Errors
/// Returns what poll(2) returns.
pub(crate) fn ready(socket: impl AsFd) -> io::Result<PollFlags> {
    let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(|_| fds[0].revents())
}

fn bound_to(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = tcp()?;
    net::bind(&socket, &address).map(|()| socket)
}

fn tcp() -> io::Result<OwnedFd> {
    net::socket_with(AddressFamily::INET, SocketType::STREAM, MODE, None)
}

/// How a connect that is about to begin gets to the proxy.
#[derive(Debug)]
pub(crate) enum Way {
    /// Not at all: it leads where it is to.
    Past,
    /// By a port of its own, if that is bound, where it is known by this unless another one of its socket is.
    Port(Option<SocketAddrV4>, Option<u64>),
    /// By this door. The proxy gets the socket itself as well, and where it tells of the outcome, if somebody waits.
    Door(Door, Client, OwnedFd, Option<(Dial, OwnedFd)>),
}

impl Way {
    /// Where the connect is to lead instead.
    pub(super) fn address(&self) -> Option<SocketAddrV4> {
        match self {
            Self::Past => None,
            Self::Port(address, _) => *address,
            Self::Door(door, ..) => Some(door.address),
        }
    }
}

/// Where the outcome is told.
#[derive(Debug)]
pub(crate) struct Dial(OwnedFd);

impl Dial {
    /// One that is about to begin, and the end for who dials: see [`common::proxy::Client`].
    pub(crate) fn begin() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = net::socketpair(AddressFamily::UNIX, SocketType::STREAM, MODE, None)?;
        Ok((Self(ours), theirs))
    }

    /// How it ended, if the connect itself `finished` like this: it is told before that does.
    ///
    /// # Errors
    /// Returns what connect(2) would return there, and [`Errno::CONNREFUSED`] if nobody dials any more.
    pub(super) fn outcome(&self, finished: io::Result<()>) -> io::Result<()> {
        let mut errno = [0];
        match io::read(&self.0, &mut errno) {
            Ok(1) if errno == [0] => finished,
            Ok(1) => Err(Errno::from_raw_os_error(errno[0].into())),
            // Not by the proxy.
            _ => finished.and(Err(Errno::CONNREFUSED)),
        }
    }

    /// Nobody waits for it any more, and it goes on.
    pub(super) fn leave(&self) {
        // Should the proxy have ended, so does the connect.
        let _ = io::write(&self.0, &[0]);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_outcome_is_that_of_who_dials_and_a_refusal_if_nobody_does() {
        let outcome = |told: &[u8], finished| {
            let (dial, end) = Dial::begin().unwrap();
            io::write(&end, told).unwrap();
            drop(end);
            dial.outcome(finished)
        };
        assert_eq!(outcome(&[0], Ok(())), Ok(()));
        assert_eq!(outcome(&[0], Err(Errno::CONNRESET)), Err(Errno::CONNRESET));
        assert_eq!(outcome(&[110], Ok(())), Err(Errno::TIMEDOUT));
        assert_eq!(outcome(&[110], Err(Errno::CONNRESET)), Err(Errno::TIMEDOUT));
        assert_eq!(outcome(&[], Ok(())), Err(Errno::CONNREFUSED));
        let (dial, _end) = Dial::begin().unwrap();
        assert_eq!(dial.outcome(Err(Errno::INTR)), Err(Errno::INTR));
        assert_eq!(dial.outcome(Ok(())), Err(Errno::CONNREFUSED));
    }

    /// What of `wanted` is ready.
    fn ready(socket: &OwnedFd, wanted: PollFlags) -> PollFlags {
        let mut fds = [PollFd::new(socket, wanted)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 })).unwrap();
        fds[0].revents()
    }

    #[test]
    fn nobody_is_answered_at_a_door_and_two_connects_meet_there() {
        let Door { socket: door, address } = Door::open().unwrap();
        let connect = || {
            let socket = tcp().unwrap();
            assert_eq!(net::connect(&socket, &address), Err(Errno::INPROGRESS));
            socket
        };
        let (caller, stranger) = (connect(), connect());
        assert!(ready(&caller, PollFlags::OUT).is_empty());
        let there = SocketAddrV4::try_from(net::getsockname(&caller).unwrap()).unwrap();
        net::connect_unspec(&door).unwrap();
        let met = net::connect(&door, &there);
        assert!([Ok(()), Err(Errno::INPROGRESS)].contains(&met));
        while ready(&caller, PollFlags::OUT).is_empty() {}
        io::write(&door, b"x").unwrap();
        while ready(&caller, PollFlags::IN).is_empty() {}
        assert_eq!(io::read(&caller, &mut [0]), Ok(1));
        assert!(ready(&stranger, PollFlags::OUT).is_empty());
        assert_eq!(bound_to(address).map(drop), Err(Errno::ADDRINUSE));
    }

    #[test]
    fn what_nobody_answers_any_more_is_ended_before_its_door_is_free_and_what_was_met_goes_on() {
        for is_met in [false, true] {
            let Door { socket: door, address } = Door::open().unwrap();
            let caller = tcp().unwrap();
            assert_eq!(net::connect(&caller, &address), Err(Errno::INPROGRESS));
            let (led, theirs) = Led::new(&door, &caller).unwrap();
            assert!(!led.is_over());
            if is_met {
                let there = SocketAddrV4::try_from(net::getsockname(&caller).unwrap()).unwrap();
                net::connect_unspec(&door).unwrap();
                let _ = net::connect(&door, &there);
                while ready(&caller, PollFlags::OUT).is_empty() {}
                // It has no room any more.
                while io::write(&caller, &[0; 1 << 16]).is_ok() {}
            }
            drop(door);
            assert_eq!(bound_to(address).map(drop), Err(Errno::ADDRINUSE));
            assert!(!led.is_over());
            drop(theirs);
            assert!(led.is_over());
            let ended = PollFlags::HUP | PollFlags::ERR;
            assert_eq!(ready(&caller, PollFlags::OUT).intersects(ended), !is_met);
            drop(led);
            assert!(is_met || bound_to(address).is_ok());
        }
    }
}
