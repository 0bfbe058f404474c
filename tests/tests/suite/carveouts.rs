//! Deny inside allow: what is denied holds, and all around it works (attacks F1, F3, F4, F6).
//!
//! Each attack has a twin, the same calls beside the denied name, that must work.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tests::{Outcome, Sandbox, Snapshot, User, for_each_user};

/// `work` may be written, but for a file, a directory, two paths that do not exist, and a glob.
pub(crate) fn carved(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".").allow_unix_socket(".");
    let sandbox = ["secret/.env", ".git/hooks", "missing", "deep/er/missing", "**/*.pem"]
        .iter()
        .fold(sandbox, |sandbox, rule| sandbox.deny_write(rule));
    let directories = ["secret", ".git", ".git/hooks", "deep", "deep/er", "src", "free", "plain"];
    for name in directories {
        sandbox.dir(format!("work/{name}"));
    }
    for name in ["secret/.env", ".git/hooks/pre", "key.pem", "src/cert.pem"] {
        sandbox.file(format!("work/{name}"), "Secret");
    }
    for name in ["secret/twin", ".git/twin", "twin", "src/twin", "plain/x"] {
        sandbox.file(format!("work/{name}"), "Secret");
    }
    for number in 0..MISSING.len().max(8) {
        sandbox.file(format!("work/free/f{number}"), "mine!");
        sandbox.dir(format!("work/free/d{number}"));
    }
    sandbox
}

/// Denied files that exist, each with one beside it that is not denied.
const FILES: [(&str, &str); 4] = [
    ("secret/.env", "secret/twin"),
    ("key.pem", "twin"),
    ("src/cert.pem", "src/twin"),
    (".git/hooks/pre", ".git/twin"),
];

/// Every way to change, replace, move or link the file `@`, or to make it writable.
const TAMPER: &str = "file write @ + file rdwr @ + file append @ + file open-trunc @ \
    + file read-trunc @ + file creat @ + file open-creat @ + file openat2 @ + file openat2-creat @ \
    + file mmap-write @ + file copy-range plain/x @ + file splice plain/x @ \
    + file sendfile plain/x @ + file opath-reopen @ + file fd-reopen @ + file truncate @ \
    + meta chmod @ + meta fchmod @ + meta chmod-proc-fd @ + meta chown @ + meta utimensat @ + meta utime @ + meta setxattr @ + meta fsetxattr @ \
    + file link @ free/hard1 + file linkat-fd @ free/hard2 + file linkat-opath @ free/hard3 \
    + file exchange free/f0 @ + file exchange @ free/f0 + file rename free/f1 @ + file unlink @ \
    + file rename free/f2 @ + file rename @ free/away";

/// Every way to make something at `@`, where nothing is. `%` is another number in each.
const MISSING: [&str; 20] = [
    "file creat @",
    "file open-creat @",
    "file open-excl @",
    "file openat2-creat @",
    "file mkdir @",
    "file symlink src @",
    "file symlink free/f% @",
    "file link free/f% @",
    "file linkat-fd free/f% @",
    "file linkat-opath free/f% @",
    "file rename free/f% @",
    "file rename free/d% @",
    "file mkfifo @",
    "file mknod-file @",
    "file tmpfile free @",
    "carve tmpfile-empty free @",
    "unix-bind @ stream",
    "file creat !",
    "file open-creat !",
    "file openat2-creat !",
];

/// The attacks in one command line; `@` by what `name` says for each number, `!` by a link to it.
fn at_missing(name: impl Fn(usize) -> String, link: impl Fn(usize) -> String) -> String {
    let attacks = MISSING.iter().enumerate().map(|(number, attack)| {
        let attack = attack.replace('%', &number.to_string());
        attack.replace('@', &name(number)).replace('!', &link(number))
    });
    attacks.collect::<Vec<_>>().join(" + ")
}

fn exists(path: impl AsRef<Path>) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// All below `root` whose name ends with `suffix`.
pub(crate) fn named(root: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().ends_with(suffix) {
            found.push(entry.path());
        }
        if entry.file_type().unwrap().is_dir() {
            found.extend(named(&entry.path(), suffix));
        }
    }
    found.sort();
    found
}

#[test]
fn a_denied_file_is_not_changed_replaced_moved_or_linked() {
    for_each_user(|user| {
        for (denied, twin) in FILES {
            let sandbox = carved(user);
            let before = Snapshot::of(sandbox.path("work").join(denied));
            sandbox.probe(TAMPER.replace('@', denied)).all_refused();
            before.unchanged();
            sandbox.probe(TAMPER.replace('@', twin)).all_allowed();
            assert!(!exists(sandbox.path("work").join(twin)), "the twin is moved away at last");
            sandbox.probe(format!("file read {denied}")).allowed("file-read");
        }
    });
}

#[test]
fn fchmodat2_is_judged_as_chmod_is() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let before = Snapshot::of(sandbox.path("work/secret/.env"));
        let outcome = sandbox.probe("meta fchmodat2 secret/.env");
        outcome.all_refused();
        before.unchanged();
        assert_eq!(reported(&outcome.reports, "write"), [sandbox.name("work/secret/.env")]);
        sandbox.probe("meta fchmodat2 secret/twin").all_allowed();
    });
}

#[test]
fn a_denied_directory_is_closed_and_its_siblings_are_not() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let before = Snapshot::of(sandbox.path("work/.git/hooks"));
        let attack = "file creat @/new + file mkdir @/new + file symlink x @/new \
            + file link free/f0 @/new + file rename free/f0 @/new + file rename free/d0 @/new \
            + file mkfifo @/new + file tmpfile free @/new + unix-bind @/new stream \
            + file dirfd @ new + file opath-dirfd @ new + carve proc-fd @ new \
            + carve dev-fd @ new + carve thread-cwd @ new + file tmpfile @ free/made";
        let more = " + file exchange free/d1 @ + file rename @ away + file fchdir @ new";
        sandbox
            .probe(attack.replace('@', ".git/hooks") + &more.replace('@', ".git/hooks"))
            .all_refused();
        before.unchanged();
        for attack in attack.split(" + ") {
            let _ = fs::remove_file(sandbox.path("work/plain/new"));
            let _ = fs::remove_dir_all(sandbox.path("work/plain/new"));
            sandbox.probe(attack.replace('@', "plain")).all_allowed();
        }
        sandbox
            .probe("file rmdir free/d2 + file exchange free/d1 plain + file rename plain away")
            .all_allowed();
        sandbox
            .probe(
                "file mkdir .git/refs + file creat .git/HEAD + file rename .git/HEAD .git/refs/x",
            )
            .all_allowed();
    });
}

