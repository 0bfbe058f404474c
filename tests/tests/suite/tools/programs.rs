//! The table of programs, in part: what Debian has and takes seconds.

use std::path::Path;
use std::process::Command;

/// All of them are tried by `tests/programs/run`.
const ROWS: [&str; 11] = [
    "node-test",
    "python-multiprocessing",
    "asyncio-tcp-unix",
    "asyncio-udp",
    "asyncio-datagrams",
    "statsd",
    "redis-tcp",
    "redis-unix",
    "postgresql",
    "sqlite-wal",
    "tmux",
];

#[test]
fn programs_do_inside_what_they_do_outside() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/run");
    let run = Command::new(script)
        .args(ROWS)
        .env("LANDSTRIP", tests::programs().landstrip())
        .output()
        .unwrap();
    let (table, errors) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    println!("{table}{errors}");
    assert!(run.status.success(), "{table}{errors}");
    assert!(table.contains("works"), "{table}{errors}");
}
