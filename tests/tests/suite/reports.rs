//! Reports: one JSON line a denial, at the end or at once, and no noise.

use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tests::{Outcome, Sandbox, Victim, eventually, for_each_user};

/// Whether a Filesystem report names this operation and path.
fn names(reports: &[Value], operation: &str, path: &str) -> bool {
    let wanted = |report: &Value| {
        report.get("Filesystem").is_some_and(|r| r[0] == operation && r[1] == path)
    };
    reports.iter().any(wanted)
}

#[test]
fn a_refused_write_is_reported_when_the_command_has_ended() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let path = sandbox.name("outside/made");
        let outcome =
            sandbox.sh(&format!("echo x > {path}; echo x > {path}; echo after >&2; true"));
        outcome.succeeds();
        assert!(names(&outcome.reports, "write", &path), "{outcome:#?}");
        let same =
            outcome.reports_of("Filesystem").iter().filter(|r| r[1] == path.as_str()).count();
        assert_eq!(same, 1, "once each: {outcome:#?}");
        let first = outcome.stderr.find("{\"").unwrap();
        assert!(outcome.stderr.find("after").unwrap() < first, "at the end: {outcome:#?}");
    });
}

#[test]
fn every_kind_of_refused_write_is_reported() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").trap();
        sandbox.file("outside/file", "kept");
        sandbox.dir("outside/empty");
        sandbox.file("work/mine", "mine!");
        let out = sandbox.name("outside");
        for (attack, target) in [
            ("file write @/file", "file"),
            ("file creat @/new1", "new1"),
            ("file mkdir @/new2", "new2"),
            ("file unlink @/file", "file"),
            ("file rmdir @/empty", "empty"),
            ("file rename mine @/new3", "new3"),
            ("file link mine @/new4", "new4"),
            ("file symlink mine @/new5", "new5"),
            ("file truncate @/file", "file"),
            ("file mkfifo @/new6", "new6"),
            ("meta chmod @/file", "file"),
            ("meta utimensat @/file", "file"),
            ("meta setxattr @/file", "file"),
        ] {
            let _ = std::fs::remove_file(sandbox.path("trap"));
            let outcome = sandbox.probe(attack.replace('@', &out));
            outcome.all_refused();
            let path = format!("{out}/{target}");
            assert!(names(&outcome.traps, "write", &path), "{attack}: {outcome:#?}");
        }
    });
}

#[test]
fn refused_reads_are_reported_only_if_the_command_failed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).deny_read("../outside/secret");
        let path = sandbox.name("outside/secret");
        sandbox.file("outside/secret", "Secret");
        let failed = sandbox.sh(&format!("cat {path}; exit 3"));
        failed.exits(3);
        assert!(names(&failed.reports, "read", &path), "{failed:#?}");
        let fine = sandbox.sh(&format!("cat {path}; true"));
        fine.succeeds();
        assert!(fine.reports.is_empty(), "{fine:#?}");
    });
}

#[test]
fn a_trap_descriptor_gets_all_denials_at_once_and_standard_error_none() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).deny_read("../outside/secret").trap();
        sandbox.file("outside/secret", "Secret");
        let (secret, made) = (sandbox.name("outside/secret"), sandbox.name("outside/made"));
        let script = format!(
            "cat {secret} 2>/dev/null; mkdir {made} 2>/dev/null; until [ -e go ]; do sleep 0.02; done"
        );
        let running = sandbox.spawn(["sh", "-c", &script]);
        let told = |path: &str| sandbox.read("trap").contains(path);
        assert!(tests::eventually(|| told(&secret) && told(&made)), "{}", sandbox.read("trap"));
        sandbox.file("work/go", "");
        let outcome = running.wait();
        outcome.succeeds();
        assert!(names(&outcome.traps, "read", &secret));
        assert!(names(&outcome.traps, "write", &made));
        assert_eq!(outcome.stderr, "");
    });
}

#[test]
fn a_trap_descriptor_that_nobody_reads_changes_nothing() {
    let sandbox = Sandbox::new();
    let out = sandbox.name("outside");
    // The pipe's reader reads nothing until all is over; 2000 lines would fill it many times.
    let script = r#"{ "$@" 3>&1 >/dev/null; echo "status=$?" >&2; : >over; } | until [ -e over ]; do sleep 0.02; done"#;
    let mut words = vec!["bash".into(), "-c".into(), script.into(), "bash".into()];
    words.extend(sandbox.command_line());
    words.extend(["--trap-fd", "3", "--", "sh", "-c"].map(Into::into));
    let attack = format!(
        "i=0; while [ $i -lt 2000 ]; do echo x 2>/dev/null > {out}/f$i; \
                          i=$((i+1)); done; exit 6"
    );
    words.push(attack.into());
    let outcome = sandbox.run_outside(words);
    assert!(outcome.stderr.contains("status=6"), "{outcome:#?}");
    assert_eq!(std::fs::read_dir(sandbox.path("outside")).unwrap().count(), 0);
}

/// What is full for good can be written to, as poll(2) has it.
#[test]
fn standard_error_that_takes_nothing_holds_nobody_up() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let words: Vec<_> =
            sandbox.command_line().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let script = "mkdir ../outside/made; exit 3";
        for full in ["2>/dev/full", "3>/dev/full --trap-fd 3 2>/dev/null"] {
            let line = format!("timeout 30 {} {full} -- sh -c '{script}'", words.join(" "));
            sandbox.sh_outside(&line).exits(3);
        }
        assert!(!sandbox.path("outside/made").exists());
    });
}

