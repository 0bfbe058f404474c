//! The right to look at what processes of the sandbox hide: capabilities(7), CAP_SYS_PTRACE.
//!
//! The kernel closes the memory and the descriptors of a process that changed its user, and of one that
//! executes what it may not read, to all but who has this capability (ptrace(2), access mode checking).
//! The broker of root keeps it permitted, and has it in effect for the moment of such a look alone, so
//! that nothing else is done by it. Its Landlock domain D0 confines it to what is in the sandbox.

use rustix::io::{self, Errno};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::sync::atomic::{AtomicBool, Ordering};

/// With the files in /proc/PID, which are root's then.
const LOOK: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// Whether the broker has it.
static KEPT: AtomicBool = AtomicBool::new(false);

/// Takes it out of effect, if this process has it: before there are threads.
pub fn keep() -> io::Result<()> {
    let mut sets = thread::capabilities(None)?;
    if sets.permitted.contains(CapabilitySet::SYS_PTRACE) {
        sets.effective -= CapabilitySet::SYS_PTRACE;
        thread::set_capabilities(None, sets)?;
        KEPT.store(true, Ordering::SeqCst);
    }
    Ok(())
}

/// Looks at a process of the sandbox: once more with the capability if the kernel refuses.
pub fn of<R>(look: impl Fn() -> io::Result<R>) -> io::Result<R> {
    match look() {
        Err(Errno::PERM | Errno::ACCESS) if KEPT.load(Ordering::SeqCst) => {
            let _raised = Raised::raise()?;
            look()
        }
        result => result,
    }
}

/// While this lives, the calling thread has the capability in effect.
struct Raised(CapabilitySets);

impl Raised {
    fn raise() -> io::Result<Self> {
        let before = thread::capabilities(None)?;
        let effective = before.effective | before.permitted & LOOK;
        thread::set_capabilities(None, CapabilitySets { effective, ..before })?;
        Ok(Self(before))
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        // To give up what is in effect is refused to nobody (capset(2)); a thread that could not must
        // not go on.
        if thread::set_capabilities(None, self.0).is_err() {
            std::process::abort();
        }
    }
}
