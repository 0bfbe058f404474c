//! Races for the address of a TCP connection (attack N5).

use super::patience;
use crate::network::with_proxy;
use tests::{TcpPeer, User, race_tries};

/// Runs one kind of race.
fn race(what: &str) {
    let tries = race_tries(100_000);
    let (good, bad) = (TcpPeer::new(), TcpPeer::new());
    let sandbox = with_proxy(User::Caller, &good).timeout(patience());
    let outcome =
        sandbox.probe(format!("race-connect {what} {} {} {tries}", good.port(), bad.port()));
    outcome.succeeds().allowed("after");
    bad.untouched();
    assert!(tests::eventually(|| good.connections() > 0), "the twin never got through");
}

#[test]
fn rewriting_the_port_during_connect_reaches_nobody() {
    race("port");
}

#[test]
fn rewriting_the_family_during_connect_reaches_nobody() {
    race("family");
}

#[test]
fn rewriting_the_address_during_connect_reaches_nobody() {
    race("address");
}

#[test]
fn swapping_the_socket_during_connect_reaches_nobody() {
    race("fd");
}