#[test]
fn debug_output_that_nobody_reads_changes_nothing() {
    let sandbox = Sandbox::new();
    let out = sandbox.name("outside");
    // The pipe's reader waits until the command has ended; 2000 lines would fill it several times.
    let script = r#""$@" 2>&1 >said | { until grep -qs done said; do sleep 0.02; done; echo awake; grep -c refused; }"#;
    let mut words = vec!["bash".into(), "-c".into(), script.into(), "bash".into()];
    words.extend(sandbox.command_line());
    let attack = format!(
        "i=0; while [ $i -lt 2000 ]; do echo x 2>/dev/null > {out}/f$i; \
                          i=$((i+1)); done; echo done"
    );
    words.extend(["--debug", "--", "sh", "-c", &attack].map(Into::into));
    let outcome = sandbox.run_outside(words);
    let lines: Vec<_> = outcome.stdout.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "awake"), "{outcome:#?}");
    assert!(lines[1].parse::<u32>().unwrap() > 100, "what fits is there: {outcome:#?}");
}

#[test]
fn a_trap_descriptor_may_be_a_pipe_that_another_user_made() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let made = sandbox.name("outside/made");
        // Standard output is a pipe that the test itself made.
        let mut words = vec!["sh".into(), "-c".into(), r#"exec "$@" 3>&1"#.into(), "sh".into()];
        words.extend(sandbox.command_line());
        let attack = format!("mkdir {made} 2>/dev/null; exit 6");
        words.extend(["--trap-fd", "3", "--", "sh", "-c", &attack].map(Into::into));
        let outcome = sandbox.run_outside(words);
        outcome.exits(6);
        assert!(outcome.stdout.contains(&made), "{outcome:#?}");
        assert_eq!(outcome.stderr, "");
    });
}

#[test]
fn a_closed_trap_reader_changes_nothing() {
    let sandbox = Sandbox::new();
    let script = r#"{ "$@" 3>&1 >/dev/null; echo "status=$?" >&2; } | true"#;
    let mut words = vec!["bash".into(), "-c".into(), script.into(), "bash".into()];
    words.extend(sandbox.command_line());
    let attack = format!("sleep 0.2; mkdir {}/d 2>/dev/null; exit 6", sandbox.name("outside"));
    words.extend(["--trap-fd", "3", "--", "sh", "-c", &attack].map(Into::into));
    let outcome = sandbox.run_outside(words);
    assert!(outcome.stderr.contains("status=6"), "{outcome:#?}");
}

#[test]
fn a_flood_of_denials_is_cut_at_64_lines_and_counted() {
    let sandbox = Sandbox::new();
    let out = sandbox.name("outside");
    let script = format!(
        "i=0; while [ $i -lt 200 ]; do mkdir {out}/d$i 2>/dev/null; \
                          i=$((i+1)); done; exit 1"
    );
    let outcome = sandbox.sh(&script);
    outcome.exits(1);
    assert_eq!(outcome.reports_of("Filesystem").len(), 64, "{outcome:#?}");
    assert_eq!(outcome.reports.len(), 65);
    assert!(outcome.reports[64].to_string().contains("136"), "{}", outcome.reports[64]);
}

#[test]
fn what_tools_probe_on_their_own_is_not_reported() {
    let quiet = |outcome: &Outcome| assert!(outcome.reports.is_empty(), "{outcome:#?}");
    let sandbox = Sandbox::new().allow_write(".");
    sandbox.file("work/module.py", "x = 1\n");
    quiet(sandbox.sh("true; ls / > /dev/null; test -w /etc; which sh > /dev/null").succeeds());
    quiet(sandbox.run(["python3", "-c", "import json, module"]).succeeds());
    quiet(&sandbox.sh("ls /nonexistent 2>/dev/null"));
    quiet(sandbox.sh("git init -q . && git status > /dev/null").succeeds());
}

#[test]
fn refused_network_is_reported() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).trap();
        let outcome = sandbox.probe("socket 2 3 1 + bind4 127.0.0.1 5 + listen-unbound");
        outcome.all_refused();
        let lines = outcome.traps.iter().filter(|trap| trap.get("Network").is_some()).count();
        assert_eq!(lines, 3, "{outcome:#?}");
        let bind = outcome
            .traps
            .iter()
            .filter_map(|trap| trap.get("Network"))
            .any(|trap| trap[0] == "bind" && trap[1] == "127.0.0.1:5");
        assert!(bind, "{outcome:#?}");
    });
}

#[test]
fn network_is_reported_of_a_command_that_succeeded() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_domains(["allowed.example"]);
        // As an agent runs everything: in a pipe, whose status is the last command's.
        let script = "curl -sS --max-time 5 http://refused.example/ 2>&1 | tail -n 1";
        let outcome = sandbox.sh(script);
        outcome.succeeds();
        let domain = outcome.reports_of("Network");
        assert_eq!(domain.len(), 1, "{outcome:#?}");
        assert_eq!(domain[0][1], "refused.example:80");
        let line = "landstrip: to allow this: network.allowedDomains += [\"refused.example\"]\n";
        assert!(outcome.stderr.ends_with(line), "{outcome:#?}");
        let fine = sandbox.sh("true");
        fine.succeeds();
        assert_eq!(fine.stderr, "");
    });
}

