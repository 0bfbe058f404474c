//! Shared memory of the command's own: System V objects that it makes can be used, those of others are
//! neither seen nor reached, and what is left is removed at the end.

use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
fn calls_on_own_objects_return_what_they_do_outside() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.file("work/calls.py", include_str!("system_v.py"));
        let inside = sandbox.run(["python3", "calls.py"]);
        let outside = sandbox.run_outside(["python3", "calls.py"]);
        assert_eq!(outside.succeeds().stdout, inside.succeeds().stdout, "{inside:#?}");
    });
}

#[test]
fn own_semaphores_and_queues_are_not_the_system_s() {
    let sandbox = Sandbox::new();
    let mut running = sandbox.spawn(Sandbox::probe_words("ipc-own + ids + sleep 30000"));
    running.expect("ppid=");
    for (kind, is_the_system_s) in [("shm", true), ("sem", false), ("msg", false)] {
        let prefix = format!("{kind}-id=");
        let told = running.stdout();
        let ids = told.lines().filter_map(|line| line.strip_prefix(&prefix));
        let ids: BTreeSet<_> = ids.map(str::to_owned).collect();
        assert_eq!(ids.len(), 2);
        let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap();
        let found = table.lines().filter_map(|row| row.split_ascii_whitespace().nth(1));
        let found = found.filter(|id| ids.contains(*id)).count();
        assert_eq!(found, if is_the_system_s { 2 } else { 0 }, "{kind}: {ids:?}: {table}");
    }
    running.signal(Signal::SIGTERM);
    running.wait();
}

#[test]
fn nothing_is_left_of_a_run_whose_broker_was_killed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut running = sandbox.spawn(Sandbox::probe_words("ipc-own + ids + sleep 30000"));
        running.expect("ppid=");
        running.signal(Signal::SIGKILL);
        are_gone(&sandbox, &running.wait());
    });
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
fn segments_that_linger_without_permissions_count() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let outcome = sandbox.probe("ipc-linger-many 1200");
        assert_eq!(outcome.result("error"), "ENOSPC", "{outcome:#?}");
        assert_eq!(outcome.result("made"), "1024");
        for outcome in
            [sandbox.probe("ipc-linger-many 10"), sandbox.probe_outside("ipc-linger-many 10")]
        {
            assert_eq!(outcome.result("error"), "none", "{outcome:#?}");
        }
    });
}

#[test]
fn an_id_that_was_given_up_never_leads_to_an_object_of_others() {
    let tries = race_tries(20_000);
    for_each_user(|user| {
        for kind in KINDS {
            let sandbox = Sandbox::of(user).timeout(Duration::from_secs(120));
            let attack = format!("ipc-race {kind} {tries}");
            let mut running = sandbox.spawn(Sandbox::probe_words(&attack));
            let mut churned = 0;
            while !running.stdout().contains("secrets=") {
                let outside = sandbox.probe_outside(format!("ipc-churn {kind} 200"));
                churned += outside.result("churned").parse::<u64>().expect("a number");
            }
            running.expect("secrets=");
            let outcome = running.wait();
            println!("{kind}: churned {churned}: {}", outcome.stdout);
            assert_eq!(outcome.result("secrets"), "0", "{outcome:#?}");
            assert_ne!(outcome.result("used"), "0", "own ones are used: {outcome:#?}");
        }
    });
}

/// A file in /dev/shm that everyone may use.
struct Object(PathBuf);

impl Object {
    fn new(name: &str) -> Self {
        let path = Path::new("/dev/shm").join(format!("{name}-{}", std::process::id()));
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        Self(path)
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The policies that differ in who decides about files.
fn policies(user: User) -> [Sandbox; 6] {
    [
        Sandbox::of(user),
        Sandbox::of(user).allow_write("."),
        Sandbox::of(user).allow_write(".").deny_write("denied"),
        Sandbox::of(user).allow_write(".").deny_read("denied"),
        Sandbox::of(user).allow_write(".").deny_read("**/.env"),
        Sandbox::of(user).deny_read("/dev"),
    ]
}

/// What runs have left in /dev/shm whose processes are gone.
fn left_by(outcome: &Outcome) -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().path());
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        let rest = name.strip_prefix(&format!("probe-{}", outcome.result("pid")));
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    entries.filter(is_left).collect()
}

