//! Work with a working directory, a umask and a Landlock domain that are not the broker's own.
//!
//! All threads of the broker share the first two, and unshare(2), which would part them, is refused
//! by Docker's default seccomp profile. So the work is done by a child that shares memory and
//! descriptors with the broker, and for which the calling thread waits, as in vfork(2): see clone(2).

#![allow(unsafe_code)] // for clone(2) and for restricting a single thread

use super::kill;
use nix::libc::{self, c_int, c_void};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{self, Errno};
use rustix::process::Pid;

/// 64 KiB, as aligned as the ABI wants it.
const STACK: usize = 64 * 1024 / size_of::<u128>();

struct Job<W> {
    work: Option<W>,
    result: io::Result<()>,
}

/// Has a child do `work`. It must neither allocate nor take locks: the child can be killed.
///
/// # Errors
/// Returns what `work` returns; [`Errno::AGAIN`] if there can be no child, [`Errno::ACCESS`] if it
/// was killed.
pub fn in_vfork_child<W: FnOnce() -> io::Result<()>>(work: W) -> io::Result<()> {
    let (child, result) = start(work)?;
    kill::reap_clone(child);
    result
}

/// The same, and leaves the child to be reaped by [`kill::reap_clone`].
pub(super) fn start<W: FnOnce() -> io::Result<()>>(work: W) -> io::Result<(Pid, io::Result<()>)> {
    let mut job = Job { work: Some(work), result: Err(Errno::ACCESS) };
    // SAFETY: the stack and the job live until the child has ended, for which CLONE_VFORK waits.
    let child = unsafe { clone(&mut vec![0; STACK], &mut job, libc::CLONE_VFORK) }?;
    Ok((child, job.result))
}

/// The same without waiting for it. It can be left: nothing that it uses is given back.
pub(super) fn leave<W: FnOnce() -> io::Result<()> + 'static>(work: W) -> io::Result<Pid> {
    let job = Box::leak(Box::new(Job { work: Some(work), result: Err(Errno::ACCESS) }));
    // SAFETY: the stack and the job live as long as this process.
    unsafe { clone(vec![0; STACK].leak(), job, 0) }
}

/// Has a child do the job.
///
/// # Safety
/// The stack and the job live until the child has ended, and nobody else touches them until then.
unsafe fn clone<W: FnOnce() -> io::Result<()>>(
    stack: &mut [u128],
    job: &mut Job<W>,
    mut flags: c_int,
) -> io::Result<Pid> {
    let top = stack.as_mut_ptr_range().end.cast();
    // No signal tells of its end: what reaps the command's processes overlooks it.
    flags |= libc::CLONE_VM | libc::CLONE_FILES;
    // SAFETY: as the caller says. The one signal handler, which would run on both sides, does nothing.
    let child = unsafe { libc::clone(run::<W>, top, flags, (&raw mut *job).cast()) };
    Pid::from_raw(child.max(0)).ok_or(Errno::AGAIN)
}

extern "C" fn run<W: FnOnce() -> io::Result<()>>(job: *mut c_void) -> c_int {
    // SAFETY: `clone` passes a job of this type, which nothing else uses meanwhile.
    let job = unsafe { &mut *job.cast::<Job<W>>() };
    if let Some(work) = job.work.take() {
        job.result = work();
    }
    0
}

/// Puts the calling thread, and no other, under `ruleset` (landlock_restrict_self(2)); the launcher
/// has set no_new_privs.
///
/// # Errors
/// Returns [`Errno::ACCESS`] if the kernel refuses.
pub fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    let number = libc::SYS_landlock_restrict_self;
    // SAFETY: takes a descriptor and flags.
    let result = unsafe { libc::syscall(number, ruleset.as_raw_fd(), 0) };
    if result == 0 { Ok(()) } else { Err(Errno::ACCESS) }
}
