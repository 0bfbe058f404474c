//! The limits of a run: what the command and all that it started use is counted, and the run ends where that is too much.
//!
//! Nothing here confines. It holds nothing of the command's but its number and those of its descendants; what it writes
//! are control groups of its own, and two limits of the command; the one thing that it decides is whether a fork is one
//! too many. A mistake here lets the command use more than it may, or ends the run.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for the crates of the broker alone")]

mod cgroup;
mod usage;
mod watch;

pub use cgroup::own as own_group;
pub use watch::{Uncounted, Watch};
