//! Connects that take time: the loop polls them, and nothing waits for one.
//!
//! A connect on a blocking socket is made without blocking and finished when the socket is writable,
//! as connect(2) describes for EINPROGRESS; one to a Unix socket with a full queue, of which nothing
//! tells when it has room, is tried again after a while. The target waits for the answer meanwhile,
//! as it would have waited in the call. If it dies, [`Connecting::sweep`] lets go of its connect.
//!
//! A connect to a socket of the sandbox's own is looked after even if the target does not wait: its
//! first packet is sent again for minutes, and must find nobody but that socket.

use super::listener::Listener;
use super::target::Target;
use crate::perform::local_ports::{Held, LocalPorts};
use crate::perform::socket::{Progress, Socket};
use crate::perform::unix::Peer;
use rustix::event::{PollFd, PollFlags};
use rustix::io::{self, Errno};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Most connects that are under way at the same time; each holds a descriptor of the broker.
const WAITING_MAX: usize = 4096;
/// Most of them that no target waits for.
const UNATTENDED_MAX: usize = 256;
/// How often connects are looked after whose targets may be gone or whose time is up.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// How long a full queue is left alone, and how much longer for each that is: many waiting connects
/// must not take the loop's time.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
const RETRY_INTERVAL_EACH: Duration = Duration::from_micros(200);

/// A connect that is under way.
#[derive(Debug)]
struct Pending {
    caller: Caller,
    socket: Socket,
    /// When SO_SNDTIMEO ends the wait (socket(7)).
    deadline: Option<Instant>,
    peer: Waiting,
}

/// Who called connect(2).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// The target of this notification, which waits.
    Waits(u64),
    /// A target that has its answer, and the descriptor that it then had the socket at.
    GoesOn(Target, RawFd),
}

/// What a connect waits for.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The answer of whoever has the address.
    Anyone,
    /// The answer of a listening socket of the sandbox, which keeps its address until then.
    Own(Held),
    /// Room in the queue of a Unix socket.
    Queue(Peer),
}

/// The connects that are under way.
#[derive(Debug)]
pub(crate) struct Connecting {
    pending: Vec<Pending>,
    next_sweep: Instant,
}

impl Default for Connecting {
    fn default() -> Self {
        Self { pending: Vec::new(), next_sweep: Instant::now() }
    }
}

