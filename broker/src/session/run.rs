//! The loop: child, signals and notifications, until the command has ended.
//!
//! Nothing here blocks but poll(2). Notifications are answered by threads of their own.

use super::control::{Control, Message};
use super::supervise::{Family, Signals};
use crate::answer::answer::{Judges, Server};
use crate::domains::proxy::Proxy;
use crate::report::denials::Traps;
use crate::report::failure::Failure;
use common::exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::WaitStatus;
use std::sync::Arc;

/// How long nothing must happen before the broker turns to its own affairs: a command that ends at
/// once does not wait for them.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Serves the command until it has ended; returns its exit status as landstrip's own. `chore` is done
/// once when there is nothing else to do.
///
/// # Errors
/// Returns the [`Failure`] of a step of the launch, in which case the tool never ran.
pub(crate) fn until_end(
    control: Control,
    signals: &Signals,
    family: &mut Family,
    judges: &Arc<Judges>,
    traps: &Arc<Traps>,
    tool: &[u8],
    mut chore: Option<impl FnOnce()>,
) -> Result<i32, Failure> {
    let mut control = Some(control);
    let mut server = None;
    let mut confined = false;
    loop {
        let proxy = judges.proxy.as_ref().map(Proxy::control);
        let limit = chore.as_ref().map(|_| QUIET);
        let ready = wait(signals, control.as_ref(), server.as_deref(), proxy.as_deref(), limit)
            .map_err(|errno| Failure::system("poll", errno))?;
        if ready.nothing
            && let Some(chore) = chore.take()
        {
            chore();
        }
        if ready.control {
            match control.as_mut().map(Control::receive) {
                Some(Ok(Message::Listening(listener))) if !confined => {
                    server = Some(Server::new(listener, Arc::clone(judges), Arc::clone(traps)));
                    confined = true;
                }
                // Sent a filter for that: the policy asks for nothing that the broker must do.
                Some(Ok(Message::Alone)) if !confined => {
                    traps.log("no seccomp listener is to be had: no denial can be reported");
                    confined = true;
                }
                Some(Ok(Message::Listening(_) | Message::Alone)) => {
                    return Err(Failure::system("second listener", Errno::BADMSG));
                }
                Some(Ok(Message::Failed(step, errno))) => {
                    return Err(Failure::launch(tool, step, errno));
                }
                Some(Ok(Message::Closed)) | None => control = None,
                Some(Err(errno)) => return Err(Failure::system("control socket", errno)),
            }
        }
        if let Some(proxy) = judges.proxy.as_ref().filter(|_| ready.proxy) {
            proxy.attend(traps).map_err(|errno| Failure::system("proxy", errno))?;
        }
        if ready.notification
            && let Some(server) = server.take()
        {
            // From the first notification on, threads receive; many commands never cause one.
            server.start().map_err(|errno| Failure::system("thread", errno))?;
        }
        if ready.sandbox_empty {
            server = None;
        }
        if ready.signal {
            signals
                .forward(family.command())
                .map_err(|errno| Failure::system("signalfd", errno))?;
            let status = family.reap(signals).map_err(|errno| Failure::system("waitpid", errno))?;
            if let Some(status) = status {
                // What it said before it died comes first.
                if let Some(Ok(Message::Failed(step, errno))) =
                    control.as_mut().map(Control::receive)
                {
                    return Err(Failure::launch(tool, step, errno));
                }
                if !confined {
                    return Err(Failure::died());
                }
                if let Some(proxy) = &judges.proxy {
                    // What it refused, it reported before the command knew.
                    proxy.attend(traps).map_err(|errno| Failure::system("proxy", errno))?;
                }
                return Ok(exit_status(status));
            }
        }
    }
}

fn exit_status(status: WaitStatus) -> i32 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => exit::SIGNAL_BASE + signal,
        (None, None) => exit::FAILED,
    }
}

/// What there is to do.
#[derive(Debug, Default)]
struct Ready {
    signal: bool,
    control: bool,
    notification: bool,
    /// No task has the filter any more (seccomp_unotify(2)).
    sandbox_empty: bool,
    /// The proxy has something to say, or has ended.
    proxy: bool,
    /// Time has passed, and that was all.
    nothing: bool,
}

fn wait<'a>(
    signals: &'a Signals,
    control: Option<&'a Control>,
    server: Option<&'a Server>,
    proxy: Option<&'a OwnedFd>,
    limit: Option<Timespec>,
) -> rustix::io::Result<Ready> {
    let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
    let mut add = |fd: Option<BorrowedFd<'a>>| {
        fd.map(|fd| {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            fds.len() - 1
        })
    };
    let control = add(control.map(AsFd::as_fd));
    let listener = add(server.map(|server| server.listener().as_fd()));
    let proxy = add(proxy.map(AsFd::as_fd));
    match poll(&mut fds, limit.as_ref()) {
        Ok(0) => return Ok(Ready { nothing: true, ..Ready::default() }),
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(errno) => return Err(errno),
    }
    let events = |at: Option<usize>| at.map_or(PollFlags::empty(), |at| fds[at].revents());
    Ok(Ready {
        signal: !events(Some(0)).is_empty(),
        control: !events(control).is_empty(),
        notification: events(listener).contains(PollFlags::IN),
        sandbox_empty: events(listener).intersects(PollFlags::HUP | PollFlags::ERR),
        proxy: !events(proxy).is_empty(),
        nothing: false,
    })
}
