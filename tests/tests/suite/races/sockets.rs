//! Races for the path of a Unix socket (attacks N5 and U1).

use super::patience;
use crate::sockets::world;
use std::os::unix::fs::symlink;
use tests::{Sandbox, UnixPeer, User, for_each_user, race_tries};

#[test]
fn rewriting_the_path_during_connect_reaches_nobody() {
    let (sandbox, good, bad) = world(User::Caller, "stream");
    let sandbox = sandbox.timeout(patience());
    let (one, two) = (sandbox.name("outside/good"), sandbox.name("outside/bad"));
    let outcome = sandbox.probe(format!("race-unix {one} {two} {}", race_tries(100_000)));
    outcome.succeeds().allowed("allowed");
    assert_eq!(outcome.result("denied"), "failed", "{outcome:#?}");
    assert_eq!(bad.connections(), 0);
    good.reached();
}

#[test]
fn swapping_a_link_during_connect_reaches_nobody() {
    let (sandbox, good, bad) = world(User::Caller, "stream");
    let sandbox = sandbox.timeout(patience());
    symlink(sandbox.path("outside/good"), sandbox.path("work/one")).unwrap();
    symlink(sandbox.path("outside/bad"), sandbox.path("work/two")).unwrap();
    let outcome = sandbox.probe(format!("race-unix-swap one two one {}", race_tries(100_000)));
    outcome.succeeds().allowed("exchanged");
    assert_eq!(outcome.result("afterwards"), "1", "{outcome:#?}");
    assert_eq!(bad.connections(), 0);
    good.reached();
}

#[test]
fn putting_a_socket_of_others_in_the_place_of_an_own_one_reaches_nobody() {
    putting_another_in_its_place("stream");
}

#[test]
fn putting_a_datagram_socket_of_others_in_the_place_of_an_own_one_reaches_nobody() {
    putting_another_in_its_place("dgram");
}

fn putting_another_in_its_place(kind: &str) {
    for_each_user(|user| putting_another_in_its_place_as(user, kind));
}

fn putting_another_in_its_place_as(user: User, kind: &str) {
    let sandbox = Sandbox::of(user).allow_write(".").allow_local_binding();
    let sandbox = sandbox.timeout(patience());
    // Without a listed one there are none for datagrams.
    let listed = sandbox.path("outside/listed");
    let _listed = UnixPeer::at(&listed, "dgram");
    let sandbox = sandbox.allow_unix_socket(listed);
    let peer = UnixPeer::at(sandbox.path("work/theirs"), kind);
    let tries = race_tries(50_000) / 5;
    let outcome = sandbox.probe(format!("race-own-path {kind} theirs {tries}"));
    outcome.succeeds().allowed("bound").allowed("reached");
    assert_eq!(peer.connections(), 0, "{kind}");
}

#[test]
fn swapping_the_directory_during_bind_makes_no_socket_outside() {
    let sandbox = Sandbox::new().allow_write(".").allow_unix_socket(".");
    let sandbox = sandbox.timeout(patience());
    sandbox.dir("work/one");
    symlink(sandbox.path("outside"), sandbox.path("work/two")).unwrap();
    let tries = race_tries(5_000);
    let outcome = sandbox.probe(format!("race-unix-bind one two one/socket {tries}"));
    outcome.succeeds().allowed("exchanged");
    assert_eq!(outcome.result("afterwards"), "1", "{outcome:#?}");
    assert!(!sandbox.path("outside/socket").exists());
}