#[test]
fn own_objects_in_dev_shm_work_under_every_policy() {
    for_each_user(|user| {
        for sandbox in policies(user) {
            let inside = sandbox.probe("ids + shm-own");
            assert_eq!(left_by(&inside), [""; 0].map(PathBuf::from), "{inside:#?}");
            let outside = sandbox.probe_outside("ids + shm-own");
            left_by(&outside).into_iter().for_each(|path| fs::remove_file(path).unwrap());
            for outcome in [&inside, &outside] {
                assert_eq!(outcome.result("twice"), "EEXIST", "{outcome:#?}");
                assert_eq!(outcome.result("gone"), "ENOENT", "{outcome:#?}");
                for (name, result) in outcome.succeeds().results() {
                    let is_told = ["pid", "ppid", "twice", "gone"].contains(&name);
                    assert!(is_told || result == "OK", "{name}={result}: {outcome:#?}");
                }
            }
        }
    });
}

#[test]
fn objects_of_others_in_dev_shm_are_not_reached() {
    for_each_user(|user| {
        for sandbox in policies(user) {
            let object = Object::new("foreign");
            let attack = format!("shm-foreign {}", object.0.display());
            let inside = sandbox.probe(&attack);
            assert!(inside.succeeds().results().count() > 10, "{inside:#?}");
            for (name, result) in inside.results() {
                let is_refused = ["ENOENT", "EACCES", "EXDEV"].contains(&result);
                assert!(is_refused, "{name}={result}: {inside:#?}");
            }
            assert_eq!(object.text(), "secret");
            let outside = sandbox.probe_outside(&attack);
            for name in ["read", "shm-read", "write", "shm-write", "around-read", "cut"] {
                outside.allowed(name);
            }
            let _ = fs::remove_file(format!("{}-beside", object.0.display()));
        }
    });
}

#[test]
fn a_name_that_others_have_can_be_made() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let object = Object::new("taken");
        let path = object.0.display();
        let script = format!(
            "import os
f = os.open('{path}', os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC)
os.write(f, b'mine')
print(os.pread(os.open('{path}', os.O_RDWR), 9, 0))"
        );
        let outcome = sandbox.run(["python3", "-c", &script]);
        assert_eq!(outcome.succeeds().stdout, "b'mine'\n");
        assert_eq!(object.text(), "secret");
    });
}

#[test]
fn dev_shm_that_the_policy_names_is_everyone_s() {
    for_each_user(|user| {
        let object = Object::new("named");
        let path = object.0.to_str().unwrap();
        let read = Sandbox::of(user).allow_read("/dev/shm");
        assert_eq!(read.run(["cat", path]).succeeds().stdout, "secret");
        read.sh(&format!("echo changed > {path}")).fails();
        let write = Sandbox::of(user).allow_write("/dev/shm");
        write.sh(&format!("echo changed > {path} && cat {path}")).succeeds();
        assert_eq!(object.text(), "changed\n");
    });
}

#[test]
fn shared_memory_of_another_run_is_not_changed_where_the_policy_names_dev_shm() {
    for_each_user(|user| {
        let own = Sandbox::of(user).allow_write(".");
        let name = format!("beside-{}", std::process::id());
        let script = format!(
            "echo mine > /dev/shm/{name} && echo made && until [ -e go ]; do sleep 0.01; done; \
            cat 0<>/dev/shm/{name}; echo more >> /dev/shm/{name} && echo still"
        );
        let mut running = own.spawn(["sh", "-c", &script]);
        running.expect("made\n");
        let attack = format!(
            "for of in /dev/shm/landstrip-*; do for in in $of $of/objects; do [ -e $in/{name} ] || continue; \
            echo found; echo x > $in/{name}; rm -f $in/{name}; mv $in/{name} $in/other; touch $in/new; \
            mkdir $in/d; chmod 777 $of $in/{name}; mv $of $of-moved; ln $in/{name} /dev/shm/{name}-link; done; done; \
            cd /dev/shm && mkdir {name}-d && echo x > {name}-d/f && rm -r {name}-d && echo ours"
        );
        let outcome = Sandbox::of(user).allow_write("/dev/shm").sh(&attack);
        assert_eq!(outcome.stdout, "found\nours\n", "{outcome:#?}");
        own.file("work/go", "");
        let outcome = running.wait();
        assert!(outcome.stdout.ends_with("made\nmine\nstill\n"), "{outcome:#?}");
    });
}

/// Who lets everything be written has named nothing there.
#[test]
fn shared_memory_is_the_command_s_own_where_everything_may_be_written() {
    for_each_user(|user| {
        let object = Object::new("everything");
        let path = object.0.to_str().unwrap();
        let sandbox = Sandbox::of(user).allow_write("/");
        let name = object.0.file_name().unwrap().to_str().unwrap();
        let others = ["/dev/shm/./", "/dev/../dev/shm/", "/proc/self/root/dev/shm/", "link/", "./"];
        for spelled in others.map(|place| format!("{place}{name}")).iter().chain([&path.to_owned()])
        {
            let script = format!(
                "ln -sfn /dev/shm link; case {spelled} in ./*) cd /dev/shm; esac; \
                cat {spelled}; echo changed > {spelled}; rm -f {spelled}"
            );
            let outcome = sandbox.sh(&script);
            assert_eq!(outcome.stdout, "", "{outcome:#?}");
            assert_eq!(object.text(), "secret", "{spelled}");
        }
        sandbox.probe("ids + shm-own").allowed("make").allowed("same");
        sandbox.sh("echo made > made && cat made").succeeds();
    });
}

