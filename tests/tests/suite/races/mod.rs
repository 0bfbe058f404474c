//! Races: one thread makes a call, another changes what it is about meanwhile; 100 000 tries each, of all
//! users together where there are several.
//!
//! LANDSTRIP_RACE_TRIES says another number for each, for a longer look.

mod carveouts;
mod datagrams;
mod files;
mod local;
mod network;
mod signals;
mod sockets;
mod udp;
