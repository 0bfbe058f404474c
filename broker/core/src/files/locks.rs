//! Locks on open files (flock(2)): for them the kernel asks for no right to write, and who waits for one outside
//! is held up.
//!
//! The broker locks its own duplicate of the target's descriptor. That is the same open file, which has the lock and
//! gives it back when all who share it have closed it; and it is what was judged, whatever the number leads to by then.
//!
//! Locks of fcntl(2) are those of the process that asks for them, and read locks need no more than reading: nobody can
//! take them for it, and what it asks for lies in memory.

use super::interruptible::wait_for;
use super::judge::{Judge, metadata_refused};
use super::metadata::held_by;
use crate::call::decode::{CONTINUE, RegisterVerdict};
use crate::report::denials::Denial;
use crate::report::permitted::Permitted;
use common::trap::FileOperation;
use kernel::request::Request;
use kernel::target::{self, TargetFd};
use nix::libc::{LOCK_EX, LOCK_NB, LOCK_SH};
use rustix::fs::{self, FlockOperation, OFlags};
use rustix::io::Errno;

impl Judge {
    /// flock(2) with `operation`, which does not unlock: done, or let through where no descriptor can be duplicated.
    pub(crate) fn lock(
        &self,
        request: &Request<'_>,
        number: TargetFd,
        operation: u32,
    ) -> RegisterVerdict {
        let [shared, exclusive, at_once] = [LOCK_SH, LOCK_EX, LOCK_NB].map(i32::cast_unsigned);
        let is_shared = operation & !at_once == shared;
        if !is_shared && operation & !at_once != exclusive {
            return Err(Errno::INVAL);
        }
        let target = request.target();
        let (file, flags) = held_by(target, number)?;
        if flags.contains(OFlags::PATH) {
            // CONTINUE: the broker cannot get at it, as under Docker's default seccomp profile. Then the kernel decides,
            // of which the manual tells.
            return if target::duplicates_are_refused() { CONTINUE } else { Err(Errno::ACCESS) };
        }
        let by = request.confirm()?;
        let writes = [OFlags::WRONLY, OFlags::RDWR].contains(&(flags & OFlags::RWMODE));
        if !writes && let Some(name) = metadata_refused(&self.view, &file)? {
            // Nobody inside can change it, nor keep others inside from it: there is nothing to lock for who only reads.
            if is_shared {
                return Ok(Some(0));
            }
            self.traps.sink().catch_up();
            self.traps.report(Denial::file(FileOperation::Write, &name), "a lock");
            return Err(Errno::ACCESS);
        }
        if let Some(learning) = self.learning.as_ref().filter(|_| !writes && !is_shared)
            && let Some(name) = metadata_refused(&learning.view, &file)?
        {
            learning.note(Permitted::Write(name), target);
        }
        let (now, then) = match is_shared {
            true => (FlockOperation::NonBlockingLockShared, FlockOperation::LockShared),
            false => (FlockOperation::NonBlockingLockExclusive, FlockOperation::LockExclusive),
        };
        match fs::flock(&file, now) {
            Err(Errno::WOULDBLOCK) if operation & at_once == 0 => {
                wait_for(by, move || fs::flock(&file, then))?;
            }
            result => result?,
        }
        Ok(Some(0))
    }
}
