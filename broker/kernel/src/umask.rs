//! The umask of what is in the sandbox (umask(2)).
//!
//! What the broker makes for a target has the target's umask, which is computed: where a directory has
//! a default ACL it does not count. So the broker's own is empty.

use super::target::Target;
use rustix::fs::Mode;
use rustix::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of it: processes have it from their parents, and set it by a call that is notified.
#[derive(Debug)]
pub struct Umask {
    inherited: Mode,
    is_set: AtomicBool,
}

impl Umask {
    /// Of a sandbox whose command started with `inherited`.
    pub fn new(inherited: Mode) -> Self {
        Self { inherited, is_set: AtomicBool::new(false) }
    }

    /// Notes that somebody in the sandbox sets another.
    pub fn note_set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
    }

    /// The permission bits left out of what `target` makes.
    pub fn of(&self, target: Target) -> io::Result<Mode> {
        match self.is_set.load(Ordering::SeqCst) {
            true => target.status()?.umask(),
            false => Ok(self.inherited),
        }
    }
}
