//! Shared memory of the command's own: System V objects that it makes can be used, those of others are
//! neither seen nor reached, and what is left is removed at the end.

use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::time::Duration;
use tests::{Outcome, Sandbox, User, for_each_user, race_tries};

const KINDS: [&str; 3] = ["shm", "sem", "msg"];

/// What an id that nobody has gets.
const NOBODYS: &str = "EINVAL";

/// Flags of the calls that end in get: a mode for everyone, alone, with IPC_CREAT, and with IPC_EXCL.
const FIND: usize = 0o666;
const CREATE: usize = 0o1666;
const CREATE_ANEW: usize = 0o3666;

/// An object outside, which holds the secret; removed at the end.
struct Foreign<'a> {
    outside: &'a Sandbox,
    kind: &'static str,
    key: String,
    id: String,
}

impl<'a> Foreign<'a> {
    /// That everyone may use.
    fn new(outside: &'a Sandbox, kind: &'static str, salt: u32) -> Self {
        let key = format!("{:#x}", 0x6c00_0000 + std::process::id() * 16 + salt);
        let made = outside.probe_outside(format!("ipc-get {kind} {key} {CREATE}"));
        made.all_allowed_but_ids();
        let id = made.result(&format!("{kind}-id")).to_owned();
        outside.probe_outside(format!("ipc-fill {kind} {id}")).all_allowed();
        Self { outside, kind, key, id }
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        self.outside.probe_outside(format!("ipc-remove {} {}", self.kind, self.id));
    }
}

trait Ids {
    fn all_allowed_but_ids(&self);
    fn ids(&self, kind: &str) -> BTreeSet<String>;
}

impl Ids for Outcome {
    #[track_caller]
    fn all_allowed_but_ids(&self) {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        for (name, result) in self.succeeds().results() {
            assert!(result == "OK" || is_number(result), "{name}={result}: {self:#?}");
        }
    }

    fn ids(&self, kind: &str) -> BTreeSet<String> {
        let name = format!("{kind}-id");
        let found = self.results().filter(|(found, id)| *found == name && !id.is_empty());
        found.map(|(_, id)| id.to_owned()).collect()
    }
}

/// Asserts that none of these objects is there any more, by what root, or their owner, finds outside.
#[track_caller]
fn are_gone(outside: &Sandbox, outcome: &Outcome) {
    for kind in KINDS {
        for id in outcome.ids(kind) {
            let found = outside.probe_outside(format!("ipc-use {kind} {id}"));
            found.refused_with(&format!("{kind}-stat"), NOBODYS);
        }
    }
}

#[test]
fn own_objects_are_used_by_key_and_id_and_are_gone_afterwards() {
    for_each_user(|user| {
        for sandbox in [
            Sandbox::of(user),
            Sandbox::of(user).allow_write("."),
            Sandbox::of(user).allow_write(".").deny_read("outside"),
            Sandbox::of(user).allow_network(),
        ] {
            let inside = sandbox.probe("ipc-own");
            let outside = sandbox.probe_outside("ipc-own");
            for kind in KINDS {
                for outcome in [&inside, &outside] {
                    assert_eq!(outcome.result(&format!("{kind}-twice")), "EEXIST", "{outcome:#?}");
                    assert_eq!(outcome.result(&format!("{kind}-missing")), "ENOENT");
                    assert_eq!(outcome.ids(kind).len(), 2, "{outcome:#?}");
                }
                for id in outside.ids(kind) {
                    let removed = sandbox.probe_outside(format!("ipc-remove {kind} {id}"));
                    removed.allowed("ipc-remove");
                }
            }
            let plain = |outcome: &Outcome| {
                let names = outcome.results().filter(|(name, _)| !name.ends_with("-id"));
                names.map(|(name, result)| format!("{name}={result}")).collect::<Vec<_>>()
            };
            assert_eq!(plain(&inside), plain(&outside));
            are_gone(&sandbox, &inside);
        }
    });
}

