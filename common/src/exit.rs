//! Exit statuses of landstrip itself; the conventions are those of env(1) and timeout(1).

/// The command line could not be understood.
pub const USAGE: i32 = 2;
/// landstrip failed before or while it ran the command: policy, platform or broker.
pub const FAILED: i32 = 125;
/// The tool was found but cannot be executed.
pub const CANNOT_EXECUTE: i32 = 126;
/// The tool was not found.
pub const NOT_FOUND: i32 = 127;
/// Added to the number of the signal that ended the command, as a shell does.
pub const SIGNAL_BASE: i32 = 128;
