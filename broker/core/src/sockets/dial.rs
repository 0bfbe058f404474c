//! A connect that goes on where the command does not see it: the proxy dials in its place, and tells how that ended.
//!
//! Until then nobody answers it: it is under way, as one to a host far away. It leads to a [`Door`], a port of its own that
//! takes no connection; once the host is reached, the proxy connects from there to where it comes from, and the two
//! connects meet (simultaneous open, RFC 9293 section 3.5). Else the proxy ends it; should the proxy itself end, nothing
//! listens at the door any more, and the kernel refuses it.

use common::proxy::Client;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::net::{Ipv4Addr, SocketAddrV4};

/// How often a port is chosen.
const PORTS_TRIED: usize = 16;
/// How long a connect to a port of this host may take.
const FILLING_LIMIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
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
            let mut fds = [PollFd::new(&socket, PollFlags::IN)];
            return match poll(&mut fds, Some(&FILLING_LIMIT))? {
                0 => Err(Errno::TIMEDOUT),
                _ => Ok(Self { socket, address }),
            };
        }
    }
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
    /// By this door, unless another one of its socket does. The proxy gets the descriptors.
    Door(Door, Option<(Client, Vec<OwnedFd>, Option<Dial>)>),
}

impl Way {
    /// Where the connect is to lead instead.
    pub(super) fn address(&self) -> Option<SocketAddrV4> {
        match self {
            Self::Past => None,
            Self::Port(address, _) => *address,
            Self::Door(door, _) => Some(door.address),
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
        // Should the proxy have ended, so has the connect.
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
}
