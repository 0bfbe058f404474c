//! What becomes of a file call.
//!
//! Landlock decides what is let through, on the path that memory holds by then: a path that changes
//! after the look gains nothing, because Landlock grants no more than the rules do. Only where the
//! command may change what it may not read does Landlock let more be read; what can read there is
//! never let through, and its verdict, an answer, cannot say so.

use super::look::Look;
use super::task::Done;
use super::view::{Decider, View};
use super::walk::Lost;
use rustix::io;
use std::ffi::OsStr;
use std::path::Path;

/// What becomes of it.
#[derive(Debug)]
pub(crate) enum FileVerdict {
    /// The kernel executes it, and Landlock decides; then these are looked at.
    Continue(LandlockReason, Vec<Look>),
    /// The broker has done it, or refuses it.
    Answer(io::Result<Done>),
}

/// What Landlock is relied on for in a call that is let through. An error that was found on the way to
/// a verdict is not among these: the call may have become possible since, for the broker alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LandlockReason {
    /// It is the only judge of such calls under this policy, or of such objects: devices, proc(5).
    Alone,
    /// It grants what was found: the rules allow it for all of the tree that was granted at launch.
    Granted,
    /// It refuses what was found, as the rules do.
    DeniedAnyway,
    /// Nothing: the kernel refuses such arguments before it asks. Whatever stands there by then,
    /// Landlock judges.
    Futile,
    /// Nothing: who asks what may be done (access(2)) gets no right by the answer.
    Question,
    /// It can look where the broker cannot look as the target would: at what another process holds, at
    /// memory that is hidden from the broker, with rights that it does not have. There it grants what
    /// it was told at launch, and refuses the rest.
    OutOfSight,
}

/// Leaves a change of the entry `name` of `directory` to Landlock, unless it is the broker's.
pub(crate) fn leave_entry(view: &View, directory: &Path, name: &OsStr) -> Result<(), Lost> {
    match view.entry(directory, name) {
        Some((_, Decider::Broker)) => Ok(()),
        Some((_, Decider::Landlock)) => Err(Lost::ToLandlock(LandlockReason::Granted)),
        None => Err(Lost::ToLandlock(LandlockReason::DeniedAnyway)),
    }
}