#[test]
fn a_missing_denied_path_is_not_created_in_any_way() {
    for_each_user(|user| {
        for (denied, beside) in
            [("missing", "new"), ("deep/er/missing", "deep/er/new"), ("src/late.pem", "src/late")]
        {
            let sandbox = carved(user);
            let absolute = sandbox.name(format!("work/{denied}"));
            symlink(&absolute, sandbox.path("work/to-denied")).unwrap();
            for number in 0..MISSING.len() {
                let target = sandbox.path(format!("work/{beside}{number}"));
                symlink(target, sandbox.path(format!("work/free/to{number}"))).unwrap();
            }
            let free = Snapshot::of(sandbox.path("work/free/d0"));
            let attack = at_missing(|_| denied.to_owned(), |_| "to-denied".to_owned());
            let outcome = sandbox.probe(attack);
            outcome.succeeds();
            // ENOENT is what linkat(2) says of a descriptor that the caller did not open itself.
            for (name, result) in outcome.results() {
                if (name, result) != ("carve-tmpfile-empty", "ENOENT") {
                    outcome.is_refusal(name, result);
                }
            }
            assert!(!exists(&absolute), "{denied} was made");
            free.unchanged();
            let twin = at_missing(
                |number| format!("{beside}{number}"),
                |number| format!("free/to{number}"),
            );
            sandbox.probe(twin).all_allowed();
            for number in 0..MISSING.len() {
                assert!(exists(sandbox.path(format!("work/{beside}{number}"))), "twin {number}");
            }
        }
    });
}

#[test]
fn detours_lead_to_the_same_answer() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let work = sandbox.name("work");
        symlink("secret", sandbox.path("work/sec")).unwrap();
        symlink(".", sandbox.path("work/here")).unwrap();
        symlink(sandbox.path("work/secret/.env"), sandbox.path("work/to-env")).unwrap();
        symlink(sandbox.path("work/secret/twin"), sandbox.path("work/to-twin")).unwrap();
        symlink("to-env", sandbox.path("work/to-to-env")).unwrap();
        symlink("to-twin", sandbox.path("work/to-to-twin")).unwrap();
        let before = Snapshot::of(sandbox.path("work/secret/.env"));
        let names = |name: &str, short: &str| {
            let mut attacks = Vec::new();
            for path in [
                format!("{work}/secret/{name}"),
                format!("./secret//./{name}"),
                format!("plain/../secret/{name}"),
                format!("sec/{name}"),
                format!("here/here/sec/../secret/{name}"),
                format!("to-{short}"),
                format!("to-to-{short}"),
                format!("/proc/self/cwd/secret/{name}"),
                format!("/proc/thread-self/cwd/sec/{name}"),
                format!("/proc/self/root{work}/secret/{name}"),
                format!("/proc/self/task/../cwd/secret/{name}"),
                format!("/../..{work}/secret/{name}"),
            ] {
                attacks
                    .push(format!("file write {path} + file truncate {path} + meta chmod {path}"));
                attacks.push(format!(
                    "file open-creat {path} + file openat2 {path} + file creat {path}"
                ));
            }
            for detour in ["file dirfd", "file opath-dirfd", "carve proc-fd", "carve thread-fd"] {
                attacks.push(format!("{detour} secret {name}"));
            }
            for detour in ["carve dev-fd", "carve child-cwd", "carve thread-cwd", "file fchdir"] {
                attacks.push(format!("{detour} {work}/secret {name}"));
            }
            attacks.join(" + ")
        };
        sandbox.probe(names(".env", "env")).all_refused();
        sandbox.probe(format!("carve chroot {work} secret/.env + carve chroot {work}/secret .env"));
        before.unchanged();
        sandbox.probe(names("twin", "twin")).all_allowed();
    });
}

#[test]
fn what_leads_to_a_denied_path_stays_where_it_is() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let before: Vec<_> = ["secret/.env", ".git/hooks", "src/cert.pem"]
            .map(|name| Snapshot::of(sandbox.path("work").join(name)))
            .into();
        let attack = "file rename @ moved + file rename @ free/moved + file exchange @ free \
            + file exchange free @ + file exchange @ free/f0";
        for directory in ["secret", ".git", ".git/hooks", "src", "deep", "deep/er"] {
            sandbox.probe(attack.replace('@', directory)).all_refused();
            before.iter().for_each(Snapshot::unchanged);
        }
        sandbox.probe("file rename plain moved + file exchange moved free/d0 + file rename free/d1 moved2")
            .all_allowed();
    });
}

#[test]
fn a_parent_that_was_removed_and_made_again_is_as_closed() {
    for_each_user(|user| {
        for script in [
            "rm -rf deep; mkdir -p deep/er; echo x > deep/er/missing; echo x > deep/er/new",
            "rmdir deep/er; mkdir deep/er; mkdir deep/er/missing; echo x > deep/er/new",
            "mv deep away; mkdir -p deep/er; echo x > deep/er/missing; echo x > deep/er/new",
            "mkdir -p made/er; echo x > made/er/missing; rm -rf deep; mv made deep; \
             [ -d deep/er ] || mkdir -p deep/er; echo x > deep/er/new",
            "mkdir made; echo x > made/missing; rmdir deep/er; mv made deep/er; \
             [ -d deep/er ] || mkdir deep/er; echo x > deep/er/new",
            "mkdir made; echo x > made/missing; mv -T made deep/er; echo x > deep/er/new",
            "W=$PWD; mkdir made; cd made; mv -T ../made ../deep/er; echo x > missing; echo x > $W/deep/er/new",
            "ln -s ../free er; rmdir deep/er; mv er deep/er; mkdir -p deep/er; echo x > deep/er/missing; \
             echo x > deep/er/new",
            "rm -r deep; mkdir free/er; echo x > free/er/missing; ln -s free deep; mkdir -p deep/er; \
             echo x > deep/er/new",
        ] {
            let sandbox = carved(user);
            sandbox.sh(script);
            assert!(!exists(sandbox.path("work/deep/er/missing")), "{script}");
            assert!(exists(sandbox.path("work/deep/er/new")), "{script}");
        }
        let sandbox = carved(user);
        sandbox.probe(
            "file mkdir made + file mkdir made/er + file creat made/er/missing \
             + file exchange made deep + file exchange made/er deep/er",
        );
        assert!(!exists(sandbox.path("work/deep/er/missing")));
        sandbox.probe("file creat deep/er/new").allowed("file-creat");
        sandbox.probe(
            "file kept-dirfd free/d0 deep/er missing + carve kept-remade deep/er free/er missing",
        );
        assert!(!exists(sandbox.path("work/deep/er/missing")));
        sandbox.probe("file kept-dirfd free/d1 plain/er missing").allowed("file-kept-dirfd");
        sandbox.probe("carve kept-remade plain/er free/er missing").allowed("carve-kept-remade");
        assert!(exists(sandbox.path("work/plain/er/missing")));
    });
}

