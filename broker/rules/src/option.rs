//! Options of sockets that the broker sets, or passes over, in the place of the command: level and number.

use nix::libc::{SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET};

/// By which servers take a port that connections are left on, and by which they share one.
pub const SHARE_ADDRESS: (i32, i32) = (SOL_SOCKET, SO_REUSEADDR);
pub const SHARE_PORT: (i32, i32) = (SOL_SOCKET, SO_REUSEPORT);