#[test]
fn objects_of_others_are_reached_neither_by_id_nor_by_key() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let neighbour = Sandbox::new();
        for (salt, outside) in [(0, &sandbox), (1, &neighbour)] {
            for kind in KINDS {
                let foreign = Foreign::new(outside, kind, salt);
                let (id, key) = (&foreign.id, &foreign.key);
                let inside = sandbox.probe(format!("ipc-use {kind} {id} + ipc-remove {kind} {id}"));
                for (name, result) in inside.succeeds().results() {
                    assert_eq!(result, NOBODYS, "{name}: {inside:#?}");
                }
                // Without IPC_CREAT there is none; with it, it is another one, and the first.
                let missing = sandbox.probe(format!("ipc-get {kind} {key} {FIND}"));
                missing.refused_with(&format!("{kind}-get"), "ENOENT");
                for flags in [CREATE, CREATE_ANEW] {
                    let own = sandbox.probe(format!("ipc-get {kind} {key} {flags}"));
                    own.allowed(&format!("{kind}-get"));
                    assert!(!own.ids(kind).contains(id), "{own:#?}");
                    are_gone(&sandbox, &own);
                }
                let use_it = format!("ipc-get {kind} {key} {FIND} + ipc-use {kind} {id}");
                let reached = outside.probe_outside(&use_it);
                assert!(reached.ids(kind).contains(id), "{reached:#?}");
                reached.allowed(&format!("{kind}-stat"));
            }
        }
    });
}

#[test]
fn rows_of_the_kernel_s_tables_are_not_listed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let _foreign = KINDS.map(|kind| Foreign::new(&sandbox, kind, 2));
        let inside = sandbox.probe("ipc-list");
        for (name, result) in inside.succeeds().results() {
            assert_eq!(result, NOBODYS, "{name}: {inside:#?}");
        }
        sandbox.probe_outside("ipc-list").all_allowed();
    });
}

#[test]
fn two_sandboxes_do_not_share_a_key() {
    let (one, other) = (Sandbox::new(), Sandbox::new());
    let key = format!("{:#x}", 0x6d00_0000 + std::process::id());
    let held = format!("ipc-get shm {key} {CREATE} + sleep 30000");
    let mut running = one.spawn(Sandbox::probe_words(&held));
    running.expect("shm-id=");
    let id = running.stdout().lines().find_map(|line| line.strip_prefix("shm-id=")?.parse().ok());
    let id: u32 = id.expect("an id");
    let missing = other.probe(format!("ipc-get shm {key} {FIND} + ipc-use shm {id}"));
    missing.refused_with("shm-get", "ENOENT").refused_with("shmat", NOBODYS);
    one.probe_outside(format!("ipc-use shm {id}")).allowed("shmat");
    running.signal(Signal::SIGTERM);
    are_gone(&one, &running.wait());
}

#[test]
fn a_segment_removed_while_attached_stays_until_it_is_detached() {
    let sandbox = Sandbox::new();
    for outcome in [sandbox.probe("ipc-linger"), sandbox.probe_outside("ipc-linger")] {
        outcome.allowed("before").allowed("removed").allowed("lingering");
        outcome.refused_with("gone", NOBODYS);
    }
}

#[test]
fn what_a_process_made_as_another_user_is_gone_afterwards() {
    if !User::Caller.is_root() {
        return tests::skipped("only root becomes another user");
    }
    let sandbox = Sandbox::new();
    let outcome = sandbox.probe("setuid 65534 + ipc-own");
    for kind in KINDS {
        outcome.allowed(&format!("{kind}-private")).allowed(&format!("{kind}-known"));
        assert_eq!(outcome.ids(kind).len(), 2, "{outcome:#?}");
    }
    are_gone(&sandbox, &outcome);
}

#[test]
fn the_system_s_segments_are_not_used_up() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.probe("ipc-many 2000");
    assert_eq!(outcome.result("error"), "ENOSPC", "{outcome:#?}");
    assert_eq!(outcome.result("made"), "1024");
    sandbox.probe("ipc-many 100").refused_with("error", "none");
}

#[test]
fn an_id_that_was_given_up_never_leads_to_an_object_of_others() {
    let limit = Duration::from_secs(120);
    let sandbox = Sandbox::new().timeout(limit);
    let tries = race_tries(100_000);
    let mut running = sandbox.spawn(Sandbox::probe_words(&format!("ipc-race {tries}")));
    let mut churned = 0;
    while !running.stdout().contains("secrets=") {
        let outside = sandbox.probe_outside("ipc-churn 200");
        churned += outside.result("churned").parse::<u64>().expect("a number");
    }
    running.expect("secrets=");
    let outcome = running.wait();
    println!("churned {churned}: {}", outcome.stdout);
    assert_eq!(outcome.result("secrets"), "0", "{outcome:#?}");
    assert_ne!(outcome.result("attached"), "0", "own segments are attached: {outcome:#?}");
}
