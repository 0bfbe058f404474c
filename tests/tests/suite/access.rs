//! access(2) and its kin: programs are told what the policy lets them do, and act on it.

use tests::{Sandbox, for_each_user};

/// What Python's os.access, which calls access(2), says of each of `paths`: R, W, X for what is permitted.
fn answers(paths: &str) -> [String; 3] {
    let script = format!(
        "import os\nprint(' '.join(''.join(n for n, m in zip('RWX', (4, 2, 1)) if os.access(p, m)) or '-' \
         for p in '{paths}'.split()))"
    );
    ["/usr/bin/python3".into(), "-c".into(), script]
}

#[test]
fn answers_are_those_of_the_policy() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_write("kept").deny_read("secret");
        let secret = sandbox.name("outside/secret");
        let sandbox = sandbox.deny_read(secret);
        for file in ["work/file", "work/kept", "work/secret", "outside/file", "outside/secret"] {
            sandbox.file(file, "#!/bin/sh\n");
        }
        sandbox.dir("work/dir");
        let [work, outside] = ["work", "outside"].map(|name| sandbox.name(name));
        let paths = format!(
            "{work}/file {work}/dir {work} {work}/kept {work}/secret {work}/none {outside}/file \
             {outside}/secret {outside} /dev/null /dev/full"
        );
        let inside = sandbox.run(answers(&paths));
        let expected = "RW RWX RWX R - - R - RX RW RW";
        assert_eq!(inside.succeeds().stdout.trim(), expected, "{user:?}");
        let native = sandbox.run_outside(answers(&paths));
        let expected = "RW RWX RWX RW RW - RW RW RWX RW RW";
        assert_eq!(native.succeeds().stdout.trim(), expected, "{user:?}");
    });
}

#[test]
fn answers_by_directory_descriptor_and_effective_ids_are_the_same() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.file("work/file", "");
        sandbox.file("outside/file", "");
        let outside = sandbox.name("outside");
        let script = format!(
            "import os\nfor place in '.', '{outside}':\n f = os.open(place, os.O_RDONLY)\n \
             for e in False, True:\n  print(os.access('file', os.W_OK, dir_fd=f, effective_ids=e),\n   \
             os.access('file', os.R_OK, dir_fd=f, effective_ids=e))"
        );
        let inside = sandbox.run(["/usr/bin/python3", "-c", &script]);
        let expected = "True True\nTrue True\nFalse True\nFalse True";
        assert_eq!(inside.succeeds().stdout.trim(), expected, "{user:?}");
        let native = sandbox.run_outside(["/usr/bin/python3", "-c", &script]);
        assert_eq!(native.succeeds().stdout.matches("False").count(), 0, "{user:?}");
    });
}

#[test]
fn asking_is_no_denial() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.file("outside/file", "");
        let outside = sandbox.name("outside");
        let outcome = sandbox.sh(&format!("test -w {outside}/file; test -w {outside}; echo asked"));
        outcome.succeeds();
        assert!(outcome.reports_of("Filesystem").is_empty(), "{outcome:?}");
        assert!(
            !sandbox.sh(&format!("echo x > {outside}/file")).reports_of("Filesystem").is_empty()
        );
    });
}

#[test]
fn shared_memory_can_be_made_where_it_is_asked_for() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let script = "import os\nfrom multiprocessing import shared_memory as m\n\
                      s = m.SharedMemory(create=True, size=1)\nprint(os.access('/dev/shm', os.W_OK), \
                      os.access('/dev/shm/' + s.name, os.W_OK), os.access('/dev/shm/none', os.F_OK))\n\
                      s.close(); s.unlink()";
        for outcome in [
            sandbox.run(["/usr/bin/python3", "-c", script]),
            sandbox.run_outside(["/usr/bin/python3", "-c", script]),
        ] {
            assert_eq!(outcome.succeeds().stdout.trim(), "True True False", "{user:?}");
        }
        let denying = Sandbox::of(user).deny_write("/dev/shm");
        denying.sh("test -w /dev/shm").fails();
    });
}

/// The compiler driver asks where it may write, and aborts if what it was told is not so.
#[test]
fn the_compiler_builds_where_only_the_working_directory_may_be_written() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.file("work/main.c", "int main(void) { return 7; }\n");
        let build = "unset TMPDIR; cc main.c -o main && ./main";
        sandbox.sh(build).exits(7);
        sandbox.sh_outside(build).exits(7);
    });
}

/// git dies of a configuration that it may read, it is told, and then may not.
#[test]
fn git_works_without_the_configuration_that_it_may_not_read() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.file("home/.gitconfig", "[user]\n name = Somebody\n");
        let (home, denied) = (sandbox.name("home"), sandbox.name("home/.gitconfig"));
        let sandbox = sandbox.deny_read(denied);
        let script = format!("export HOME={home}; git init -q . && git config --get user.name");
        let inside = sandbox.sh(&script);
        inside.exits(1);
        assert!(!inside.stderr.contains("fatal"), "{inside:?}");
        let native = sandbox.sh_outside(&script);
        assert_eq!(native.succeeds().stdout.trim(), "Somebody");
    });
}
