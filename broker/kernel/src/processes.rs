//! Other processes of the sandbox: which are, and changes of their limits, priority and scheduling, for
//! which the kernel asks for nothing but the same user. Sources: getrlimit(2), setpriority(2),
//! ioprio_set(2), sched_setscheduler(2), sched_setattr(2), sched_setaffinity(2).

#![allow(unsafe_code)]

use super::credentials::Credentials;
use super::identity::{Identity, identity};
use super::proc::{Status, is_of_run};
use super::request::Confirmed;
use super::signals::{self, Signal};
use super::target::{Target, TargetAddress};
use super::{errno, pidfds, ptrace_capability};
use nix::libc;
use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::process::{self, Pid};
use std::ffi::c_long;

/// What is changed of a process or thread, and where its memory holds how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessChange {
    /// prlimit: resource, new limit, where the old one goes.
    Limit(u32, TargetAddress, TargetAddress),
    /// setpriority
    Priority(i32),
    /// ioprio_set
    InputPriority(i32),
    /// sched_setaffinity: size and address of the mask.
    Affinity(u32, TargetAddress),
    /// sched_setscheduler: policy, parameters.
    Scheduler(i32, TargetAddress),
    /// sched_setparam
    Parameters(TargetAddress),
    /// sched_setattr: attributes, flags.
    Attributes(TargetAddress, u32),
}

/// Most bytes that are copied: of the mask of as many processors as the kernel can have.
const COPY_MAX: usize = 1024;
/// `struct rlimit64`, `struct sched_param`, and `SCHED_ATTR_SIZE_VER0`.
const LIMIT_SIZE: usize = 16;
const PARAMETERS_SIZE: usize = 4;
const ATTRIBUTES_SIZE: u32 = 48;

/// A change with all its values copied.
#[derive(Debug)]
pub struct Prepared {
    change: ProcessChange,
    value: Vec<u8>,
}

impl ProcessChange {
    /// Copies the values.
    pub fn prepare(self, target: Target) -> io::Result<Prepared> {
        let (address, size) = match self {
            Self::Limit(_, new, _) => (new, LIMIT_SIZE),
            Self::Priority(_) | Self::InputPriority(_) => (TargetAddress::new(0), 0),
            // What lies beyond the mask that the kernel has is not looked at.
            Self::Affinity(size, mask) => (mask, usize::try_from(size).unwrap_or(0).min(COPY_MAX)),
            Self::Scheduler(_, parameters) | Self::Parameters(parameters) => {
                (parameters, PARAMETERS_SIZE)
            }
            Self::Attributes(attributes, _) => {
                let size = match u32::from_ne_bytes(target.read_array(attributes)?) {
                    0 => ATTRIBUTES_SIZE,
                    size => size,
                };
                (attributes, usize::try_from(size).unwrap_or(usize::MAX))
            }
        };
        if size > COPY_MAX {
            return Err(Errno::TOOBIG);
        }
        let mut value = vec![0; size];
        if size > 0 {
            target.read(address, &mut value)?;
        }
        Ok(Prepared { change: self, value })
    }
}

/// A process or thread of the sandbox.
#[derive(Debug)]
pub struct Member {
    id: Pid,
    process: Pid,
    /// Of the thread, or of the process where there are none of threads.
    handle: OwnedFd,
    is_of_thread: bool,
    status: Status,
}

impl Member {
    /// The process or thread with this id, if it is of the sandbox: descends from the broker, as do its
    /// helpers, under the command's filter besides those of `command`, as none but the proxy does, which
    /// is known by its program.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if there is none, [`Errno::PERM`] for one outside.
    pub(super) fn find(
        id: i32,
        command: &Credentials,
        proxy: Option<Identity>,
    ) -> io::Result<Self> {
        // rustix takes no negative numbers.
        let id = Some(id).filter(|id| *id > 0).and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let (handle, of_process) = pidfds::open(id)?;
        let status = Status::of(id).map_err(|_| Errno::SRCH)?;
        let process = Pid::from_raw(status.process()?).ok_or(Errno::SRCH)?;
        // While it has this parent, and that one its own, no number in the line is another's; and its own
        // is none until it is reaped, of which the handle tells. The line changes when a parent ends.
        let lines = std::iter::repeat_with(|| [ancestors(process), ancestors(process)]);
        let line = lines.take(LINES_MAX).find(|[line, again]| line == again);
        let Some([line, _]) = line else { return Err(Errno::PERM) };
        let [.., first, broker] = line[..] else { return Err(Errno::PERM) };
        if broker != process::getpid() {
            return Err(Errno::PERM);
        }
        if !signals::has_its_id(handle.as_fd()) {
            return Err(Errno::SRCH);
        }
        let is_proxy = proxy.is_some_and(|proxy| {
            // Of one that has changed its user as well.
            let program = format!("/proc/{}/exe", first.as_raw_nonzero());
            let program = ptrace_capability::of(|| fs::stat(&program));
            program.map_or(true, |program| identity(&program) == proxy)
        });
        // One that this process had before it was landstrip can have filters as well.
        let is_of_command = is_of_run(first) && !is_proxy;
        if !is_of_command || !Status::of(first)?.credentials()?.is_filtered_as(command) {
            return Err(Errno::PERM);
        }
        Ok(Self { id, process, handle, is_of_thread: of_process.is_none(), status })
    }

