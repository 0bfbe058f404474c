//! The loop: child, signals, notifications and proxy, until the command has ended.
//!
//! Nothing here blocks for long but poll(2). Notifications are answered by threads of their own.

use super::launch::Tool;
use super::launch_channel::{ChildMessage, LaunchChannel};
use super::process_tree::ProcessTree;
use super::scratch::{Scratch, remove_stale_beside};
use super::signals::Signals;
use crate::answer::answers::{Answerer, Judges};
use crate::answer::worker_pool::WorkerPool;
use crate::ask::{Job, attend_proxy};
use crate::domains::proxy::Proxy;
use crate::report::failure::{Failure, say};
use crate::report::traps::Traps;
use common::exit;
use kernel::umask::Umask;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{Signal, WaitStatus};
use std::sync::{Arc, Mutex};

/// How long nothing must happen before the broker turns to its own affairs: a command that ends at
/// once does not wait for them.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// When what no thread could do is tried again.
const SHORTLY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Serves the command until it has ended; returns its exit status as landstrip's own.
///
/// # Errors
/// Returns the [`Failure`] of a step of the launch, in which case the tool never ran, or because of
/// which it cannot be served any more.
pub(super) fn until_end(
    child: LaunchChannel,
    tool: &Tool<'_>,
    tree: &mut ProcessTree,
    judges: &Arc<Judges>,
    traps: &Arc<Traps>,
    scratches: &[Scratch],
) -> Result<i32, Failure> {
    Signals::mask().map_err(|errno| Failure::system("signals", errno))?;
    let child = Some(child);
    let mut run = Run { child, tool, confined: false, pool: None, jobs: Vec::new(), judges, traps };
    let mut chore = Some(scratches).filter(|scratches| !scratches.is_empty());
    loop {
        let ready = run.wait(tree, chore.map(|_| QUIET))?;
        if ready.is_none()
            && let Some(scratches) = chore.take()
        {
            remove_stale_beside(scratches);
        }
        let [of_tree, of_child, listener, proxy, limits, questions] =
            ready.unwrap_or([PollFlags::empty(); 6]);
        // The command, with what it started, went over one.
        if !limits.is_empty() {
            return Ok(exit::FAILED);
        }
        if !of_child.is_empty() {
            run.hear_child(tree)?;
        }
        // It has something to say, or has ended.
        if !proxy.is_empty()
            && let Some(proxy) = &judges.proxy
        {
            attend_proxy(proxy, judges.asking.as_deref(), traps);
        }
        if listener.contains(PollFlags::IN) {
            run.serve()?;
        }
        // One was answered, or it is time to look who waits.
        run.attend_questions(!questions.is_empty());
        // No task has the filter any more (seccomp_unotify(2)).
        if listener.intersects(PollFlags::HUP | PollFlags::ERR) {
            run.pool = None;
            // Whoever has the filter has begun to exit, and nothing else is of the sandbox.
            if tree.job.end() {
                tree.dismiss_guardian();
            }
        }
        // A signal, or a process that has ended. Of one that died before its signals were blocked, the closed channel
        // alone tells.
        if !(of_tree | of_child).is_empty()
            && let Some(status) =
                tree.attend().map_err(|errno| Failure::system("waitpid", errno))?
        {
            return run.end(status, tree);
        }
    }
}

/// What the loop serves, besides the command itself.
struct Run<'a> {
    /// Until it has executed the tool, or died.
    child: Option<LaunchChannel>,
    tool: &'a Tool<'a>,
    /// The filter is in force.
    confined: bool,
    pool: Option<Arc<WorkerPool>>,
    /// What was answered, and no thread could do yet.
    jobs: Vec<Arc<Mutex<Job>>>,
    judges: &'a Arc<Judges>,
    traps: &'a Arc<Traps>,
}