#[test]
fn a_command_that_succeeded_has_five_lines_with_writes_first() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let out = sandbox.name("outside");
        let script = format!(
            "python3 -c 'import socket
try: socket.create_connection((\"192.0.2.1\", 443))
except OSError: pass'
        for i in 1 2 3 4 5 6; do mkdir {out}/d$i 2>/dev/null; done; exit $0"
        );
        let outcome = sandbox.run(["sh", "-c", &script, "0"]);
        outcome.succeeds();
        assert_eq!(outcome.reports_of("Filesystem").len(), 5, "{outcome:#?}");
        assert_eq!(outcome.reports.len(), 6);
        assert!(outcome.reports[5].to_string().contains("\"2\""), "{}", outcome.reports[5]);
        let failed = sandbox.run(["sh", "-c", &script, "1"]);
        failed.exits(1);
        assert_eq!(failed.reports_of("Filesystem").len(), 6, "{failed:#?}");
        assert_eq!(failed.reports_of("Network").len(), 1, "{failed:#?}");
    });
}

#[test]
fn what_is_suggested_helps() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_write(".env");
        sandbox.file("work/.env", "kept");
        let script = "mkdir -p ~/.npm/cache; echo x > ~/.npm/a; echo x > .env; exit 1";
        let outcome = sandbox.sh(script);
        outcome.exits(1);
        let line = "landstrip: to allow this: filesystem.allowWrite += [\"~/.npm\"]; \
                    denied by: filesystem.denyWrite [\"./.env\"]\n";
        assert!(outcome.stderr.ends_with(line), "{outcome:#?}");
        let sandbox = sandbox.allow_write("~/.npm");
        let outcome = sandbox.sh("mkdir -p ~/.npm/cache && echo x > ~/.npm/a");
        outcome.succeeds();
        assert_eq!(outcome.stderr, "");
    });
}

#[test]
fn what_fails_outside_too_is_not_reported() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.file("outside/there", "kept");
        sandbox.file("work/mine", "mine");
        let there = sandbox.name("outside/there");
        let out = sandbox.name("outside");
        for script in [
            format!("mv missing {out}/new"),
            // First with RENAME_NOREPLACE, which says that the directory is there.
            "mkdir sub; touch sub/moved; mv sub/moved $PWD && test -e moved".to_owned(),
            "python3 -c 'import os; os.rmdir(os.getcwd())'".to_owned(),
            format!("mv mine {out}/$(printf %0300d 0)"),
            format!("python3 -c 'import os; os.rename(\"missing\", \"{out}/new\")'"),
            // An existing file is opened for reading, whatever O_CREAT says.
            format!(
                "flock -s {there} true && python3 -c 'import os; os.open(\"{there}\", os.O_CREAT)'"
            ),
        ] {
            let outcome = sandbox.sh(&format!("{script} 2>/dev/null; exit 1"));
            assert!(outcome.exits(1).reports.is_empty(), "{script}: {outcome:#?}");
        }
        sandbox.dir("outside/empty");
        std::os::unix::fs::symlink(sandbox.path("work"), sandbox.path("outside/link")).unwrap();
        let refused = sandbox.sh(&format!(
            "mv mine {out}/new; rmdir {out}/empty; rm {out}/link; : >> {there}; exit 1"
        ));
        for path in ["new", "there", "empty", "link"] {
            assert!(names(&refused.reports, "write", &format!("{out}/{path}")), "{refused:#?}");
        }
    });
}

const REPORTS: [&str; 4] = ["all", "changes", "network", "none"];

#[test]
fn what_is_not_reported_is_refused_all_the_same() {
    for_each_user(|user| {
        for what in REPORTS {
            let sandbox = Sandbox::of(user).allow_write(".").deny_read("../outside/secret");
            let sandbox = sandbox.options(["--report", what]);
            sandbox.file("outside/secret", "Secret");
            sandbox.file("outside/beside", "readable");
            let (secret, beside) = (sandbox.name("outside/secret"), sandbox.name("outside/beside"));
            let made = sandbox.name("outside/made");
            let outcome = sandbox.sh(&format!(
                "cat {beside}; ls {} >listed; echo own >own; cat own; \
                 cat {secret}; echo x >{made}; mkdir {made}; python3 -c \
                 'import socket; socket.create_connection((\"192.0.2.1\", 443))'; exit 3",
                sandbox.name("outside")
            ));
            outcome.exits(3);
            assert_eq!(outcome.stdout, "readableown\n", "{what}: {outcome:#?}");
            assert_eq!(sandbox.read("work/listed"), "beside\nsecret\n", "{what}: {outcome:#?}");
            assert!(!sandbox.path("outside/made").exists(), "{what}: {outcome:#?}");
            assert_eq!(names(&outcome.reports, "read", &secret), what == "all", "{outcome:#?}");
            let watches_changes = ["all", "changes"].contains(&what);
            assert_eq!(names(&outcome.reports, "write", &made), watches_changes, "{outcome:#?}");
            let network = usize::from(what != "none");
            assert_eq!(outcome.reports_of("Network").len(), network, "{what}: {outcome:#?}");
            assert_eq!(outcome.stderr.contains("{\""), what != "none", "{outcome:#?}");
        }
    });
}