#[test]
fn a_parent_that_others_removed_and_the_command_made_again_is_as_closed() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let script = "mkdir -p secret deep/er; echo x > secret/.env; mkdir secret/.env; \
            echo x > deep/er/missing; ln -s free deep/er/missing; mv free/f0 deep/er/missing; \
            echo x > secret/new && echo x > deep/er/new && mv secret/new secret/newer && rm -r deep/er/new";
        let running = sandbox.paused(script);
        for name in ["work/secret", "work/deep"] {
            fs::remove_dir_all(sandbox.path(name)).unwrap();
        }
        sandbox.resume(running).succeeds();
        assert!(!exists(sandbox.path("work/secret/.env")));
        assert!(!exists(sandbox.path("work/deep/er/missing")));
        assert!(exists(sandbox.path("work/secret/newer")));
    });
}

#[test]
fn a_denied_file_that_others_replace_stays_denied() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let script = "echo pwned > secret/.env; echo pwned >> key.pem; rm -f secret/.env key.pem; \
            mv free/f0 secret/.env; chmod 777 key.pem; echo pwned > secret/late; echo x > secret/twin";
        let running = sandbox.paused(script);
        for name in ["secret/.env", "key.pem"] {
            sandbox.file("outside/new", "Replaced");
            fs::rename(sandbox.path("outside/new"), sandbox.path("work").join(name)).unwrap();
        }
        let before =
            ["work/secret/.env", "work/key.pem"].map(|name| Snapshot::of(sandbox.path(name)));
        sandbox.resume(running).succeeds();
        before.iter().for_each(Snapshot::unchanged);
        assert_eq!(sandbox.read("work/secret/.env"), "Replaced");
        assert_eq!(sandbox.read("work/secret/late"), "pwned\n");
    });
}

#[test]
fn another_name_beside_a_denied_path_does_not_open_the_denied_one() {
    for_each_user(|user| {
        let make = |sandbox: Sandbox| {
            sandbox.dir("home/closed");
            sandbox.dir("home/around");
            sandbox.file("home/closed/key", "TOPSECRET\n");
            sandbox.file("home/around/private", "TOPSECRET\n");
            sandbox.file("home/around/first", "mine\n");
            let home = |name: &str| sandbox.path(format!("home/{name}"));
            fs::hard_link(home("closed/key"), home("around/key")).unwrap();
            // Both can be read.
            fs::hard_link(home("around/first"), home("around/second")).unwrap();
            fs::hard_link(home("around/first"), home("third")).unwrap();
            sandbox
        };
        for denied in ["~/closed", "~/closed/key", "~/*sed"] {
            for reported in ["all", "none"] {
                let sandbox = Sandbox::of(user).deny_read(denied).deny_read("~/around/private");
                let sandbox = make(sandbox.options(["--report", reported]));
                let script = "cat ~/closed/key ~/around/key ~/around/private; \
                    cat ~/around/first ~/around/second ~/third";
                let outcome = sandbox.sh(script);
                assert_eq!(
                    outcome.stdout, "mine\nmine\nmine\n",
                    "{denied} {reported} {outcome:#?}"
                );
            }
        }
        // Somebody means it.
        let named = Sandbox::of(user).deny_read("~").allow_read("~/around/key");
        let outcome = make(named).sh("cat ~/around/key ~/around/first");
        assert_eq!(outcome.stdout, "TOPSECRET\n", "{outcome:#?}");
    });
}

#[test]
fn another_name_that_may_be_written_does_not_open_the_denied_one() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_write("~/closed").deny_write("kept");
        sandbox.dir("home/closed");
        sandbox.file("home/closed/settings", "theirs\n");
        sandbox.file("work/kept", "theirs\n");
        fs::hard_link(sandbox.path("home/closed/settings"), sandbox.path("work/linked")).unwrap();
        sandbox.sh("echo x >> ~/closed/settings").fails();
        sandbox.sh("echo x >> kept").fails();
        assert_eq!(sandbox.read("home/closed/settings"), "theirs\n");
        // The manual says so.
        sandbox.sh("echo mine >> linked").succeeds();
        assert_eq!(sandbox.read("home/closed/settings"), "theirs\nmine\n");
    });
}

#[test]
fn hard_links_made_before_launch_or_by_others_are_denied_too() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let link = |name: &str, to: &str| {
            fs::hard_link(sandbox.path("work").join(name), sandbox.path("work").join(to)).unwrap();
        };
        link("secret/.env", "alias");
        link("secret/twin", "twin-alias");
        let checked = sandbox.landstrip(["--check", "-p", &sandbox.name("policy.json")]);
        drop(checked);
        let mut words = sandbox.command_line();
        words.remove(0);
        words.push("--check".into());
        let checked = sandbox.landstrip(words);
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(said.contains("alias") || said.contains("link"), "--check warns: {checked:#?}");

        let before = Snapshot::of(sandbox.path("work/secret/.env"));
        let attack = "file write @ + file append @ + file truncate @ + file creat @ + meta chmod @ \
            + file mmap-write @ + file fd-reopen @ + file opath-reopen @";
        sandbox.probe(attack.replace('@', "alias")).all_refused();
        before.unchanged();
        sandbox.probe(attack.replace('@', "twin-alias")).all_allowed();

        let words = "[ -w late ] && echo x > late; echo x >> late; echo x > late-twin";
        let running = sandbox.paused(words);
        link("secret/.env", "late");
        link("secret/twin", "late-twin");
        sandbox.resume(running);
        assert_eq!(sandbox.read("work/secret/.env"), "Secret");
        assert_eq!(sandbox.read("work/secret/twin"), "x\n");
    });
}

