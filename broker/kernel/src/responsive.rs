//! Whether file systems answer. One in user space or on a network has who asks wait for its server, and once that has the
//! request not even SIGKILL ends the wait (fuse(4)); nor does the process end that has a thread which waits so.
//!
//! So a child asks that shares memory with the broker and is no thread of it. If it gets no answer soon, it is left.

#![allow(unsafe_code)] // for clone(2)

use super::kill;
use nix::libc::{self, c_int, c_void};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{self, AtFlags, StatxFlags};
use rustix::process::{self, Pid, PidfdFlags, Signal};
use std::path::PathBuf;

const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const STACK: usize = 64 * 1024;

/// Whether it is known soon of each of these whether it is there; also if there can be no child.
pub fn answer(paths: Vec<PathBuf>) -> bool {
    if paths.is_empty() {
        return true;
    }
    // Neither is given back: the child may still use them.
    let paths: &'static Vec<PathBuf> = Box::leak(Box::new(paths));
    // As aligned as the ABI wants it.
    let stack = vec![0_u128; STACK / size_of::<u128>()].leak();
    let top = stack.as_mut_ptr_range().end.cast();
    let flags = libc::CLONE_VM | libc::CLONE_FILES;
    let argument = (&raw const *paths).cast_mut().cast();
    // SAFETY: the stack and the paths live as long as this process, and nobody else touches them. The child makes
    // system calls alone: it neither allocates nor takes locks.
    let child = unsafe { libc::clone(ask, top, flags, argument) };
    let Some(child) = Pid::from_raw(child.max(0)) else { return true };
    let ended = process::pidfd_open(child, PidfdFlags::empty())
        .and_then(|handle| poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&PATIENCE)));
    let is_ended = ended == Ok(1);
    if is_ended {
        kill::reap_clone(child);
    } else {
        let _ = process::kill_process(child, Signal::KILL);
    }
    is_ended
}

extern "C" fn ask(paths: *mut c_void) -> c_int {
    // SAFETY: `answer` passes these, which nobody changes.
    let paths = unsafe { &*paths.cast::<Vec<PathBuf>>() };
    for path in paths {
        let _ = fs::statx(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_and_what_is_not_is_known_soon() {
        assert!(answer(Vec::new()));
        assert!(answer(["/proc/self/status", "/", "/nonexistent"].map(PathBuf::from).into()));
    }
}
