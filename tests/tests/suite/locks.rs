//! Locks on files (flock(2)): nobody outside is held up by a lock on what the command may only read, and its own files it
//! locks as outside.

use nix::sys::signal::Signal;
use std::path::Path;
use tests::{Outcome, Running, Sandbox, User, for_each_user};

/// Policies under which the broker opens nothing, and what may be written.
fn layouts(user: User) -> [Sandbox; 2] {
    let sandbox = || Sandbox::of(user).allow_write(".").deny_write("denied");
    [sandbox().deny_write("**/kept"), sandbox().deny_read("**/secret")].map(|sandbox| {
        for name in ["outside/file", "work/denied", "work/own"] {
            sandbox.file(name, "");
        }
        sandbox.dir("outside/dir");
        sandbox
    })
}

/// Opens each path for reading and locks it, to share (`s`) and then alone (`x`), says what became of it, and goes on.
const HOLD: &str = r#"
import errno, fcntl, os, sys, time
held = []
for path in sys.argv[1:]:
    for letter, kind in ("s", fcntl.LOCK_SH), ("x", fcntl.LOCK_EX):
        file = os.open(path, os.O_RDONLY); held.append(file)
        try: fcntl.flock(file, kind | fcntl.LOCK_NB); said = "OK"
        except OSError as error: said = errno.errorcode[error.errno]
        print(letter, os.path.basename(os.path.normpath(path)), said)
        if letter == "s": fcntl.flock(file, fcntl.LOCK_UN)
        if letter == "s" and len(sys.argv) == 2: fcntl.flock(file, fcntl.LOCK_SH)
print("ready", flush=True)
while not os.path.exists("../outside/go"): time.sleep(0.01)
"#;

/// The command that holds locks on `paths`, once it has them.
fn holding(sandbox: &Sandbox, paths: &[&str]) -> Running {
    let words = ["python3", "-c", HOLD].iter().chain(paths);
    let mut running = sandbox.spawn(words.copied());
    running.expect("ready\n");
    running
}

/// Whether somebody outside locks `path` at once, for itself.
fn is_free(sandbox: &Sandbox, path: &str) -> bool {
    let outcome = sandbox.run_outside(["flock", "-n", "-E", "9", path, "true"]);
    assert!([Some(0), Some(9)].contains(&outcome.status), "{outcome:#?}");
    outcome.status == Some(0)
}

