//! Races for the address of a TCP connection (attack N5).

use super::patience;
use crate::network::with_proxy;
use tests::{Sandbox, TcpPeer, User, race_tries};

/// Runs one kind of race.
fn race(what: &str) {
    let (good, bad) = (TcpPeer::new(), TcpPeer::new());
    let sandbox = with_proxy(User::Caller, &good).timeout(patience());
    race_in(&sandbox, what, (&good, &bad), race_tries(100_000));
}

fn race_in(sandbox: &Sandbox, what: &str, (good, bad): (&TcpPeer, &TcpPeer), tries: usize) {
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
fn rewriting_what_stands_for_a_name_during_connect_reaches_nobody() {
    race_by_name("name");
}

#[test]
fn swapping_the_socket_during_a_connect_by_name_reaches_nobody_and_each_ends() {
    race_by_name("name-fd");
}

fn race_by_name(what: &str) {
    let (good, bad) = (TcpPeer::new(), TcpPeer::new());
    let literal = format!("127.0.0.1:{}", good.port());
    let policy = serde_json::json!({ "network": {
        "allowedDomains": ["good.test", literal], "hosts": ["127.0.0.1 good.test"] } });
    let sandbox = Sandbox::new().policy_json(policy.to_string()).timeout(patience());
    race_in(&sandbox, what, (&good, &bad), race_tries(20_000));
}

#[test]
fn swapping_the_socket_during_connect_reaches_nobody() {
    race("fd");
}
