//! The other modules, run in a container by this same executable: what holds outside holds there.
//!
//! Left out are those that say little of the platform (control, policy, nested, protocol, upstream),
//! that need tools which are installed for one user only (tools), or that take long without asking
//! more of the kernel than those here (fuzzing, proxy).

use super::bundle::Container;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use tests::{INSTALLED, programs};

/// Tests that cannot work there: the module, the test, and what of the container is in the way.
const UNFIT: [(&str, &str, &str); 7] = [
    ("processes", "keyrings_are_refused", "Docker's profile refuses keyctl to everybody"),
    (
        "carveouts",
        "fchmodat2_is_judged_as_chmod_is",
        "runc refuses what its libseccomp does not know, before version 2.5.5 fchmodat2",
    ),
    (
        "unix",
        "a_socket_that_was_given_an_abstract_name_does_not_listen",
        "without pidfd_getfd it is the broker's socket that connects, and the command's gets no name",
    ),
    (
        "reports",
        "what_no_policy_allows_is_named_if_the_command_failed_and_nothing_else_was_refused",
        "Docker's profile refuses unshare before landstrip hears of it",
    ),
    ("local", "ports_of_udp_are_not_shared", "without pidfd_getfd there are no datagram sockets"),
    (
        "races::sockets",
        "putting_a_datagram_socket_of_others_in_the_place_of_an_own_one_reaches_nobody",
        "without pidfd_getfd there are no datagram sockets",
    ),
    (
        "doctor",
        "large::the_first_landlock_is_found_to_be_too_old",
        "what boots machines is not in the container",
    ),
];

/// The tests of a module, by their full names.
fn tests_of(module: &str) -> Vec<String> {
    let executable = std::env::current_exe().expect("path of the test executable");
    let output = Command::new(executable).args(["--list", "--format=terse"]).output();
    let list = String::from_utf8(output.expect("the list").stdout).expect("names in ASCII");
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| name.starts_with(module)).map(str::to_owned).collect()
}

/// Runs a module in a container that is prepared so; all its tests but the unfit ones pass.
fn passes(module: &str, prepare: impl Fn(Container) -> Container) {
    // Two cores do not run two of them at once without distorting what takes time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(container) = Container::of_this_host(&module.replace("::", "-")) else { return };
    let executable = std::env::current_exe().expect("path of the test executable");
    let container = prepare(container)
        .with(&programs().dir, "/programs")
        .with(executable.parent().expect("its directory"), "/suites")
        .env(INSTALLED, "/programs")
        .seconds(600);
    let name = executable.file_name().expect("its name").to_str().expect("a name in ASCII");
    let executable = Path::new("/suites").join(name).into_os_string().into_string().unwrap();
    let unfit = UNFIT.iter().filter(|(of, _, _)| *of == module);
    let unfit: Vec<_> = unfit.map(|(of, test, _)| format!("{of}::{test}")).collect();
    let mut fit = tests_of(&format!("{module}::"));
    let all = fit.len();
    fit.retain(|name| !unfit.contains(name));
    assert_eq!(fit.len() + unfit.len(), all, "an unfit test of {module} that there is not");
    // As the first process of the container, the shell collects what the tests leave behind.
    let mut words = vec!["sh", "-c", "\"$@\"; exit $?", "sh", &executable, "--exact"];
    words.extend(fit.iter().map(String::as_str));
    let output = container.run(&words);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{errors}", output.status);
    let sum = text.lines().find(|line| line.starts_with("test result: ok. ")).expect("a result");
    let expected = format!("test result: ok. {} passed; 0 failed; 0 ignored; ", fit.len());
    assert!(!fit.is_empty() && sum.starts_with(&expected), "{sum}");
    println!("{sum}");
}

/// A test for each module, by its name.
macro_rules! suites {
    ($($module:ident)*) => {
        $(
            #[test]
            fn $module() {
                passes(stringify!($module), |container| container);
            }
        )*
    };
}

suites! {
    files carveouts sockets unix local network
    processes reports lifetime signals killing doctor jobs
}

#[test]
fn races() {
    for module in ["races::local", "races::network", "races::sockets"] {
        passes(module, |container| container);
    }
    // Files are raced for by the same calls here as outside, where the races have their full length.
    for module in ["races::files", "races::carveouts"] {
        passes(module, |container| container.env("LANDSTRIP_RACE_TRIES", "10000"));
    }
}

/// Of root's, for whom the broker also acts when it has become another user, a few that are quick.
#[test]
fn root_is_confined_too() {
    for module in ["unix", "signals", "reports"] {
        passes(module, Container::of_root);
    }
}