/// The filter, or Landlock, would refuse these without anybody's knowing.
#[test]
fn what_no_policy_allows_is_named_if_the_command_failed_and_nothing_else_was_refused() {
    for_each_user(|user| {
        let attach = |process: &str| {
            format!(
                "import ctypes, os, signal\n\
                 child = os.fork()\n\
                 if child == 0:\n    signal.pause()\n\
                 failed = ctypes.CDLL(None).ptrace(16, {process}, None, None)\n\
                 os.kill(child, 9)\n\
                 exit(-failed)"
            )
        };
        let run = |words: &[&str]| Sandbox::of(user).run(words.iter().copied());
        let namespaces = "(namespaces and mounts: run it outside, or without a sandbox of its own)";
        let outside = "(of a process outside: run it outside, or start the program inside)";
        for (words, expected) in [
            (&["unshare", "-U", "true"][..], format!("unshare {namespaces}")),
            (&["chroot", "/", "true"], format!("chroot {namespaces}")),
            (
                &["python3", "-c", "import socket; socket.sethostname(socket.gethostname())"],
                "sethostname (administers the machine: run it outside)".to_owned(),
            ),
            (
                &["python3", "-c", "import ctypes; exit(-ctypes.CDLL(None).klogctl(10, None, 0))"],
                "syslog (the kernel's log: read it outside)".to_owned(),
            ),
            (
                &["python3", "-c", &attach(&std::process::id().to_string())],
                format!("ptrace {outside}"),
            ),
        ] {
            let outcome = run(words);
            let line = format!("landstrip: refused under every policy: {expected}\n");
            assert!(outcome.fails().stderr.ends_with(&line), "{outcome:#?}");
            let script = "\"$@\"; echo x >made; exit 3";
            let outcome = run(&[&["sh", "-c", script, "sh"], words].concat());
            let is_named = outcome.exits(3).stderr.contains("under every policy");
            assert!(!is_named && !outcome.reports.is_empty(), "{outcome:#?}");
            let outcome = run(&[&["sh", "-c", "\"$@\"; true", "sh"], words].concat());
            assert!(!outcome.succeeds().stderr.contains("landstrip: "), "{outcome:#?}");
        }
        run(&["python3", "-c", &attach("child")]).succeeds();
    });
}

/// As crontab(1) fails, whose group may write where the caller may not.
#[test]
fn a_program_that_loses_its_rights_is_named_if_the_command_failed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for (name, mode) in [("elevated", 0o2755), ("plain", 0o755)] {
            let file = sandbox.program(format!("work/{name}"), "#!/bin/sh\nexit 3\n");
            std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
        }
        let run = |words: &[&str]| sandbox.run(words.iter().copied());
        let line = "landstrip: \"./elevated\" has a set-user-ID or set-group-ID bit, which has no effect \
                    inside: run it outside\n";
        assert_eq!(run(&["./elevated", "x"]).exits(3).stderr, line);
        assert_eq!(run(&["sh", "-c", "true;./elevated"]).exits(3).stderr, line);
        sandbox.program("work/script", "#!/bin/sh\nif true; then\n    A=b ./elevated x\nfi\n");
        sandbox.file("work/lines", "# ./elevated\nset -e\n./elevated | cat; exit 3\n");
        sandbox.file("work/others", "# ./elevated\necho ./elevated; exit 3\n");
        assert_eq!(run(&["./script"]).exits(3).stderr, line);
        assert_eq!(run(&["bash", "-eu", "./lines"]).exits(3).stderr, line);
        assert_eq!(run(&["bash", "./others"]).exits(3).stderr, "");
        assert_eq!(run(&["./plain", "./elevated"]).exits(3).stderr, "");
        assert_eq!(run(&["sh", "-c", "./elevated || true"]).succeeds().stderr, "");
    });
}

#[test]
fn a_signal_to_a_process_outside_is_told_of_where_the_command_ends_with_it() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut victim = Victim::of(user);
        let kill = format!("kill {}", victim.pid());
        let line =
            "landstrip: signals reach only processes of this run: send others from outside\n";
        let outcome = sandbox.sh(&kill);
        assert!(outcome.exits(1).stderr.ends_with(line), "{outcome:#?}");
        let outcome = sandbox.sh(&format!("{kill}; exit 3"));
        assert!(!outcome.exits(3).stderr.contains("landstrip"), "{outcome:#?}");
        let outcome = sandbox.sh("kill -9 $$");
        assert!(!outcome.exits(137).stderr.contains("landstrip"), "{outcome:#?}");
        assert_eq!(sandbox.sh("sleep 100 & kill $!").succeeds().stderr, "");
        assert!(victim.untouched(), "ESCAPED");
    });
}

