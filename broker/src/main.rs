//! The broker: loads the policy, launches the command, answers its notifications, reaps it.
//!
//! It runs as the process that the caller started, with the launcher's arguments: the launcher
//! clones itself, one side becomes the broker, the other waits for the plan and becomes the command.
//!
//! This program only links: what confines is in the crate `landstrip-core` and those below it, what explains in
//! `people`. docs/architecture.md has the map.
//!
//! # The start
//!
//! The C library calls `main`, without Rust's own start-up in between. That asks where the stack
//! ends, which makes the C library read and parse /proc/self/maps, and readies a report of stack
//! overflows: with the memory that this touches, a tenth of a millisecond of every launch. What
//! else it does is done here, or by [`ProcessTree::adopt`] for SIGPIPE.

#![cfg_attr(not(test), no_main)]

#[cfg(test)]
mod house;
mod run;

use common::wire::Handover;
use kernel::ptrace_capability;
use landstrip_core::report::failure::Failure;
use landstrip_core::session::launch_channel::LaunchChannel;
use landstrip_core::session::process_tree::ProcessTree;
use people::commands;
use people::doctor::inside;
use people::reports::lines;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{self, Resource, Rlimit};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, IntoRawFd};

#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: kernel::heap::Heap = kernel::heap::Heap::empty();

kernel::entry_point!(start);

#[cfg_attr(test, expect(dead_code, reason = "unit tests have a start of their own"))]
fn start(arguments: &[OsString]) -> i32 {
    let status = fill_standard_streams()
        .map_err(|errno| Failure::system("open /dev/null", errno))
        .and_then(|()| supervise(arguments));
    status.unwrap_or_else(|failure| {
        lines::print(&failure);
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
    let name = arguments.first().and_then(|name| name.to_str());
    let Some(handover) = name.and_then(Handover::parse) else {
        // As the tool of a sandbox that is to be tested.
        return inside::run().ok_or_else(|| {
            Failure::Usage("landstrip-broker is started by landstrip only".to_owned())
        });
    };
    set_limits()?;
    ptrace_capability::keep().map_err(|e| Failure::system("capabilities", e))?;
    let child = LaunchChannel::take_over(&handover).map_err(|e| Failure::system("control", e))?;
    let mut tree = ProcessTree::adopt(&handover)?;

    let status = commands::perform(arguments, child, &mut tree, run::run);
    // Of a command that never was, the child is left.
    if tree.end() { status } else { status.and(Err(Failure::LeftBehind)) }
}

/// Each call under way takes descriptors, and so does what is held; and how long the command may make a
/// file, its own limit says. What the broker knows of the caller gets into no core dump, which would lie in the
/// command's working directory (core(5)). The command was cloned before and keeps its limits.
///
/// # Errors
/// Returns a [`Failure`] if no launch could come to its end: whatever it lacked first would not be the reason.
fn set_limits() -> Result<(), Failure> {
    let core = process::getrlimit(Resource::Core);
    let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..core });
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = process::getrlimit(resource);
        // Without it fewer calls can be under way at once, and files be made less long.
        if limit.current != limit.maximum {
            let _ = process::setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
        }
    }
    match process::getrlimit(Resource::Nofile).current {
        Some(most) if most < DESCRIPTORS_MIN => {
            let message = format!(
                "{most} descriptors are too few, {DESCRIPTORS_MIN} are needed: raise the limit (ulimit -n)"
            );
            Err(Failure::Internal("limits", message))
        }
        _ => Ok(()),
    }
}

/// How many descriptors a run needs, without those of calls and connections.
const DESCRIPTORS_MIN: u64 = 64;
