//! The clients in `clients/`, by their own test runners: each passes the table of cases there, and tests of what is its
//! language's own. They run from a copy that every user can read.

/// The tests of the client for Rust, which have nothing to do unless `rust_passes` says what to run.
#[path = "../../../clients/rust/tests/cases.rs"]
mod rust;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tests::{Outcome, Sandbox, User, for_each_user, programs, skipped};

/// A sandbox whose world holds the clients, for runners that take their time.
fn world(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).timeout(Duration::from_secs(300));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients");
    let mut copy = Command::new("cp");
    copy.arg("-R").arg(source).arg(sandbox.path("outside"));
    assert!(copy.status().unwrap().success());
    let launcher = programs().landstrip();
    sandbox.env("LANDSTRIP_PROGRAM", launcher)
}

/// Runs `script` in the directory of a client, where `tool` is here.
fn run(sandbox: &Sandbox, client: &str, tool: &str, script: &str) -> Option<Outcome> {
    if sandbox.sh_outside(&format!("command -v {tool}")).status != Some(0) {
        skipped(&format!("there is no {tool}"));
        return None;
    }
    let outcome = sandbox.sh_outside(&format!("cd ../outside/clients/{client} && {script}"));
    outcome.succeeds();
    Some(outcome)
}

#[test]
fn javascript_passes() {
    for_each_user(|user| {
        let Some(outcome) = run(
            &world(user),
            "javascript",
            "node",
            "exec node --test --test-reporter=tap test/*.test.js",
        ) else {
            return;
        };
        assert!(outcome.stdout.contains("\n# fail 0\n"), "{outcome:#?}");
    });
}

#[test]
fn python_passes() {
    for_each_user(|user| {
        let script = "PYTHONDONTWRITEBYTECODE=1 exec python3 -m unittest discover -t . -s test";
        run(&world(user), "python", "python3", script);
    });
}

/// By these tests themselves, from a copy that every user can execute.
#[test]
fn rust_passes() {
    for_each_user(|user| {
        let sandbox = world(user);
        let suite = sandbox.path("outside/suite");
        std::fs::copy(std::env::current_exe().unwrap(), &suite).unwrap();
        let outcome = sandbox.run_outside([suite.to_str().unwrap(), "clients::rust::"]);
        outcome.succeeds();
        assert!(outcome.stdout.contains("test result: ok. 10 passed; 0 failed"), "{outcome:#?}");
    });
}

/// With the checkers of types that `tests/programs/fetch` has put there, if it could.
#[test]
fn types_of_python_are_strict_and_refuse_what_is_misspelt() {
    let Some(fetched) = std::env::var_os("LANDSTRIP_FETCHED") else {
        return skipped("no mypy: LANDSTRIP_FETCHED names no directory of programs");
    };
    for (tool, place, strict) in [
        ("mypy", "venv/bin/mypy", "--strict --cache-dir=/dev/null"),
        ("pyright", "node_modules/.bin/pyright", ""),
    ] {
        let program = Path::new(&fetched).join(place).display().to_string();
        let sandbox = world(User::Caller)
            .env(format!("LANDSTRIP_{}", tool.to_uppercase()), &program)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        if sandbox.sh_outside(&format!("{program} --version")).status != Some(0) {
            skipped(&format!("no {tool} that runs in the directory that LANDSTRIP_FETCHED names"));
            continue;
        }
        let test = format!("test_{tool}_finds_what_is_wrong_and_nothing_else");
        let script = format!(
            "{program} {strict} landstrip && python3 -m unittest -v test.test_own.Types.{test}"
        );
        let Some(outcome) = run(&sandbox, "python", "python3", &script) else { return };
        assert!(outcome.stderr.contains(" ... ok\n"), "{outcome:#?}");
    }
}

/// With the compiler that `tests/programs/fetch` has put there, if it could: the registry may have been away.
#[test]
fn types_of_javascript_refuse_what_is_misspelt() {
    let Some(fetched) = std::env::var_os("LANDSTRIP_FETCHED") else {
        return skipped("no tsc: LANDSTRIP_FETCHED names no directory of programs");
    };
    let modules = Path::new(&fetched).join("node_modules");
    let compiler = modules.join(".bin/tsc");
    let sandbox = world(User::Caller)
        .env("LANDSTRIP_TSC", &compiler)
        .env("LANDSTRIP_TYPES", modules.join("@types"));
    let tried = format!("{} --version", compiler.display());
    if !modules.join("@types/node").exists() || sandbox.sh_outside(&tried).status != Some(0) {
        return skipped("no tsc that runs in the directory that LANDSTRIP_FETCHED names");
    }
    let script =
        "exec node --test --test-reporter=tap --test-name-pattern='tsc refuses' test/own.test.js";
    let Some(outcome) = run(&sandbox, "javascript", "node", script) else { return };
    assert!(outcome.stdout.contains(" - tsc refuses what is misspelt\n"), "{outcome:#?}");
}
