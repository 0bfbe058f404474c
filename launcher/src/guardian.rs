//! The guardian: ends all that the command started, should the broker die before it has done so itself.
//!
//! The kernel does not: the broker's death signals the command alone (PR_SET_PDEATHSIG), which can
//! have given that up, and not what it started. So a process waits for that death, in D0, which lets
//! it signal everything in the sandbox and nothing else. It does nothing else, holds no descriptor,
//! and nothing in the sandbox can signal it, whose domain lies deeper. Who kills a process group or
//! hangs up a terminal does not meet it: it has a session of its own.

#![allow(unsafe_code)]

use crate::confine;
use crate::sys::{self, Stack};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, Signal};
use rustix::thread::{self, CapabilitySet};

/// Enough for this module in an unoptimised build, too.
static STACK: Stack<{ 16 * 1024 }> = Stack::new();

/// Starts the guardian; returns its id. What waits for any child does not meet it (`__WCLONE` in
/// wait(2)).
///
/// # Errors
/// Returns what clone(2) returns.
pub(crate) fn start() -> io::Result<i32> {
    let caller = process::getppid().map_or(0, |caller| caller.as_raw_nonzero().get());
    sys::spawn(begin, &STACK, 0, (core::ptr::null_mut(), caller, 0))
}

extern "C" fn begin(_: *mut usize, caller: i32, _: i32, broker: i32) -> ! {
    let guarded = guard(Pid::from_raw(caller), Pid::from_raw(broker));
    sys::exit(guarded.map_or(common::exit::FAILED, |()| 0))
}

/// Waits until `broker`, the parent, has died, and kills what it left.
///
/// # Errors
/// Returns the step that failed, in which case nothing was killed.
fn guard(caller: Option<Pid>, broker: Option<Pid>) -> io::Result<()> {
    /// The broker's death.
    const DEATH: Signal = Signal::TERM;
    sys::block_signals()?;
    confine::drop_capabilities(CapabilitySet::empty())?;
    // SAFETY: this process has a descriptor table of its own, of which it uses nothing.
    unsafe { sys::close_all() }?;
    process::setsid()?;
    thread::set_name(c"landstrip-guard")?;
    process::set_parent_process_death_signal(Some(DEATH))?;
    // Whom the caller's signals reach must not be killed with what is in the sandbox: D0 is in force
    // if this process, which lies in it, cannot signal one outside.
    if caller.is_some_and(|caller| process::test_kill_process(caller) == Ok(())) {
        return Err(Errno::NOTSUP);
    }
    // Sent by somebody else, or for a thread of the broker's, the signal means nothing. A parent is
    // replaced before the signal is sent, so that none is missed.
    while process::getppid() == broker {
        sys::wait_for(DEATH);
    }
    // No process escapes by forking: a fork fails once its parent has a fatal signal pending, and is
    // seen here if it came first (copy_process in kernel/fork.c, both under the same lock).
    sys::kill_all();
    Ok(())
}
