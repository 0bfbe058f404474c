//! Threads of the broker, and what they share.

use rustix::io::{self, Errno};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A stack for work that has nothing large on it.
pub const SMALL_STACK: usize = 64 * 1024;

/// That of a thread that answers calls, or does a part of that: paths and socket addresses are on the heap.
/// 32 KiB of it were seen to be used, in a build without optimization.
pub const CALL_STACK: usize = 256 * 1024;

/// Locks what threads share. A panic ends the broker, so that nobody finds it half done.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is made when it is first needed; not known if that fails, and made by whoever needs it next.
pub fn once<T>(shared: &OnceLock<T>, make: impl FnOnce() -> io::Result<T>) -> io::Result<&T> {
    match shared.get() {
        Some(made) => Ok(made),
        None => make().map(|made| shared.get_or_init(|| made)),
    }
}

/// Has a thread with a stack of this size do `work`.
///
/// # Errors
/// Returns [`Errno::AGAIN`] if there can be none.
pub fn spawn(stack: usize, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().stack_size(stack).spawn(work);
    thread.map(drop).map_err(|_| Errno::AGAIN)
}
