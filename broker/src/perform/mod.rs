//! Operations that the broker does itself, on its own copies, with the target's rights.
//!
//! Nothing here returns a way to let the call through: what is judged by memory is performed or
//! refused.

mod apart;
pub(crate) mod entry;
mod holders;
pub(crate) mod local_ports;
pub(crate) mod message;
pub(crate) mod metadata;
pub(crate) mod object;
pub(crate) mod open;
pub(crate) mod outlet;
pub(crate) mod path;
pub(crate) mod rights;
pub(crate) mod socket;
pub(crate) mod stand_ins;
pub(crate) mod unix;
mod walk;
