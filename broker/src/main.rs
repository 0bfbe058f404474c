//! The broker: loads the policy, launches the command, answers its notifications, reaps it.
//!
//! It runs as the process that the caller started, with the launcher's arguments: the launcher
//! clones itself, one side becomes the broker, the other waits for the plan and becomes the command.
//!
//! The C library calls `main`, without Rust's own start-up in between. That asks where the stack
//! ends, which makes the C library read and parse /proc/self/maps, and readies a report of stack
//! overflows: with the memory that this touches, a tenth of a millisecond of every launch. What
//! else it does is done here, or by [`Family::adopt`] for SIGPIPE.

#![cfg_attr(not(test), no_main)]

mod answer;
mod call;
mod cli;
mod compile;
mod domains;
mod files;
mod kernel;
mod policy;
mod report;
mod rules;
mod session;
mod sockets;

use cli::Command;
use common::wire::Handover;

use report::failure::Failure;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{self, Resource, Rlimit};
use session::child::Child;
use session::family::Family;
use session::launch::Tool;
use session::sandbox;
use std::ffi::{OsString, c_char, c_int};
use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};

#[allow(unsafe_code)] // for the attribute: no other function of this program has this name
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let status = fill_standard_streams()
        .map_err(|errno| Failure::system("open /dev/null", errno))
        .and_then(|()| supervise(&arguments));
    status.unwrap_or_else(|failure| {
        failure.print();
        failure.status()
    })
}

/// Puts /dev/null in place of the standard streams that the caller closed: what is opened next must
/// not be taken for one of them.
fn fill_standard_streams() -> Result<(), Errno> {
    loop {
        // The lowest number that is free (open(2)).
        let null = fs::open(c"/dev/null", OFlags::RDWR, Mode::empty())?;
        if null.as_raw_fd() > 2 {
            return Ok(());
        }
        // Stays open until the end.
        let _ = null.into_raw_fd();
    }
}

/// Takes over from the launcher, does what the command line asks, and ends what is left.
fn supervise(arguments: &[OsString]) -> Result<i32, Failure> {
    let handover = arguments
        .first()
        .and_then(|name| name.to_str())
        .and_then(|name| Handover::parse(name).ok())
        .ok_or_else(|| {
            Failure::Usage("landstrip-broker is started by landstrip only".to_owned())
        })?;
    let child = Child::take_over(&handover).map_err(|e| Failure::system("control", e))?;
    let mut family = Family::adopt(&handover).map_err(|e| Failure::system("signals", e))?;
    raise_descriptor_limit();

    let status = obey(arguments, child, &mut family);
    // Of a command that never was, the child is left.
    if family.end() { status } else { status.and(Err(Failure::left_behind())) }
}

/// Each call under way takes descriptors, and so does what is held. The command was cloned before and
/// keeps its limit.
fn raise_descriptor_limit() {
    let limit = process::getrlimit(Resource::Nofile);
    // Without it fewer calls can be under way at once.
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn obey(arguments: &[OsString], child: Child, family: &mut Family) -> Result<i32, Failure> {
    let text = match cli::parse(arguments.iter().skip(1).cloned())? {
        Command::Help => cli::HELP.to_owned(),
        Command::Version => format!("landstrip {}\n", env!("CARGO_PKG_VERSION")),
        Command::Check(invocation) => sandbox::check(&invocation, &child)?,
        Command::Run(invocation, tool) => {
            return sandbox::run(&invocation, &Tool::of(arguments, tool), child, family);
        }
    };
    let mut output = std::io::stdout();
    // A closed standard output is the caller's choice.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    Ok(0)
}