#[test]
fn a_policy_can_leave_refused_reads_unwatched() {
    const LINE: &str =
        "landstrip: no refusal was seen; refused reads are reported only with --report all\n";
    for_each_user(|user| {
        let world = |policy: &str| {
            let sandbox = Sandbox::of(user).policy_json(policy);
            sandbox.file("work/secret", "Secret");
            sandbox.file("work/beside", "readable");
            sandbox
        };
        let unwatched = r#"{"filesystem":{"denyRead":["secret"]},"report":{"reads":false}}"#;
        let watched = r#"{"filesystem":{"denyRead":["secret"]},"report":{"reads":true}}"#;
        let read = "cat beside; cat secret";
        let sandbox = world(unwatched);
        let outcome = sandbox.sh(read);
        assert_eq!(outcome.fails().stdout, "readable", "{outcome:#?}");
        assert!(outcome.reports.is_empty() && outcome.stderr.ends_with(LINE), "{outcome:#?}");
        let outcome = sandbox.sh("cat secret; true");
        assert!(!outcome.succeeds().stderr.contains("landstrip: "), "{outcome:#?}");
        // Another report says enough.
        let outcome = sandbox.sh("echo x > made; cat secret");
        assert!(names(&outcome.reports, "write", &sandbox.name("work/made")), "{outcome:#?}");
        assert!(!outcome.stderr.contains("not watched"), "{outcome:#?}");
        for (policy, report, is_told) in [
            (unwatched, "all", true),
            (unwatched, "changes", false),
            (unwatched, "none", false),
            (watched, "all", true),
        ] {
            let sandbox = world(policy).options(["--report", report]);
            let outcome = sandbox.sh(read);
            assert_eq!(outcome.fails().stdout, "readable", "{outcome:#?}");
            let secret = sandbox.name("work/secret");
            assert_eq!(names(&outcome.reports, "read", &secret), is_told, "{report}: {outcome:#?}");
            assert!(!outcome.stderr.contains("not watched"), "{outcome:#?}");
        }
        // Nothing is denied.
        let sandbox = world(r#"{"filesystem":{},"report":{"reads":false}}"#);
        assert!(!sandbox.sh("exit 3").exits(3).stderr.contains("landstrip: "));
    });
}

/// Whether the kernel keeps signals inside by itself: else changes are watched though they need not be reported.
pub(super) fn has_scopes() -> bool {
    !landlock_lacks("scopes")
}

/// Whether the kernel has no such part of Landlock.
pub(super) fn landlock_lacks(part: &str) -> bool {
    let check = Sandbox::new().options(["--check"]).run(["true"]);
    check.succeeds().stdout.contains(&format!("Landlock lacks {part}"))
}

/// While the broker is stopped, only what is not notified goes on.
#[test]
fn what_is_not_watched_is_not_notified() {
    let watches_changes = !has_scopes();
    for (what, call, is_notified) in [
        ("all", "read ../outside/file", true),
        ("changes", "read ../outside/file", false),
        ("network", "read ../outside/file", false),
        ("changes", "mkdir made", true),
        ("network", "mkdir made", watches_changes),
        ("changes", "creat made", true),
        ("network", "creat made", watches_changes),
        ("none", "mkdir made", watches_changes),
        ("none", "read ../outside/file", false),
    ] {
        let sandbox = Sandbox::new().allow_write(".").deny_read("../outside/secret");
        sandbox.file("outside/secret", "Secret");
        sandbox.file("outside/file", "content");
        sandbox.sh_outside("mkfifo go").succeeds();
        let mut go = File::options().read(true).write(true).open(sandbox.path("work/go")).unwrap();
        let sandbox = sandbox.options(["--report", what]);
        // The probe is linked statically: it asks for nothing else that is notified unless all is.
        let script = format!("exec 3<go; echo $$; read x <&3; exec \"$0\" file {call}");
        let probe = Sandbox::probe_words("").remove(0);
        let mut running = sandbox.spawn(["sh".into(), "-c".into(), script.into(), probe]);
        running.expect("\n");
        let command = running.stdout().trim().to_owned();
        running.signal(Signal::SIGSTOP);
        assert!(eventually(|| is_stopped(running.pid())));
        go.write_all(b"\n").unwrap();
        if is_notified {
            assert!(eventually(|| stays_in_one_call(&command)), "{what} {call}");
            assert!(!running.stdout().contains("=OK"), "{what} {call}: {running:#?}");
            running.signal(Signal::SIGCONT);
        }
        running.expect("=OK");
        running.signal(Signal::SIGCONT);
    }
}

/// Whether all threads of a process are stopped.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
    })
}

/// Whether a process is in the same system call for a while, other than one that waits for input.
fn stays_in_one_call(pid: &str) -> bool {
    let call = || std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let first = call();
    let is_call = first.starts_with(|c: char| c.is_ascii_digit());
    let waits_for_input = first.starts_with(&format!("{} ", libc::SYS_read));
    is_call
        && !waits_for_input
        && (0..50).all(|_| {
            std::thread::sleep(Duration::from_millis(5));
            call() == first
        })
}

#[test]
fn what_the_broker_does_itself_is_done_whatever_is_reported() {
    for_each_user(|user| {
        for what in REPORTS {
            let sandbox = Sandbox::of(user).allow_write(".").deny_write(".env");
            let sandbox = sandbox.deny_read(".key").options(["--report", what]);
            for name in [".env", ".key"] {
                sandbox.file(format!("work/{name}"), "kept");
            }
            let outcome = sandbox.sh(
                "echo x >made; mv made moved; mkdir d; touch -d 2001-01-01 moved; cat moved; \
                 rm -r d; ln moved linked; unlink linked; ls -a; \
                 echo x >.env; rm -f .env; mv moved .env; mv .key key; cat .key; chmod 777 .env; exit 3",
            );
            outcome.exits(3);
            assert_eq!(outcome.stdout, "x\n.\n..\n.env\n.key\nmoved\n", "{what}: {outcome:#?}");
            assert_eq!(sandbox.read("work/.env") + &sandbox.read("work/.key"), "keptkept");
            let env = sandbox.name("work/.env");
            let watches_changes = ["all", "changes"].contains(&what);
            assert_eq!(names(&outcome.reports, "write", &env), watches_changes, "{outcome:#?}");
            let key = sandbox.name("work/.key");
            assert_eq!(names(&outcome.reports, "read", &key), what == "all", "{outcome:#?}");
        }
    });
}

#[test]
fn shared_memory_and_terminals_are_the_commands_own_whatever_is_reported() {
    for what in REPORTS {
        let sandbox = Sandbox::new().allow_write(".").options(["--report", what]);
        let outcome = sandbox.run([
            "python3",
            "-c",
            "import multiprocessing as m, multiprocessing.shared_memory as s, os, pty\n\
             m.Lock()\nx = s.SharedMemory(create=True, size=8)\n\
             s.SharedMemory(x.name).close()\nx.close()\nx.unlink()\n\
             master, terminal = pty.openpty()\n\
             os.close(os.open(os.ttyname(terminal), os.O_RDWR | os.O_NOCTTY))\nprint('fine')",
        ]);
        outcome.succeeds();
        assert_eq!(outcome.stdout, "fine\n", "{what}: {outcome:#?}");
    }
}

