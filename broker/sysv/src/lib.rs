//! The semaphores and message queues of one sandbox, in the broker's memory, and the table that its shared memory is
//! found by too: sysvipc(7).
//!
//! Nothing here reaches anything outside: there is no system call, no descriptor and no unsafe code, and all that is
//! known of a caller comes by [`Caller`]. Keys and ids mean nothing to the kernel. What the broker holds of the
//! kernel's, segments, it compares with the id that it made each with.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for the crates of the broker alone")]

pub mod access;
pub mod messages;
pub mod semaphores;
mod set;
pub mod table;
pub mod undo;
mod waits;

use access::{Actor, Given};
use rustix::io::{self, Errno};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Who makes a call and waits for its answer.
pub trait Caller {
    fn actor(&self) -> &Arc<Actor>;

    /// Its number as the broker sees it.
    ///
    /// # Errors
    /// Returns what reading that returns.
    fn process(&self) -> io::Result<i32>;

    /// Checks that it still waits: what was read before was its own.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if not.
    fn confirm(&self) -> io::Result<()>;

    /// The same, for one that can wait long: from now on other calls do not wait for it.
    ///
    /// # Errors
    /// Returns why it is to wait no longer.
    fn look_after(&self) -> io::Result<()>;

    /// What tells others whether it still waits.
    fn sign(&self) -> Sign;

    /// Copies what is at `address` in its memory.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if not all of it is mapped.
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Opens its memory to be written to.
    ///
    /// # Errors
    /// Returns why that cannot be.
    fn open_memory(&self) -> io::Result<()>;

    /// Writes there, if it still waits.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if not all of it is mapped.
    fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()>;

    /// Copies a structure of so many words; it is the caller's own if that waits afterwards.
    ///
    /// # Errors
    /// Returns what [`Caller::read`] returns.
    fn words(&self, address: u64, words: usize) -> io::Result<Vec<u8>> {
        let mut status = vec![0; words * 8];
        self.read(address, &mut status)?;
        Ok(status)
    }

    /// Copies what IPC_SET gives in such a structure.
    ///
    /// # Errors
    /// Returns what [`Caller::read`] returns.
    fn given(&self, address: u64, words: usize) -> io::Result<Given> {
        Given::read(&self.words(address, words)?).ok_or(Errno::FAULT)
    }
}

/// Tells whether a caller still waits.
pub type Sign = Arc<dyn Fn() -> bool + Send + Sync>;

/// What goes with the command of a call that ends in ctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Which semaphore of the set.
    pub semaphore: i32,
    /// The last argument, as a value.
    pub value: i32,
    /// The same, as an address.
    pub address: u64,
}

/// What a call with an id that nobody has gets.
pub const NOBODYS: Errno = Errno::INVAL;

/// The time as objects tell it.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs().cast_signed()
}

/// The structures of the calls that end in ctl, which consist of words of 64 bits.
pub fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// A number of 32 bits in each half of a word, the lower first.
pub fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

const _: () = assert!(cfg!(target_endian = "little"), "halves of words are in this order");

/// A panic ends the broker, so that nobody finds what threads share half done.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Cargo keeps out every other crate; the standard library is what is left that could open something.
    #[test]
    fn nothing_here_can_make_a_system_call_of_its_own() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
        let mut seen = 0;
        for entry in fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for from in code.split("std::").skip(1) {
                let module = from.split([':', ';']).next().unwrap();
                let is_pure =
                    ["array", "collections", "fmt", "hash", "iter", "mem", "sync", "time"];
                assert!(is_pure.contains(&module), "{}: std::{module}", path.display());
            }
            for from in code.split("rustix::").skip(1) {
                assert!(from.starts_with("io::{self, Errno};"), "{}", path.display());
            }
            for from in code.split("nix::").skip(1) {
                assert!(
                    from.starts_with("libc;") || from.starts_with("io::"),
                    "{}",
                    path.display()
                );
            }
            seen += 1;
        }
        assert!(seen > 6, "{seen} files were found");
    }
}
