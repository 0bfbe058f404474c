//! Operations that the broker does itself, on its own copies, with the target's rights.
//!
//! Nothing here returns a way to let the call through: what is judged by memory is performed or
//! refused.

pub(crate) mod entry;
pub(crate) mod local_ports;
pub(crate) mod metadata;
pub(crate) mod open;
pub(crate) mod path;
pub(crate) mod socket;
pub(crate) mod unix;
mod walk;