    /// The id of its process.
    pub fn process(&self) -> i32 {
        self.process.as_raw_pid()
    }

    /// Checks that it has its number still.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if it has not.
    pub fn must_have_its_number(&self) -> io::Result<()> {
        if signals::has_its_id(self.handle.as_fd()) { Ok(()) } else { Err(Errno::SRCH) }
    }

    /// Whether it has a handler for the signal `number`.
    pub fn catches(&self, number: i32) -> bool {
        self.status.catches(number)
    }

    /// Sends a signal to its process, if the sender may.
    pub fn signal(&self, signal: &Signal) -> io::Result<()> {
        self.send(signal, self.is_of_thread)
    }

    /// Sends a signal to the thread. Before Linux 6.9 there are no handles of threads, and its number
    /// can become another's: only a process that has no other threads can be meant.
    ///
    /// # Errors
    /// Returns what tgkill(2) returns; [`Errno::PERM`] if the thread cannot be held.
    pub fn signal_thread(&self, signal: &Signal) -> io::Result<()> {
        if !self.is_of_thread && self.status.threads() != Some(1) {
            return Err(Errno::PERM);
        }
        self.send(signal, false)
    }

    /// As the kernel would let the sender; a Landlock domain of its own does not matter, for those know signals since
    /// Linux 6.12, where they are not sent here.
    fn send(&self, signal: &Signal, to_process: bool) -> io::Result<()> {
        match signal.sender.may_signal(&self.status.credentials()?) {
            true => signal.send(self.handle.as_fd(), to_process),
            false => Err(Errno::PERM),
        }
    }

    /// What the kernel tells of it.
    pub fn status(&self) -> io::Result<Status> {
        Status::of(self.id)
    }

    /// Makes the change. Returns what the call does.
    ///
    /// The kernel has no such call that takes a handle. The number could only be another process's if this one ended,
    /// was reaped, and all other numbers were given away between the last look and the call: two steps of a thread of
    /// the broker's, which the command can neither stop nor choose the moment of.
    pub fn change(&self, by: Confirmed<'_>, prepared: &Prepared) -> io::Result<i32> {
        self.must_be_alive()?;
        let id = c_long::from(self.id.as_raw_pid());
        let value = prepared.value.as_ptr();
        let size = prepared.value.len();
        let call = |number: c_long, arguments: [c_long; 4]| {
            let [a, b, c, d] = arguments;
            // SAFETY: the pointers among the arguments are to `value` and `old`, which live on, with
            // their sizes, where the call takes one.
            let result = unsafe { libc::syscall(number, a, b, c, d) };
            match result {
                -1 => Err(errno::last()),
                result => i32::try_from(result).map_err(|_| Errno::IO),
            }
        };
        let value = value.addr().cast_signed() as c_long;
        match prepared.change {
            ProcessChange::Limit(resource, _, address) => {
                let mut old = [0_u64; 2];
                let room = (&raw mut old).addr().cast_signed() as c_long;
                call(libc::SYS_prlimit64, [id, resource.into(), value, room])?;
                if !address.is_null() {
                    let bytes: Vec<u8> = old.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    by.write(&by.target().memory()?, address, &bytes)?;
                }
                Ok(0)
            }
            ProcessChange::Priority(priority) => {
                let which = c_long::from(libc::PRIO_PROCESS);
                call(libc::SYS_setpriority, [which, id, priority.into(), 0])
            }
            ProcessChange::InputPriority(priority) => {
                call(libc::SYS_ioprio_set, [IOPRIO_WHO_PROCESS, id, priority.into(), 0])
            }
            ProcessChange::Affinity(..) => {
                let size = c_long::try_from(size).map_err(|_| Errno::INVAL)?;
                call(libc::SYS_sched_setaffinity, [id, size, value, 0])
            }
            ProcessChange::Scheduler(policy, _) => {
                call(libc::SYS_sched_setscheduler, [id, policy.into(), value, 0])
            }
            ProcessChange::Parameters(_) => call(libc::SYS_sched_setparam, [id, value, 0, 0]),
            ProcessChange::Attributes(_, flags) => {
                call(libc::SYS_sched_setattr, [id, value, flags.into(), 0])
            }
        }
    }

    /// # Errors
    /// Returns [`Errno::SRCH`] if it has ended.
    fn must_be_alive(&self) -> io::Result<()> {
        let mut ended = [PollFd::new(&self.handle, PollFlags::IN)];
        match event::poll(&mut ended, Some(&Timespec::default()))? {
            0 if self.is_of_thread => Ok(()),
            0 if Status::of(self.id)?.process()? == self.process() => Ok(()),
            _ => Err(Errno::SRCH),
        }
    }
}

/// linux/ioprio.h; libc lacks it.
const IOPRIO_WHO_PROCESS: c_long = 1;

/// How often it is looked whether a line of ancestors stays as it is.
const LINES_MAX: usize = 16;

/// `process` and those that it descends from, up to the broker or to one that has no parent here.
fn ancestors(process: Pid) -> Vec<Pid> {
    let mut line = vec![process];
    while let Some(&last) = line.last()
        && last != process::getpid()
        && let Ok(parent) = Status::of(last).and_then(|status| status.parent())
    {
        line.push(parent);
    }
    line
}
