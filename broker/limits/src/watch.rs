//! The limits of a run (`limits` in landstrip-policy(5)): the command and all that it started are counted, and the run
//! ends where one of them is passed.
//!
//! A fork that would be one too many is refused where it is notified, so that processes are counted exactly; the rest
//! is looked at by a thread, the more often the less is left. The kernel itself holds how long files are made
//! (RLIMIT_FSIZE in setrlimit(2)), and memory and processes where the run can have a control group of its own. Nothing
//! here confines: a run that is over is ended as any other.

use super::cgroup::ControlGroup;
use super::usage::Members;
use kernel::proc;
use kernel::threads::{SMALL_STACK, lock, spawn};
use rules::policy::Limits;
use rustix::event::{self, EventfdFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, Resource, Rlimit, WaitStatus};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The pauses between two looks, at the most and at the least.
const PAUSE_MAX: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// How fast memory can be taken, in bytes a millisecond: what several processors fill.
const FILLED: u64 = 8 << 20;
/// What the shell exits with after a command that was killed for a file that is too long.
const STATUS_OF_FILE_SIZE: i32 = common::exit::SIGNAL_BASE + 25;

/// The process that helps the broker now, if there is one.
type Helper = Box<dyn Fn() -> Option<Pid> + Send + Sync>;

/// Why the command and what it starts cannot be counted.
#[derive(Debug)]
pub enum Uncounted {
    /// The kernel does not list children.
    NotListed,
    /// Some of its processes could be hidden.
    Hidden,
    /// A system call failed.
    System(Errno),
}

impl From<Errno> for Uncounted {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl fmt::Display for Uncounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed => {
                f.write_str("this kernel does not list children in /proc (CONFIG_PROC_CHILDREN)")
            }
            Self::Hidden => f.write_str(
                "/proc is mounted with hidepid, so that processes of the command could not be counted: mount it \
                 without, or leave out limits.memory, processes and cpuSeconds",
            ),
            Self::System(errno) => errno.fmt(f),
        }
    }
}

/// Watches over one run.
pub struct Watch {
    limits: Limits,
    /// What landstrip itself started, the guardian apart, and does not count.
    helper: Helper,
    /// The control group that landstrip is in, if the command can write into none.
    around: Option<PathBuf>,
    /// The run's own, as long as it runs.
    group: Mutex<Option<ControlGroup>>,
    /// The process that outlives the broker.
    guardian: OnceLock<Option<Pid>>,
    /// How many forks may be let through before processes are counted anew.
    room: Mutex<u64>,
    /// The limit that was passed, and what it is.
    passed: OnceLock<(&'static str, u64)>,
    /// Readable once one was.
    alarm: OwnedFd,
}

impl Watch {
    /// One for the limits of a policy; none without any. `around` is asked where a control group can be made, and
    /// `helper` which process of landstrip's own, besides the guardian, is not counted.
    ///
    /// # Errors
    /// Returns why the command and what it starts cannot be counted; what eventfd(2) returns.
    pub fn of(
        limits: Limits,
        helper: impl Fn() -> Option<Pid> + Send + Sync + 'static,
        around: impl FnOnce() -> Option<PathBuf>,
    ) -> Result<Option<Arc<Self>>, Uncounted> {
        if limits == Limits::default() {
            return Ok(None);
        }
        std::fs::metadata("/proc/thread-self/children").map_err(|_| Uncounted::NotListed)?;
        let counted = limits.memory.or(limits.processes).or(limits.cpu_seconds);
        if counted.is_some() && proc::hides_processes()? {
            return Err(Uncounted::Hidden);
        }
        let alarm = event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Some(Arc::new(Self {
            limits,
            helper: Box::new(helper),
            around: around(),
            group: Mutex::default(),
            guardian: OnceLock::new(),
            room: Mutex::new(0),
            passed: OnceLock::new(),
            alarm,
        })))
    }

    /// Begins, before the command is released.
    ///
    /// # Errors
    /// Returns what prlimit(2) returns; [`Errno::AGAIN`] if there can be no thread.
    pub fn start(self: &Arc<Self>, command: Pid, guardian: Option<Pid>) -> Result<(), Uncounted> {
        let _ = self.guardian.set(guardian);
        self.bound(command)?;
        // Another run that begins may have taken an empty group for one that was left.
        *lock(&self.group) = (0..3).find_map(|_| {
            let group = self.make_group()?;
            group.admit(command).map(|()| group)
        });
        if (Limits { file_size: None, ..self.limits }) == Limits::default() {
            return Ok(());
        }
        let watch = Arc::clone(self);
        Ok(spawn(SMALL_STACK, move || watch.keep_looking())?)
    }

    /// Which limits a control group of the run's own would hold: of memory, of processes.
    pub fn held_by_group(&self) -> (bool, bool) {
        self.make_group().map_or((false, false), |group| group.holds())
    }

