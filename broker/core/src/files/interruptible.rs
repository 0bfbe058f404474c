//! Calls that wait in the kernel for as long as others like, as the target's own would.
//!
//! A thread of its own waits, so that all find each other as they do outside. When the target does not wait any more,
//! that thread is interrupted.

use kernel::interrupt;
use kernel::request::Confirmed;
use kernel::threads::{SMALL_STACK, spawn};
use rustix::io::{self, Errno};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How often it is looked whether the call is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a thread that is interrupted may take to notice, before it is again.
const INTERVAL: Duration = Duration::from_millis(1);
/// Most threads that wait.
const WAITING_MAX: usize = 256;

/// Held by each.
static WAITING: LazyLock<Arc<()>> = LazyLock::new(Arc::default);

/// Does `call`, which a signal interrupts. It is given up when the target is gone, or has a signal to handle.
///
/// # Errors
/// Returns what `call` returns; what [`Request::look_after`](kernel::request::Request::look_after) returns when it was
/// given up; [`Errno::AGAIN`] if too many wait.
pub(super) fn wait_for<R: Send + 'static>(
    by: Confirmed<'_>,
    call: impl Fn() -> io::Result<R> + Send + 'static,
) -> io::Result<R> {
    let counted = Arc::clone(&WAITING);
    if Arc::strong_count(&counted) > WAITING_MAX + 1 {
        return Err(Errno::AGAIN);
    }
    let is_given_up = Arc::new(AtomicBool::new(false));
    let (told, tell_thread) = mpsc::channel();
    let (done, result) = mpsc::channel();
    let wanted = Arc::clone(&is_given_up);
    let work = move || {
        let _counted = counted;
        // Nobody listens to one that was given up.
        let _ = done.send(interrupt::allow().and_then(|thread| {
            let _ = told.send(thread);
            while_wanted(&call, &wanted)
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
            // It came in this moment.
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(Errno::INTR)) | Err(RecvTimeoutError::Disconnected) => return Err(ended),
            Ok(Err(errno)) => return Err(errno),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Does it as long as nobody gives that up: the signal can be for a thread that had its number.
fn while_wanted<R>(call: impl Fn() -> io::Result<R>, is_given_up: &AtomicBool) -> io::Result<R> {
    loop {
        match call() {
            Err(Errno::INTR) if !is_given_up.load(Ordering::SeqCst) => {}
            result => return result,
        }
    }
}
