//! The child: confines itself as the broker says and becomes the command.

#![allow(unsafe_code)]

use crate::start::{self, Arguments};
use crate::sys::{self, Stack};
use crate::vector::Vector;
use crate::{confine, plan};
use common::exit;
use common::wire::{Plan, Progress, Step};
use core::ffi::CStr;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid};
use rustix::termios;
use rustix::thread::CapabilitySet;

/// Enough for this module, whose buffers are elsewhere.
static STACK: Stack<{ 64 * 1024 }> = Stack::new();

/// Starts the process that becomes the command; returns its id. It gets `ours` to close and `theirs`
/// to keep, in a descriptor table of its own.
pub(crate) fn start(
    arguments: &Arguments,
    ours: BorrowedFd<'_>,
    theirs: BorrowedFd<'_>,
) -> io::Result<i32> {
    const SIGCHLD: usize = 17;
    let (ours, theirs) = (ours.as_raw_fd(), theirs.as_raw_fd());
    sys::spawn(begin, &STACK, SIGCHLD, (arguments.stack(), ours, theirs))
}

extern "C" fn begin(stack: *mut usize, ours: i32, theirs: i32, launcher: i32) -> ! {
    // SAFETY: the initial stack pointer, which `start` passes on.
    let arguments = unsafe { Arguments::from_stack(stack) };
    // SAFETY: open in this process, which has its own descriptor table and nothing else to own it.
    drop(unsafe { OwnedFd::from_raw_fd(ours) });
    // SAFETY: as above.
    let control = unsafe { OwnedFd::from_raw_fd(theirs) };
    become_command(&arguments, &control, Pid::from_raw(launcher))
}

/// Confines itself as the broker says and executes the tool; tells the broker what went wrong.
fn become_command(arguments: &Arguments, control: &OwnedFd, broker: Option<Pid>) -> ! {
    // The broker may have died before the death signal was set: then the parent is another.
    let orphan = process::set_parent_process_death_signal(Some(process::Signal::KILL)).is_err()
        || process::getppid() != broker;
    // What the broker has besides is not the command's.
    if orphan
        || confine::drop_capabilities(CapabilitySet::empty()).is_err()
        || leave_process_group().is_err()
    {
        sys::exit(exit::FAILED)
    }
    if let Err((step, errno)) = confine_and_execute(arguments, control) {
        // Nobody is left to tell if the broker does not listen.
        let _ = plan::tell(control, Progress::Failed(step, errno.raw_os_error()));
    }
    sys::exit(exit::FAILED)
}

/// Leaves the caller's process group, so that no stop, exit or terminal access of the command makes the kernel
/// signal that group (credentials(7), "Process groups and sessions"). Without a terminal to control jobs on, it leaves
/// the session as well.
fn leave_process_group() -> io::Result<()> {
    // A foreground group of another PID namespace has no number here.
    let controls = |stream| matches!(termios::tcgetpgrp(stream), Ok(_) | Err(Errno::OPNOTSUPP));
    match start::streams().into_iter().any(controls) {
        true => process::setpgid(None, None),
        false => process::setsid().map(drop),
    }
}

/// Returns if the tool cannot be executed; without an error if the broker closed its end, which has
/// said why then.
fn confine_and_execute(arguments: &Arguments, control: &OwnedFd) -> Result<(), (Step, Errno)> {
    let packet = plan::packet();
    let Some(filter) = plan::receive_filter(control, packet).map_err(at(Step::Plan))? else {
        return Ok(());
    };
    let listener = confine::install_filter(&filter).map_err(at(Step::Filter))?;
    plan::hand_over(control, listener.as_ref(), filter.by_number).map_err(at(Step::Filter))?;
    let Some((plan, ruleset)) = plan::receive_plan(control, packet).map_err(at(Step::Plan))? else {
        return Ok(());
    };
    let environment = arguments.environment(plan.environment).map_err(at(Step::Environment))?;
    confine::restrict(ruleset, listener.is_some()).map_err(at(Step::Restrict))?;
    // Until the plan came, the broker may still have had to take it.
    drop(listener);
    sys::close_on_exec_from(3).map_err(at(Step::Execute))?;
    Err((Step::Execute, execute(arguments, &plan, environment)))
}

fn at(step: Step) -> impl Fn(Errno) -> (Step, Errno) {
    move |errno| (step, errno)
}

/// Tries the candidates as execvp(3) does; returns why none could be executed.
fn execute(arguments: &Arguments, plan: &Plan<'_>, environment: Vector) -> Errno {
    let mut result = Errno::NOENT;
    for path in plan.paths.iter().filter_map(|path| CStr::from_bytes_with_nul(path).ok()) {
        let mut errno = sys::execve(path, arguments.from(plan.argv_index), environment);
        if errno == Errno::NOEXEC {
            // A script without an interpreter line: env(1) and the shells run it by sh.
            let script = arguments.with_shell(plan.argv_index, path);
            errno = sys::execve(start::SHELL, script, environment);
        }
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
            // As execvp(3): remembered, for a later entry of PATH may still be executable.
            Errno::ACCESS => result = errno,
            _ => return errno,
        }
    }
    result
}