#[test]
fn what_was_made_as_another_user_is_shared_and_gone_afterwards() {
    if !User::Caller.is_root() {
        return tests::skipped("only root becomes another user");
    }
    let sandbox = Sandbox::new().allow_write(".");
    // What hides its memory, as it does after setuid(2) and before execve(2), the broker cannot serve.
    let mut words: Vec<OsString> =
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            .map(OsString::from)
            .into();
    words.extend(Sandbox::probe_words("ids + shm-own"));
    let outcome = sandbox.run(words);
    for name in ["make", "read", "change", "link", "rename", "truncate", "same", "unlink", "left"] {
        outcome.allowed(name);
    }
    assert_eq!(left_by(&outcome), [""; 0].map(PathBuf::from));
}

#[test]
fn python_s_locks_pools_and_shared_memory_work_without_naming_dev_shm() {
    for_each_user(|user| {
        let script = "import multiprocessing as m
from multiprocessing import shared_memory as s
def add(lock, name):
    block = s.SharedMemory(name=name)
    for _ in range(100):
        with lock: block.buf[0] += 1
    block.close()
def square(x): return x * x
if __name__ == '__main__':
    lock, block = m.Lock(), s.SharedMemory(create=True, size=4096)
    ones = [m.Process(target=add, args=(lock, block.name)) for _ in range(2)]
    [one.start() for one in ones]; [one.join() for one in ones]
    print(block.buf[0]); block.close(); block.unlink()
    with m.Pool(2) as pool: print(sum(pool.map(square, range(10))))";
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.file("work/script.py", script);
        let (inside, outside) =
            (sandbox.run(["python3", "script.py"]), sandbox.run_outside(["python3", "script.py"]));
        assert_eq!(inside.succeeds().stdout, "200\n285\n", "{inside:#?}");
        assert_eq!(outside.succeeds().stdout, inside.stdout);
    });
}

#[test]
fn a_link_in_the_place_of_an_object_is_never_followed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").timeout(Duration::from_secs(120));
        let victim = sandbox.file("outside/victim", "secret");
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o666)).unwrap();
        let tries = race_tries(20_000);
        let name = format!("race-{}-{user:?}", std::process::id());
        let attack = format!("shm-race {name} {} {tries}", victim.display());
        let outcome = sandbox.probe(attack);
        // What may be read outside may be read through a link of one's own, but not changed.
        println!("{}", outcome.stdout);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "secret", "{outcome:#?}");
        assert_eq!(outcome.result("secrets"), "0", "{outcome:#?}");
        outcome.allowed("alone");
    });
}

#[test]
fn a_name_that_others_make_and_remove_meanwhile_never_leads_to_theirs() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").timeout(Duration::from_secs(120));
        let path = format!("/dev/shm/both-{}", std::process::id());
        let script = format!(
            "import os, sys
met = 0
for i in range({}):
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC):
        try: f = os.open('{path}', flags, 0o600)
        except FileNotFoundError: continue
        met += os.pread(f, 9, 0) == b'secret'
        os.close(f)
    try: os.unlink('{path}')
    except FileNotFoundError: pass
print(met)",
            race_tries(2_500)
        );
        let running = sandbox.spawn(["python3", "-c", &script]);
        let over = Arc::new(AtomicBool::new(false));
        let others = std::thread::spawn({
            let over = Arc::clone(&over);
            move || {
                let mut lost = 0;
                while !over.load(Ordering::Relaxed) {
                    let mut made = fs::OpenOptions::new();
                    if let Ok(mut file) = made.write(true).create_new(true).open(&path) {
                        file.write_all(b"secret").unwrap();
                        let mode = fs::Permissions::from_mode(0o666);
                        file.set_permissions(mode).unwrap();
                        lost += u64::from(fs::remove_file(&path).is_err());
                    }
                }
                lost
            }
        });
        let outcome = running.wait();
        over.store(true, Ordering::Relaxed);
        assert_eq!(others.join().unwrap(), 0, "what others made was removed");
        assert_eq!(outcome.succeeds().stdout, "0\n", "{outcome:#?}");
    });
}