#[test]
fn a_glob_holds_for_names_that_come_later() {
    for_each_user(|user| {
        let sandbox = carved(user).allow_write("../elsewhere");
        sandbox.dir("elsewhere");
        let pems = named(&sandbox.path("work"), ".pem");
        let before: Vec<_> = pems.iter().map(Snapshot::of).collect();
        let script = "exec 2>&1; mkdir -p n/n/n; echo x > n/n/n/a.pem; echo x > n/b.pem; \
            mkdir n/c.pem; ln -s x n/d.pem; ln free/f0 n/e.pem; mv free/f1 n/f.pem; mv free/d0 n/g.pem; \
            mv -T free/f2 plain.pem; mkfifo n/h.pem; cp free/f3 n/i.pem; touch n/j.pem; \
            mv key.pem n/key; mv key.pem n/; mv src n/src; cp src/cert.pem n/cert.pem; \
            mv src/cert.pem src/cert; rm -f key.pem; rm -rf src; mv src/cert.pem key.pem";
        sandbox.sh(script);
        assert_eq!(named(&sandbox.path("work"), ".pem"), pems);
        before.iter().for_each(Snapshot::unchanged);
        // Made where no rule says anything, moved here as a whole.
        let script = "mkdir -p ../elsewhere/d/d; echo x > ../elsewhere/d/d/k.pem || exit 9; \
            echo y > ../elsewhere/d/plain; mv ../elsewhere/d n/d; mv -T ../elsewhere/d n/d2; \
            mkdir x; mv ../elsewhere n/else; true";
        sandbox.sh(script).succeeds();
        sandbox
            .probe("file exchange ../elsewhere/d x + file exchange x ../elsewhere/d")
            .all_refused();
        assert_eq!(named(&sandbox.path("work"), ".pem"), pems);
        // What the glob does not match.
        let script = "set -e; mkdir -p m/m/m; echo x > m/m/m/a.PEM; echo x > m/a.pem.txt; mkdir m/pem; \
            echo x > m/pem/x; mv m/pem m/pems; mv m/m/m/a.PEM m/b; ln m/b m/c; rm -r m; \
            mkdir ../elsewhere/p; echo x > ../elsewhere/p/q; mv -T ../elsewhere/p p; cat p/q";
        sandbox.sh(script).succeeds();
    });
}

#[test]
fn what_is_denied_and_missing_is_never_there() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let before = Snapshot::of(sandbox.path("work"));
        sandbox.run(["true"]).succeeds();
        sandbox
            .sh("ls -lAR . >/dev/null; cat secret/.env >/dev/null; ls missing deep/er/missing")
            .fails();
        before.unchanged();
        // Nor after the broker is killed.
        let mut running = sandbox.spawn(["sh", "-c", "echo ready; sleep 100"]);
        running.expect("ready");
        before.unchanged();
        running.signal(nix::sys::signal::Signal::SIGKILL);
        drop(running);
        before.unchanged();
        sandbox.sh("mkdir n && echo x > n/x && rm -r n").succeeds();
    });
}

#[test]
fn many_fifos_that_wait_hold_up_nothing_else() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let script = "set -e; for i in $(seq 100); do mkfifo p$i; cat p$i > got$i & done; \
            mkfifo w; (echo late > w) & echo x > free/made; mv free/made made; cat made; \
            for i in $(seq 100); do echo $i > p$i; done; cat w; wait; cat got* | sort -n | tail -n 1; \
            timeout 0.2 cat p1 || echo interrupted";
        let outcome = sandbox.sh(script);
        outcome.succeeds();
        assert_eq!(outcome.stdout, "x\nlate\n100\ninterrupted\n");
    });
}

/// `work` may be written; a file and a directory in it may not be read.
pub(crate) fn unreadable(user: User) -> Sandbox {
    let sandbox =
        Sandbox::of(user).allow_write(".").deny_read(".env").deny_read("keys").deny_read("~/.ssh");
    sandbox.file("work/.env", "TOPSECRET");
    sandbox.dir("work/keys");
    sandbox.file("work/keys/key", "TOPSECRET");
    sandbox.file("work/plain", "open");
    sandbox.dir("home/.ssh");
    sandbox.file("home/.ssh/id", "TOPSECRET");
    sandbox.file("home/notes", "open");
    sandbox
}

#[test]
fn beside_what_may_not_be_read_all_works() {
    for_each_user(|user| {
        let script = "set -e; ls -A; ls -A ~; cat plain ~/notes; echo 'echo ran' > tool; chmod +x tool; \
            sh ./tool; mkdir -p d/e; cp /bin/true d/e/t; d/e/t; echo x > d/e/f; mv d/e/f g; ln g h; \
            cat g h; mv g plain; cat plain; ln -s plain l; cat l; rm h; rm -r d; stat -c %n .env keys; \
            printf '#!/bin/sh\\necho direct\\n' > direct; chmod 755 direct; ./direct; ls -A; mkfifo p; \
            (echo piped > p) & cat p; find . -maxdepth 1 | sort";
        let (one, two) = (unreadable(user), unreadable(user));
        let (inside, outside) = (one.sh(script), two.sh_outside(script));
        outside.succeeds();
        assert_eq!(
            (inside.status, &inside.stdout),
            (outside.status, &outside.stdout),
            "{inside:#?}"
        );
    });
}

