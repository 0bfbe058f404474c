//! Who in the sandbox has which socket or terminal: proc(5), the links in `/proc/PID/fd`.
//!
//! A socket is known by its inode number there (`socket:[N]`), which is no other's as long as
//! somebody has it.

use super::proc;
use super::ptrace_capability;
use super::target::TargetFd;
use rustix::fs;
use rustix::io::Errno;
use rustix::process::{self, Pid};
use std::ops::ControlFlow;
use std::path::Path;

/// Most processes, and descriptors of them, that are looked at.
const PROCESSES_MAX: usize = 1024;
const DESCRIPTORS_MAX: usize = 16_384;
/// How often it is looked: a list of children lacks some while others end (proc_tid_children(5)), and one of
/// descriptors while others are made.
const LOOKS: usize = 8;

/// The inode number of the socket at descriptor `number` of `process`, if there is one.
pub fn socket_at(process: Pid, number: TargetFd) -> Option<u64> {
    socket_behind(format!("/proc/{}/fd/{number}", process.as_raw_nonzero()).as_ref())
}

/// Has `look`, which looks through the sandbox's processes, do so until it has found what it looks for.
pub fn search<T>(look: impl FnMut() -> Option<T>) -> Option<T> {
    std::iter::repeat_with(look).take(LOOKS).flatten().next()
}

/// Shows `look` the sockets that the sandbox's processes have, each as process, descriptor and inode
/// number, until it breaks off. Returns whether it has seen all: there can be too many.
pub fn each_socket(mut look: impl FnMut(Pid, TargetFd, u64) -> ControlFlow<()>) -> bool {
    let (processes, mut all) = proc::descendants(&[], PROCESSES_MAX);
    let mut seen = 0;
    for process in processes {
        let directory = format!("/proc/{}/fd", process.as_raw_nonzero());
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => {
                // One that hides them (PR_SET_DUMPABLE, which hidepid makes look as if it had ended) may hold
                // anything; one that has ended, nothing.
                let is_gone = process::test_kill_process(process) == Err(Errno::SRCH);
                all &= error.kind() == std::io::ErrorKind::NotFound && is_gone;
                continue;
            }
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > DESCRIPTORS_MAX {
                return false;
            }
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let (Some(number), Some(inode)) = (number, socket_behind(&entry.path())) else {
                continue;
            };
            if look(process, TargetFd::new(number), inode).is_break() {
                return all;
            }
        }
    }
    all
}

/// Whether `thread`'s process, or another one of the sandbox, has the master of pseudoterminal `number`.
pub fn has_terminal(thread: Pid, number: u32) -> bool {
    has_master(thread, number)
        || proc::descendants(&[], PROCESSES_MAX)
            .0
            .into_iter()
            .any(|process| has_master(process, number))
}

/// Masters of the instance of devpts(5) that /dev/pts is have this name.
const MASTERS: [&str; 2] = ["/dev/ptmx", "/dev/pts/ptmx"];

fn has_master(process: Pid, number: u32) -> bool {
    let process = process.as_raw_nonzero();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let index = format!("tty-index:\t{number}");
    entries.take(DESCRIPTORS_MAX).flatten().any(|entry| {
        let is_master = std::fs::read_link(entry.path())
            .is_ok_and(|link| MASTERS.iter().any(|master| link == Path::new(master)));
        let descriptor = entry.file_name();
        let descriptor = descriptor.to_str().unwrap_or_default();
        is_master
            && std::fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}"))
                .is_ok_and(|text| text.lines().any(|line| line == index))
    })
}

fn socket_behind(link: &Path) -> Option<u64> {
    let name = ptrace_capability::of(|| fs::readlinkat(fs::CWD, link, Vec::new())).ok()?;
    name.to_str().ok()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}
