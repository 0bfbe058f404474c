//! What this host lets a sandbox be, and whether one holds: `--doctor`.
//!
//! The broker looks at the platform ([`platform`]), lays out what must not be reached ([`bait`]), chooses what to
//! attempt under the policy in force ([`chosen`]), and runs itself as the tool of a sandbox, as which it
//! makes the attempts ([`inside`]) and nothing else. So it works where nothing is but landstrip's programs.

pub mod attempt;
pub mod bait;
pub mod chosen;
pub mod inside;
pub mod lines;
pub mod platform;
pub mod story;