#[test]
fn what_may_not_be_read_is_reached_by_no_name() {
    for_each_user(|user| {
        let sandbox = unreadable(user);
        let work = sandbox.name("work");
        symlink(".env", sandbox.path("work/to-env")).unwrap();
        fs::hard_link(sandbox.path("work/.env"), sandbox.path("work/alias")).unwrap();
        symlink("plain", sandbox.path("work/to-plain")).unwrap();
        fs::hard_link(sandbox.path("work/plain"), sandbox.path("work/plain-alias")).unwrap();
        let attacks = |name: &str, link: &str, alias: &str, made: &str| {
            let mut attacks = Vec::new();
            for path in [
                name.to_owned(),
                format!("{work}/{name}"),
                format!("/proc/self/cwd/{name}"),
                format!("/proc/self/root{work}/{name}"),
                link.to_owned(),
                alias.to_owned(),
            ] {
                attacks.push(format!(
                    "carve read {path} + carve rdwr-read {path} + carve opath-read {path}"
                ));
                attacks.push(format!("carve mmap-read {path} + carve sendfile {path}"));
                attacks.push(format!("file copy-range {path} {made}"));
            }
            attacks.push(format!("file link {name} {made}-1 + file linkat-opath {name} {made}-2"));
            attacks.push(format!("file rename {name} {made}-3"));
            attacks.join(" + ")
        };
        sandbox.file("work/stolen", "");
        sandbox.file("work/copy", "");
        let before = Snapshot::of(sandbox.path("work/.env"));
        let outcome = sandbox.probe(attacks(".env", "to-env", "alias", "stolen"));
        outcome.all_refused();
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!said.contains("TOP"), "{outcome:#?}");
        before.unchanged();
        let attack = format!(
            "file read keys/key + file list keys + file rename keys got + file rename keys/key got \
             + file link keys/key got + file exchange keys .git + file read {}",
            sandbox.name("home/.ssh/id")
        );
        sandbox.dir("work/.git");
        sandbox.probe(attack).all_refused();
        let script = "mv keys k; cp -r keys k2; cat k/key k2/key; tar cf - . | grep -c TOPSECRET; \
            mkdir sub; mv .env sub/; cat sub/.env; cat < .env; dd if=.env; sed -n p .env";
        let outcome = sandbox.sh(script);
        assert!(
            !outcome.stdout.contains("TOP") && !outcome.stdout.contains("\n1\n"),
            "{outcome:#?}"
        );
        sandbox.probe(attacks("plain", "to-plain", "plain-alias", "copy")).all_allowed();
    });
}

#[test]
fn what_others_make_or_replace_is_judged_by_its_name() {
    for_each_user(|user| {
        let sandbox = unreadable(user);
        let script = "cat .env keys/new keys/key; cat later; echo x > later; cat later; mkdir later-d/d; \
            ls later-d";
        let running = sandbox.paused(script);
        sandbox.file("outside/new", "TOPSECRET");
        fs::rename(sandbox.path("outside/new"), sandbox.path("work/.env")).unwrap();
        sandbox.file("work/keys/new", "TOPSECRET");
        sandbox.file("work/later", "made by others\n");
        sandbox.dir("work/later-d");
        let outcome = sandbox.resume(running);
        assert_eq!(outcome.stdout, "ready\nmade by others\nx\nd\n", "{outcome:#?}");
    });
}

#[test]
fn what_may_not_be_read_of_proc_is_not_read_beside_brokered_reads() {
    for_each_user(|user| {
        let sandbox = unreadable(user).deny_read("/proc/sys/kernel");
        let outcome = sandbox.sh("cat /proc/sys/kernel/ostype; ls /proc/sys/kernel; cat .env");
        outcome.fails();
        assert_eq!(outcome.stdout, "", "{outcome:#?}");
        sandbox.sh("cat /proc/version /proc/sys/vm/overcommit_memory && ls /proc/sys").succeeds();
    });
}

#[test]
fn what_may_not_be_read_may_not_be_written_either() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).deny_read("drop").allow_read("drop/again");
        let sandbox = ["drop", "both"].iter().fold(sandbox, |sandbox, name| {
            sandbox.dir(format!("work/{name}"));
            sandbox.dir(format!("work/{name}/again"));
            sandbox.file(format!("work/{name}/file"), "TOPSECRET\n");
            sandbox.allow_write(name).deny_write(format!("{name}/**/*.pem"))
        });
        let attacks = |name: &str| {
            format!(
                "carve rdwr-read {name}/file + file write {name}/file + file append {name}/file \
                 + file truncate {name}/file + meta chmod {name}/file + meta utimensat {name}/file \
                 + file creat {name}/new + file mkdir {name}/new-dir + file unlink {name}/file"
            )
        };
        let before = Snapshot::of(sandbox.path("work/drop"));
        sandbox.probe(attacks("drop")).all_refused();
        before.unchanged();
        sandbox.probe(attacks("both")).all_allowed();
        sandbox.sh("echo more > drop/again/file && cat drop/again/file").succeeds();
    });
}

#[test]
fn an_allowed_path_that_is_missing_does_not_become_a_link_to_elsewhere() {
    // The next run would allow what it leads to.
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("out").allow_write("src");
        sandbox.dir("work/src");
        let is_link = || sandbox.path("work/out").is_symlink();
        for script in [
            "ln -s /etc out",
            "ln -s /etc src/l && mv -T src/l out",
            "ln -sf /etc src/l; ln -P src/l out",
        ] {
            assert!(!exists(sandbox.path("work/out")), "{script}");
            sandbox.sh(script).fails();
            assert!(!is_link(), "{script}");
        }
        symlink("/etc", sandbox.path("work/src/l2")).unwrap();
        sandbox.probe("file creat out + file exchange src/l2 out");
        assert!(sandbox.path("work/out").is_file() && !is_link());
        fs::remove_file(sandbox.path("work/out")).unwrap();
        sandbox.file("work/src/free", "");
        sandbox.sh("mv src/free out && rm out && mkdir out && touch out/made").succeeds();
        sandbox.sh("cd out && ln -s made link && mv link other && cat other").succeeds();
    });
}

/// The paths of the Filesystem reports with this operation.
fn reported(reports: &[Value], operation: &str) -> Vec<String> {
    let found = reports.iter().filter_map(|report| report.get("Filesystem"));
    let mut paths: Vec<String> = found
        .filter(|report| report[0] == operation)
        .map(|report| report[1].as_str().unwrap().to_owned())
        .collect();
    paths.sort();
    paths
}

