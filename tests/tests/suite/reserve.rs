//! Directories that were granted before they had a name: a directory that the command makes beside a denied
//! path is as mkdir(2) makes it, and what is made beneath it needs no broker.
//!
//! Which one is from the reserve is seen from outside, by the numbers of those that wait.

use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tests::{Running, Sandbox, User, eventually, for_each_user, is_root_for, same};

/// How many wait at the start.
const COUNT: usize = 4;

/// `work` may be written but for `.env`; what waits does so in `tmp`.
fn world(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".").deny_write(".env");
    sandbox.file("work/.env", "Secret");
    let tmp = sandbox.dir("tmp");
    sandbox.env("TMPDIR", tmp)
}

/// Surroundings without a place where directories could wait, so that none is granted before it has a name.
pub(crate) fn without_reserve(sandbox: Sandbox) -> Sandbox {
    // What the command may write is none.
    let inside = sandbox.dir("work/temporary");
    sandbox.env("TMPDIR", &inside).env("XDG_CACHE_HOME", inside)
}

/// What waits in `place`.
fn waiting(place: &Path) -> Vec<PathBuf> {
    let inner = |path: &Path| -> Vec<_> {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let is_waiting = |path: &PathBuf| path.metadata().is_ok_and(|found| found.mode() & 0o777 == 0);
    let holders = inner(place);
    let runs = holders.iter().flat_map(|holder| inner(holder));
    runs.flat_map(|run| inner(&run)).filter(is_waiting).collect()
}

/// How many directories of runs there are.
fn left(sandbox: &Sandbox) -> usize {
    let holder = sandbox.path("tmp").join(sandbox.user().holder());
    fs::read_dir(holder).into_iter().flatten().count()
}

fn numbers(paths: &[PathBuf]) -> HashSet<u64> {
    paths.iter().filter_map(|path| path.metadata().ok()).map(|found| found.ino()).collect()
}

/// Starts a script, which goes on when [`finish`] lets it; returns the numbers of what waits meanwhile.
fn begin(sandbox: &Sandbox, script: &str) -> (Running, HashSet<u64>) {
    let script = format!("echo ready; until [ -e ../outside/go ]; do sleep 0.01; done; {script}");
    let mut running = sandbox.spawn(["sh", "-c", &script]);
    running.expect("ready");
    let waiting = numbers(&waiting(&sandbox.path("tmp")));
    (running, waiting)
}

fn finish(sandbox: &Sandbox, running: Running) -> tests::Outcome {
    sandbox.file("outside/go", "");
    let outcome = running.wait();
    fs::remove_file(sandbox.path("outside/go")).unwrap();
    outcome
}

/// Runs a script, and says which of these directories below `work` are from the reserve.
#[track_caller]
fn placed<const N: usize>(sandbox: &Sandbox, script: &str, names: [&str; N]) -> [bool; N] {
    let (running, waiting) = begin(sandbox, script);
    let outcome = finish(sandbox, running);
    outcome.succeeds();
    assert_eq!(left(sandbox), 0, "something is left: {outcome:#?}");
    names.map(|name| {
        let found = sandbox.path("work").join(name).metadata();
        waiting.contains(&found.unwrap_or_else(|error| panic!("{name}: {error}")).ino())
    })
}

/// What can be told of directories, but for their numbers.
const TELL: &str = "stat -c '%n %A %u %g %h %F' * */* 2>/dev/null; \
    for d in */; do find $d -maxdepth 0 -newer ../outside/start; ls -A $d; done; umask";

#[test]
fn a_directory_beside_a_denied_file_is_as_mkdir_makes_it() {
    for_each_user(|user| {
        // The first ones of each are from the reserve.
        let plain = "mkdir a b/ ./c; mkdir -p h";
        let modes = "mkdir -m 0 d; mkdir -m 1777 e; mkdir -m 500 f; mkdir -m 7755 g";
        let more = "mkdir h; mkdir .env; mkdir i/j; mkdir -p k/l/m; for n in 1 2 3 4; do mkdir n$n; done; \
            rmdir b && mkdir b; mkdir a";
        for umask in ["022", "000", "077", "0777", "0222"] {
            for (first, then) in [(plain, modes), (modes, plain)] {
                let script = format!("umask {umask}; {first}; {then}; {more}; {TELL}");
                let (one, two) = (world(user), world(user));
                for sandbox in [&one, &two] {
                    sandbox.file("outside/start", "");
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
                same(&one, &two, &script);
            }
        }
        assert_eq!(placed(&world(user), modes, ["d", "e", "f", "g"]), [true; COUNT]);
        let sandbox = world(user);
        assert_eq!(placed(&sandbox, plain, ["a", "b", "c", "h"]), [true; COUNT]);
        let now = std::time::SystemTime::now();
        let found = sandbox.path("work/a").metadata().unwrap();
        for time in [found.modified().unwrap(), found.accessed().unwrap()] {
            assert!(now.duration_since(time).unwrap().as_secs() < 600);
        }
    });
}

#[test]
fn without_a_place_to_wait_none_does() {
    let wait = |sandbox: &Sandbox, place: &str| {
        let (running, _) = begin(sandbox, "mkdir d; cp /bin/true d/t; d/t");
        let waiting = waiting(&sandbox.path(place));
        finish(sandbox, running).succeeds();
        waiting.len()
    };
    for_each_user(|user| {
        let sandbox = world(user);
        assert_eq!(wait(&sandbox, "tmp"), COUNT);
        let sandbox = without_reserve(world(user));
        assert_eq!([wait(&sandbox, "work/temporary"), waiting(&sandbox.path("tmp")).len()], [0, 0]);
    });
}

#[test]
fn what_is_made_in_it_later_is_as_outside() {
    for_each_user(|user| {
        let script = "set -e; mkdir d; cp /bin/true d/t; d/t; echo x > d/f; ln d/f d/g; ln d/f h; mv d/f e; cat e h; \
            mkdir -p d/in/ner; mv d/in in; mv in d/in; mv d moved; moved/t; ls -R moved; chmod 700 moved; \
            echo y >> moved/g; cat e; mkfifo moved/p; ln -s g moved/s; cat moved/s; cp -r moved copy; copy/t; \
            rm -r moved copy; mkdir moved; ls -A moved; git init -q repo; cd repo; echo z > z; git add z; git \
            -c user.name=n -c user.email=e commit -qm m; git status --short";
        let (one, two) = (world(user), world(user));
        let inside = one.sh(script);
        let outside = two.sh_outside(script);
        outside.succeeds();
        assert_eq!((inside.status, &inside.stdout), (Some(0), &outside.stdout), "{inside:#?}");
        assert_eq!(placed(&world(user), "mkdir d; mv d e; mkdir e/in", ["e"]), [true]);
    });
}

#[test]
fn what_is_denied_stays_denied_around_it() {
    for_each_user(|user| {
        let sandbox = world(user).deny_write("no/such").deny_read("secret");
        sandbox.file("work/secret", "TOPSECRET");
        let attacks = "file link .env d/x + file link secret d/s + file linkat-opath secret d/s \
            + file rename .env d/x + file rename secret d/s + file exchange .env d/f \
            + file rename d .env + file exchange d .env + file rename d/f .env + file rename d no \
            + file rename d/no no + file symlink d no";
        let before =
            [".env", "secret"].map(|name| tests::Snapshot::of(sandbox.path("work").join(name)));
        let probe = Sandbox::probe_words(attacks)
            .iter()
            .fold(String::new(), |line, word| format!("{line} '{}'", word.to_string_lossy()));
        let script = format!(
            "mkdir d d/no d/no/such; echo x > d/f; {probe}; mkdir no; touch no/such; mkdir other other/such; \
             cat d/s d/x; true"
        );
        let (running, waiting) = begin(&sandbox, &script);
        let outcome = finish(&sandbox, running);
        before.iter().for_each(tests::Snapshot::unchanged);
        let results: Vec<_> = outcome.results().collect();
        assert_eq!(results.len(), 12, "{outcome:#?}");
        for (name, result) in results {
            assert_ne!(result, "OK", "{name}: {outcome:#?}");
        }
        assert!(!outcome.stdout.contains("TOP"), "{outcome:#?}");
        let number = |name: &str| sandbox.path("work").join(name).metadata().unwrap().ino();
        assert!(!waiting.contains(&number("no")), "a rule is about what is in it");
        assert!(waiting.contains(&number("d")) && waiting.contains(&number("other")));
        assert!(!sandbox.path("work/no/such").exists() && sandbox.path("work/other/such").exists());
    });
}

#[test]
fn none_is_where_a_glob_can_deny_something_in_it() {
    for_each_user(|user| {
        let sandbox = world(user).deny_write("**/*.pem");
        assert_eq!(placed(&sandbox, "mkdir d; ! touch d/x.pem; touch d/x", ["d"]), [false]);
        let sandbox = world(user).deny_write("sub/**/*.pem");
        sandbox.dir("work/sub");
        let script = "mkdir d sub/d; touch d/x.pem sub/d/x; ! touch sub/d/x.pem";
        assert_eq!(placed(&sandbox, script, ["d", "sub/d"]), [true, false]);
        let sandbox = world(user).deny_read("sub/**/*.pem").deny_read("*/key");
        sandbox.dir("work/sub");
        let script = "mkdir d d/e sub/d; touch d/x.pem sub/d/x; ! touch sub/d/x.pem; ! touch d/key";
        assert_eq!(placed(&sandbox, script, ["d", "d/e", "sub/d"]), [false, true, false]);
    });
}

#[test]
fn when_all_are_used_directories_are_made_as_they_were() {
    for_each_user(|user| {
        let sandbox = world(user);
        let script = "for n in $(seq 20); do mkdir d$n && echo x > d$n/f && mkdir d$n/in && cat d$n/f || exit 1; done";
        let names = ["d1", "d4", "d5", "d20"];
        assert_eq!(placed(&sandbox, script, names), [true, true, false, false]);
    });
}

#[test]
fn none_is_used_twice() {
    for_each_user(|user| {
        let sandbox = world(user);
        let script = "exec 3<.; for n in $(seq 20); do mkdir d; stat -c %i d; rmdir d; done; mkdir d; cd d; rmdir ../d; \
            mkdir ../d; ! touch x 2>/dev/null; ls -A ../d";
        let (running, waiting) = begin(&sandbox, script);
        let outcome = finish(&sandbox, running);
        outcome.succeeds();
        let said: Vec<u64> = outcome.stdout.lines().filter_map(|line| line.parse().ok()).collect();
        let from_reserve: Vec<_> = said.iter().filter(|number| waiting.contains(number)).collect();
        let different: HashSet<_> = from_reserve.iter().collect();
        assert_eq!(
            (said.len(), from_reserve.len(), different.len()),
            (20, COUNT, COUNT),
            "{outcome:#?}"
        );
    });
}

#[test]
fn where_a_directory_gets_something_from_the_one_above_it_is_made_as_it_was() {
    for_each_user(|user| {
        let script = "mkdir group/d acl/d plain/d; stat -c '%n %A %u %g' */d; python3 -c 'import os\n\
            for d in (\"group\", \"acl\", \"plain\"): print(d, sorted(os.listxattr(d + \"/d\")))'";
        let acl = "import os, struct\n\
            entries = [(1, 7, -1), (2, 5, 1234), (4, 5, -1), (16, 7, -1), (32, 0, -1)]\n\
            value = struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *e) for e in entries)\n\
            os.setxattr('acl', 'system.posix_acl_default', value)";
        let make = || {
            let sandbox = world(user);
            for name in ["group", "acl", "plain"] {
                sandbox.dir(format!("work/{name}"));
            }
            // What is in these is the broker's.
            let sandbox =
                sandbox.deny_write("group/.env").deny_write("acl/.env").deny_write("plain/.env");
            let group = sandbox.path("work/group");
            fs::set_permissions(&group, Permissions::from_mode(0o2755)).unwrap();
            if user.is_root() {
                std::os::unix::fs::chown(&group, None, Some(1234)).unwrap();
                fs::set_permissions(&group, Permissions::from_mode(0o2755)).unwrap();
            }
            sandbox.run_outside(["python3", "-c", acl]).succeeds();
            sandbox
        };
        let (one, two) = (make(), make());
        let outcome = same(&one, &two, script);
        assert!(outcome.stdout.contains("posix_acl_default"), "{outcome:#?}");
        let names = ["group/d", "acl/d", "plain/d"];
        assert_eq!(placed(&make(), "mkdir group/d acl/d plain/d", names), [false, false, true]);
    });
}

#[test]
fn flags_that_a_directory_gives_are_those_of_what_is_made_in_it() {
    for_each_user(|user| {
        let sandbox = world(user);
        sandbox.dir("work/flags");
        let sandbox = sandbox.deny_write("flags/.env");
        // FS_IOC_SETFLAGS with FS_SYNC_FL and FS_NOATIME_FL.
        let flag = "import fcntl, os, struct\n\
            fcntl.ioctl(os.open('flags', 0), 0x40086602, struct.pack('l', 0x88))";
        if sandbox.run_outside(["python3", "-c", flag]).status != Some(0) {
            eprintln!("SKIPPED: the file system of the temporary directory has no such flags");
            return;
        }
        let script = "mkdir flags/d plain";
        assert_eq!(placed(&sandbox, script, ["flags/d", "plain"]), [false, true]);
    });
}

#[test]
fn who_became_another_user_makes_directories_of_its_own() {
    if !is_root_for("a change of the user") {
        return;
    }
    let sandbox = world(User::Caller);
    fs::set_permissions(sandbox.path("work"), Permissions::from_mode(0o777)).unwrap();
    let script = "mkdir a; setpriv --reuid 1234 --regid 1234 --clear-groups mkdir b; \
        setpriv --regid 1234 --clear-groups mkdir c; mkdir e";
    let placed = placed(&sandbox, script, ["a", "b", "c", "e"]);
    assert_eq!(placed, [true, false, false, true]);
    let of = |name: &str| {
        let found = sandbox.path("work").join(name).metadata().unwrap();
        (found.uid(), found.gid())
    };
    assert_eq!(["a", "b", "c", "e"].map(of), [(0, 0), (1234, 1234), (0, 1234), (0, 0)]);
}

#[test]
fn what_waits_is_closed_and_nothing_that_was_put_in_it_is_found_later() {
    for_each_user(|user| {
        let sandbox = world(user);
        let script = "for d in ../tmp/landstrip-*/*/[0-3]; do echo x > $d/x; mkdir $d/y; chmod 777 $d; \
            rmdir $d; mv $d ../tmp/; mv $d taken; mkdir ../tmp/new; done 2>/dev/null; ls ../tmp/*/*/*/ | grep -c x; \
            mkdir d e; ls -A d e";
        let (running, waiting) = begin(&sandbox, script);
        assert_eq!(waiting.len(), COUNT);
        // Root outside can, which is why it is looked at.
        let places = self::waiting(&sandbox.path("tmp"));
        let filled = places.iter().filter(|place| fs::write(place.join("z"), "").is_ok()).count();
        assert!(filled == COUNT || !rustix::process::geteuid().is_root());
        let outcome = finish(&sandbox, running);
        assert_eq!(outcome.stdout, "ready\n0\nd:\n\ne:\n", "{outcome:#?}");
        assert!(!sandbox.path("work/taken").exists());
        assert_eq!(left(&sandbox), 0, "{outcome:#?}");
    });
}

#[test]
fn where_nothing_can_wait_directories_are_made_as_they_were() {
    for_each_user(|user| {
        // Another mount, none, and what may be written.
        for place in ["/dev/shm", "/nonexistent", "/proc", "."] {
            let sandbox = world(user).env("TMPDIR", place).env("XDG_CACHE_HOME", "/proc/cache");
            let outcome = sandbox.sh("mkdir d && echo x > d/f && mkdir d/e && ls d; ls -A");
            assert_eq!(outcome.stdout, "e\nf\n.env\nd\n", "{place}: {outcome:#?}");
        }
        let sandbox = world(user);
        let tmp = sandbox.path("tmp");
        fs::set_permissions(&tmp, Permissions::from_mode(0o555)).unwrap();
        sandbox.sh("mkdir d && echo x > d/f && mkdir d/e && rm -r d").succeeds();
        // The cache comes first, and stays.
        let sandbox = world(user);
        sandbox.dir("home/.cache");
        let outcome = sandbox.sh("ls -A ../home/.cache/landstrip/*; mkdir d; ls -A");
        assert_eq!(outcome.stdout, "0\n1\n2\n3\n.env\nd\n", "{outcome:#?}");
        assert_eq!(fs::read_dir(sandbox.path("home/.cache/landstrip")).unwrap().count(), 0);
    });
}

#[test]
fn a_full_file_system_leaves_nothing_behind() {
    if !is_root_for("a file system of its own") {
        return;
    }
    let sandbox = world(User::Caller);
    let landstrip: Vec<_> =
        sandbox.command_line().iter().map(|word| word.to_string_lossy().into_owned()).collect();
    for inodes in 4..14 {
        let script = format!(
            "mount -t tmpfs -o nr_inodes={inodes} none ../tmp && mkdir ../tmp/w && touch ../tmp/w/.env && cd ../tmp/w && \
             TMPDIR=.. '{}' -- sh -c 'mkdir d && touch .env; ls; ls -A ..'",
            landstrip.join("' '")
        );
        let outcome = sandbox.run_outside(["unshare", "-m", "sh", "-c", &script]);
        assert!(outcome.stdout.contains("d\n") || inodes < 6, "{inodes}: {outcome:#?}");
        assert!(outcome.reports_of("Internal").is_empty(), "{outcome:#?}");
    }
}

#[test]
fn what_a_killed_run_left_is_removed_by_a_later_one() {
    for_each_user(|user| {
        let sandbox = world(user);
        let (killed, waiting) = begin(&sandbox, "true");
        assert_eq!(waiting.len(), COUNT);
        let of_one = left(&sandbox);
        killed.signal(Signal::SIGKILL);
        killed.wait();
        let mut later = sandbox.spawn(["sh", "-c", "echo ready; sleep 100"]);
        later.expect("ready");
        let place = sandbox.path("tmp");
        let is_gone =
            || left(&sandbox) == of_one && numbers(&self::waiting(&place)).is_disjoint(&waiting);
        assert!(eventually(is_gone), "the stale ones are left");
        assert_eq!(numbers(&self::waiting(&place)).len(), COUNT, "those in use are left");
        later.signal(Signal::SIGTERM);
        later.wait();
        assert_eq!(left(&sandbox), 0);
    });
}