#[test]
fn check_says_what_is_not_watched() {
    let decides = if has_scopes() { "Landlock alone" } else { "the broker has to watch changes" };
    for (what, denied, expected) in [
        ("all", None, String::new()),
        ("changes", None, "refused reads are not reported; Landlock alone".into()),
        (
            "changes",
            Some("*.key"),
            "refused reads are not reported; the broker has to watch them".into(),
        ),
        ("network", None, format!("refusals on files are not reported; {decides}")),
        ("network", Some(".env"), "the broker has to watch".into()),
        ("none", None, format!("refusals are not reported; {decides}")),
    ] {
        let mut sandbox = Sandbox::new().allow_write(".").options(["--report", what, "--check"]);
        if let Some(denied) = denied {
            sandbox = sandbox.deny_read(denied);
        }
        let outcome = sandbox.run(["true"]);
        outcome.succeeds();
        assert_eq!(outcome.stdout.contains("not reported"), what != "all", "{outcome:#?}");
        assert!(outcome.stdout.contains(&expected), "{what}: {outcome:#?}");
    }
}

#[test]
fn check_says_what_a_policy_costs_and_why() {
    let checked = |sandbox: &Sandbox| {
        let outcome = sandbox.run(["true"]);
        outcome.succeeds();
        let lines: Vec<_> = outcome.stdout.lines().filter(|line| line.contains("cost:")).collect();
        assert!(lines.len() < 2, "{outcome:#?}");
        lines.concat()
    };
    let policy = || Sandbox::new().allow_write(".").options(["--check"]);
    assert_eq!(checked(&policy()), "");
    let glob = checked(&policy().deny_read("**/*.pem"));
    assert!(glob.contains("reads brokered; changes brokered: "), "{glob}");
    assert!(glob.ends_with("/**/*.pem can match at any depth"), "{glob}");
    let linked = policy().deny_write("secret");
    linked.file("work/secret", "");
    std::fs::hard_link(linked.path("work/secret"), linked.path("work/other")).unwrap();
    let linked = checked(&linked);
    let expected = "reads native; changes brokered beside what is denied, else watched for reports: \
                    something is denied inside what may be written";
    assert!(linked.ends_with(expected), "{linked}");
    let outside = policy().deny_read("../outside");
    let outside = checked(&outside);
    let expected =
        "reads watched for reports; changes watched for reports: something may not be read";
    assert!(outside.ends_with(expected), "{outside}");
}

/// The paths of the Filesystem reports, sorted: two threads report in the order that the scheduler gives them.
fn reported(outcome: &Outcome) -> Vec<String> {
    let paths = outcome.traps.iter().filter_map(|trap| trap["Filesystem"][1].as_str());
    let mut paths: Vec<_> = paths.map(str::to_owned).collect();
    paths.sort();
    paths
}

const MANY: usize = 300;

#[test]
fn each_of_many_denials_is_reported() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("../outside/secrets").trap();
        let secrets = sandbox.dir("outside/secrets");
        sandbox.file("outside/twin", "readable");
        (0..MANY).for_each(|number| drop(sandbox.file(secrets.join(number.to_string()), "s")));
        let script = format!(
            "import os\n\
             for n in range({MANY}):\n\
             \x20 for act in (open, os.mkdir, os.unlink)[: 1 + n % 3]:\n\
             \x20   try: act(f'../outside/secrets/{{n}}' if act is not os.mkdir else f'../outside/{{n}}')\n\
             \x20   except PermissionError: open('../outside/twin').close()"
        );
        let outcome = sandbox.run(["python3", "-c", &script]);
        outcome.succeeds();
        let expected = (0..MANY).flat_map(|number| {
            let secret = sandbox.name(format!("outside/secrets/{number}"));
            let made = sandbox.name(format!("outside/{number}"));
            [secret.clone(), made, secret].into_iter().take(1 + number % 3)
        });
        let mut expected: Vec<_> = expected.collect();
        expected.sort();
        assert_eq!(reported(&outcome), expected);
    });
}

#[test]
fn what_a_path_led_to_is_reported_though_it_does_not_any_more() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("../outside/secrets").trap();
        let secrets = sandbox.dir("outside/secrets");
        (0..MANY).for_each(|number| drop(sandbox.file(secrets.join(number.to_string()), "s")));
        let script = format!(
            "import os\n\
             for n in range({MANY}):\n\
             \x20 os.mkdir('d'); os.symlink(f'../../outside/secrets/{{n}}', 'd/link')\n\
             \x20 d = os.open('d', os.O_RDONLY)\n\
             \x20 try: open('d/link')\n\
             \x20 except PermissionError: pass\n\
             \x20 if n % 4 == 0: os.unlink('d/link')\n\
             \x20 if n % 4 == 1: os.fchmod(d, 0)\n\
             \x20 if n % 4 == 2: os.chmod('d', 0)\n\
             \x20 if n % 4 == 3: os.rename('d', 'e'); os.rename('e', 'd')\n\
             \x20 os.close(d); os.chmod('d', 0o700)\n\
             \x20 if n % 4: os.unlink('d/link')\n\
             \x20 os.rmdir('d')"
        );
        let outcome = sandbox.run(["python3", "-c", &script]);
        outcome.succeeds();
        let secret = |number| sandbox.name(format!("outside/secrets/{number}"));
        let mut secrets: Vec<_> = (0..MANY).map(secret).collect();
        secrets.sort();
        let found = reported(&outcome);
        if tests::slowness() > 1 {
            // A look that gets no processor for a tenth of a second is not waited for.
            secrets.retain(|secret| found.contains(secret));
            assert!(secrets.len() > MANY - MANY / 50, "{}", secrets.len());
        }
        assert_eq!(found, secrets);
    });
}

