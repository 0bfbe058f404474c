//! The table of programs, in part: what Debian and the registries give quickly, and takes seconds.

use std::path::Path;
use std::process::Command;
use tests::skipped;

/// What changes settings of git, which an attack would: how the line ends that it gets.
const REFUSED: &str = "git-submodule";
const REFUSAL: &str = "a command that changes git's settings: run it outside";

/// Runs these rows of `tests/programs/run`, of which each says what came of it, by user.
fn do_inside_what_they_do_outside(rows: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/run");
    let run = Command::new(script)
        .args(rows)
        .env("LANDSTRIP", tests::programs().landstrip())
        .output()
        .unwrap();
    let (table, errors) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    println!("{table}{errors}");
    assert!(run.status.success(), "{table}{errors}");
    for row in rows {
        let of_row = |line: &&str| line.split(' ').next() == Some(*row);
        let Some(line) = table.lines().find(of_row) else {
            let why = errors.lines().find(of_row).unwrap_or("it has no row");
            assert!(why.ends_with("is not here"), "{row}: {why}");
            skipped(&format!("the program {why}"));
            continue;
        };
        if line.contains("does not run outside") {
            skipped(&format!("the program {row} does not run outside: {errors}"));
        }
        assert_eq!(line.contains("refused"), *row == REFUSED, "{table}{errors}");
        assert_eq!(line.contains(REFUSAL), *row == REFUSED, "{table}{errors}");
    }
}

#[test]
fn databases() {
    do_inside_what_they_do_outside(&["redis-tcp", "redis-unix", "postgresql", "sqlite-wal"]);
}

#[test]
fn repositories_and_keys() {
    do_inside_what_they_do_outside(&[
        "git",
        "git-worktree",
        "git-submodule",
        "git-signing",
        "ssh-agent",
        "archives",
    ]);
}

#[test]
fn builds() {
    do_inside_what_they_do_outside(&["make", "cmake-ninja-ccache"]);
}

#[test]
fn terminals_and_debuggers() {
    do_inside_what_they_do_outside(&[
        "tmux", "screen", "script", "less", "vim", "man", "strace", "gdb", "inotify",
    ]);
}

#[test]
fn python() {
    do_inside_what_they_do_outside(&[
        "python-multiprocessing",
        "asyncio-tcp-unix",
        "asyncio-udp",
        "asyncio-datagrams",
        "statsd",
    ]);
}

#[test]
fn node() {
    do_inside_what_they_do_outside(&["node-test", "node-cluster", "node-watch"]);
}

#[test]
fn what_npm_has() {
    do_inside_what_they_do_outside(&["jest", "tsc-watch", "vite", "tsx", "pnpm", "yarn"]);
}

#[test]
fn what_pip_has() {
    do_inside_what_they_do_outside(&["pytest-xdist", "uv"]);
}

#[test]
fn a_browser() {
    do_inside_what_they_do_outside(&["chromium"]);
}
