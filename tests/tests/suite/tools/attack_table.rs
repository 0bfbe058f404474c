//! The cases behind docs/attacks.md, which anybody can run against any sandbox, hold for this build.

use std::path::Path;
use std::process::Command;
use tests::{ESCAPED, programs, skipped};

#[test]
fn all_attacks_of_the_table_are_contained_and_their_counterparts_work() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks/run");
    let mut command = match rustix::process::geteuid().is_root() {
        // As an ordinary user, more of them are attacks at all.
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]);
            command
        }
        false => Command::new("/usr/bin/python3"),
    };
    let readable = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "test", "-r"])
        .arg(&run)
        .status();
    if rustix::process::geteuid().is_root() && !readable.is_ok_and(|status| status.success()) {
        return skipped("nobody else may read the repository");
    }
    let found = command
        .arg(run)
        .args(["--against", "landstrip"])
        .env("LANDSTRIP", programs().dir.join("landstrip"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&found.stdout);
    // What was contained is no news; of the others, all that they printed.
    let news: Vec<_> =
        printed.lines().filter(|line| !line.ends_with(": landstrip contained")).collect();
    let news = format!("{}\n{}", news.join("\n"), String::from_utf8_lossy(&found.stderr));
    assert!(!printed.contains(": landstrip escaped"), "{ESCAPED}{news}");
    assert!(found.status.success(), "{news}");
    let attacks = printed.lines().filter(|line| line.ends_with(": landstrip contained")).count();
    assert!(attacks >= 200, "{attacks} attacks: {news}");
}
