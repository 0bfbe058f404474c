//! The command and all that it started, stopped while somebody is asked at their terminal: so nothing of it reads what is
//! typed, or writes beside what is shown. Stopped are descendants of the broker one by one, as they are found, until no
//! other is found: who is to be stopped makes no child any more (fork(2) fails with a signal pending, and is made again).
//!
//! That a call waits is then no matter of SIGSTOP (`kernel::kill::UNHEEDED`).

use kernel::kill::UNHEEDED;
use kernel::proc;
use rustix::fd::OwnedFd;
use rustix::process::{self, Pid, PidfdFlags, Signal};
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most processes that are stopped; of more, none is.
const PROCESSES_MAX: usize = 4096;
/// Most rounds in which others are found.
const ROUNDS_MAX: usize = 1000;
/// How long is waited for those that are to stop: they only have to get a processor.
const LIMIT: Duration = Duration::from_millis(500);

/// Goes on when dropped.
#[derive(Debug)]
pub(super) struct Standstill {
    /// Parents first.
    stopped: Vec<(Pid, OwnedFd)>,
}

impl Standstill {
    /// Stops all descendants of this process but `spared`. None if there are too many.
    pub(super) fn begin(spared: &[Pid]) -> Option<Self> {
        UNHEEDED.store(1 << (Signal::STOP.as_raw() - 1), Ordering::SeqCst);
        let mut all = Self { stopped: Vec::new() };
        let mut known: HashSet<Pid> = spared.iter().copied().collect();
        for _ in 0..ROUNDS_MAX {
            let count = known.len();
            all.stop_others(process::getpid(), &mut known)?;
            if known.len() == count {
                all.wait();
                return Some(all);
            }
        }
        None
    }

    /// Stops what descends from `parent` and is not `known`.
    fn stop_others(&mut self, parent: Pid, known: &mut HashSet<Pid>) -> Option<()> {
        let mut parents = vec![parent];
        while let Some(parent) = parents.pop() {
            for child in proc::children(parent.as_raw_pid()) {
                if self.stopped.len() >= PROCESSES_MAX {
                    return None;
                }
                let is_spared = known.contains(&child) && !self.has(child);
                if !is_spared {
                    parents.push(child);
                }
                if known.contains(&child) {
                    continue;
                }
                let Ok(held) = process::pidfd_open(child, PidfdFlags::empty()) else { continue };
                // Who has another parent meanwhile is found as that one's; one that is stopped already stays so.
                let (state, is_child) = look(child, parent);
                if !is_child {
                    continue;
                }
                known.insert(child);
                if !matches!(state, Some('T' | 'Z' | 'X'))
                    && process::pidfd_send_signal(&held, Signal::STOP).is_ok()
                {
                    self.stopped.push((child, held));
                }
            }
        }
        Some(())
    }

    fn has(&self, process: Pid) -> bool {
        self.stopped.iter().any(|(stopped, _)| *stopped == process)
    }

    /// Waits until none runs any more. Who waits for an answer, or for a disk, has it before them still.
    fn wait(&self) {
        let deadline = Instant::now() + LIMIT;
        let runs = |process: &Pid| {
            let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
            tasks.flatten().any(|task| {
                let text = proc::read(&format!("{}/status", task.path().display()));
                let state = text.ok().and_then(|text| state(&text));
                state.is_some_and(|state| !matches!(state, 'T' | 't' | 'Z' | 'X' | 'D'))
            })
        };
        while self.stopped.iter().any(|(process, _)| runs(process)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
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

/// The state of a process, and whether it is a child of `parent`.
fn look(process: Pid, parent: Pid) -> (Option<char>, bool) {
    let text = proc::read(&format!("/proc/{process}/status")).unwrap_or_default();
    let is_child = proc::field(&text, "PPid:") == Some(&*parent.to_string());
    (state(&text), is_child)
}

fn state(text: &[u8]) -> Option<char> {
    proc::field(text, "State:")?.chars().next()
}
