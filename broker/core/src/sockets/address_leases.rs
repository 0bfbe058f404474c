//! Sockets of the command's own that the broker holds while it connects or sends to them.
//!
//! One that the command closes meanwhile keeps its address until that is done. It is not known as the command's own
//! any more then, but it is no stranger's either; and whoever binds the address waits, for outside it would be free.

use kernel::request::{Request, Wait};
use kernel::threads::lock;
use rules::address::is_reached_at;
use rustix::io::{self, Errno};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether an address is free, and for how long: others may have the processors.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
const LOOKS_END: Duration = Duration::from_secs(1);

/// The canonical addresses of those that are held.
#[derive(Debug, Default)]
pub(super) struct AddressLeases(Mutex<Vec<SocketAddr>>);

/// One is held as long as this lives: to be dropped after the socket.
#[derive(Debug)]
pub(super) struct Use {
    all: Arc<AddressLeases>,
    address: SocketAddr,
}

impl AddressLeases {
    /// To be called where nobody can find the socket no longer known and not yet in use.
    pub(super) fn begin(self: &Arc<Self>, address: SocketAddr) -> Use {
        lock(&self.0).push(address);
        Use { all: Arc::clone(self), address }
    }

    /// Whether one of them is reached at `address`, a canonical one.
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        lock(&self.0).iter().any(|&used| is_reached_at(used, address))
    }

    /// Where they are that have this port.
    pub(super) fn at_port(&self, port: u16) -> Vec<SocketAddr> {
        lock(&self.0).iter().copied().filter(|used| used.port() == port).collect()
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        if let Some(at) = all.iter().position(|used| *used == self.address) {
            all.swap_remove(at);
        }
    }
}

/// Takes an address by `take`. Where it is taken it is looked whether something `is_leaving` it, which can let go of
/// more, and tried again, as long as something does.
///
/// # Errors
/// Returns what `take` returns.
pub(super) fn take_when_free(
    request: &Request<'_>,
    take: impl Fn() -> io::Result<()>,
    is_leaving: impl Fn() -> bool,
) -> io::Result<()> {
    let begun = Instant::now();
    // Not for who is gone; and no other call is to wait for this one.
    let may_wait = || {
        let is_early = begun.elapsed() < LOOKS_END;
        is_early && request.confirm().is_ok() && (request.turn())(Wait::Bounded)
    };
    let mut taken = take();
    while taken == Err(Errno::ADDRINUSE) {
        let is_leaving = is_leaving();
        taken = take();
        if taken.is_ok() || !is_leaving || !may_wait() {
            break;
        }
        thread::sleep(LOOK_INTERVAL);
    }
    taken
}