#[test]
fn what_may_only_be_read_is_not_locked_against_others() {
    for_each_user(|user| {
        for sandbox in layouts(user) {
            let [file, dir] = ["outside/file", "outside/dir"].map(|name| sandbox.name(name));
            let mine = ["own", "."];
            let running = holding(&sandbox, &[&file, &dir, "denied", mine[0], mine[1]]);
            for path in [&*file, &dir, "denied"] {
                assert!(is_free(&sandbox, path), "{path}");
            }
            for path in mine {
                assert!(!is_free(&sandbox, path), "{path}");
            }
            let outcome = sandbox.resume(running);
            let expected = "s file OK\nx file EACCES\ns dir OK\nx dir EACCES\ns denied OK\nx denied EACCES\n\
                s own OK\nx own OK\ns work OK\nx work OK\nready\n";
            let said = outcome.succeeds().stdout.replace(" .\n", " work\n");
            assert_eq!(said.replace("s . ", "s work ").replace("x . ", "x work "), expected);
            assert!(mine.iter().all(|path| is_free(&sandbox, path)));
            // What was refused is told as what it lacks: the right to write.
            let outcome = sandbox.run(["flock", "-n", &file, "true"]);
            outcome.fails();
            assert!(
                outcome.stderr.contains(&format!(r#"["write","{file}","seccomp"]"#)),
                "{outcome:#?}"
            );
        }
    });
}

#[test]
fn a_lock_that_is_only_shared_holds_up_nobody_outside() {
    for_each_user(|user| {
        for (path, is_callers) in [("outside/file", true), ("work/own", false)] {
            let [sandbox, _] = layouts(user);
            let path = sandbox.name(path);
            let running = holding(&sandbox, &[&path]);
            assert_eq!(is_free(&sandbox, &path), is_callers, "{path}");
            sandbox.resume(running).succeeds();
        }
    });
}

/// A lock that somebody outside has until a line is written for it.
fn held_outside(sandbox: &Sandbox, path: &str) -> Running {
    let script = format!(
        "flock {path} sh -c 'echo ready; until [ -e ../outside/free ]; do sleep 0.01; done'"
    );
    let mut running = sandbox.spawn_outside(["sh", "-c", &script]);
    running.expect("ready\n");
    running
}

#[test]
fn a_lock_of_its_own_waits_is_given_up_and_given_back_as_outside() {
    for_each_user(|user| {
        for sandbox in layouts(user) {
            let outside = held_outside(&sandbox, "own");
            let both = |words: &[&str]| -> [Outcome; 2] {
                [sandbox.run(words.iter().copied()), sandbox.run_outside(words.iter().copied())]
            };
            // At once; after a time, by a signal that is handled; by one that kills.
            for words in [
                &["flock", "-n", "own", "true"][..],
                &["flock", "-w", "0.1", "own", "true"],
                &["timeout", "-s", "KILL", "0.1", "flock", "own", "true"],
                &["flock", "-n", "-s", "own", "true"],
            ] {
                let [inside, without] = both(words);
                let without = without.status.or(without.signal.map(|signal| 128 + signal));
                assert_eq!(inside.status, without, "{words:?}: {inside:#?}");
                assert_ne!(inside.status, Some(0), "{words:?}");
            }
            // Others do not wait for one that waits.
            let script = "flock own echo got & for i in 1 2 3; do flock other true; touch made; rm made; done; \
                echo waits; wait";
            let mut waiting = sandbox.spawn(["sh", "-c", script]);
            waiting.expect("waits\n");
            assert_eq!(waiting.stdout(), "waits\n");
            sandbox.file("outside/free", "");
            outside.wait().succeeds();
            assert_eq!(waiting.wait().succeeds().stdout, "waits\ngot\n");
            // It is the open file's: a child shares it, and it ends with the last descriptor.
            let script = "exec 5< own; flock 5; sleep 1000 & exec 5<&-; echo ready; read line; kill $!; wait $!; \
                echo ready; until [ -e ../outside/go ]; do sleep 0.01; done";
            let pipe = "mkfifo pipe; exec 0<> pipe; ";
            let mut running = sandbox.spawn(["sh", "-c", &format!("{pipe}{script}")]);
            running.expect("ready\n");
            assert!(!is_free(&sandbox, "own"));
            sandbox.sh_outside("echo > pipe").succeeds();
            running.expect("ready\nready\n");
            assert!(is_free(&sandbox, "own"));
            sandbox.resume(running).succeeds();
        }
    });
}

/// Has a thread lock whatever a number leads to, which others lead here and there.
const SWAP: &str = r#"
import fcntl, os, sys, threading
number = os.open("own", os.O_RDWR)
files = [os.open("own", os.O_RDWR), os.open(sys.argv[1], os.O_RDONLY)]
taken = refused = 0; done = False
def swap():
    while not done:
        for file in files: os.dup2(file, number)
swapping = threading.Thread(target=swap); swapping.start()
for kind in (fcntl.LOCK_EX, fcntl.LOCK_SH) * 3000:
    try: fcntl.flock(number, kind | fcntl.LOCK_NB); taken += 1
    except OSError: refused += 1
done = True; swapping.join()
print("ready", taken > 0, refused > 0, flush=True)
"#;

/// Locks the file again and again until it is told to end, and says whether it ever had to wait.
const WATCH: &str = r#"
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDONLY); waits = 0
print("ready", flush=True)
while not os.path.exists("../outside/free"):
    try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError: waits += 1
print("waits", waits)
"#;

#[test]
fn no_number_that_is_led_elsewhere_locks_what_may_only_be_read() {
    for_each_user(|user| {
        let [sandbox, _] = layouts(user);
        let file = sandbox.name("outside/file");
        let mut watching = sandbox.spawn_outside(["python3", "-c", WATCH, &file]);
        watching.expect("ready\n");
        let outcome = sandbox.run(["python3", "-c", SWAP, &file]);
        assert_eq!(outcome.succeeds().stdout, "ready True True\n", "{outcome:#?}");
        sandbox.file("outside/free", "");
        assert_eq!(watching.wait().succeeds().stdout, "ready\nwaits 0\n");
    });
}

#[test]
fn what_a_killed_run_left_is_removed_whatever_others_lock() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).without_policy();
        let tmp = sandbox.dir("tmp");
        let sandbox = sandbox.env("TMPDIR", tmp);
        let mut killed = sandbox.spawn(["sh", "-c", "echo $TMPDIR; exec sleep 1000"]);
        killed.expect("\n");
        let stale = killed.stdout().trim().to_owned();
        let mut going_on = sandbox.spawn(["sh", "-c", "echo $TMPDIR; exec sleep 1000"]);
        going_on.expect("\n");
        let in_use = going_on.stdout().trim().to_owned();
        // Who waits for a lock has it when that is free.
        let wait = "import fcntl, os, sys, time; file = os.open(sys.argv[1], os.O_RDONLY); print('ready', flush=True); \
            fcntl.flock(file, fcntl.LOCK_SH)\nwhile not os.path.exists('../outside/go'): time.sleep(0.01)";
        let mut locking = sandbox.spawn(["python3", "-c", wait, &stale]);
        locking.expect("ready\n");
        killed.signal(Signal::SIGKILL);
        assert_eq!(killed.wait().signal, Some(9));
        let until_gone = format!(
            "n=0; while [ -e {stale} ] && [ $n -lt 3000 ]; do n=$((n + 1)); sleep 0.02; done"
        );
        sandbox.sh(&until_gone).succeeds();
        assert!(!Path::new(&stale).exists(), "{stale}");
        assert!(Path::new(&in_use).exists(), "{in_use}");
        sandbox.resume(locking).succeeds();
        going_on.signal(Signal::SIGTERM);
        going_on.wait().exits(143);
    });
}
