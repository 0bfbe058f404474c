//! Two worlds made alike, with the same real work done inside of one and outside in the other.

use crate::{Outcome, Sandbox, User};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A world with a copy of this repository's sources in `work`.
///
/// # Panics
///
/// If they cannot be copied.
pub fn repository(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).timeout(Duration::from_secs(180));
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("workspace directory");
    copy(&sandbox, workspace, Path::new("work"));
    sandbox
}

fn copy(sandbox: &Sandbox, from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("readable sources") {
        let entry = entry.expect("entry");
        let name = entry.file_name();
        let (path, target) = (entry.path(), to.join(&name));
        let kind = entry.file_type().expect("type of an entry");
        if name == "target" || name == ".git" {
        } else if kind.is_dir() {
            sandbox.dir(&target);
            copy(sandbox, &path, &target);
        } else if kind.is_file() {
            sandbox.file(&target, fs::read(&path).expect("readable source"));
        }
    }
}

/// Runs `script` in the sandbox `one` and beside the sandbox `two`: outside it succeeds, and inside
/// its status and output are the same.
#[track_caller]
pub fn same(one: &Sandbox, two: &Sandbox, script: &str) -> Outcome {
    let (inside, outside) = (one.sh(script), two.sh_outside(script));
    let plain = |text: &str, sandbox: &Sandbox| text.replace(&sandbox.name(""), "WORLD/");
    assert_eq!(outside.status, Some(0), "the twin fails: {outside:#?}");
    assert_eq!(inside.status, outside.status, "{inside:#?}");
    assert_eq!(plain(&inside.stdout, one), plain(&outside.stdout, two), "{inside:#?}");
    inside
}
