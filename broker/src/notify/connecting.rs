//! Blocking connects: each waits on a thread of its own, never in the loop.
//!
//! A target that dies leaves its connect behind. [`Connecting::sweep`] finds those and shuts the
//! socket down, which ends the call.

use super::listener::Listener;
use crate::decide::call::AddressUse;
use crate::perform::socket::{Address, Socket};
use rustix::io::Errno;
use rustix::net::{self, Shutdown};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most connects that wait at the same time; each costs a thread that sleeps in the kernel.
const WAITING_MAX: usize = 1024;
/// Stack of such a thread: it makes two system calls.
const STACK: usize = 64 * 1024;

/// The connects that are under way, by notification.
#[derive(Debug, Default)]
pub(crate) struct Connecting {
    sockets: Arc<Mutex<HashMap<u64, Arc<Socket>>>>,
}

impl Connecting {
    /// Connects `socket` on a thread, which then answers notification `id`.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if too many wait already or no thread can be started; then the
    /// notification is still to be answered.
    pub(crate) fn start(
        &self,
        listener: &Arc<Listener>,
        id: u64,
        socket: Socket,
        address: Address,
    ) -> Result<(), Errno> {
        let socket = Arc::new(socket);
        {
            let mut sockets = lock(&self.sockets);
            if sockets.len() >= WAITING_MAX {
                return Err(Errno::AGAIN);
            }
            sockets.insert(id, Arc::clone(&socket));
        }
        let sockets = Arc::clone(&self.sockets);
        let listener = Arc::clone(listener);
        let connect = move || {
            let result = socket.perform(AddressUse::Connect, &address);
            lock(&sockets).remove(&id);
            listener.complete(id, result);
        };
        match std::thread::Builder::new().stack_size(STACK).spawn(connect) {
            Ok(_) => Ok(()),
            Err(_) => {
                lock(&self.sockets).remove(&id);
                Err(Errno::AGAIN)
            }
        }
    }

    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.sockets).is_empty()
    }

    /// Ends the connects whose targets are gone.
    pub(crate) fn sweep(&self, listener: &Listener) {
        for (&id, socket) in lock(&self.sockets).iter() {
            if !listener.is_waiting(id) {
                // It may have connected just now; then the target's own descriptor is gone too.
                let _ = net::shutdown(socket.as_ref(), Shutdown::Both);
            }
        }
    }
}

/// A thread that panicked took nothing with it that the map depends on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
