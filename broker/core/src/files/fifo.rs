//! Opens of a FIFO, which wait for its other end (fifo(7)).
//!
//! When the target does not wait any more, the other end is never opened to let the open end, which whoever waits for that
//! would notice: the thread that opens it is interrupted.

use super::interruptible::wait_for;
use super::open::open_held;
use crate::call::how::OpenHow;
use kernel::object::Object;
use kernel::request::Confirmed;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io;

/// Opens a FIFO. It is given up when the target is gone, or has a signal to handle.
///
/// # Errors
/// Returns what open(2) returns, and as [`wait_for`].
pub(super) fn open(by: Confirmed<'_>, object: Object, how: OpenHow) -> io::Result<OwnedFd> {
    let waits = how.flags & OFlags::RWMODE != OFlags::RDWR && !how.flags.contains(OFlags::NONBLOCK);
    if !waits {
        return open_held(&object, &how, Mode::empty());
    }
    wait_for(by, move || open_held(&object, &how, Mode::empty()))
}
