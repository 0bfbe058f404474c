//! The scripts behind docs/long-runs.md work, and find no fault in some runs.

use std::path::Path;
use std::process::Command;
use tests::{ESCAPED, World, programs};

#[test]
fn a_part_of_each_long_run_finds_no_fault() {
    let world = World::new(tests::User::Caller);
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("long/run");
    for part in [
        "killed all 2",
        "starved all 1",
        "scarce descriptors 3",
        "scarce processes 2",
        "mixed load 1",
    ] {
        let found = Command::new("/usr/bin/python3")
            .arg(&run)
            .args(part.split(' '))
            .env("LANDSTRIP", programs().dir.join("landstrip"))
            .env("LANDSTRIP_LONG_LOG", world.path("log"))
            .output()
            .unwrap();
        assert!(found.status.success(), "{ESCAPED}{part}: {found:#?}");
    }
}
