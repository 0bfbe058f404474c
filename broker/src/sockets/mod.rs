//! Calls on sockets: judged by the address rules, and performed on the broker's own copies.
//!
//! Nothing here lets a call through whose address lies in memory: it is performed or refused.

pub(crate) mod judge;
pub(crate) mod message;
mod messages;
pub(crate) mod outlet;
pub(crate) mod own_ports;
pub(crate) mod socket;
pub(crate) mod stand_ins;
pub(crate) mod unix;
