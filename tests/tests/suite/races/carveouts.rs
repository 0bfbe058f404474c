//! Races for what is denied inside of what is allowed (attack F5).

use super::patience;
use crate::carveouts::{carved, named, unreadable};
use rustix::fs::{CWD, RenameFlags, renameat_with as rename};
use std::os::unix::fs::symlink;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tests::{Outcome, Sandbox, Snapshot, User, for_each_user, programs, race_tries};

/// Two directories with a file `name`, and a symbolic link `link` to the second one.
fn raced(user: User, name: &str, second: &str) -> Sandbox {
    let sandbox = carved(user).timeout(patience());
    sandbox.dir("work/mine");
    sandbox.file(format!("work/mine/{name}"), "mine!");
    symlink(second, sandbox.path("work/link")).unwrap();
    sandbox
}

/// Held by a race: several at once would only slow each other down.
static TURN: Mutex<()> = Mutex::new(());

fn my_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asserts that of the two that changed places one could be used afterwards: what leads to the denied file cannot.
#[track_caller]
fn is_one_of_two(outcome: &Outcome) {
    assert_eq!(outcome.succeeds().result("afterwards"), "1", "{outcome:#?}");
}

/// Has the probe exchange `entries` while others do all that can be done to `path`.
fn race_entries(sandbox: &Sandbox, entries: &str, path: &str, tries: usize) {
    let outcome = sandbox.probe(format!("race-entries {entries} {path} {tries}"));
    outcome.succeeds().allowed("exchange");
    is_one_of_two(&outcome);
}

#[test]
fn a_racing_directory_does_not_lead_to_a_denied_file() {
    let _turn = my_turn();
    for_each_user(|user| {
        let sandbox = raced(user, ".env", "secret");
        let before = Snapshot::of(sandbox.path("work/secret/.env"));
        race_entries(&sandbox, "link mine", "mine/.env", race_tries(50_000));
        before.unchanged();
    });
}

#[test]
fn a_racing_directory_does_not_lead_outside() {
    let _turn = my_turn();
    for_each_user(|user| {
        let sandbox = raced(user, "file", "../outside");
        sandbox.file("outside/file", "Secret");
        let before = Snapshot::of(sandbox.path("outside"));
        race_entries(&sandbox, "link mine", "mine/file", race_tries(50_000));
        before.unchanged();
    });
}

#[test]
fn a_racing_directory_in_an_opened_one_does_not_lead_to_what_is_denied_around_it() {
    let _turn = my_turn();
    for_each_user(|user| {
        for (target, denied) in [("..", "work/a/file"), ("no", "work/a/b/no/file")] {
            let sandbox =
                Sandbox::of(user).allow_write(".").deny_write("a").allow_write_inside("a/b");
            // What is denied further inside has the broker open what is in `b`.
            let sandbox = sandbox.deny_write("a/b/no").timeout(patience());
            for name in ["a", "a/b", "a/b/no", "a/b/mine"] {
                sandbox.dir(format!("work/{name}"));
            }
            sandbox.file("work/a/b/mine/file", "mine!");
            sandbox.file(denied, "Secret");
            symlink(target, sandbox.path("work/a/b/link")).unwrap();
            let before = Snapshot::of(sandbox.path(denied));
            race_entries(&sandbox, "a/b/link a/b/mine", "a/b/mine/file", race_tries(50_000) / 2);
            before.unchanged();
        }
    });
}

#[test]
fn a_racing_link_does_not_lead_to_a_denied_file() {
    let _turn = my_turn();
    for_each_user(|user| {
        let sandbox = raced(user, "file", "secret/.env");
        sandbox.file("work/plain/file", "mine!");
        let before = Snapshot::of(sandbox.path("work/secret/.env"));
        race_entries(&sandbox, "link plain/file", "plain/file", race_tries(50_000));
        before.unchanged();
    });
}

