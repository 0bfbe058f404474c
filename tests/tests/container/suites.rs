//! The other suites, run in a container by their own executables: what holds outside holds there.
//!
//! Left out are those that say little of the platform (control, policy, nested, protocol, upstream),
//! that need tools which are installed for one user only (clients, repository, tools), or that take
//! long without asking more of the kernel than those here (differential, proxy).

use crate::bundle::Container;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use tests::{INSTALLED, programs, test_executables};

/// Tests that cannot work there: the suite, the test, and what of the container is in the way.
const UNFIT: [(&str, &str, &str); 2] = [
    ("processes", "keyrings_are_refused", "Docker's profile refuses keyctl to everybody"),
    (
        "carveouts",
        "fchmodat2_is_judged_as_chmod_is",
        "runc refuses what its libseccomp does not know, before version 2.5.5 fchmodat2",
    ),
];

/// Runs a suite in a container that is prepared so; all its tests but the unfit ones pass.
fn passes(suite: &str, prepare: impl Fn(Container) -> Container) {
    // Two cores do not run two suites at once without distorting what takes time.
    static ONE: Mutex<()> = Mutex::new(());
    static EXECUTABLES: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(container) = Container::of_this_host(suite) else { return };
    let executable = &EXECUTABLES.get_or_init(|| test_executables(SUITES))[suite];
    let container = prepare(container)
        .with(&programs().dir, "/programs")
        .with(executable.parent().expect("its directory"), "/suites")
        .env(INSTALLED, "/programs")
        .seconds(600);
    let name = executable.file_name().expect("its name").to_str().expect("a name in ASCII");
    let executable = Path::new("/suites").join(name).into_os_string().into_string().unwrap();
    // As the first process of the container, the shell collects what the tests leave behind.
    let mut words = vec!["sh", "-c", "\"$@\"; exit $?", "sh", &executable, "--exact"];
    let unfit: Vec<_> = UNFIT.iter().filter(|(of, _, _)| *of == suite).collect();
    words.extend(unfit.iter().flat_map(|(_, test, _)| ["--skip", *test]));
    let output = container.run(&words);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{errors}", output.status);
    let end = format!("; {} filtered out", unfit.len());
    let sum = text.lines().find(|line| line.starts_with("test result: ok. ")).expect("a result");
    assert!(sum.contains(&end) && !sum.contains(" 0 passed"), "{sum}");
    println!("{sum}");
}

/// A test for each suite, by its name.
macro_rules! suites {
    ($($suite:ident)*) => {
        const SUITES: &[&str] = &["files", "carveouts", $(stringify!($suite)),*];
        $(
            #[test]
            fn $suite() {
                passes(stringify!($suite), |container| container);
            }
        )*
    };
}

suites! {
    sockets unix local network
    processes reports lifetime signals
}

#[test]
fn files() {
    passes("files", with_short_races);
}

#[test]
fn carveouts() {
    passes("carveouts", with_short_races);
}

/// Files are raced for by the same calls here as outside, where the races have their full length.
fn with_short_races(container: Container) -> Container {
    container.env("LANDSTRIP_RACE_TRIES", "10000")
}

/// Of root's, for whom the broker also acts when it has become another user, a few that are quick.
#[test]
fn root_is_confined_too() {
    for suite in ["unix", "signals", "reports"] {
        passes(suite, Container::of_root);
    }
}
