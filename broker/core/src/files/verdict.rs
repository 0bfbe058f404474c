//! What becomes of a file call.
//!
//! Landlock decides what is let through, on the path that memory holds by then: a path that changes
//! after the look gains nothing, because Landlock grants no more than the rules do. Only where the
//! command may change what it may not read does Landlock let more be read; what can read there is
//! never let through, and its verdict, a [`Task`], cannot say so.

use super::look::Look;
use super::task::{Done, Task};
use super::view::Decider;
use rules::paths::Cursor;
use rustix::io;

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

/// Who does a call that was judged without an error.
#[derive(Debug)]
pub(crate) enum Judged {
    /// The broker.
    Task(Box<Task>),
    /// The kernel.
    Landlock(LandlockReason),
}

impl From<Task> for Judged {
    fn from(task: Task) -> Self {
        Self::Task(Box::new(task))
    }
}

/// What Landlock is relied on for where the view says this of an entry; nothing if the broker decides.
pub(crate) fn reason_for(entry: Option<(Cursor, Decider)>) -> Option<LandlockReason> {
    match entry {
        Some((_, Decider::Broker)) => None,
        Some((_, Decider::Landlock)) => Some(LandlockReason::Granted),
        None => Some(LandlockReason::DeniedAnyway),
    }
}
