//! Races: one thread makes a call, another changes what it is about meanwhile; 100 000 tries each, of all
//! users together where there are several.
//!
//! LANDSTRIP_RACE_TRIES says another number for each, for a longer look.

mod carveouts;
mod datagrams;
mod files;
mod local;
mod network;
mod numbers;
mod questions;
mod signals;
mod sockets;
mod udp;

use std::time::Duration;
use tests::race_tries;

/// How long a race may take: a machine with much else to do takes its time, and more tries take more.
fn patience() -> Duration {
    let more = u32::try_from(race_tries(0)).expect("as many tries as that");
    Duration::from_secs(480) + Duration::from_millis(5) * more
}