    /// A control group that holds some of the limits, if one can be made.
    fn make_group(&self) -> Option<ControlGroup> {
        let Limits { memory, processes, .. } = self.limits;
        let wanted = memory.or(processes).and(self.around.as_ref());
        ControlGroup::below(wanted?, memory, processes)
    }

    /// Sets what the kernel itself holds the command to.
    fn bound(&self, command: Pid) -> io::Result<()> {
        if self.limits.memory.is_some() {
            // Should memory run out before this is seen, it ends the command and nothing else of the user's.
            let path = format!("/proc/{}/oom_score_adj", command.as_raw_nonzero());
            let _ = std::fs::write(path, "1000");
        }
        let Some(most) = self.limits.file_size else { return Ok(()) };
        let former = process::getrlimit(Resource::Fsize);
        let most = Some(former.maximum.map_or(most, |callers| callers.min(most)));
        let limit = Rlimit { current: most, maximum: most };
        process::prlimit(Some(command), Resource::Fsize, limit).map(drop)
    }

    /// Whether processes are counted, for which the filter notifies forks.
    pub fn counts_forks(&self) -> bool {
        self.limits.processes.is_some()
    }

    /// Whether another process may be forked; if not, the run ends. More than one fork can be under way, so that there
    /// can be some processes more before this is seen.
    pub fn admits_fork(&self) -> bool {
        let Some(most) = self.limits.processes else { return true };
        let mut room = lock(&self.room);
        if *room == 0 && self.passed.get().is_none() {
            *room = most.saturating_sub(self.members().tasks());
        }
        if *room == 0 {
            self.pass("limits.processes", most);
            return false;
        }
        *room -= 1;
        true
    }

    fn members(&self) -> Members {
        Members::besides(&[self.guardian.get().copied().flatten(), (self.helper)()])
    }

    fn pass(&self, limit: &'static str, most: u64) {
        let _ = self.passed.set((limit, most));
        let _ = io::write(&self.alarm, &1_u64.to_ne_bytes());
    }

    fn keep_looking(&self) {
        let start = Instant::now();
        while self.passed.get().is_none() {
            match self.look(start.elapsed()) {
                Ok(pause) => std::thread::sleep(pause),
                Err((limit, most)) => self.pass(limit, most),
            }
        }
    }

    /// Compares what is used with the limits; returns how long nothing of that can be passed unseen for long, else the
    /// limit that was.
    fn look(&self, elapsed: Duration) -> Result<Duration, (&'static str, u64)> {
        self.look_at_group()?;
        let Limits { memory, processes, cpu_seconds, wall_seconds, .. } = self.limits;
        let mut pause = Duration::MAX;
        if let Some(most) = wall_seconds {
            let left = Duration::from_secs(most).checked_sub(elapsed);
            let left = left.filter(|left| !left.is_zero());
            pause = left.ok_or(("limits.wallSeconds", most))?;
        }
        if memory.is_none() && processes.is_none() && cpu_seconds.is_none() {
            return Ok(pause);
        }
        pause = pause.min(PAUSE_MAX);
        let members = self.members();
        if let Some(most) = processes.filter(|most| members.tasks() > *most) {
            return Err(("limits.processes", most));
        }
        if let Some(most) = cpu_seconds.filter(|most| members.cpu() > Duration::from_secs(*most)) {
            return Err(("limits.cpuSeconds", most));
        }
        if let Some(most) = memory {
            let left = most.checked_sub(members.memory(most)).ok_or(("limits.memory", most))?;
            pause = pause.min(Duration::from_millis(left / FILLED)).max(PAUSE_MIN);
        }
        Ok(pause)
    }

    /// What the control group held the command to.
    fn look_at_group(&self) -> Result<(), (&'static str, u64)> {
        let Limits { memory, processes, .. } = self.limits;
        let group = lock(&self.group);
        let lacked = |what: fn(&ControlGroup) -> bool| group.as_ref().is_some_and(what);
        match (memory, processes) {
            (Some(most), _) if lacked(ControlGroup::lacked_memory) => Err(("limits.memory", most)),
            (_, Some(most)) if lacked(ControlGroup::lacked_processes) => {
                Err(("limits.processes", most))
            }
            _ => Ok(()),
        }
    }

    /// Learns with which status the command ended.
    pub fn note_end(&self, status: WaitStatus) {
        const SIGXFSZ: i32 = 25;
        let is_too_long = status.terminating_signal() == Some(SIGXFSZ)
            || status.exit_status() == Some(STATUS_OF_FILE_SIZE);
        if let Some(most) = self.limits.file_size.filter(|_| is_too_long) {
            self.pass("limits.fileSize", most);
        }
    }

    /// Ends with the run, of which nothing is left; the key of the limit that was passed, if one was, and what it is.
    pub fn end(&self) -> Option<(&'static str, u64)> {
        if let Err((limit, most)) = self.look_at_group() {
            self.pass(limit, most);
        }
        *lock(&self.group) = None;
        self.passed.get().copied()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl AsFd for Watch {
    /// Readable once a limit was passed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }
}
