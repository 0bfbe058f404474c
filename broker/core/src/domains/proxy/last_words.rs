//! The end of a run, as the proxy sees it: what the command sent is sent on before the proxy ends. Source: shutdown(2).

use super::{MESSAGES_MAX, Proxy, QUEUED_MAX, Running};
use crate::domains::clients::Clients;
use crate::report::traps::Traps;
use common::proxy::END_LIMIT;
use kernel::threads::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::net::{self, Shutdown};
use std::time::Instant;

impl Proxy {
    /// Takes what the proxy has said, for the last time; where `nobody` is left of the command, once it has sent on
    /// what that sent, or has taken too long.
    pub fn hear_out(&self, nobody: bool, traps: &Traps) {
        let mut running = lock(&self.running);
        if nobody {
            self.serve(&mut running, traps);
            // What is held here is not closed by the command's end.
            running.clients = Clients::default();
        }
        let Some(control) = &running.control else { return };
        // Whether it has ended does not matter any more, nor what it asks.
        let _ = match nobody && net::shutdown(control, Shutdown::Write).is_ok() {
            true => self.hear_last(&running, control, traps),
            false => self.receive(&running, QUEUED_MAX, traps, &mut Vec::new()),
        };
    }

    /// Hears a proxy that gets no more, until it has ended.
    fn hear_last(&self, running: &Running, control: &OwnedFd, traps: &Traps) -> io::Result<()> {
        let deadline = Instant::now() + END_LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(control, PollFlags::IN)];
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) => return Ok(()),
                Ok(_) => self.receive(running, MESSAGES_MAX, traps, &mut Vec::new())?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}