#[test]
fn each_refusal_is_reported_once_by_the_path_that_a_policy_would_name() {
    for_each_user(|user| {
        let sandbox = carved(user);
        symlink("secret/.env", sandbox.path("work/to-env")).unwrap();
        symlink("missing", sandbox.path("work/dangling")).unwrap();
        let env = sandbox.name("work/secret/.env");
        for attack in TAMPER.split(" + ").filter(|attack| !attack.contains("linkat-opath")) {
            let outcome = sandbox.probe(attack.replace('@', "secret/.env"));
            outcome.all_refused();
            assert_eq!(
                reported(&outcome.reports, "write"),
                [env.as_str()],
                "{attack}: {outcome:#?}"
            );
        }
        let missing = sandbox.name("work/missing");
        for attack in MISSING.iter().filter(|attack| !attack.starts_with("unix")) {
            let attack = attack.replace('@', "missing").replace('!', "dangling").replace('%', "1");
            let outcome = sandbox.probe(&attack);
            outcome.all_refused();
            assert_eq!(
                reported(&outcome.reports, "write"),
                [missing.as_str()],
                "{attack}: {outcome:#?}"
            );
        }
        let work = sandbox.name("work");
        let all = format!(
            "file write to-env + file write /proc/self/cwd/secret/.env + file dirfd secret .env \
             + file write /proc/self/root{work}/secret/.env + file creat dangling + file mkdir missing \
             + file write ./secret/../secret/.env + carve thread-cwd secret .env"
        );
        let outcome = sandbox.probe(all);
        outcome.all_refused();
        assert_eq!(reported(&outcome.reports, "write"), [missing, env], "{outcome:#?}");
        let fine =
            sandbox.probe("file write secret/twin + file read secret/.env + file mkdir src/d");
        fine.all_succeeded_without_reports();
    });
}

trait Quiet {
    fn all_succeeded_without_reports(&self);
}

impl Quiet for Outcome {
    #[track_caller]
    fn all_succeeded_without_reports(&self) {
        self.succeeds();
        assert!(self.reports.is_empty(), "{self:#?}");
    }
}

#[test]
fn refused_reads_beside_what_is_allowed_are_reported() {
    for_each_user(|user| {
        let sandbox = unreadable(user);
        symlink(".env", sandbox.path("work/to-env")).unwrap();
        let outcome = sandbox
            .sh("cat .env; cat to-env; cat /proc/self/cwd/.env; cat keys/key; cat plain; exit 4");
        outcome.exits(4);
        let wanted = [sandbox.name("work/.env"), sandbox.name("work/keys/key")];
        assert_eq!(reported(&outcome.reports, "read"), wanted, "{outcome:#?}");
        let outcome = sandbox.sh("mv .env stolen; ln .env stolen; exit 4");
        outcome.exits(4);
        assert!(!outcome.reports.is_empty(), "{outcome:#?}");
        assert!(!exists(sandbox.path("work/stolen")));
    });
}

#[test]
fn who_became_another_user_gets_what_that_user_gets() {
    if !tests::is_root_for("a change of the user") {
        return;
    }
    let sandbox = Sandbox::new().allow_write(".").deny_write(".git/hooks").deny_read(".env");
    sandbox.file("work/.env", "TOPSECRET");
    sandbox.dir("work/.git");
    sandbox.dir("work/.git/hooks");
    sandbox.dir("work/closed");
    sandbox.file("work/closed/file", "of root");
    fs::set_permissions(sandbox.path("work"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(sandbox.path("work/closed"), fs::Permissions::from_mode(0o700)).unwrap();
    // What root may, it still may; the other user makes files of its own and reads what it may.
    let other = "setpriv --reuid 1234 --regid 1234 --groups 77 sh -c";
    let script = format!(
        "cat closed/file; {other} 'cat closed/file; cat .env; echo own > made; cat made; mkdir d; \
         mv d e; chmod 600 made; chmod 777 closed; ln .env got; rm -r .git; echo x > .git/hooks/x'; \
         cat .env; cat closed/file"
    );
    let outcome = sandbox.sh(&script);
    assert_eq!(outcome.stdout, "of rootown\nof root", "{outcome:#?}");
    let made = sandbox.path("work/made").metadata().unwrap();
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (1234, 1234, 0o600));
    assert_eq!(sandbox.path("work/e").metadata().unwrap().uid(), 1234);
    assert_eq!(sandbox.path("work/closed").metadata().unwrap().mode() & 0o777, 0o700);
    assert!(sandbox.path("work/.git/hooks").exists() && !sandbox.path("work/got").exists());
}

#[test]
fn what_a_glob_denied_stays_so_when_others_remove_that_name() {
    for_each_user(|user| {
        let sandbox =
            Sandbox::of(user).allow_write(".").deny_write("**/*.key").deny_read("**/*.sec");
        for (name, text) in [("a.key", "kept"), ("a.sec", "TOPSECRET"), ("free", "free")] {
            sandbox.file(format!("work/{name}"), text);
            let other = sandbox.path(format!("outside/{name}"));
            fs::hard_link(sandbox.path(format!("work/{name}")), other).unwrap();
        }
        let script = "import ctypes, os, time
held = [os.open('a.key', os.O_RDONLY), os.open('a.sec', os.O_PATH), os.open('free', os.O_RDONLY)]
print('ready', flush=True)
while not os.path.exists('../outside/go'): time.sleep(0.01)
def write(fd): os.write(os.open(f'/proc/self/fd/{fd}', os.O_WRONLY | os.O_TRUNC), b'pwned')
def link(fd, to):
    libc, follow = ctypes.CDLL(None, use_errno=True), 0x400
    if libc.linkat(-100, f'/proc/self/fd/{fd}'.encode(), -100, to.encode(), follow):
        raise OSError(ctypes.get_errno(), to)
    print(open(to).read())
for work in (lambda: write(held[0]), lambda: link(held[0], 'one'), lambda: link(held[1], 'two'),
             lambda: print(open(f'/proc/self/fd/{held[1]}').read())):
    try: work(); print('done')
    except OSError as error: print(error.errno)";
        let mut running = sandbox.spawn(["python3", "-c", script]);
        running.expect("ready");
        for name in ["a.key", "a.sec", "free"] {
            fs::remove_file(sandbox.path(format!("work/{name}"))).unwrap();
        }
        let outcome = sandbox.resume(running);
        assert_eq!(outcome.stdout, "ready\n13\n13\n13\n13\n", "{outcome:#?}");
        assert_eq!(sandbox.read("outside/a.key"), "kept");
        // The twin: with its name, the same works.
        let script = "echo x > new; exec 3< new; echo own > /proc/self/fd/3; cat new";
        assert_eq!(sandbox.sh(script).stdout, "own\n");
    });
}

#[test]
fn a_closed_directory_does_not_carry_a_denied_file_away() {
    for_each_user(|user| {
        for rule in ["**/*.key", "*/x.key", "d/x.key"] {
            let sandbox = Sandbox::of(user).allow_write(".").deny_write(rule);
            for directory in ["d", "twin"] {
                let made = format!("mkdir {directory}; echo kept > {directory}/other");
                sandbox.sh_outside(&made).succeeds();
            }
            sandbox.sh_outside("echo kept > d/x.key").succeeds();
            sandbox
                .sh("chmod 0 d; python3 -c 'import os; os.rename(\"d\", \"e\")'; chmod 755 d")
                .succeeds();
            assert_eq!(sandbox.read("work/d/x.key"), "kept\n", "{rule}");
            sandbox.sh("mv twin moved").succeeds();
            assert_eq!(sandbox.read("work/moved/other"), "kept\n", "{rule}");
        }
    });
}

#[test]
fn no_device_is_made_by_a_rename() {
    no_device_is_made_in(Sandbox::new().allow_write(".").deny_write("denied"));
    no_device_is_made_in(Sandbox::new().allow_write("."));
}

fn no_device_is_made_in(sandbox: Sandbox) {
    sandbox.file("work/file", "");
    let rename = |flags: u32| {
        let script = format!(
            "import ctypes; print(ctypes.CDLL(None).renameat2(-100, b'file', -100, b'moved', {flags}))"
        );
        sandbox.run(["python3", "-c", &script]).stdout
    };
    assert_eq!(rename(4), "-1\n", "RENAME_WHITEOUT");
    assert!(exists(sandbox.path("work/file")) && !exists(sandbox.path("work/moved")));
    assert_eq!(rename(1), "0\n", "RENAME_NOREPLACE");
    assert!(!exists(sandbox.path("work/file")) && exists(sandbox.path("work/moved")));
}

#[test]
fn a_fifo_whose_other_end_may_not_be_opened_does_not_stop_the_rest() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read(".env");
        sandbox.file("work/.env", "TOPSECRET");
        let script = "mkfifo f; chmod 444 f; for i in 1 2 3 4; do cat f & done; sleep 0.2; \
            kill -9 $(jobs -p); mkfifo g; (echo through > g &); cat g; echo made > new; cat new";
        assert_eq!(sandbox.sh(script).stdout, "through\nmade\n");
    });
}

