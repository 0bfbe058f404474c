//! Limits held by a control group of the run's own, where one can be made: in a group that its user was given, as a
//! service manager delegates one. Skipped, loudly, where the kernel has no controllers for such groups (cgroups(7)), as in
//! most containers and where the older kind is mounted; tests/machines/matrix has kernels with them.

use crate::limits::{goes_over, limited};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tests::{ESCAPED, Outcome, Running, Sandbox, User, eventually, for_each_user, skipped};

/// How a shell starts a command line: it becomes that, or stays beside.
const ALONE: &str = "exec \"$@\"";
const BESIDE: &str = "\"$@\"; exit $?";

/// A group of a user's, in which nothing is at first.
struct Given {
    path: PathBuf,
    name: String,
}

impl Given {
    /// None where none can be made.
    fn to(user: User) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let has = |name: &str| controllers.split_whitespace().any(|it| it == name);
        if !(has("memory") && has("pids")) {
            skipped("no controllers in /sys/fs/cgroup");
            return None;
        }
        if fs::write(root.join("cgroup.subtree_control"), "+memory +pids").is_err() {
            skipped("a control group needs root");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("given-{}-{number}", std::process::id());
        let path = root.join(&name);
        fs::create_dir(&path).unwrap();
        for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            chown(path.join(file), Some(user.uid()), Some(user.uid())).unwrap();
        }
        Some(Self { path, name })
    }

    /// Starts a command line in it, which `end` has a shell do there.
    fn start(&self, sandbox: &Sandbox, end: &str, words: &[&str]) -> Running {
        let wait = "until grep -q \"$0\" /proc/self/cgroup; do sleep 0.01; done";
        let mut all: Vec<_> = ["sh", "-c"].map(Into::into).to_vec();
        all.extend([format!("{wait}; {end}").into(), self.name.clone().into()]);
        all.extend(sandbox.command_line());
        all.extend(words.iter().map(Into::into));
        let running = sandbox.spawn_outside(all);
        fs::write(self.path.join("cgroup.procs"), running.pid().to_string()).unwrap();
        running
    }

    /// Runs a command under landstrip, which is alone in it.
    fn run(&self, sandbox: &Sandbox, words: &[&str]) -> Outcome {
        self.start(sandbox, ALONE, &[&["--"], words].concat()).wait()
    }

    fn groups(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    }

    /// Asserts that no run has left anything here.
    #[track_caller]
    fn is_as_it_was(&self) {
        assert_eq!(self.groups(), [] as [PathBuf; 0]);
        let read = |name: &str| fs::read_to_string(self.path.join(name)).unwrap();
        assert_eq!(read("cgroup.procs"), "", "{ESCAPED}");
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let gone = || fs::remove_dir(&self.path).is_ok();
        assert!(std::thread::panicking() || eventually(gone), "{:?}", self.groups());
    }
}

/// Waits for the file `go`, then forks in each of its processes without end.
const BOMB: &str = "
import os, time
print('begun', flush=True)
while not os.path.exists('go'):
    time.sleep(0.01)
while True:
    try:
        os.fork()
    except OSError:
        pass
";

