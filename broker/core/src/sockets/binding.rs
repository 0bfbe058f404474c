//! Sockets that the broker is binding for the command: others reach them at their address, or find their file, a
//! moment before they are known as the command's own.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Who binds one reads; who has to know of all waits until nobody does.
#[derive(Debug, Default)]
pub(crate) struct Binding(RwLock<()>);

impl Binding {
    /// To be held from before a socket is bound until it is known.
    pub(super) fn begin(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until each that is bound by now is known.
    pub(super) fn wait(&self) {
        drop(self.0.write());
    }
}
