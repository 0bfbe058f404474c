//! Who in the sandbox has which socket or terminal: proc(5), the links in `/proc/PID/fd`.
//!
//! A socket is known by its inode number there (`socket:[N]`), which is no other's as long as
//! somebody has it.

use super::proc;
use super::ptrace_capability;
use super::target::{Target, TargetFd};
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::process::{self, Pid};
use std::ffi::CStr;
use std::ops::ControlFlow;

/// Most processes, and descriptors of them, that are looked at.
const PROCESSES_MAX: usize = 1024;
const DESCRIPTORS_MAX: usize = 16_384;
/// How often it is looked: a list of children lacks some while others end (proc_tid_children(5)), and one of
/// descriptors while others are made.
const LOOKS: usize = 8;

/// The inode number of the socket at descriptor `number` of `process`, if there is one.
pub fn socket_at(process: Pid, number: TargetFd) -> Option<u64> {
    let link = Target::new(process).proc(&format!("fd/{number}"));
    let name = ptrace_capability::of(|| fs::readlink(&link, Vec::new())).ok()?;
    name.to_str().ok()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The descriptors of `process`.
fn descriptors(process: Pid) -> io::Result<impl Iterator<Item = TargetFd>> {
    Ok(proc::numbers(&Target::new(process).proc("fd"))?.map(TargetFd::new))
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
        let descriptors = match descriptors(process) {
            Ok(descriptors) => descriptors,
            Err(errno) => {
                // One that hides them (PR_SET_DUMPABLE, which hidepid makes look as if it had ended) may hold
                // anything; one that has ended, nothing.
                let is_gone = process::test_kill_process(process) == Err(Errno::SRCH);
                all &= errno == Errno::NOENT && is_gone;
                continue;
            }
        };
        for number in descriptors {
            seen += 1;
            if seen > DESCRIPTORS_MAX {
                return false;
            }
            if let Some(inode) = socket_at(process, number)
                && look(process, number, inode).is_break()
            {
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
const MASTERS: [&CStr; 2] = [c"/dev/ptmx", c"/dev/pts/ptmx"];

fn has_master(process: Pid, number: u32) -> bool {
    let Ok(descriptors) = descriptors(process) else { return false };
    let target = Target::new(process);
    descriptors.take(DESCRIPTORS_MAX).any(|descriptor| {
        let link = fs::readlink(target.proc(&format!("fd/{descriptor}")), Vec::new());
        link.is_ok_and(|link| MASTERS.contains(&link.as_c_str()))
            && target.terminal_index(descriptor) == Ok(Some(number))
    })
}