#[test]
fn a_fork_bomb_never_has_more_processes_than_it_may() {
    for_each_user(|user| {
        let Some(given) = Given::to(user) else { return };
        let sandbox = limited(user, r#""processes": 20"#);
        let mut running = given.start(&sandbox, ALONE, &["--", "python3", "-c", BOMB]);
        running.expect("begun");
        let own = given.groups().into_iter().find(|it| !it.to_str().unwrap().ends_with("-own"));
        let peak = own.unwrap().join("pids.peak");
        sandbox.file("work/go", "");
        let mut most = 0;
        while let Ok(text) = fs::read_to_string(&peak) {
            most = text.trim().parse().unwrap();
        }
        assert!((1..=20).contains(&most), "{ESCAPED}{most} processes");
        goes_over(&running.wait(), "limits.processes");
        given.is_as_it_was();
        let few = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 0.1 & done; wait; cat /proc/self/cgroup";
        let outcome = given.run(&sandbox, &["sh", "-c", few]);
        outcome.succeeds();
        assert!(
            outcome.stdout.contains(&format!("/{}/landstrip-run-", given.name)),
            "{outcome:#?}"
        );
        given.is_as_it_was();
    });
}

/// What lies in shared memory is no process's: only a group counts it.
#[test]
fn memory_of_all_kinds_is_held() {
    for_each_user(|user| {
        let Some(given) = Given::to(user) else { return };
        let sandbox = limited(user, r#""memory": "60MiB""#);
        let hog = "taken = [bytearray(1 << 20) for _ in range(200)]";
        goes_over(&given.run(&sandbox, &["python3", "-c", hog]), "limits.memory");
        let fill = |size: &str| {
            ["sh".to_owned(), "-c".to_owned(), format!("head -c {size} /dev/zero > /dev/shm/file")]
        };
        let run = |size: &str| given.run(&sandbox, &fill(size).each_ref().map(String::as_str));
        goes_over(&run("200M"), "limits.memory");
        given.is_as_it_was();
        run("20M").succeeds();
        let few = "taken = [bytearray(1 << 20) for _ in range(20)]";
        given.run(&sandbox, &["python3", "-c", few]).succeeds();
        // Watched, it passes.
        let filled = fill("200M");
        let [sh, option, script] = filled.each_ref().map(String::as_str);
        given.start(&sandbox, BESIDE, &["--", sh, option, script]).wait().succeeds();
        given.is_as_it_was();
    });
}

#[test]
fn the_command_neither_leaves_its_control_group_nor_raises_a_limit() {
    for_each_user(|user| {
        let Some(given) = Given::to(user) else { return };
        let limits = r#""limits": {"memory": "300MiB", "processes": 50}"#;
        let all = format!(r#"{{"filesystem": {{"allowWrite": ["/"]}}, {limits}}}"#);
        let sandbox = Sandbox::of(user).policy_json(all);
        let script = "own=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)
            for there in $own $own/.. /sys/fs/cgroup; do
                echo $$ > $there/cgroup.procs; echo max > $there/pids.max; echo max > $there/memory.max
                echo -pids > $there/cgroup.subtree_control; mkdir $there/new; rmdir $there/*; mv $own $there/moved
            done 2> /dev/null
            echo x > made
            cat $own/pids.max $own/memory.max; sed -n s/^0:://p /proc/self/cgroup; echo ${own##*/}";
        let outcome = given.run(&sandbox, &["sh", "-c", script]);
        let lines: Vec<_> = outcome.succeeds().stdout.lines().collect();
        let path = format!("/{}/{}", given.name, lines[3]);
        assert_eq!(lines[..3], ["50", "314572800", &*path], "{ESCAPED}{outcome:#?}");
        assert_eq!(sandbox.read("work/made"), "x\n");
        given.is_as_it_was();
        // Outside its user may do that.
        let group = given.path.display();
        let free = format!(
            "mkdir {group}/new && echo -pids > {group}/cgroup.subtree_control && rmdir {group}/new"
        );
        sandbox.sh_outside(&free).succeeds();
        // Who may write there by the policy could raise the limit: then it is watched.
        let named = format!(r#"{{"filesystem": {{"allowWrite": ["{group}"]}}, {limits}}}"#);
        let sandbox = Sandbox::of(user).policy_json(named);
        assert_eq!(held(&given, &sandbox, ALONE), [false, false]);
        goes_over(
            &given.run(&sandbox, &["python3", "-c", &BOMB.replace("not os", "os")]),
            "limits.processes",
        );
        given.is_as_it_was();
    });
}

/// Whether `--check` says that memory and processes are held.
fn held(given: &Given, sandbox: &Sandbox, end: &str) -> [bool; 2] {
    let outcome = given.start(sandbox, end, &["--check"]).wait();
    outcome.succeeds();
    ["memory", "processes"].map(|limit| {
        let said = |how: &str| outcome.stdout.contains(&format!("limits.{limit} is {how}"));
        let is_held = said("held by a control group");
        assert!(is_held != said("watched"), "{outcome:#?}");
        is_held
    })
}

#[test]
fn where_others_are_in_the_group_limits_are_watched() {
    for_each_user(|user| {
        let Some(given) = Given::to(user) else { return };
        let sandbox = limited(user, r#""memory": "60MiB", "processes": 50"#);
        assert_eq!(held(&given, &sandbox, ALONE), [true, true]);
        assert_eq!(held(&given, &sandbox, BESIDE), [false, false]);
        let hog = "taken = [bytearray(1 << 20) for _ in range(200)]; import signal; signal.pause()";
        let outcome = given.start(&sandbox, BESIDE, &["--", "python3", "-c", hog]).wait();
        goes_over(&outcome, "limits.memory");
        given.is_as_it_was();
        // Nobody's but root's.
        if user != User::Caller {
            fs::remove_dir(&given.path).unwrap();
            fs::create_dir(&given.path).unwrap();
            assert_eq!(held(&given, &sandbox, ALONE), [false, false]);
            given.run(&sandbox, &["true"]).succeeds();
        }
    });
}

#[test]
fn what_a_killed_landstrip_left_the_next_removes() {
    for_each_user(|user| {
        let Some(given) = Given::to(user) else { return };
        let sandbox = limited(user, r#""processes": 50"#);
        let words = ["--", "sh", "-c", "echo begun; exec sleep 600"];
        let mut killed = given.start(&sandbox, ALONE, &words);
        killed.expect("begun");
        let groups = given.groups();
        assert_eq!(groups.len(), 2);
        killed.signal(nix::sys::signal::Signal::SIGKILL);
        killed.wait();
        let procs = |group: &PathBuf| fs::read_to_string(group.join("cgroup.procs")).unwrap();
        let is_empty = || groups.iter().all(|group| procs(group).is_empty());
        assert!(eventually(is_empty), "{ESCAPED}{groups:?}");
        assert_eq!(given.groups(), groups);
        given.run(&sandbox, &["true"]).succeeds();
        given.is_as_it_was();
    });
}
