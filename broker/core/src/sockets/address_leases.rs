//! Sockets of the command's own that the broker holds while it connects or sends to them.
//!
//! One that the command closes meanwhile keeps its address until that is done. It is not known as the command's own
//! any more then, but it is no stranger's either; and whoever binds the address waits, for outside it would be free.

use kernel::request::{Request, Wait};
use rules::address::is_reached_at;
use rustix::io::{self, Errno};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether an address is free, and for how long: others may have the processors.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
const LOOKS_END: Duration = Duration::from_secs(1);

/// The canonical addresses of those that are held.
#[derive(Debug, Default)]
pub(super) struct AddressLeases(Vec<(SocketAddr, Weak<()>)>);

/// One is held as long as this lives: to be dropped after the socket.
pub(super) type Lease = Arc<()>;

impl AddressLeases {
    /// To be called where nobody can find the socket no longer known and not yet in use.
    pub(super) fn begin(&mut self, address: SocketAddr) -> Lease {
        self.0.retain(|(_, lease)| lease.strong_count() > 0);
        let lease = Lease::default();
        self.0.push((address, Arc::downgrade(&lease)));
        lease
    }

    /// Where they are.
    pub(super) fn held(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().filter(|(_, lease)| lease.strong_count() > 0).map(|(address, _)| *address)
    }

    /// Whether one of them is reached at `address`, a canonical one.
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.held().any(|held| is_reached_at(held, address))
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
