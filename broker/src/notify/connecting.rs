//! Connects that take time: the loop polls them, and nothing waits for one.
//!
//! A connect on a blocking socket is made without blocking and finished when the socket is writable,
//! as connect(2) describes for EINPROGRESS. The target waits for the answer meanwhile, as it would
//! have waited in the call. If it dies, [`Connecting::sweep`] lets go of its connect.

use super::listener::Listener;
use crate::perform::socket::Socket;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::time::Instant;

/// Most connects that are under way at the same time; each holds a descriptor of the broker.
const WAITING_MAX: usize = 4096;

/// A connect that is under way.
#[derive(Debug)]
struct Pending {
    id: u64,
    socket: Socket,
    /// When SO_SNDTIMEO ends the wait (socket(7)).
    deadline: Option<Instant>,
}

/// The connects that are under way.
#[derive(Debug, Default)]
pub(crate) struct Connecting {
    pending: Vec<Pending>,
}

impl Connecting {
    /// Waits for `socket` to be connected on behalf of notification `id`.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if too many are under way; the call is still to be answered then.
    pub(crate) fn add(&mut self, id: u64, socket: Socket) -> Result<(), Errno> {
        if self.pending.len() >= WAITING_MAX {
            return Err(Errno::AGAIN);
        }
        let deadline = socket.send_timeout()?.map(|timeout| Instant::now() + timeout);
        self.pending.push(Pending { id, socket, deadline });
        Ok(())
    }

    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// What to poll for.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.pending.iter().map(|pending| PollFd::new(&pending.socket, PollFlags::OUT))
    }

    /// Answers those that are decided, and lets go of those whose targets are gone.
    pub(crate) fn sweep(&mut self, listener: &Listener) {
        let now = Instant::now();
        self.pending.retain_mut(|pending| {
            if let Some(result) = pending.socket.outcome() {
                let result =
                    result.and_then(|()| pending.socket.put_in_place(listener, pending.id));
                listener.complete(pending.id, result);
                return false;
            }
            if pending.deadline.is_some_and(|deadline| deadline <= now) {
                // What the call returns when SO_SNDTIMEO runs out; the connect itself goes on.
                listener.complete(pending.id, Err(Errno::INPROGRESS));
                return false;
            }
            listener.is_waiting(pending.id)
        });
    }
}
