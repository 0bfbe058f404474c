//! What this host lets a sandbox be, and whether one holds: `--doctor`.
//!
//! The broker looks at the platform ([`platform`]), lays out what must not be reached ([`bait`]), chooses what to
//! attempt under the policy in force ([`chosen`]), and runs itself as the tool of a sandbox, as which it
//! makes the attempts ([`inside`]) and nothing else. So it works where nothing is but landstrip's programs.

pub(crate) mod attempt;
pub(crate) mod bait;
pub(crate) mod chosen;
pub(crate) mod inside;
pub(crate) mod lines;
pub(crate) mod platform;
pub(crate) mod story;
