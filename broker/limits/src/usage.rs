//! What processes use together, by proc(5): proc_pid_stat(5), proc_pid_status(5), proc_pid_smaps(5).
//!
//! They change while they are counted: one that ends meanwhile can be missed, none is counted twice.

use kernel::proc::{self, Status};
use rustix::process::{self, Pid};
use std::time::Duration;

/// How many ticks a second the kernel tells times in, on every architecture that there is a filter for
/// (include/uapi/asm-generic/param.h).
const USER_HZ: u64 = 100;

/// Those of a sandbox.
#[derive(Debug)]
pub(crate) struct Members(Vec<Pid>);

impl Members {
    /// What descends from this process, the broker, but for its own helpers.
    pub(crate) fn besides(helpers: &[Option<Pid>]) -> Self {
        Self(proc::descendants(helpers, usize::MAX).0)
    }

    /// How many processes and threads they are.
    pub(crate) fn tasks(&self) -> u64 {
        self.0.iter().filter_map(|process| Status::of(*process).ok()?.threads()).sum()
    }

    /// The memory of their own, in bytes, swapped out or not. If that seems to be more than `most`, what they share
    /// is counted once, which takes longer.
    pub(crate) fn memory(&self, most: u64) -> u64 {
        let by_process = || {
            self.0
                .iter()
                .map(|process| (process, Status::of(*process).map_or(0, |status| memory(&status))))
        };
        let all = by_process().map(|(_, memory)| memory).sum();
        if all <= most {
            return all;
        }
        // One that hides its memory is counted with all that it shares.
        by_process().map(|(process, memory)| share(*process).unwrap_or(memory).min(memory)).sum()
    }

    /// The processor time of those that live, and of those that they and the broker have waited for.
    pub(crate) fn cpu(&self) -> Duration {
        let own = times(process::getpid()).map_or(0, |[_, _, user, system]| user + system);
        let all = self.0.iter().filter_map(|process| times(*process));
        let ticks = own + all.map(|times| times.iter().sum::<u64>()).sum::<u64>();
        Duration::from_millis(ticks * (1000 / USER_HZ))
    }
}

/// The memory of a process that no file backs, in bytes.
fn memory(status: &Status) -> u64 {
    let kinds = ["RssAnon:", "RssShmem:", "VmSwap:"];
    kinds.iter().filter_map(|name| kibibytes(status.text(), name)).sum()
}

/// An amount of memory in the first line of `text` that begins with `name`, in bytes.
fn kibibytes(text: &[u8], name: &str) -> Option<u64> {
    let number: u64 = proc::field(text, name)?.strip_suffix("kB")?.trim_end().parse().ok()?;
    number.checked_mul(1024)
}

/// The memory of `process` with its share of what others have as well, in bytes.
fn share(process: Pid) -> Option<u64> {
    let text = proc::read(&format!("/proc/{}/smaps_rollup", process.as_raw_nonzero())).ok()?;
    ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"].iter().map(|name| kibibytes(&text, name)).sum()
}

/// Processor time in ticks, user and system: its own, and of children that it has waited for.
fn times(process: Pid) -> Option<[u64; 4]> {
    let text = proc::read(&format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    let text = String::from_utf8_lossy(&text);
    // Its name, in parentheses, can hold anything.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11).map(|field| field.parse().ok());
    let mut next = || fields.next().flatten();
    Some([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn child() -> (Child, Pid) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        (child, pid)
    }

    #[test]
    fn children_count_and_helpers_do_not() {
        let ((mut one, first), (mut other, second)) = (child(), child());
        let all = Members::besides(&[None]);
        assert!(all.0.contains(&first) && all.0.contains(&second));
        let without = Members::besides(&[Some(second)]);
        assert!(without.0.contains(&first) && !without.0.contains(&second));
        let one_alone = Members(vec![first]);
        assert_eq!(one_alone.tasks(), 1);
        // Of a small process the kernel may count none, and what starts still grows.
        let this = Members(vec![process::getpid()]);
        assert!(this.memory(u64::MAX) > 0 && this.memory(0) > 0);
        for child in [&mut one, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!((one_alone.tasks(), one_alone.memory(0)), (0, 0));
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let [user, system, ..] = times(process::getpid()).unwrap();
        let busy = std::time::Instant::now();
        while times(process::getpid()).unwrap()[..2].iter().sum::<u64>() == user + system {
            assert!(busy.elapsed() < Duration::from_secs(60));
        }
    }
}
