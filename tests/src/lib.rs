//! The fixture of the tests: one sandbox a test, in a world of its own, judged from outside.
//!
//! ```ignore
//! let sandbox = Sandbox::new().allow_write(".");
//! sandbox.run(["touch", "made"]).succeeds();
//! assert!(sandbox.path("work/made").exists());
//! ```
//!
//! [`Sandbox`] owns the world and runs commands inside and outside; [`Outcome`] is what came of
//! one. [`TcpPeer`], [`UnixPeer`], [`Victim`] and [`Snapshot`] tell what really happened, whatever
//! the command says. The attacks themselves are the program `probe` in `src/bin`.

pub mod bench;
mod origin;
mod outcome;
mod peers;
mod programs;
mod questions;
pub mod raw;
mod sandbox;
mod snapshot;
mod terminal;
mod twin;
mod upstream;
mod user;
mod victim;
mod world;

pub use origin::{NameServer, Origin, answering_server, echo_server, flood_server, resolv_conf};
pub use outcome::Outcome;
pub use peers::{FullBacklog, TcpPeer, UnixPeer, free_port, own_address};
pub use programs::{INSTALLED, Programs, programs};
pub use questions::Questions;
pub use sandbox::{Running, Sandbox, quoted};
pub use snapshot::Snapshot;
pub use terminal::Terminal;
pub use twin::{repository, same};
pub use upstream::{Mood, UpstreamStub};
pub use user::{User, for_each_user};
pub use victim::Victim;
pub use world::{World, copy_program};

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// What the fixture's assertions begin with that fail because something was not refused, or outlived its sandbox:
/// `.ci/suite` forgives no test after that, whatever comes of it when it is run again.
pub const ESCAPED: &str = "ESCAPED: ";

/// How many tries a race gets: `usual`, or what LANDSTRIP_RACE_TRIES says, for a longer look.
pub fn race_tries(usual: usize) -> usize {
    match std::env::var("LANDSTRIP_RACE_TRIES") {
        Ok(tries) => tries.parse().expect("LANDSTRIP_RACE_TRIES is a number"),
        Err(_) => usual,
    }
}

/// How often something that fails now and then is done: `usual` times, or as LANDSTRIP_REPETITIONS says.
pub fn repetitions(usual: usize) -> usize {
    match std::env::var("LANDSTRIP_REPETITIONS") {
        Ok(times) => times.parse().expect("LANDSTRIP_REPETITIONS is a number"),
        Err(_) => usual,
    }
}

/// How many processes a long session has: `usual`, or what LANDSTRIP_PROCESSES says.
pub fn processes(usual: u32) -> u32 {
    match std::env::var("LANDSTRIP_PROCESSES") {
        Ok(count) => count.parse().expect("LANDSTRIP_PROCESSES is a number"),
        Err(_) => usual,
    }
}

/// Says why a test, or a part of it, tests nothing here: past the harness, which keeps what a passing test
/// prints, and in the file that LANDSTRIP_SKIPPED names, for a summary.
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let line = format!("{name}: {why}\n");
    let said = std::io::stderr().write_all(format!("!! SKIPPED: {line}").as_bytes());
    said.expect("standard error");
    if let Some(path) = std::env::var_os("LANDSTRIP_SKIPPED") {
        let file = File::options().append(true).create(true).open(path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("the file that LANDSTRIP_SKIPPED names");
    }
}

/// Whether the tests run as root, which `what` needs; says so if not.
pub fn is_root_for(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped(&format!("{what} needs root"));
    }
    is_root
}

/// How many times slower than others this machine may be, as an emulated one is: what LANDSTRIP_SLOWNESS says.
pub fn slowness() -> u32 {
    match std::env::var("LANDSTRIP_SLOWNESS") {
        Ok(times) => times.parse().expect("LANDSTRIP_SLOWNESS is a number"),
        Err(_) => 1,
    }
}

/// Runs `body` with each of `items` at the same time, for what waits more than it works.
pub fn at_once<T: Send>(items: impl IntoIterator<Item = T>, body: impl Fn(T) + Sync) {
    let body = &body;
    std::thread::scope(|scope| {
        for item in items {
            scope.spawn(move || body(item));
        }
    });
}

/// Waits until `condition` holds; false after a minute without.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(60) * slowness();
    while Instant::now() < end {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    condition()
}
