//! Limits of a run: who goes over one ends with a line that names it, and leaves nothing behind.

use tests::{Outcome, Sandbox, User, for_each_user};

/// A sandbox with these limits, in JSON.
pub(crate) fn limited(user: User, limits: &str) -> Sandbox {
    let policy = format!(r#"{{"filesystem": {{"allowWrite": ["."]}}, "limits": {{{limits}}}}}"#);
    Sandbox::of(user).policy_json(policy)
}

/// Asserts that the run was ended for `limit`, and that landstrip says nothing else.
#[track_caller]
pub(crate) fn goes_over(outcome: &Outcome, limit: &str) {
    outcome.exits(125);
    let [report] = &outcome.reports[..] else { panic!("one report: {outcome:#?}") };
    let said = ["source", "limit"].map(|key| report["Internal"][key].as_str());
    assert_eq!(said, [Some("limits"), Some(limit)], "{outcome:#?}");
}

/// Forks without end; each child writes a byte into the file `born`.
const BOMB: &str = "
import os
born = os.open('born', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    try:
        if os.fork() == 0:
            os.write(born, b'x')
    except OSError:
        pass
";

#[test]
fn a_fork_bomb_ends_the_run() {
    for_each_user(|user| {
        let sandbox = limited(user, r#""processes": 20"#);
        goes_over(&sandbox.run(["python3", "-c", BOMB]), "limits.processes");
        let born = sandbox.read("work/born").len();
        // Forks that were under way together when processes were counted.
        assert!(born < 200, "{born} processes");
    });
}

#[test]
fn processes_may_come_and_go_below_the_limit() {
    for_each_user(|user| {
        let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/true; done; \
                      (sleep 0 & sleep 0 & wait) | cat; echo done";
        let outcome = limited(user, r#""processes": 8"#).sh(script);
        outcome.succeeds();
        assert_eq!(outcome.stdout, "done\n");
    });
}

#[test]
fn threads_count_as_processes() {
    for_each_user(|user| {
        let threads = "
import sys, threading
gone = threading.Event()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=gone.wait, args=[int(sys.argv[2])], daemon=True).start()
gone.wait(int(sys.argv[2]))
";
        let sandbox = limited(user, r#""processes": 20"#);
        goes_over(&sandbox.run(["python3", "-c", threads, "40", "600"]), "limits.processes");
        sandbox.run(["python3", "-c", threads, "10", "0"]).succeeds();
    });
}

/// Takes $1 MiB, and keeps them until it is killed, or gives them back if there is a $2.
const HOG: &str = "
import signal, sys
taken = [bytearray(1 << 20) for _ in range(int(sys.argv[1]))]
if len(sys.argv) < 3:
    signal.pause()
";

/// Children signal this process and children of their own: one in a Landlock domain that scopes signals, one with a
/// filter, and, of root's, one that has another user.
const SIGNALS: &str = "
import ctypes, os, signal, struct, time
libc, got, me = ctypes.CDLL(None), [], os.getpid()
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
def send(name, call, *words):
    try: call(*words); print(name, 'sent', flush=True)
    except OSError as error: print(name, error.errno, flush=True)
def of_child(name, become):
    child = os.fork()
    if child == 0:
        become()
        send(name, os.kill, me, signal.SIGUSR1)
        send(name + ' by handle', signal.pidfd_send_signal, os.pidfd_open(me), signal.SIGUSR1)
        own = os.fork()
        if own == 0: time.sleep(9); os._exit(0)
        send(name + ' to its group', os.killpg, os.getpgid(own), 0)
        send(name + ' to its own', os.kill, own, signal.SIGTERM)
        print(os.waitpid(own, 0)[1], flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(name, 'got', bool(got), flush=True)
    got.clear()
def scope():
    libc.prctl(38, 1, 0, 0, 0)
    ruleset = libc.syscall(444, struct.pack('QQQ', 0, 0, 2), ctypes.c_size_t(24), 0)
    if libc.syscall(446, ruleset, 0) != 0: os._exit(0)
def filter():
    allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
    libc.prctl(38, 1, 0, 0, 0)
    assert libc.prctl(22, 2, struct.pack('HP', 1, ctypes.addressof(allow)), 0, 0) == 0
def change_user(): os.setgroups([]); os.setresgid(*[65534] * 3); os.setresuid(*[65534] * 3)
of_child('domain', scope)
of_child('filter', filter)
if os.getuid() == 0: of_child('user', change_user)
";

#[test]
fn the_limit_changes_nothing_about_signals() {
    for_each_user(|user| {
        let limits = r#""limits": {"processes": 100}"#;
        for network in ["false", "true"] {
            let policy = format!(r#"{{"network": {{"allowNetwork": {network}}}, {limits}}}"#);
            let sandbox = Sandbox::of(user).policy_json(policy);
            let inside = sandbox.run(["setsid", "-w", "python3", "-c", SIGNALS]);
            let outside = sandbox.run_outside(["setsid", "-w", "python3", "-c", SIGNALS]);
            assert!(outside.succeeds().stdout.contains("filter got True"), "{outside:#?}");
            assert_eq!(inside.succeeds().stdout, outside.stdout, "{inside:#?}");
        }
    });
}

#[test]
fn a_memory_hog_ends_the_run() {
    for_each_user(|user| {
        let sandbox = limited(user, r#""memory": "100MiB""#);
        goes_over(&sandbox.run(["python3", "-c", HOG, "400"]), "limits.memory");
        sandbox.run(["python3", "-c", HOG, "40", "done"]).succeeds();
    });
}

#[test]
fn processes_share_one_limit_of_memory() {
    for_each_user(|user| {
        let sandbox = limited(user, r#""memory": 200000000"#);
        let several = format!("for i in 1 2 3 4 5; do python3 -c '{HOG}' 60 & done; wait");
        goes_over(&sandbox.sh(&several), "limits.memory");
    });
}

#[test]
fn memory_that_forked_processes_share_counts_once() {
    for_each_user(|user| {
        let shared = "
import os, time
taken = bytearray(60 << 20)
children = [os.fork() for _ in range(5)]
# For some looks: none may end the run.
time.sleep(0.5)
if all(children):
    for _ in children:
        os.wait()
    print('done')
else:
    os._exit(0)
";
        let outcome = limited(user, r#""memory": "250MiB""#).run(["python3", "-c", shared]);
        outcome.succeeds();
        assert_eq!(outcome.stdout, "done\n");
    });
}

#[test]
fn processor_time_of_all_counts() {
    for_each_user(|user| {
        let sandbox = limited(user, r#""cpuSeconds": 1"#);
        let busy = "while :; do :; done & while :; do :; done";
        goes_over(&sandbox.sh(busy), "limits.cpuSeconds");
        // Of those that have ended, too.
        let brief = "while :; do python3 -c 'sum(range(100000))'; done";
        goes_over(&sandbox.sh(brief), "limits.cpuSeconds");
        sandbox.sh("sleep 0").succeeds();
    });
}

#[test]
fn time_runs_while_the_command_sleeps() {
    for_each_user(|user| {
        let sandbox = limited(user, r#""wallSeconds": 1"#);
        goes_over(&sandbox.run(["sleep", "600"]), "limits.wallSeconds");
        let sandbox = limited(user, r#""wallSeconds": 600"#);
        sandbox.run(["true"]).succeeds();
    });
}

#[test]
fn a_file_is_made_no_longer_than_allowed() {
    for_each_user(|user| {
        let sandbox = limited(user, r#""fileSize": "1MiB""#);
        goes_over(&sandbox.sh("head -c 2000000 /dev/zero > long"), "limits.fileSize");
        assert_eq!(sandbox.read("work/long").len(), 1 << 20);
        goes_over(&sandbox.sh("truncate -s 2000000 sparse; exit $?"), "limits.fileSize");
        sandbox.sh("head -c 1000000 /dev/zero > short").succeeds();
        assert_eq!(sandbox.read("work/short").len(), 1_000_000);
        // The limit cannot be raised.
        let raised = sandbox.sh("ulimit -f unlimited; head -c 2000000 /dev/zero > other");
        assert_ne!(raised.status, Some(0), "{raised:#?}");
        assert!(sandbox.read("work/other").len() <= 1 << 20);
    });
}

#[test]
fn what_was_refused_before_is_told_as_well() {
    for_each_user(|user| {
        let sandbox = limited(user, r#""wallSeconds": 1"#).trap();
        let denied = sandbox.name("outside/file");
        let outcome = sandbox.sh(&format!("echo x > {denied}; sleep 600"));
        outcome.exits(125);
        let kinds =
            |kind: &str| outcome.traps.iter().chain(&outcome.endings).any(|t| !t[kind].is_null());
        assert!(kinds("Filesystem") && kinds("Internal"), "{outcome:#?}");
        let exit = outcome.endings.iter().find_map(|line| line.get("Exit")).unwrap();
        assert_eq!(*exit, serde_json::json!(["landstrip", "125"]));
    });
}

#[test]
fn check_and_explain_say_what_is_limited_and_how() {
    let limits = r#""memory": "1GiB", "cpuSeconds": 5, "fileSize": 1000"#;
    let sandbox = limited(User::Caller, limits);
    sandbox.run(["true"]).succeeds();
    let policy = sandbox.name("policy.json");
    let check = sandbox.landstrip(["-p", &policy, "--check"]);
    assert!(check.stdout.contains("limits.memory is "), "{check:#?}");
    let held = ["a control group would count", "is held by a control group"];
    assert!(held.iter().any(|text| check.stdout.contains(text)), "{check:#?}");
    assert!(check.stdout.contains("limits.cpuSeconds is "), "{check:#?}");
    let explain = sandbox.landstrip(["-p", &policy, "--explain"]).stdout;
    for text in ["1 GiB, then the run ends", "5 s, then", "1000 bytes, then"] {
        assert!(explain.contains(text), "{text} in {explain}");
    }
}

#[test]
fn of_several_policies_the_last_limit_counts() {
    let sandbox = Sandbox::new();
    let wide = sandbox.file("wide.json", r#"{"limits": {"wallSeconds": 600, "fileSize": 10}}"#);
    let narrow = sandbox.file("narrow.yaml", "limits:\n  fileSize: 1GiB\n");
    let words = ["-p", wide.to_str().unwrap(), "-p", narrow.to_str().unwrap(), "--explain"];
    let explain = sandbox.landstrip(words).stdout;
    assert!(explain.contains("600 s, then") && explain.contains("1 GiB, then"), "{explain}");
}
