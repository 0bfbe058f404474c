//! The command and all that it started, stopped while somebody is asked at their terminal: so nothing of it reads what is
//! typed, or writes beside what is shown. Stopped are descendants of the broker one by one, as they are found, until no
//! other is found: who is to be stopped makes no child any more (fork(2) fails with a signal pending, and is made again).
//!
//! That a call waits is then no matter of SIGSTOP, nor of SIGCHLD, which tells parents of children that were stopped
//! (`kernel::kill::UNHEEDED`).
//!
//! Whoever stands still can be continued without a hand of the command's: by a timer whose signal is SIGCONT
//! (timer_create(2)), or because a process ends that had begun to (clone(2), PR_SET_PDEATHSIG, orphaned groups). None of that
//! happens unseen: who ran has had a processor, and the kernel counts how often each thread gave one up
//! (proc_pid_status(5)). So it is known before an answer is taken whether all stood still since the question was shown.

use kernel::kill::UNHEEDED;
use kernel::proc;
use rustix::fd::OwnedFd;
use rustix::process::{self, Pid, PidfdFlags, Signal};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most processes that are stopped; of more, none is.
const PROCESSES_MAX: usize = 4096;
/// Most rounds in which others are found.
const ROUNDS_MAX: usize = 1000;
/// How long is waited for those that are to stop: they only have to get a processor.
const LIMIT: Duration = Duration::from_millis(500);
/// How long of that for those that wait for a disk, most likely: who waits for an answer is told the same way.
const DISK_LIMIT: Duration = Duration::from_millis(30);

/// Goes on when dropped.
#[derive(Debug)]
pub(super) struct Standstill {
    /// Parents first.
    stopped: Vec<(Pid, OwnedFd)>,
    spared: Vec<Pid>,
    /// The threads of all descendants, by their directories of proc(5), when they were last looked at.
    threads: HashMap<String, Thread>,
}

/// Of a thread, what changes when it gets a processor.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    state: Option<char>,
    /// How often it gave up a processor.
    switches: [Option<String>; 2],
}

impl Standstill {
    /// Stops all descendants of this process but `spared`. None if there are too many, or they do not stop.
    pub(super) fn begin(spared: &[Pid]) -> Option<Self> {
        let unheeded = [Signal::STOP, Signal::CHILD].map(|signal| 1 << (signal.as_raw() - 1));
        UNHEEDED.store(unheeded.iter().sum(), Ordering::SeqCst);
        let (stopped, spared, threads) = (Vec::new(), spared.to_vec(), HashMap::new());
        let mut all = Self { stopped, spared, threads };
        all.stop_all()?;
        all.stands().then_some(all)
    }

    /// Whether all stood still since this was last asked, or begun. If not, they are stopped again as far as they can be.
    pub(super) fn holds(&mut self) -> bool {
        let now = self.look();
        // One that has ended can have run before.
        let holds = now == self.threads && now.values().all(Thread::stands);
        self.threads = now;
        if !holds {
            for (_, process) in &self.stopped {
                let _ = process::pidfd_send_signal(process, Signal::STOP);
            }
            let _ = self.stop_all();
        }
        holds
    }

    /// Stops who is not stopped yet, until nobody else is found, and waits for that. None if there are too many.
    pub(super) fn stop_all(&mut self) -> Option<()> {
        let mut known: HashSet<_> = self.stopped.iter().map(|(process, _)| *process).collect();
        let mut stands = false;
        for _ in 0..ROUNDS_MAX {
            let count = known.len();
            self.stop_others(process::getpid(), &mut known)?;
            // Who had still to stop may have continued another.
            match (known.len() == count, stands) {
                (true, true) => return Some(()),
                (true, false) => self.wait(),
                (false, _) => {}
            }
            stands = known.len() == count;
        }
        None
    }

