//! The launcher: splits, becomes the broker on one side and the confined command on the other; a third
//! process watches over the broker.
//!
//! It parses no option and no policy. Every line here runs with the user's full rights and then
//! turns into the sandbox, so there is little of it: no standard library, no allocation, no thread.
//! landstrip(1) describes what users see; `common::wire` the messages.

#![no_std]
#![no_main]

mod arch;
mod broker;
mod command;
mod confine;
mod failure;
mod guardian;
mod plan;
mod runtime;
mod start;
mod sys;
mod vector;

use common::wire::Handover;
use common::{exit, landlock};
use failure::Failure;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{self, Resource};
use rustix::{io, net, thread};
use start::Arguments;

arch::entry_point!(entry);

/// What the broker needs of a stack, in bytes.
const STACK_MIN: u64 = 256 << 10;

#[allow(unsafe_code, reason = "only here the process's stack is known")]
extern "C" fn entry(stack: *mut usize) -> ! {
    // SAFETY: the entry point passes the initial stack pointer, once, before anything else runs.
    let arguments = unsafe { Arguments::from_stack(stack) };
    // The broker would overflow it before it can say so.
    if process::getrlimit(Resource::Stack).current.is_some_and(|limit| limit < STACK_MIN) {
        failure::report_small_stack();
        sys::exit(exit::FAILED)
    }
    match launch(&arguments) {
        Ok(never) => match never {},
        Err(failure) => {
            failure::report(&failure);
            sys::exit(exit::FAILED)
        }
    }
}

/// Apart, since a small stack has no room for what it keeps.
#[inline(never)]
fn launch(arguments: &Arguments) -> Result<core::convert::Infallible, Failure> {
    // With fewer capabilities than the caller has, or in the domain, it cannot be looked at.
    let shares_input = start::shares_input();
    thread::set_no_new_privs(true).map_err(|e| Failure("no_new_privs", e))?;
    confine::drop_capabilities(confine::PTRACE_CAPABILITY)
        .map_err(|e| Failure("drop capabilities", e))?;
    let scope = confine::enter_common_domain();
    let (ours, theirs) = control_sockets().map_err(|e| Failure("socketpair", e))?;
    let child =
        command::start(arguments, ours.as_fd(), theirs.as_fd()).map_err(|e| Failure("clone", e))?;
    drop(theirs);
    io::fcntl_setfd(&ours, io::FdFlags::empty()).map_err(|e| Failure("control socket", e))?;
    let scope_errno = scope.err().map_or(0, Errno::raw_os_error);
    // Else nothing will run.
    let guardian = match scope.is_ok() || landlock::is_lacking(scope_errno) {
        true => guardian::start(scope.is_ok()).map_err(|e| Failure("clone", e))?,
        false => 0,
    };
    let handover =
        Handover { control: ours.as_raw_fd(), child, scope_errno, guardian, shares_input };
    broker::execute(arguments, &handover)
}

/// The socket pair, away from the standard descriptors: a caller may have closed those, and
/// the command must then find them closed.
fn control_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = net::socketpair(
        net::AddressFamily::UNIX,
        net::SocketType::SEQPACKET,
        net::SocketFlags::CLOEXEC,
        None,
    )?;
    let above_stdio = |fd: OwnedFd| {
        if fd.as_raw_fd() > 2 { Ok(fd) } else { io::fcntl_dupfd_cloexec(&fd, 3) }
    };
    Ok((above_stdio(ours)?, above_stdio(theirs)?))
}
