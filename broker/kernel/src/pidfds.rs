//! Handles of the threads that were answered recently: opening one costs more than what it is for.
//!
//! A pidfd stays with its thread: when that has ended and another has its id, what is asked of it
//! fails (ESRCH), and it is opened anew. Source: pidfd_open(2).

#![allow(unsafe_code)] // for kcmp(2)

use super::proc::Status;
use super::threads::lock;
use nix::libc;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, PidfdFlags};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Those of the latest threads, the latest first.
static RECENT: Mutex<VecDeque<(Pid, Arc<OwnedFd>)>> = Mutex::new(VecDeque::new());
/// Most that are kept: as many as threads that are often busy at a time.
const KEPT_MAX: usize = 8;

/// Does `work` with a handle of `thread`; again with a new one if that was of a thread that has ended.
pub fn with<R>(thread: Pid, work: impl Fn(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
    match work(known(thread)?.as_fd()) {
        Err(Errno::SRCH) => {
            lock(&RECENT).retain(|(known, _)| *known != thread);
            work(known(thread)?.as_fd())
        }
        result => result,
    }
}

fn known(thread: Pid) -> io::Result<Arc<OwnedFd>> {
    let mut recent = lock(&RECENT);
    if let Some((_, pidfd)) = recent.iter().find(|(known, _)| *known == thread) {
        return Ok(Arc::clone(pidfd));
    }
    let (pidfd, process) = open(thread)?;
    let pidfd = Arc::new(pidfd);
    if let Some(process) = process.filter(|process| *process != thread) {
        // Looked at each time: it may have a table of its own by the next.
        let ids = [process, thread].map(|id| id.as_raw_pid());
        return if share_descriptors(ids) { Ok(pidfd) } else { Err(Errno::PERM) };
    }
    recent.truncate(KEPT_MAX - 1);
    recent.push_front((thread, Arc::clone(&pidfd)));
    Ok(pidfd)
}

/// A handle of a thread, which may have a descriptor table of its own; before Linux 6.9 there is none but that of its
/// process, which is returned then.
///
/// # Errors
/// Returns what pidfd_open(2) returns.
pub(super) fn open(thread: Pid) -> io::Result<(OwnedFd, Option<Pid>)> {
    const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(0o200);
    match process::pidfd_open(thread, PIDFD_THREAD) {
        Err(Errno::INVAL) => {
            let process = Status::of(thread).map_err(|_| Errno::SRCH)?.process()?;
            let process = Pid::from_raw(process).ok_or(Errno::SRCH)?;
            Ok((process::pidfd_open(process, PidfdFlags::empty())?, Some(process)))
        }
        handle => Ok((handle?, None)),
    }
}

/// Forgets all handles, when there is nothing to do.
pub fn forget_all() {
    lock(&RECENT).clear();
}

/// Whether two threads have the same table of descriptors (kcmp(2)).
fn share_descriptors([one, other]: [i32; 2]) -> bool {
    const KCMP_FILES: i32 = 2;
    // SAFETY: takes integers.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0, 0) };
    result == 0
}
