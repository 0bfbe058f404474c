//! Opens of a FIFO, which wait for its other end (fifo(7)).
//!
//! A thread of its own waits in the kernel, as the target would: so both ends find each other as they
//! do outside. When the target does not wait any more, that thread is interrupted: the other end is
//! never opened to let it end, which whoever waits for that would notice.

use super::open::open_held;
use crate::call::how::OpenHow;
use kernel::interrupt;
use kernel::object::Object;
use kernel::request::Confirmed;
use kernel::threads::{SMALL_STACK, spawn};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::{self, Errno};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often it is looked whether the open is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a thread that is interrupted may take to notice, before it is again.
const INTERVAL: Duration = Duration::from_millis(1);
/// Most threads that wait for the other end of a FIFO.
const OPENERS_MAX: usize = 256;

/// How many there are.
static OPENERS: AtomicUsize = AtomicUsize::new(0);

/// Opens a FIFO. It is given up when the target is gone, or has a signal to handle.
///
/// # Errors
/// Returns what open(2) returns; what [`Confirmed::look_after`] returns when it was given up;
/// [`Errno::AGAIN`] if too many wait.
pub(super) fn open(by: Confirmed<'_>, object: Object, how: OpenHow) -> io::Result<OwnedFd> {
    let waits = how.flags & OFlags::RWMODE != OFlags::RDWR && !how.flags.contains(OFlags::NONBLOCK);
    if !waits {
        return open_held(&object, &how, Mode::empty());
    }
    let opener = Opener::count()?;
    let is_given_up = Arc::new(AtomicBool::new(false));
    let (told, tell_thread) = mpsc::channel();
    let (done, result) = mpsc::channel();
    let wanted = Arc::clone(&is_given_up);
    let work = move || {
        let _opener = opener;
        // Nobody listens to one that was given up.
        let _ = done.send(interrupt::allow().and_then(|thread| {
            let _ = told.send(thread);
            wait(&object, &how, &wanted)
        }));
    };
    spawn(SMALL_STACK, work)?;
    let ended = loop {
        match result.recv_timeout(PATIENCE) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(Errno::AGAIN),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(errno) = by.look_after() {
            break errno;
        }
    };
    is_given_up.store(true, Ordering::SeqCst);
    let thread = tell_thread.recv().map_err(|_| Errno::AGAIN)?;
    loop {
        thread.interrupt();
        match result.recv_timeout(INTERVAL) {
            // The other end came in this moment.
            Ok(Ok(file)) => return Ok(file),
            Ok(Err(Errno::INTR)) | Err(RecvTimeoutError::Disconnected) => return Err(ended),
            Ok(Err(errno)) => return Err(errno),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Opens it as long as nobody gives that up: the signal can be for a thread that had its number.
fn wait(object: &Object, how: &OpenHow, is_given_up: &AtomicBool) -> io::Result<OwnedFd> {
    loop {
        match open_held(object, how, Mode::empty()) {
            Err(Errno::INTR) if !is_given_up.load(Ordering::SeqCst) => {}
            result => return result,
        }
    }
}

/// A thread that waits, counted as long as this lives.
struct Opener;

impl Opener {
    /// # Errors
    /// Returns [`Errno::AGAIN`] if there are too many.
    fn count() -> io::Result<Self> {
        let one = Self;
        match OPENERS.fetch_add(1, Ordering::SeqCst) {
            OPENERS_MAX.. => Err(Errno::AGAIN),
            _ => Ok(one),
        }
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        OPENERS.fetch_sub(1, Ordering::SeqCst);
    }
}
