//! Races: one thread makes a call, another changes what it is about meanwhile; 100 000 tries each.
//!
//! LANDSTRIP_RACE_TRIES says another number, for a longer look.

mod carveouts;
mod datagrams;
mod files;
mod local;
mod network;
mod signals;
mod sockets;
mod udp;
