//! The launcher: splits in two, becomes the broker on one side and the confined command on the other.
//!
//! It parses no option and no policy. Every line here runs with the user's full rights and then
//! turns into the sandbox, so there is little of it: no standard library, no allocation, no thread.
//! landstrip(1) describes what users see; `common::wire` the messages.

#![no_std]
#![no_main]

mod confine;
mod memory;
mod plan;
mod start;
mod sys;

use common::exit;
use common::trap::Trap;
use common::wire::{Handover, Plan, Progress, Step};
use core::ffi::CStr;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::{io, net, process, thread};

use start::Arguments;

/// A step that failed before there was a broker to report it.
struct Failure(&'static str, Errno);

fn run(arguments: &Arguments) -> i32 {
    match launch(arguments) {
        Ok(never) => match never {},
        Err(failure) => {
            report(&failure);
            exit::FAILED
        }
    }
}

/// Says on standard error what failed. Apart, so that a launch that succeeds has no room for these
/// texts on its stack: every page that is touched takes time.
#[cold]
#[inline(never)]
fn report(Failure(step, errno): &Failure) {
    let mut number = start::Text::new();
    let _ = core::fmt::Write::write_fmt(&mut number, format_args!("{}", errno.raw_os_error()));
    let pairs: [(&str, &[u8]); 3] =
        [("source", b"launcher"), ("step", step.as_bytes()), ("errno", number.as_bytes())];
    let mut line = start::Text::new();
    if Trap::Internal(&pairs).write_line(&mut line).is_ok() {
        let _ = io::write(start::standard_error(), line.as_bytes());
    }
}

fn launch(arguments: &Arguments) -> Result<core::convert::Infallible, Failure> {
    thread::set_no_new_privs(true).map_err(|e| Failure("no_new_privs", e))?;
    confine::drop_capabilities().map_err(|e| Failure("drop capabilities", e))?;
    let scope = confine::scope_signals();
    let (ours, theirs) = control_sockets().map_err(|e| Failure("socketpair", e))?;
    let child = sys::spawn_command(arguments, ours.as_fd(), theirs.as_fd())
        .map_err(|e| Failure("clone", e))?;
    drop(theirs);
    io::fcntl_setfd(&ours, io::FdFlags::empty()).map_err(|e| Failure("control socket", e))?;
    let handover = Handover {
        control: ours.as_raw_fd(),
        child,
        scope_errno: scope.err().map_or(0, Errno::raw_os_error),
    };
    start::execute_broker(arguments, &handover)
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

/// Confines itself as the broker says and executes the tool; tells the broker what went wrong.
fn become_command(arguments: &Arguments, control: &OwnedFd, broker: Option<process::Pid>) -> ! {
    // The broker may have died before the death signal was set: then the parent is another.
    let orphan = process::set_parent_process_death_signal(Some(process::Signal::KILL)).is_err()
        || process::getppid() != broker;
    if orphan {
        sys::exit(exit::FAILED)
    }
    if let Err((step, errno)) = confine_and_execute(arguments, control) {
        // Nobody is left to tell if the broker does not listen.
        let _ = plan::tell(control, Progress::Failed(step, errno.raw_os_error()));
    }
    sys::exit(exit::FAILED)
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
    // Until the plan came, the broker may still have had to take it.
    drop(listener);
    let environment = arguments.environment(plan.environment).map_err(at(Step::Environment))?;
    confine::restrict(ruleset).map_err(at(Step::Restrict))?;
    sys::close_on_exec_from(3).map_err(at(Step::Execute))?;
    Err((Step::Execute, execute(arguments, &plan, environment)))
}

fn at(step: Step) -> impl Fn(Errno) -> (Step, Errno) {
    move |errno| (step, errno)
}

/// Tries the candidates as execvp(3) does; returns why none could be executed.
fn execute(arguments: &Arguments, plan: &Plan<'_>, environment: start::Vector) -> Errno {
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
