//! What may not be read is not executed either: who executes a file has its content.
//!
//! Each attack has a twin, the same calls on a file beside it, that must work.

use std::fs;
use tests::{Outcome, Sandbox, User, for_each_user};

/// What nothing but a denied executable says.
const SECRET: &str = "TOPSECRET";
/// Every way to execute `@/tool`, a script, and `@/shell`, a program, or to take them elsewhere.
const ATTACKS: &str = "@/tool; exec 3</dev/null; (exec @/tool); env @/tool; @/shell -c 'echo TOPSECRET'; \
    $LOADER @/shell -c 'echo TOPSECRET'; LD_PRELOAD=$PWD/@/shell true; sh @/tool; . @/tool; \
    ln @/tool ^/link && ^/link; mv @/tool ^/moved && ^/moved; cp @/tool ^/copy && ^/copy; \
    ln -s $PWD/@/tool ^/symlink && ^/symlink; printf \"#!$PWD/@/shell -c echo${IFS}TOPSECRET\" > ^/by; \
    chmod +x ^/by; ^/by";

/// Makes `name` executable, a script that says the secret.
fn script(sandbox: &Sandbox, name: &str) {
    sandbox.program(name, format!("#!/bin/echo {SECRET}\n"));
}

/// A directory with a script and a program.
fn tools(sandbox: &Sandbox, directory: &str) {
    sandbox.dir(directory);
    script(sandbox, &format!("{directory}/tool"));
    sandbox.program(format!("{directory}/shell"), fs::read("/bin/sh").unwrap());
}

/// A sandbox with directories of tools in the working directory and in the home: `denied`, of which nothing
/// may be read, `held`, the files of which may not be read by their names, and `twin`.
fn world(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".");
    for place in ["work", "home"] {
        for name in ["denied", "held", "twin"] {
            tools(&sandbox, &format!("{place}/{name}"));
        }
        sandbox.dir(format!("{place}/free"));
    }
    sandbox
}

fn deny(sandbox: Sandbox, place: &str) -> Sandbox {
    ["denied", "held/tool", "held/shell"]
        .iter()
        .fold(sandbox, |sandbox, name| sandbox.deny_read(format!("{place}{name}")))
}

fn attack(sandbox: &Sandbox, directory: &str) -> Outcome {
    let attacks = ATTACKS.replace('@', directory).replace('^', "free");
    sandbox.sh(&format!(
        "LOADER=$(ls /lib64/ld-linux* /lib/ld-linux* 2>/dev/null | head -n1); {attacks}; :"
    ))
}

/// That nothing of `denied` and `held` in `place` is executed, and all of `twin` is.
#[track_caller]
fn holds(deny: impl Fn(Sandbox) -> Sandbox, place: &str) {
    for_each_user(|user| {
        for directory in ["denied", "held"] {
            let sandbox = deny(world(user));
            let outcome = attack(&sandbox, &format!("{place}{directory}"));
            assert!(!outcome.stdout.contains(SECRET), "{outcome:#?}");
        }
        let sandbox = deny(world(user));
        let outcome = attack(&sandbox, &format!("{place}twin"));
        assert!(outcome.stdout.matches(SECRET).count() >= 6, "{outcome:#?}");
    });
}

#[test]
fn a_denied_executable_is_not_executed_in_what_may_be_written() {
    holds(|sandbox| deny(sandbox, ""), "");
}

#[test]
fn a_denied_executable_is_not_executed_beside_a_glob() {
    holds(|sandbox| deny(sandbox, "").deny_read("**/*.pem"), "");
}

#[test]
fn a_denied_executable_is_not_executed_outside_beside_a_glob() {
    let home = "../home/";
    holds(|sandbox| deny(sandbox, home).deny_read(format!("{home}**/*.pem")), home);
}

#[test]
fn an_executable_that_a_glob_in_a_known_directory_denies_is_not_executed() {
    let rules = |sandbox: Sandbox| sandbox.deny_read("d*").deny_read("h*/*").deny_read("**/*.pem");
    holds(rules, "");
}

#[test]
fn beside_a_denied_file_what_is_built_later_is_executed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read(".env").deny_read("keys");
        let sandbox = sandbox.deny_read("**/*.pem");
        sandbox.file("work/.env", SECRET);
        sandbox.dir("work/keys");
        sandbox.file("work/keys/key", SECRET);
        sandbox
            .sh("set -e; cp /bin/true a.out; ./a.out; mkdir -p target/debug; cp /bin/true target/debug/t; \
                target/debug/t; ln target/debug/t t; ./t; mv target/debug/t u; ./u; rm -r target; \
                mkdir target; cp u target/v; target/v; ! cat .env; ! cat keys/key")
            .succeeds();
    });
}

#[test]
fn beside_a_denied_executable_all_but_executing_what_is_new_works() {
    for_each_user(|user| {
        let sandbox = deny(world(user), "");
        sandbox
            .sh("set -e; ls -A; ls -A held; echo new > new; cat new; mkdir -p d/e; echo x > d/e/f; cat d/e/f; \
                cp /bin/true d/t; d/t; ls -R d; mv d free/d; mv free/d d; rm -r d; cp /bin/true twin/new; twin/new; mv new held/new; \
                cat held/new; rm held/new; sh -c 'echo echo ran > s; sh s'")
            .succeeds();
    });
}