impl Run<'_> {
    /// Takes one message of the child's.
    fn hear_child(&mut self, tree: &mut ProcessTree) -> Result<(), Failure> {
        match self.child.as_mut().map(LaunchChannel::receive) {
            Some(Ok(ChildMessage::Listening(listener))) if !self.confined => {
                let umask = Umask::new(tree.umask);
                let held = (&tree.groups, &tree.job.lent);
                let answerer = Answerer::new(self.judges, tree.command, held, umask, self.traps);
                let pool = WorkerPool::new(listener, answerer);
                // Programs ask and read as they start, which takes long enough for a thread to be there.
                if self.judges.view.has_exceptions() {
                    pool.start().map_err(no_thread)?;
                }
                self.pool = Some(pool);
                self.confined = true;
            }
            // Sent a filter for that: the policy asks for nothing that the broker must do.
            Some(Ok(ChildMessage::Alone)) if !self.confined => {
                match self.judges.left {
                    Some(left) => say(&format!(
                        "there is a sandbox around this one, which has to decide about {left}; nothing new can be created \
                         beside a denied path, and nothing is reported"
                    )),
                    None => self
                        .traps
                        .log("the kernel gives no seccomp listener: no denial can be reported"),
                }
                self.confined = true;
            }
            Some(Ok(ChildMessage::Listening(_) | ChildMessage::Alone)) => {
                return Err(Failure::system("second listener", Errno::BADMSG));
            }
            Some(Ok(ChildMessage::Failed(step, errno))) => {
                return Err(Failure::launch(self.tool.name(), step, errno));
            }
            Some(Ok(ChildMessage::Closed)) | None => {
                // In a PID namespace that it was the first of, it ends when all there have. Nobody waits long for one
                // that was killed.
                if !self.confined {
                    tree.reap_guardian();
                }
                self.child = None;
            }
            Some(Err(errno)) => return Err(Failure::system("control socket", errno)),
        }
        Ok(())
    }

    /// Has done what was answered to questions, and hears more once that is under way.
    fn attend_questions(&mut self, is_ready: bool) {
        let (Some(asking), Some(pool)) = (&self.judges.asking, &self.pool) else { return };
        if self.jobs.is_empty() && is_ready {
            let jobs = asking.counsel.attend().into_iter();
            self.jobs = jobs.map(|job| Arc::new(Mutex::new(job))).collect();
        }
        self.jobs.retain(|job| pool.resume(job).is_err());
    }

    /// From the first notification on, threads receive; many commands never cause one. When none of
    /// them can any more, nothing is served, and everything ends.
    fn serve(&self) -> Result<(), Failure> {
        match &self.pool {
            Some(pool) if pool.has_started() => {
                Err(Failure::system("notification", pool.failure()))
            }
            Some(pool) => pool.start().map_err(no_thread),
            None => Ok(()),
        }
    }

    /// The command has ended with `status`.
    fn end(mut self, status: WaitStatus, tree: &ProcessTree) -> Result<i32, Failure> {
        // What it said before it died comes first.
        if let Some(Ok(ChildMessage::Failed(step, errno))) =
            self.child.as_mut().map(LaunchChannel::receive)
        {
            return Err(Failure::launch(self.tool.name(), step, errno));
        }
        // Told to end before it can run the tool, it ends as that would.
        let told =
            [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM].map(|it| Some(it.as_raw()));
        if !self.confined && !told.contains(&status.terminating_signal()) {
            return Err(Failure::Died);
        }
        if let Some(limits) = &self.judges.limits {
            limits.note_end(status);
        }
        // What the proxy refused, it reported before the command knew.
        if let Some(proxy) = &self.judges.proxy {
            proxy.hear_out(tree.is_left_with(proxy.process()), self.traps);
        }
        Ok(exit_status(status))
    }

    /// Waits until there is something to do: for the tree, the child, the listener, the proxy, limits and questions.
    /// None if `limit` passes before.
    fn wait(
        &self,
        tree: &ProcessTree,
        limit: Option<Timespec>,
    ) -> Result<Option<[PollFlags; 6]>, Failure> {
        let asking = self.judges.asking.as_deref();
        let limit = if self.jobs.is_empty() { limit } else { Some(SHORTLY) };
        let sources = [
            Some(tree.as_fd()),
            self.child.as_ref().map(AsFd::as_fd),
            self.pool.as_ref().map(|pool| pool.as_fd()),
            self.judges.proxy.as_deref().map(Proxy::events),
            self.judges.limits.as_ref().map(|limits| limits.as_fd()),
            // Nothing can be answered before there is somebody to do it, nor while that cannot be done.
            asking
                .filter(|_| self.pool.is_some() && self.jobs.is_empty())
                .map(|asking| asking.counsel.events()),
        ];
        let polled = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds: Vec<_> = sources.iter().copied().flatten().map(polled).collect();
        match poll(&mut fds, limit.as_ref()) {
            Ok(0) => return Ok(None),
            // Interrupted, nothing is ready.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::system("poll", errno)),
        }
        let mut polled = fds.iter().map(PollFd::revents);
        // Those that there are, in their order.
        Ok(Some(sources.map(|fd| fd.and_then(|_| polled.next()).unwrap_or(PollFlags::empty()))))
    }
}

fn exit_status(status: WaitStatus) -> i32 {
    let by_signal = || status.terminating_signal().map(|signal| exit::SIGNAL_BASE + signal);
    status.exit_status().or_else(by_signal).unwrap_or(exit::FAILED)
}

/// Why the command's calls are not served.
fn no_thread(errno: Errno) -> Failure {
    match errno {
        Errno::AGAIN => {
            let message = "no more threads are allowed: raise the limit of processes (ulimit -u)";
            Failure::Internal("thread", message.to_owned())
        }
        errno => Failure::system("thread", errno),
    }
}