#[test]
fn a_full_descriptor_table_truncates_nothing() {
    let script = "import errno, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
kept = []
try:
    while True: kept.append(os.open('/dev/null', os.O_RDONLY))
except OSError as error: print(errno.errorcode[error.errno])
for flags in (os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_TRUNC | os.O_CREAT, os.O_TRUNC):
    try: os.open('secret/twin', flags)
    except OSError as error: print(errno.errorcode[error.errno])
try: os.open('secret/new', os.O_WRONLY | os.O_CREAT)
except OSError as error: print(errno.errorcode[error.errno])
print(open(kept.pop(), closefd=True).read(), os.stat('secret/twin').st_size, os.listdir('secret'))
for name, flags in (('one', os.O_WRONLY), ('two', os.O_RDWR), ('three', os.O_RDONLY)):
    fd = os.open('secret/' + name, flags | os.O_TRUNC)
    print(fd, os.stat('secret/' + name).st_size)
    if flags: os.write(fd, b'new')
    os.close(fd)";
    for_each_user(|user| {
        for deny in [false, true] {
            let sandbox = carved(user);
            let sandbox = if deny { sandbox.deny_read("key.pem") } else { sandbox };
            for name in ["one", "two", "three"] {
                sandbox.file(format!("work/secret/{name}"), "Secret");
            }
            let inside = sandbox.run(["python3", "-c", script]);
            assert_eq!(sandbox.read("work/secret/twin"), "Secret", "{inside:#?}");
            assert_eq!(
                ["one", "two", "three"].map(|n| sandbox.read(format!("work/secret/{n}"))),
                ["new", "new", ""],
                "{inside:#?}"
            );
            for name in ["one", "two", "three"] {
                sandbox.file(format!("work/secret/{name}"), "Secret");
            }
            let outside = sandbox.run_outside(["python3", "-c", script]);
            assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
            outside.succeeds();
        }
    });
}

#[test]
fn an_allowed_directory_that_others_make_again_does_not_pass_for_the_old_one() {
    // File systems give the number of a removed directory to the next one that is made.
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let sandbox = ["area", "kept"].iter().fold(sandbox, |sandbox, name| {
            sandbox.dir(name);
            sandbox.file(format!("{name}/.env"), "Secret");
            sandbox.allow_write(format!("../{name}")).deny_write(format!("../{name}/.env"))
        });
        let running = sandbox.paused("echo x > ../kept/new; echo x > ../area/new");
        fs::remove_dir_all(sandbox.path("area")).unwrap();
        sandbox.dir("area");
        sandbox.resume(running).fails();
        assert!(!exists(sandbox.path("area/new")));
        assert!(exists(sandbox.path("kept/new")));
    });
}

#[test]
fn a_new_file_does_not_pass_for_a_denied_one_that_others_removed() {
    for_each_user(|user| {
        let sandbox = carved(user);
        let running =
            sandbox.paused("set -e; for i in 1 2 3; do echo x > n$i; echo x >> n$i; done");
        fs::remove_file(sandbox.path("work/secret/.env")).unwrap();
        sandbox.resume(running).succeeds();
        assert_eq!(sandbox.read("work/n1"), "x\nx\n");
    });
}

#[test]
fn a_directory_that_others_put_in_the_place_of_a_listed_one_is_not_listed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).deny_read("../area/.ssh").deny_read("../kept/.ssh");
        for name in ["area", "kept"] {
            sandbox.dir(name);
            sandbox.dir(format!("{name}/.ssh"));
            sandbox.file(format!("{name}/before"), "");
        }
        let running = sandbox.paused("ls -A ../kept; ls -A ../area");
        for name in ["area", "kept"] {
            sandbox.file(format!("{name}/later"), "");
        }
        // With the number that the file system gives to the next one.
        fs::remove_dir_all(sandbox.path("area")).unwrap();
        sandbox.dir("area");
        sandbox.file("area/later", "");
        let outcome = sandbox.resume(running);
        outcome.fails();
        assert_eq!(outcome.stdout, "ready\n.ssh\nbefore\nlater\n", "{outcome:#?}");
    });
}