/// Has the probe do `attack` while its path flips between a file and one that is denied.
fn race_path(attack: &str) {
    let _turn = my_turn();
    let sandbox = carved(User::Caller).timeout(patience());
    let before = Snapshot::of(sandbox.path("work/secret/.env"));
    let tries = race_tries(100_000);
    let outcome = sandbox.probe(format!("{attack} secret/twin secret/.env {tries}"));
    before.unchanged();
    outcome.succeeds().allowed("allowed");
    assert_eq!(outcome.result("denied"), "failed", "{outcome:#?}");
}

#[test]
fn a_racing_path_does_not_write_a_denied_file() {
    race_path("race-open");
}

#[test]
fn a_racing_path_does_not_change_metadata_of_a_denied_file() {
    race_path("race-chmod");
}

#[test]
fn a_racing_path_does_not_link_a_denied_file() {
    race_path("race-link");
}

#[test]
fn a_racing_path_does_not_move_a_denied_file_away() {
    race_path("race-rename");
}

/// A run has four directories that are granted before they have their place.
#[test]
fn a_directory_of_the_reserve_does_not_get_to_where_something_in_it_is_denied() {
    let _turn = my_turn();
    for_each_user(|user| {
        for _ in 0..race_tries(400) / 4 {
            let sandbox = Sandbox::of(user).allow_write(".");
            let sandbox = sandbox.deny_write("no/such").deny_write("mine/.env");
            let tmp = sandbox.dir("tmp");
            let sandbox = sandbox.env("TMPDIR", tmp);
            sandbox.dir("work/mine");
            symlink(".", sandbox.path("work/one")).unwrap();
            symlink("mine", sandbox.path("work/two")).unwrap();
            let watched = sandbox.path("work/no/such");
            let outcome = sandbox.probe("race-new-directory one two no 8");
            outcome.succeeds();
            assert!(!watched.exists(), "{outcome:#?}");
            assert_eq!(outcome.result("directories"), "2", "{outcome:#?}");
            assert_eq!(
                outcome.result("files"),
                "1",
                "in one of the two it is denied: {outcome:#?}"
            );
            let reports = outcome.reports_of("Filesystem");
            assert!(reports.iter().all(|report| report.to_string().contains("/no/such")));
        }
    });
}

/// Has the probe do `attack`, which counts what it read of the denied file.
fn race_read(attack: &str) -> (Sandbox, Outcome) {
    let sandbox = unreadable(User::Caller).timeout(patience());
    sandbox.file("work/mine", "mine!");
    sandbox.file("work/keys/key", "Secret");
    symlink("keys/key", sandbox.path("work/link")).unwrap();
    let outcome = sandbox.probe(attack);
    assert_eq!(outcome.result("leaked"), "0");
    (sandbox, outcome)
}

#[test]
fn a_racing_path_does_not_show_what_may_not_be_read() {
    let _turn = my_turn();
    let (_, outcome) = race_read(&format!("race-read mine keys/key {}", race_tries(100_000)));
    outcome.succeeds().allowed("allowed");
}

#[test]
fn a_racing_path_leads_from_what_the_broker_opens_to_nothing_that_may_not_be_read() {
    let _turn = my_turn();
    let sandbox = Sandbox::new().allow_write(".").allow_write("~/new").deny_read("~/key");
    let sandbox = sandbox.timeout(patience());
    sandbox.file("home/key", "Secret");
    let (probe, tries) = (programs().probe(), race_tries(100_000));
    let outcome = sandbox.sh(&format!(
        "mkdir ~/new && printf mine! > ~/new/mine && exec {} race-read ~/new/mine ~/key {tries}",
        probe.display()
    ));
    assert_eq!(outcome.result("leaked"), "0");
    outcome.succeeds().allowed("allowed");
}

#[test]
fn a_racing_directory_does_not_show_what_may_not_be_read() {
    let _turn = my_turn();
    // The thread that exchanges them makes as many calls.
    let attack = format!("race-read-entries link mine mine {}", race_tries(50_000));
    let (sandbox, outcome) = race_read(&attack);
    outcome.allowed("exchanged");
    is_one_of_two(&outcome);
    // Outside the other one leads to it.
    let twin = sandbox.probe_outside(attack);
    assert_ne!(twin.result("leaked"), "0", "{twin:#?}");
}