/// What permitted calls have just led to is remembered: not across what makes it lead elsewhere.
#[test]
fn a_path_that_leads_elsewhere_than_a_moment_ago_is_reported() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("../outside/secrets").trap();
        let secrets = sandbox.dir("outside/secrets");
        (0..MANY).for_each(|number| drop(sandbox.file(secrets.join(number.to_string()), "s")));
        let script = format!(
            "import os\n\
             out = os.path.realpath('../outside/secrets'); here = os.getcwd()\n\
             os.mkdir('d'); os.mkdir('e')\n\
             def fine(path, flags=0, **at): os.close(os.open(path, os.O_CREAT | flags, **at))\n\
             def refused(path, **at):\n\
             \x20 try: os.open(path, os.O_RDONLY, **at); print('opened', path)\n\
             \x20 except PermissionError: pass\n\
             for n in range(0, {MANY}, 5):\n\
             \x20 fine('d/file'); fine('d/file', os.O_RDWR)\n\
             \x20 os.rename('d', 'was'); os.symlink(out, 'd'); refused(f'd/{{n}}')\n\
             \x20 os.unlink('d'); os.rename('was', 'd'); fine('d/file')\n\
             \x20 os.symlink(f'{{out}}/{{n + 1}}', f'd/{{n}}'); refused(f'd/{{n}}')\n\
             \x20 fine('file'); os.chdir(out); refused(f'{{n + 2}}'); os.chdir(here); fine('file')\n\
             \x20 held = os.open(out, os.O_PATH)\n\
             \x20 os.fchdir(held); refused(f'{{n + 3}}'); os.chdir(here)\n\
             \x20 other = os.open('e', os.O_PATH); number = os.dup(other); fine('file', dir_fd=number)\n\
             \x20 os.dup2(held, number); refused(f'{{n + 4}}', dir_fd=number)\n\
             \x20 [os.close(fd) for fd in (held, other, number)]"
        );
        let outcome = sandbox.run(["python3", "-c", &script]);
        outcome.succeeds();
        assert_eq!(outcome.stdout, "");
        let expected = (0..MANY).map(|number| sandbox.name(format!("outside/secrets/{number}")));
        let mut expected: Vec<_> = expected.collect();
        expected.sort();
        assert_eq!(reported(&outcome), expected);
    });
}

#[test]
fn what_nobody_misses_is_printed_only_if_the_command_failed() {
    for_each_user(|user| {
        let script = "import socket, sys
for attempt in (lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4), lambda: open('../outside/.sh_history', 'w')):
    try: attempt(); print('let through')
    except OSError: pass
if 'also' in sys.argv:
    try: open('../outside/file', 'w')
    except OSError: pass
sys.exit(int(sys.argv[1]))";
        let run = |words: &[&str]| {
            let sandbox = Sandbox::of(user).allow_write(".");
            let outcome = sandbox.run([&["python3", "-c", script], words].concat());
            assert_eq!(outcome.stdout, "", "{outcome:#?}");
            outcome
        };
        assert_eq!(run(&["0"]).succeeds().stderr, "");
        let outcome = run(&["0", "also"]);
        assert_eq!(outcome.succeeds().reports.len(), 1, "{outcome:#?}");
        assert!(outcome.reports[0].to_string().contains("outside/file"), "{outcome:#?}");
        assert_eq!(run(&["3"]).exits(3).reports.len(), 2);
    });
}

/// Some programs ask whether they may, and give up by the answer alone.
#[test]
fn an_answer_of_no_is_reported_if_the_command_failed_and_nothing_was_refused() {
    for_each_user(|user| {
        let script = "import os, sys
may = os.access(os.path.expanduser('~/.npm'), os.W_OK)
if 'also' in sys.argv:
    try: open('../outside/file', 'w')
    except OSError: pass
sys.exit(0 if may or 'fine' in sys.argv else 3)";
        let sandbox = |allowed: &str| {
            let sandbox = Sandbox::of(user).allow_write(allowed);
            let asked = sandbox.dir("home/.npm");
            (sandbox, asked.to_str().unwrap().to_owned())
        };
        let run = |allowed: &str, words: &[&str]| {
            let (sandbox, asked) = sandbox(allowed);
            (sandbox.run([&["python3", "-c", script], words].concat()), asked)
        };
        let (outcome, asked) = run(".", &[]);
        assert!(names(&outcome.exits(3).reports, "write", &asked), "{outcome:#?}");
        let advice = "landstrip: to allow this: filesystem.allowWrite += [\"~/.npm\"]\n";
        assert!(outcome.stderr.ends_with(advice), "{outcome:#?}");
        assert_eq!(run("~/.npm", &[]).0.succeeds().stderr, "");
        assert_eq!(run(".", &["fine"]).0.succeeds().stderr, "");
        let (outcome, asked) = run(".", &["also"]);
        assert!(!names(&outcome.exits(3).reports, "write", &asked), "{outcome:#?}");
        assert_eq!(outcome.reports.len(), 1, "{outcome:#?}");
        let (trapped, asked) = sandbox(".");
        let outcome = trapped.trap().run(["python3", "-c", script]);
        assert!(names(&outcome.traps, "write", &asked), "{outcome:#?}");
    });
}

