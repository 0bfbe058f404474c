//! A connect that goes on where the command does not see it: the proxy dials in its place, and tells how that ended.

use super::socket::{LOOK_INTERVAL, deadline, interrupted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::pipe::{PipeFlags, pipe_with};
use std::time::{Duration, Instant};

/// Where its outcome is told.
#[derive(Debug)]
pub(crate) struct Dial(OwnedFd);

impl Dial {
    /// One that is about to begin, and the end for who dials: see [`common::proxy::Client`].
    pub(crate) fn begin() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok((Self(ours), theirs))
    }

    /// Waits for it, as long as `look`, which is asked before each wait, finds no reason to end that.
    ///
    /// # Errors
    /// Returns what connect(2) would return there, [`Errno::INPROGRESS`] when SO_SNDTIMEO of `socket` has run out
    /// (socket(7)), [`Errno::CONNREFUSED`] if nobody dials any more or `socket` is connected no more, and what `look` returns.
    pub(super) fn wait(
        &self,
        socket: impl AsFd,
        look: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let deadline = deadline(&socket)?;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(Errno::INPROGRESS);
            }
            look().map_err(|errno| interrupted(errno, deadline))?;
            let is_given_up =
                self.poll(&socket, left.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL))?;
            if let Some(outcome) = self.told() {
                return outcome;
            }
            if is_given_up {
                return Err(Errno::CONNREFUSED);
            }
        }
    }

    /// Whether `socket` has hung up: the proxy tells first why it does, but another thread's connect of the same socket
    /// tells nothing here. A signal ends it too.
    fn poll(&self, socket: impl AsFd, limit: Duration) -> io::Result<bool> {
        let mut fds =
            [PollFd::new(&self.0, PollFlags::IN), PollFd::new(&socket, PollFlags::empty())];
        match poll(&mut fds, Timespec::try_from(limit).ok().as_ref()) {
            Err(Errno::INTR) => Ok(false),
            ready => ready.map(|_| fds[1].revents().contains(PollFlags::HUP)),
        }
    }

    /// How it ended, if it did. It can be asked until it is told.
    pub(super) fn told(&self) -> Option<io::Result<()>> {
        let mut errno = [0];
        Some(match io::read(&self.0, &mut errno) {
            Err(Errno::AGAIN) => return None,
            Ok(1) if errno == [0] => Ok(()),
            Ok(1) => Err(Errno::from_raw_os_error(errno[0].into())),
            _ => Err(Errno::CONNREFUSED),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_outcome_is_that_of_who_dials_and_a_refusal_if_nobody_does() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let wait = |told: &[u8]| {
            let (dial, end) = Dial::begin().unwrap();
            io::write(&end, told).unwrap();
            drop(end);
            dial.wait(&socket, || Ok(()))
        };
        assert_eq!(wait(&[0]), Ok(()));
        assert_eq!(wait(&[110]), Err(Errno::TIMEDOUT));
        assert_eq!(wait(&[]), Err(Errno::CONNREFUSED));
        let (dial, _end) = Dial::begin().unwrap();
        assert_eq!(dial.wait(&socket, || Err(Errno::SRCH)), Err(Errno::SRCH));
        let hung_up = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        hung_up.shutdown(std::net::Shutdown::Both).unwrap();
        drop(socket);
        assert_eq!(dial.wait(&hung_up, || Ok(())), Err(Errno::CONNREFUSED));
    }
}
