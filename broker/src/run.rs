//! The loop: child, signals and notifications, until the command has ended.
//!
//! Nothing here blocks but poll(2).

use crate::control::{Control, Message};
use crate::decide::address::AddressRules;
use crate::failure::Failure;
use crate::notify::observe::View;
use crate::notify::serve::Server;
use crate::proxy::Proxy;
use crate::report::Traps;
use crate::supervise::{Family, Signals};
use common::exit;
use common::wire::Step;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{self, Resource, Rlimit, WaitStatus};

/// How often connects are looked after whose targets may be gone or whose time is up.
const SWEEP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// What the notifications are judged by.
#[derive(Debug)]
pub(crate) struct Judges<'a> {
    /// Socket addresses.
    pub(crate) addresses: &'a AddressRules,
    /// File rules, for metadata and reports.
    pub(crate) view: &'a View,
    /// What filters domains.
    pub(crate) proxy: Option<&'a Proxy>,
}

/// Serves the command until it has ended; returns its exit status as landstrip's own.
///
/// # Errors
/// Returns the [`Failure`] of a step of the launch, in which case the tool never ran.
pub(crate) fn until_end(
    control: Control,
    signals: &Signals,
    family: &mut Family,
    judges: &Judges<'_>,
    traps: &mut Traps,
    tool: &[u8],
) -> Result<i32, Failure> {
    raise_descriptor_limit();
    let mut control = Some(control);
    let mut server: Option<Server<'_>> = None;
    let mut confined = false;
    loop {
        let ready = wait(signals, control.as_ref(), server.as_ref(), judges.proxy)
            .map_err(|errno| Failure::system("poll", errno))?;
        if ready.control {
            match control.as_ref().map(Control::receive) {
                Some(Ok(Message::Listening(listener))) if !confined => {
                    server = Some(Server::new(listener, judges));
                    confined = true;
                }
                Some(Ok(Message::Listening(_))) => {
                    return Err(Failure::system("second listener", Errno::BADMSG));
                }
                Some(Ok(Message::Failed(step, errno))) => {
                    return Err(Failure::launch(tool, step, errno));
                }
                Some(Ok(Message::Closed)) | None => control = None,
                Some(Err(errno)) => return Err(Failure::system("control socket", errno)),
            }
        }
        if let (true, Some(server)) = (ready.notification, &mut server) {
            server.serve(traps).map_err(|errno| Failure::system("notification", errno))?;
        }
        if let Some(proxy) = judges.proxy.filter(|_| ready.proxy) {
            proxy.attend(traps);
        }
        if ready.sandbox_empty {
            server = None;
        } else if let Some(server) = server.as_mut().filter(|_| ready.connect) {
            server.sweep();
        }
        if ready.signal {
            signals
                .forward(family.command())
                .map_err(|errno| Failure::system("signalfd", errno))?;
            let status = family.reap().map_err(|errno| Failure::system("waitpid", errno))?;
            if let Some(status) = status {
                // What it said before it died comes first.
                if let Some(Ok(Message::Failed(step, errno))) =
                    control.as_ref().map(Control::receive)
                {
                    return Err(Failure::launch(tool, step, errno));
                }
                if !confined {
                    return Err(Failure::died());
                }
                if let Some(proxy) = judges.proxy {
                    // What it refused, it reported before the command knew.
                    proxy.attend(traps);
                }
                return Ok(exit_status(status));
            }
        }
    }
}

/// Each connect under way takes a descriptor. The command was forked before and keeps its limit.
fn raise_descriptor_limit() {
    let limit = process::getrlimit(Resource::Nofile);
    // Without it fewer connects can be under way at once.
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
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
    sandbox_empty: bool,
    /// The proxy has something to say or to hear.
    proxy: bool,
    /// A connect is decided, or it is time to look after them.
    connect: bool,
}

fn wait(
    signals: &Signals,
    control: Option<&Control>,
    server: Option<&Server<'_>>,
    proxy: Option<&Proxy>,
) -> rustix::io::Result<Ready> {
    let proxy = proxy.map(Proxy::watch);
    let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
    let control_at = control.map(|control| {
        fds.push(PollFd::new(control, PollFlags::IN));
        fds.len() - 1
    });
    let listener_at = server.map(|server| {
        fds.push(PollFd::from_borrowed_fd(server.listener().as_fd(), PollFlags::IN));
        fds.len() - 1
    });
    let proxy_at = proxy.as_ref().and_then(|proxy| proxy.poll_fd()).map(|fd| {
        fds.push(fd);
        fds.len() - 1
    });
    let connects_from = fds.len();
    let connecting = server.map(Server::connecting).filter(|connecting| !connecting.is_empty());
    fds.extend(connecting.into_iter().flat_map(|connecting| connecting.poll_fds()));
    let limit = connecting.map(|_| &SWEEP_INTERVAL);
    let count = match poll(&mut fds, limit) {
        Ok(count) => count,
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(errno) => return Err(errno),
    };
    let events = |at: Option<usize>| at.map_or(PollFlags::empty(), |at| fds[at].revents());
    let listener = events(listener_at);
    Ok(Ready {
        signal: !events(Some(0)).is_empty(),
        control: !events(control_at).is_empty(),
        notification: listener.contains(PollFlags::IN),
        // No task has the filter any more (seccomp_unotify(2)).
        proxy: !events(proxy_at).is_empty(),
        sandbox_empty: listener.intersects(PollFlags::HUP | PollFlags::ERR),
        connect: count == 0 || fds[connects_from..].iter().any(|fd| !fd.revents().is_empty()),
    })
}

/// The step of the child in words that a user can act on.
pub(crate) fn explain(step: Step, errno: Errno) -> String {
    let reason = match (step, errno) {
        (Step::Filter, Errno::BUSY) => {
            "a seccomp listener exists already, as on WSL2 or under another supervisor"
        }
        (Step::Filter, Errno::PERM) => {
            "the surrounding sandbox, such as another landstrip, lets no listener be installed"
        }
        (Step::Filter, Errno::INVAL | Errno::NOSYS) => {
            "this kernel lacks seccomp user notification (Linux 5.19 is needed)"
        }
        (Step::Filter, _) => "the filter could not be installed",
        (Step::Restrict, Errno::TOOBIG) => "too many Landlock domains are nested already",
        (Step::Restrict, _) => "the Landlock domain could not be entered",
        (Step::Plan, _) => "the plan did not arrive",
        (Step::Environment, _) => "there is no memory for the environment",
        (Step::Execute, _) => "the tool could not be executed",
    };
    format!("{reason}: {}", crate::failure::strerror(errno))
}
