//! Races for what lies outside (attack F5).

use super::patience;
use crate::files::writable;
use std::os::unix::fs::symlink;
use tests::{Snapshot, User, race_tries};

#[test]
fn a_racing_path_does_not_open_outside() {
    let sandbox = writable(User::Caller).timeout(patience());
    let before = Snapshot::of(sandbox.path("outside"));
    let (inside, outside) = (sandbox.name("work/file"), sandbox.name("outside/file"));
    let outcome = sandbox.probe(format!("race-open {inside} {outside} {}", race_tries(100_000)));
    before.unchanged();
    outcome.succeeds().allowed("allowed");
    assert!(sandbox.read("work/file").starts_with("pwned"), "{outcome:#?}");
}

#[test]
fn a_racing_path_does_not_change_metadata_outside() {
    let sandbox = writable(User::Caller).timeout(patience());
    let before = Snapshot::of(sandbox.path("outside"));
    let (inside, outside) = (sandbox.name("work/file"), sandbox.name("outside/file"));
    let outcome = sandbox.probe(format!("race-chmod {inside} {outside} {}", race_tries(100_000)));
    before.unchanged();
    outcome.succeeds().allowed("allowed");
}

#[test]
fn a_racing_symlink_does_not_open_outside() {
    let sandbox = writable(User::Caller).timeout(patience());
    symlink("../outside/file", sandbox.path("work/link")).unwrap();
    let before = Snapshot::of(sandbox.path("outside"));
    let outcome = sandbox.probe(format!("race-swap link mine mine {}", race_tries(100_000)));
    before.unchanged();
    outcome.succeeds().allowed("exchanged");
    assert_eq!(outcome.result("afterwards"), "1", "{outcome:#?}");
}

#[test]
fn a_racing_path_does_not_read_a_denied_file() {
    let sandbox = writable(User::Caller).deny_read("../outside").timeout(patience());
    let (inside, outside) = (sandbox.name("work/mine"), sandbox.name("outside/file"));
    let attack = format!("race-read {inside} {outside} {}", race_tries(100_000));
    let outcome = sandbox.probe(&attack);
    assert_eq!(outcome.result("leaked"), "0");
    outcome.succeeds().allowed("allowed");
    let twin = sandbox.probe_outside(attack);
    assert_ne!(twin.result("leaked"), "0", "{twin:#?}");
}