    /// Stops what descends from `parent`, and is neither spared nor `known`.
    fn stop_others(&mut self, parent: Pid, known: &mut HashSet<Pid>) -> Option<()> {
        let mut parents = vec![parent];
        while let Some(parent) = parents.pop() {
            for child in proc::children(parent.as_raw_pid()) {
                if self.stopped.len() >= PROCESSES_MAX {
                    return None;
                }
                if self.spared.contains(&child) {
                    continue;
                }
                // Also of one that was stopped before.
                parents.push(child);
                if known.contains(&child) {
                    continue;
                }
                let Ok(held) = process::pidfd_open(child, PidfdFlags::empty()) else { continue };
                // Who has another parent meanwhile is found as that one's; one that is stopped already stays so, unless
                // another continues it. Of a process that has ended as far as can be seen, threads may go on.
                let (state, is_child) = look(child, parent);
                if !is_child || state == Some('T') {
                    continue;
                }
                known.insert(child);
                if process::pidfd_send_signal(&held, Signal::STOP).is_ok() {
                    self.stopped.push((child, held));
                }
            }
        }
        Some(())
    }

    /// Waits until none runs any more.
    fn wait(&mut self) {
        let begun = Instant::now();
        loop {
            self.threads = self.look();
            let waits = self.threads.values().any(|thread| thread.state == Some('D'));
            let limit = if self.stands() && waits { DISK_LIMIT } else { LIMIT };
            if self.stands() && !waits || begun.elapsed() >= limit {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether nobody ran when they were last looked at.
    fn stands(&self) -> bool {
        self.threads.values().all(Thread::stands)
    }

    /// All threads there are, also of those that were stopped before.
    fn look(&self) -> HashMap<String, Thread> {
        let mut threads = HashMap::new();
        let mut parents = vec![process::getpid()];
        while let Some(parent) = parents.pop() {
            let children = proc::children(parent.as_raw_pid()).into_iter();
            for child in children.filter(|child| !self.spared.contains(child)) {
                parents.push(child);
                let tasks = std::fs::read_dir(format!("/proc/{child}/task"));
                for task in tasks.into_iter().flatten().flatten() {
                    let name = task.path().display().to_string();
                    let Ok(text) = proc::read(&format!("{name}/status")) else { continue };
                    threads.insert(name, Thread::of(&text));
                }
            }
        }
        threads
    }

    /// Whether one of them has been sent a signal that ends programs: it waits for what is asked here.
    pub(super) fn is_to_end(&self) -> bool {
        const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
        let ending: u64 = ENDING.map(|signal| 1 << (signal.as_raw() - 1)).iter().sum();
        let pending = |text: Vec<u8>| {
            let set = |name| u64::from_str_radix(proc::field(&text, name)?, 16).ok();
            (set("ShdPnd:").unwrap_or(0) | set("SigPnd:").unwrap_or(0))
                & !set("SigIgn:").unwrap_or(0)
        };
        self.stopped.iter().any(|(process, _)| {
            let text = proc::read(&format!("/proc/{process}/status"));
            text.is_ok_and(|text| pending(text) & ending != 0)
        })
    }
}

impl Drop for Standstill {
    /// Children first: whoever looks after them is not to see them stopped.
    fn drop(&mut self) {
        for (_, process) in self.stopped.iter().rev() {
            let _ = process::pidfd_send_signal(process, Signal::CONT);
        }
        UNHEEDED.store(0, Ordering::SeqCst);
    }
}

impl Thread {
    fn of(text: &[u8]) -> Self {
        let switches = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"];
        let switches = switches.map(|name| proc::field(text, name).map(str::to_owned));
        Self { state: state(text), switches }
    }

    /// Whether it does not run. Who waits for an answer, or for a disk, has the stop before it still.
    fn stands(&self) -> bool {
        self.state.is_some_and(|state| matches!(state, 'T' | 't' | 'Z' | 'X' | 'D'))
    }
}

/// The state of a process, and whether it is a child of `parent`.
fn look(process: Pid, parent: Pid) -> (Option<char>, bool) {
    let text = proc::read(&format!("/proc/{process}/status")).unwrap_or_default();
    let is_child = proc::field(&text, "PPid:") == Some(&*parent.to_string());
    (state(&text), is_child)
}

fn state(text: &[u8]) -> Option<char> {
    proc::field(text, "State:")?.chars().next()
}
