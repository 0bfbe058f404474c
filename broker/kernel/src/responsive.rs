//! Whether file systems answer. One in user space or on a network has who asks wait for its server, and once that has the
//! request not even SIGKILL ends the wait (fuse(4)); nor does the process end that has a thread which waits so.
//!
//! So a child asks that shares memory with the broker and is no thread of it. If it gets no answer soon, it is left.

use super::{kill, vfork_helper};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{self, AtFlags, StatxFlags};
use rustix::process::{self, PidfdFlags, Signal};
use std::path::PathBuf;

const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Whether it is known soon of each of these whether it is there; also if there can be no child.
pub fn answer(paths: Vec<PathBuf>) -> bool {
    if paths.is_empty() {
        return true;
    }
    // Not given back: the child may still use them. It makes system calls alone: it neither allocates nor takes locks.
    let paths: &'static [PathBuf] = paths.leak();
    let child = vfork_helper::leave(move || {
        for path in paths {
            let _ = fs::statx(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
        }
        Ok(())
    });
    let Ok(child) = child else { return true };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_and_what_is_not_is_known_soon() {
        assert!(answer(Vec::new()));
        assert!(answer(["/proc/self/status", "/", "/nonexistent"].map(PathBuf::from).into()));
    }
}