#[test]
fn what_others_make_beside_what_may_not_be_read_is_not_read() {
    // Also where the broker opens what is read, or some of it: in all ways what was there at launch counts.
    // Only a file in the place of one is that one, as editors and git-config(1) write it.
    for_each_user(|user| {
        for opened in ["nothing", "what is new", "all"] {
            let sandbox = Sandbox::of(user).allow_write(".").deny_read("~/.ssh").deny_read("~/id");
            let sandbox = match opened {
                "what is new" => sandbox.allow_write("~/missing"),
                "all" => sandbox.deny_read(".env"),
                _ => sandbox,
            };
            sandbox.file("work/.env", "TOPSECRET");
            sandbox.dir("home/.ssh");
            sandbox.dir("home/d");
            sandbox.dir("home/remade");
            sandbox.file("home/.ssh/id", "TOPSECRET\n");
            sandbox.file("home/id", "TOPSECRET\n");
            for name in ["notes", "edited", "linked", "named", "other"] {
                sandbox.file(format!("home/{name}"), "notes\n");
            }
            let script = "cat later later-d/x other ~/later ~/later-d/x ~/linked ~/named ~/other/x \
                ~/remade/x; ls ~/later-d; cat ~/notes ~/edited ~/d/later; ls ~; cat made; \
                cd ~ && cat edited; cat < edited; test -r edited && head -c 3 edited";
            let running = sandbox.paused(script);
            for directory in ["home/later-d", "work/later-d"] {
                sandbox.dir(directory);
            }
            for name in ["home/later", "home/later-d/x"] {
                sandbox.file(name, "TOPSECRET\n");
            }
            sandbox.file("home/new", "edited\n");
            let home = |name: &str| sandbox.path(format!("home/{name}"));
            fs::rename(home("new"), home("edited")).unwrap();
            for name in ["linked", "named", "other"] {
                fs::remove_file(home(name)).unwrap();
            }
            symlink(".ssh/id", home("linked")).unwrap();
            fs::hard_link(home("id"), home("named")).unwrap();
            sandbox.dir("home/other");
            sandbox.file("home/other/x", "TOPSECRET\n");
            fs::remove_dir(home("remade")).unwrap();
            sandbox.dir("home/remade");
            sandbox.file("home/remade/x", "TOPSECRET\n");
            for name in ["work/later", "work/later-d/x", "work/made", "home/d/later"] {
                sandbox.file(name, "mine\n");
            }
            let outcome = sandbox.resume(running);
            let listed = "d\nedited\nid\nlater\nlater-d\nlinked\nnamed\nnotes\nother\nremade\n";
            let wanted = format!(
                "ready\nmine\nmine\nnotes\nedited\nmine\n{listed}mine\nedited\nedited\nedi"
            );
            assert_eq!(outcome.stdout, wanted, "{opened} {outcome:#?}");
        }
    });
}

#[test]
fn an_allowed_path_inside_of_a_denied_one_does_not_bring_that_about() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_write("hooks/x").deny_write("hooks");
        let sandbox = sandbox.allow_write("~/a/b");
        sandbox.sh("mkdir -p ~/a/b && echo x > ~/a/b/file && mkdir -p made/x").succeeds();
        assert!(sandbox.path("home/a/b/file").exists() && sandbox.path("work/made/x").exists());
        sandbox.sh("mkdir hooks").fails();
        assert!(!sandbox.path("work/hooks").exists());
        sandbox.dir("work/hooks");
        sandbox.sh("mkdir hooks/x").fails();
        assert!(!sandbox.path("work/hooks/x").exists());
    });
}

/// As the cache of a package manager in a home with keys, before its first use.
#[test]
fn what_is_made_at_a_missing_allowed_path_beside_what_may_not_be_read_is_usable() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("~/.cache/tool").deny_read("~/.ssh");
        sandbox.dir("home/.ssh");
        sandbox.file("home/.ssh/key", "TOPSECRET");
        let script = "mkdir -p ~/.cache/tool/a && echo made > ~/.cache/tool/a/file && cat ~/.cache/tool/a/file \
            && mv ~/.cache/tool/a ~/.cache/tool/b && cat ~/.cache/tool/b/file && ls ~/.cache/tool; \
            cat ~/.ssh/key; echo x > ~/.cache/other; echo x > ~/.profile; :";
        for _ in 0..2 {
            let outcome = sandbox.sh(&format!("rm -rf ~/.cache/tool/b; {script}"));
            assert_eq!(outcome.stdout, "made\nmade\nb\n", "{outcome:#?}");
        }
        assert!(
            !sandbox.path("home/.cache/other").exists() && !sandbox.path("home/.profile").exists()
        );
        // The rest is read as if nothing was missing: what the target alone may look at, too.
        let script = "mkdir -p ~/.cache/tool && cd ~/.cache/tool && echo new > new && ln -s new link && cat link \
            && (rm new && cat) < new && ln -sf ~/.ssh/key link; cat link; \
            tr '\\0' ' ' < /proc/$$/environ | grep -c PATH=; cat ~/.cache/before; \
            exec 3< ~/.ssh/key; cat ~/.cache/tool/../../.ssh/key";
        sandbox.file("home/.cache/before", "before\n");
        let outcome = sandbox.sh(script);
        assert_eq!(outcome.stdout, "new\nnew\n1\nbefore\n", "{outcome:#?}");
        let key = sandbox.name("home/.ssh/key");
        assert!(outcome.reports_of("Filesystem").iter().any(|report| report[1] == *key));
    });
}

#[test]
fn a_path_that_is_open_anyway_can_be_made_moved_and_removed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_read("made").allow_read("there");
        let sandbox = sandbox.deny_read("secret").deny_read("*/key").allow_read("open/key");
        for directory in ["there", "secret", "open", "closed"] {
            sandbox.dir(format!("work/{directory}"));
        }
        sandbox.file("work/closed/key", "TOPSECRET\n");
        let script = "mkdir made && echo x > made/file && mv made moved && cat moved/file && mv there gone \
            && rmdir gone && mv moved made && cat made/file";
        assert_eq!(sandbox.sh(script).stdout, "x\nx\n");
        // What opens something is heeded: nothing gets there that was closed.
        sandbox.sh("mv closed/key open/; rmdir open; mv -T closed open; cat */key; mv open away");
        assert_eq!(sandbox.read("work/closed/key"), "TOPSECRET\n");
        assert!(!sandbox.path("work/open/key").exists());
    });
}