/// From where a process stands a path leads on, whatever that is called by then: others exchange its directory for
/// one in which the same name is denied.
#[test]
fn a_working_directory_that_others_exchange_leads_to_its_own_files_alone() {
    let _turn = my_turn();
    for_each_user(|user| {
        let sandbox =
            Sandbox::of(user).allow_write(".").deny_read("other/file").timeout(patience());
        let [own, other] = ["work/own", "work/other"].map(|name| sandbox.dir(name));
        sandbox.file("work/own/file", "own");
        sandbox.file("work/other/file", "Secret");
        let script = format!(
            "import os, time\n\
             os.chdir('own')\n\
             open('../started', 'w').close()\n\
             seen = {{}}\n\
             for _ in range({}):\n\
             \x20   try: what = open('file').read()\n\
             \x20   except PermissionError: what = 'refused'\n\
             \x20   seen[what] = seen.get(what, 0) + 1\n\
             print('raced', flush=True)\n\
             while not os.path.exists('../../outside/still'): time.sleep(0.01)\n\
             print(open('file').read(), *sorted(seen.keys() - {{'own', 'refused'}}))",
            race_tries(5_000)
        );
        let mut running = sandbox.spawn(["python3", "-c", &script]);
        while running.is_running() && !running.stdout().contains("raced") {
            if sandbox.path("work/started").exists() {
                rename(CWD, &own, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        }
        if sandbox.read("work/own/file") != "own" {
            rename(CWD, &own, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
        sandbox.file("outside/still", "");
        let outcome = running.wait();
        outcome.succeeds();
        assert_eq!(outcome.stdout, "raced\nown\n", "{outcome:#?}");
    });
}

#[test]
fn a_directory_and_a_file_in_it_do_not_become_a_denied_name_together() {
    let _turn = my_turn();
    let sandbox = Sandbox::new().allow_write(".").deny_write("**/no/bad").timeout(patience());
    let outcome = sandbox.probe("race-into-name 1000");
    outcome.succeeds();
    let made = outcome.result("made");
    let moved = outcome.result("moved");
    outcome.allowed("alone");
    let found = named(&sandbox.path("work"), "bad");
    let found: Vec<_> =
        found.iter().filter(|path| path.parent().unwrap().ends_with("no")).collect();
    assert!(found.is_empty(), "{} of 1000, made {made}, moved {moved}", found.len());
}

/// What others have made since the broker looked is not refused.
#[test]
fn making_things_in_directories_that_come_and_go_gives_the_answers_of_outside() {
    let _turn = my_turn();
    for_each_user(|user| {
        let sandbox = carved(user).deny_read("**/*.key").timeout(patience());
        let attack = format!("race-parents {}", race_tries(16_000));
        let inside = sandbox.probe(&attack);
        inside.succeeds();
        for answer in inside.result("answers").split(' ') {
            let (call, answer) = answer.split_once(':').unwrap();
            assert!(matches!(answer, "OK" | "ENOENT" | "EEXIST"), "{call}: {answer}: {inside:#?}");
        }
        for seen in ["mkdir:OK", "mkdir:ENOENT", "deep:OK", "make:OK", "open:OK", "rename:OK"] {
            // Of one place, however the threads were scheduled.
            assert!(inside.result("answers").contains(seen), "{seen} not seen: {inside:#?}");
        }
        assert!(inside.reports.is_empty(), "{inside:#?}");
    });
}

/// A directory beside a denied path is the broker's: what another thread has just made there, Landlock
/// knows nothing of.
#[test]
fn a_directory_that_another_thread_makes_gives_only_the_answers_of_outside() {
    let _turn = my_turn();
    for_each_user(|user| {
        let sandbox = carved(user).timeout(patience());
        let script = format!("race-made secret {}", race_tries(5_000));
        for outcome in [sandbox.probe(&script), sandbox.probe_outside(&script)] {
            outcome.succeeds().allowed("afterwards");
            assert_eq!(outcome.result("strange"), "0", "{outcome:#?}");
        }
        // What is denied stays so.
        sandbox.probe("file write secret/.env").all_refused();
    });
}