impl Connecting {
    /// Waits for `socket` to be connected.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if too many are under way, and [`Errno::CONNREFUSED`] if too many of
    /// those are that nobody waits for: the connect is ended, the call still to be answered.
    pub(crate) fn add(
        &mut self,
        caller: Caller,
        socket: Socket,
        peer: Waiting,
    ) -> Result<(), Errno> {
        let now = Instant::now();
        if self.pending.is_empty() {
            self.next_sweep = now + SWEEP_INTERVAL;
        }
        if self.pending.len() >= WAITING_MAX {
            socket.give_up();
            return Err(Errno::AGAIN);
        }
        let unattended = self.pending.iter().filter(|pending| pending.caller.id().is_none());
        if caller.id().is_none() && unattended.count() >= UNATTENDED_MAX {
            socket.give_up();
            return Err(Errno::CONNREFUSED);
        }
        let deadline = socket.send_timeout()?.map(|timeout| now + timeout);
        self.pending.push(Pending { caller, socket, deadline, peer });
        let next = deadline.unwrap_or(now + SWEEP_INTERVAL).min(now + self.interval());
        self.next_sweep = self.next_sweep.min(next);
        Ok(())
    }

    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// What to poll for.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let polled = self.pending.iter().filter(|pending| !pending.peer.is_queue());
        polled.map(|pending| PollFd::new(&pending.socket, PollFlags::OUT))
    }

    /// How long to poll; nothing if none is under way.
    pub(crate) fn poll_limit(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| self.next_sweep.saturating_duration_since(Instant::now()))
    }

    /// Whether it is time for [`Connecting::sweep`], however busy the loop is otherwise.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_empty() && self.next_sweep <= Instant::now()
    }

    fn interval(&self) -> Duration {
        let queued = self.pending.iter().filter(|pending| pending.peer.is_queue()).count();
        match u32::try_from(queued) {
            Ok(0) | Err(_) => SWEEP_INTERVAL,
            Ok(queued) => (RETRY_INTERVAL + RETRY_INTERVAL_EACH * queued).min(SWEEP_INTERVAL),
        }
    }

    /// Answers those that are decided, and lets go of those whose targets are gone.
    pub(crate) fn sweep(&mut self, listener: &Listener, ports: &mut LocalPorts) {
        let now = Instant::now();
        if self.next_sweep <= now {
            self.end_for_closed(listener, ports);
        }
        self.pending.retain_mut(|pending| {
            let result = match pending.outcome() {
                Some(result) => result,
                None if pending.deadline.is_some_and(|deadline| deadline <= now) => {
                    // What the call returns when SO_SNDTIMEO runs out; over TCP the connect goes on.
                    let queue = pending.peer.is_queue();
                    Err(if queue { Errno::AGAIN } else { Errno::INPROGRESS })
                }
                None => return pending.is_wanted(listener),
            };
            let Caller::Waits(id) = pending.caller else { return false };
            let result = result.and_then(|()| pending.socket.put_in_place(listener, id));
            listener.complete(id, result);
            if result == Err(Errno::INPROGRESS) && matches!(pending.peer, Waiting::Own(_)) {
                // Nobody would look after it any more.
                pending.socket.give_up();
            }
            false
        });
        let deadline = self.pending.iter().filter_map(|pending| pending.deadline).min();
        let next = now + self.interval();
        self.next_sweep = deadline.map_or(next, |deadline| deadline.min(next));
    }

    /// Ends the connects to sockets that the sandbox has closed meanwhile: only the broker holds them
    /// yet, and their ports are to be free again.
    fn end_for_closed(&mut self, listener: &Listener, ports: &mut LocalPorts) {
        let mut held = HashMap::new();
        for pending in &self.pending {
            if let Waiting::Own(own) = &pending.peer {
                held.entry(own.cookie()).or_insert(own.address());
            }
        }
        for (cookie, address) in held {
            if ports.hold(address).is_none_or(|own| own.cookie() != cookie) {
                self.end_for(cookie, listener);
            }
        }
    }

    /// Ends the connects to the sandbox's own listening socket with this cookie, which is about to
    /// give its address up: what is sent again later would reach whoever takes it.
    pub(crate) fn end_for(&mut self, cookie: u64, listener: &Listener) {
        self.pending.retain(|pending| {
            if !matches!(&pending.peer, Waiting::Own(held) if held.cookie() == cookie) {
                return true;
            }
            pending.socket.give_up();
            if let Caller::Waits(id) = pending.caller {
                listener.complete(id, Err(Errno::CONNREFUSED));
            }
            false
        });
    }
}

impl Caller {
    fn id(&self) -> Option<u64> {
        match *self {
            Self::Waits(id) => Some(id),
            Self::GoesOn(..) => None,
        }
    }
}

impl Waiting {
    fn is_queue(&self) -> bool {
        matches!(self, Self::Queue(_))
    }
}

impl Pending {
    /// Whether the target still waits, or still has the socket where it was.
    fn is_wanted(&self, listener: &Listener) -> bool {
        match self.caller {
            Caller::Waits(id) => listener.is_waiting(id),
            Caller::GoesOn(target, number) => {
                let wanted = target.duplicate(number).is_ok_and(|there| self.socket.is(&there));
                if !wanted {
                    self.socket.give_up();
                }
                wanted
            }
        }
    }

    /// How the connect ended, if it has.
    fn outcome(&self) -> Option<io::Result<()>> {
        let Waiting::Queue(peer) = &self.peer else { return self.socket.outcome() };
        match self.socket.connect(&peer.address()) {
            Ok(Progress::Connected) => Some(Ok(())),
            Ok(_) | Err(Errno::AGAIN) => None,
            Err(errno) => Some(Err(errno)),
        }
    }
}
