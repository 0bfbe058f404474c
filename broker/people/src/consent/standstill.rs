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
        let mut known = HashSet::new();
        let mut stands = false;
        for _ in 0..ROUNDS_MAX {
            let count = known.len();
            all.stop_others(process::getpid(), spared, &mut known)?;
            // Who had still to stop may have continued another.
            match (known.len() == count, stands) {
                (true, true) => return Some(all),
                (true, false) => all.wait(),
                (false, _) => {}
            }
            stands = known.len() == count;
        }
        None
    }

    /// Stops what descends from `parent`, and is neither `spared` nor `known`.
    fn stop_others(&mut self, parent: Pid, spared: &[Pid], known: &mut HashSet<Pid>) -> Option<()> {
        let mut parents = vec![parent];
        while let Some(parent) = parents.pop() {
            for child in proc::children(parent.as_raw_pid()) {
                if self.stopped.len() >= PROCESSES_MAX {
                    return None;
                }
                if spared.contains(&child) {
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