#[test]
fn variables_that_were_withheld_are_named_if_the_command_failed_and_nothing_was_refused() {
    let policy = |allow: &str| format!(r#"{{"environment": {{"deny": ["*_TOKEN"]{allow}}}}}"#);
    for_each_user(|user| {
        let run = |allow: &str, script: &str| {
            let sandbox = Sandbox::of(user).policy_json(policy(allow));
            sandbox.env("SOME_TOKEN", "value").env("OTHER", "other").sh(script)
        };
        let ask = "test \"$SOME_TOKEN$OTHER\" = valueother";
        assert_eq!(
            run("", ask).fails().stderr,
            "landstrip: variables withheld (to pass them, name them in environment.allow, beside \"*\"): [\"SOME_TOKEN\"]\n"
        );
        assert_eq!(run(r#", "allow": ["*", "SOME_TOKEN"]"#, ask).succeeds().stderr, "");
        assert_eq!(run("", "! test \"$SOME_TOKEN\"").succeeds().stderr, "");
        for (script, status) in [("landstrip-no-such", 127), ("kill -INT $$", 130)] {
            assert!(!run("", script).exits(status).stderr.contains("withheld"), "{script}");
        }
        let outcome = run("", "echo x >made; exit 3");
        assert!(!outcome.exits(3).stderr.contains("withheld"), "{outcome:#?}");
    });
}

/// What tools keep of themselves, and do the same without.
#[test]
fn what_tools_do_the_same_without_is_not_shown_whatever_the_status() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        for dir in ["home/.npm", "home/.npm/_logs", "home/.cargo", "home/.terraform.d"] {
            sandbox.dir(dir);
        }
        let kept = [".npm/_logs/a", ".cargo/.package-cache", ".terraform.d/checkpoint_signature"];
        let tries = kept.map(|path| format!("echo x 2>/dev/null > ~/{path}; ")).concat();
        assert_eq!(sandbox.sh(&format!("({tries}) 2>/dev/null; exit 0")).succeeds().stderr, "");
        let failed = sandbox.sh(&format!("({tries}) 2>/dev/null; exit 3"));
        assert_eq!(failed.exits(3).reports, [] as [Value; 0], "{failed:#?}");
        let more = sandbox.sh(&format!("({tries} echo x > ~/.npm/b) 2>/dev/null; exit 3"));
        assert_eq!(more.exits(3).reports.len(), 1, "{more:#?}");
        assert!(names(&more.reports, "write", &sandbox.name("home/.npm/b")), "{more:#?}");
        assert!(!sandbox.path("home/.npm/_logs/a").exists());
        // Programs are told of all.
        let trapped = sandbox.trap().sh(&format!("({tries}) 2>/dev/null; exit 0"));
        let told = trapped.traps.iter().filter(|trap| trap.get("Filesystem").is_some()).count();
        assert_eq!(told, kept.len(), "{trapped:#?}");
    });
}

#[test]
fn threads_are_named_by_their_own_process_alone() {
    for_each_user(|user| {
        let script = "import os, signal, threading
other = os.fork() or signal.pause()
done = threading.Event()
thread = threading.Thread(target=done.wait); thread.start()
def write(path, mode):
    try:
        with open(path, mode) as file: file.write('named')
        return open(path).read().strip()
    except OSError as error: return error.errno
own = f'/proc/self/task/{thread.native_id}/comm'
print(write(own, 'w'), write(own, 'r+'), write('/proc/self/comm', 'w'))
print(write(f'/proc/{other}/comm', 'w') != 'named', write('/proc/self/oom_score_adj', 'w') != 'named')
done.set(); os.kill(other, 9)";
        for policy in [
            "{}",
            r#"{"filesystem": {"allowWrite": ["."]}}"#,
            r#"{"filesystem": {"allowWrite": ["."], "denyRead": ["./secret"]}}"#,
        ] {
            let sandbox = Sandbox::of(user).policy_json(policy);
            sandbox.file("work/secret", "");
            let outcome = sandbox.run(["python3", "-c", script]);
            assert_eq!(outcome.stdout, "named named named\nTrue True\n", "{policy}: {outcome:#?}");
            let told = outcome.stderr.contains("/task/") || outcome.stderr.contains("self/comm");
            assert!(!told, "{policy}: {outcome:#?}");
        }
    });
}

#[test]
fn multipath_tcp_is_missing_as_from_a_kernel_without_it() {
    for_each_user(|user| {
        let script = "import errno, socket
try: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
except OSError as error: print(errno.errorcode[error.errno])
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print('listens')";
        let sandbox = Sandbox::of(user).allow_local_binding();
        let outcome = sandbox.run(["python3", "-c", script]);
        assert_eq!(outcome.succeeds().stdout, "EPROTONOSUPPORT\nlistens\n", "{outcome:#?}");
        assert_eq!(outcome.stderr, "", "{outcome:#?}");
        // Where nothing else was refused, it can be why.
        let failed = sandbox.run(["python3", "-c", &format!("{script}; raise SystemExit(1)")]);
        assert!(failed.exits(1).stderr.contains("inet stream protocol 262"), "{failed:#?}");
        let script = format!("{script}; open('../outside/refused', 'w')");
        let failed = sandbox.run(["python3", "-c", &script]);
        assert!(!failed.exits(1).stderr.contains("262"), "{failed:#?}");
    });
}
