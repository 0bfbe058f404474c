//! Other processes: signals, limits, scheduling, tracing, memory, descriptors; and our own misuse.

use crate::file::open;
use crate::older;
use crate::sys::{self, Result, addr, addr_mut, call};
use crate::{number, say, tell};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

/// The lowest priority, which every process may take however it was started.
const LOWEST: usize = 19;
/// Longer than tests wait for the end of what outlives its sandbox.
const LONG: Duration = Duration::from_secs(100);

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
        ("kill", [pid, signal]) => {
            say(op, call(libc::SYS_kill, &[signed(pid), number(signal)]));
        }
        ("tgkill", [pid, signal]) => {
            say(op, call(libc::SYS_tgkill, &[number(pid), number(pid), number(signal)]));
        }
        ("sigqueue", [pid, signal]) => {
            let mut info = [0u8; 128];
            info[8..12].copy_from_slice(&(-1i32).to_ne_bytes());
            let at = addr_mut(&mut info);
            say(op, call(libc::SYS_rt_sigqueueinfo, &[number(pid), number(signal), at]));
        }
        ("pidfd-signal", [pid, signal]) => say(
            op,
            call(libc::SYS_pidfd_open, &[number(pid), 0])
                .and_then(|fd| call(libc::SYS_pidfd_send_signal, &[fd, number(signal), 0, 0])),
        ),
        ("sigio", [pid, signal]) => say(op, sigio(number(pid), number(signal))),
        ("prlimit", [pid]) => {
            // RLIMIT_CORE to 0: lowering needs no privilege.
            let limit = [0u64, 0];
            say(op, call(libc::SYS_prlimit64, &[number(pid), 4, addr(&limit), 0]));
        }
        ("setpriority", [pid]) => say(op, call(libc::SYS_setpriority, &[0, number(pid), LOWEST])),
        ("setpriority-user", []) => {
            let uid = call(libc::SYS_getuid, &[]).unwrap_or(0);
            say(op, call(libc::SYS_setpriority, &[2, uid, LOWEST]));
        }
        ("ioprio", [pid]) => {
            // Best effort, lowest.
            say(op, call(libc::SYS_ioprio_set, &[1, number(pid), 2 << 13 | 7]));
        }
        ("sched", [pid]) => sched(number(pid)),
        ("ptrace", [pid]) => {
            say("ptrace-attach", call(libc::SYS_ptrace, &[16, number(pid), 0, 0]));
            say("ptrace-seize", call(libc::SYS_ptrace, &[0x4206, number(pid), 0, 0]));
        }
        ("controlling", [path]) => say(op, controlling(path)),
        ("with-eventfd", [program, args @ ..]) => {
            let made = call(libc::SYS_eventfd2, &[0, 0]);
            say(op, made.and_then(|fd| call(older::SYS_dup2, &[fd, 0])));
            let error = std::process::Command::new(program).args(args).exec();
            say::<()>("exec", Err(error.raw_os_error().unwrap_or(libc::EIO)));
        }
        ("traceme", []) => say(op, call(libc::SYS_ptrace, &[0, 0, 0, 0])),
        ("trace-child", []) => say(op, trace_child()),
        ("vmread", [pid, address]) => vm(number(pid), number(address)),
        ("pidfd-getfd", [pid]) => say(
            op,
            call(libc::SYS_pidfd_open, &[number(pid), 0])
                .and_then(|fd| call(libc::SYS_pidfd_getfd, &[fd, 0, 0])),
        ),
        ("proc-open", [pid, what]) => {
            let flags = if *what == "mem" { libc::O_RDWR } else { libc::O_RDONLY };
            let tail = if *what == "fd" { "fd/0" } else { what };
            say(&format!("proc-{what}"), open(&format!("/proc/{pid}/{tail}"), flags));
        }
        ("fds", []) => fds(),
        ("daemon", [path]) => daemon(path),
        ("kill-reused", [count]) => kill_reused(number(count)),
        ("churn", [ms]) => churn(Duration::from_millis(number(ms) as u64)),
        ("runners", [count, path]) => runners(number(count), path),
        ("fork-bomb", [count]) => fork_bomb(number(count)),
        ("fd-exhaust", []) => fd_exhaust(),
        ("ids", []) => {
            for (name, nr) in [("pid", libc::SYS_getpid), ("ppid", libc::SYS_getppid)] {
                tell(name, &call(nr, &[]).unwrap_or(0).to_string());
            }
        }
        ("await-size", [path, size]) => await_size(path, number(size) as u64),
        ("sleep", [ms]) => std::thread::sleep(Duration::from_millis(number(ms) as u64)),
        ("crash", [signal]) => {
            let pid = call(libc::SYS_getpid, &[]).unwrap_or(0);
            say(op, call(libc::SYS_kill, &[pid, number(signal)]));
        }
        ("undumpable", []) => {
            say(op, call(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as usize, 0, 0, 0, 0]));
        }
        ("setuid", [uid]) => {
            say("setgid", call(libc::SYS_setgid, &[number(uid)]));
            say(op, call(libc::SYS_setuid, &[number(uid)]));
        }
        ("orphans", [count]) => {
            // Children that end at once, never waited for by their parent.
            for _ in 0..number(count) {
                if sys::fork() == Ok(0) {
                    if sys::fork() == Ok(0) {
                        sys::exit(0);
                    }
                    sys::exit(0);
                }
            }
        }
        _ => return false,
    }
    true
}

/// A pid that may be negative.
fn signed(text: &str) -> usize {
    text.parse::<i64>().unwrap_or_else(|_| crate::usage("not a pid")) as usize
}

/// Has the kernel send the signal: F_SETOWN to the process, then readiness of a pipe.
fn sigio(pid: usize, signal: usize) -> Result {
    let mut ends = [0i32; 2];
    call(older::SYS_pipe, &[addr_mut(&mut ends)])?;
    let read = ends[0] as usize;
    call(libc::SYS_fcntl, &[read, libc::F_SETOWN as usize, pid])?;
    // F_SETSIG; SIGIO ends a process that does not expect it, too.
    let _ = call(libc::SYS_fcntl, &[read, 10, signal]);
    let flags = (libc::O_ASYNC | libc::O_NONBLOCK) as usize;
    call(libc::SYS_fcntl, &[read, libc::F_SETFL as usize, flags])?;
    call(libc::SYS_write, &[ends[1] as usize, addr(b"x"), 1])
}

/// Debugs a child as gdb and strace do: it asks to be traced, stops, and is continued to its end.
fn trace_child() -> Result {
    let child = sys::fork()?;
    if child == 0 {
        let traced = call(libc::SYS_ptrace, &[0, 0, 0, 0]);
        let pid = call(libc::SYS_getpid, &[]).unwrap_or(0);
        // A signal that is ignored by default: only a tracee stops.
        let _ = call(libc::SYS_kill, &[pid, libc::SIGWINCH as usize]);
        sys::exit(usize::from(traced.is_err()));
    }
    let mut status = 0i32;
    call(libc::SYS_wait4, &[child, addr_mut(&mut status), 0, 0])?;
    if status != (libc::SIGWINCH << 8 | 0x7f) {
        return Err(libc::EPERM);
    }
    call(libc::SYS_ptrace, &[libc::PTRACE_CONT as usize, child, 0, 0])?;
    call(libc::SYS_wait4, &[child, addr_mut(&mut status), 0, 0])?;
    if status == 0 { Ok(0) } else { Err(libc::EIO) }
}

fn sched(pid: usize) {
    let one_cpu = [1u64];
    say("sched-affinity", call(libc::SYS_sched_setaffinity, &[pid, 8, addr(&one_cpu)]));
    let priority = [0i32];
    let batch = libc::SCHED_BATCH as usize;
    say("sched-scheduler", call(libc::SYS_sched_setscheduler, &[pid, batch, addr(&priority)]));
    say("sched-param", call(libc::SYS_sched_setparam, &[pid, addr(&priority)]));
    // struct sched_attr: size 48, SCHED_IDLE.
    let attr = [48u32, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    say("sched-attr", call(libc::SYS_sched_setattr, &[pid, addr(&attr), 0]));
}

fn vm(pid: usize, address: usize) {
    let mut buffer = [0u8; 8];
    let local = [addr_mut(&mut buffer), 8];
    let remote = [address, 8];
    let args = [pid, addr(&local), 1, addr(&remote), 1, 0];
    say("vmread", call(libc::SYS_process_vm_readv, &args));
    say("vmwrite", call(libc::SYS_process_vm_writev, &args));
}

/// The open descriptors with what they are.
fn fds() {
    let mut found: Vec<(usize, String)> = Vec::new();
    for fd in 0..4096usize {
        if let Ok(target) = std::fs::read_link(format!("/proc/self/fd/{fd}")) {
            found.push((fd, target.to_string_lossy().into_owned()));
        }
    }
    for (fd, target) in found {
        tell(&format!("fd{fd}"), &target);
    }
}

/// Waits until there is more than `size` in a file.
fn await_size(path: &str, size: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    let is_larger = || std::fs::metadata(path).is_ok_and(|file| file.len() > size);
    while !is_larger() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    say("await-size", is_larger().then_some(()).ok_or(libc::ETIMEDOUT));
}

/// Leaves a daemon that appends to `path` every 50 ms, for longer than anybody waits for its end.
fn daemon(path: &str) {
    if sys::fork() == Ok(0) {
        let _ = call(libc::SYS_setsid, &[]);
        if sys::fork() == Ok(0) {
            for fd in 0..3 {
                let _ = call(libc::SYS_close, &[fd]);
            }
            for signal in 1..=64 {
                // SIG_IGN for all that can be ignored.
                let action = [1usize, 0, 0, 0];
                let _ = call(libc::SYS_rt_sigaction, &[signal, addr(&action), 0, 8]);
            }
            let end = Instant::now() + LONG;
            while Instant::now() < end {
                if let Ok(fd) = open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND) {
                    let _ = call(libc::SYS_write, &[fd, addr(b"."), 1]);
                    let _ = call(libc::SYS_close, &[fd]);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            sys::exit(0);
        }
        sys::exit(0);
    }
    await_size(path, 0);
    say("daemon", Ok(0));
}

/// Forks until `count` children sleep or the kernel refuses; all end with the sandbox.
fn fork_bomb(count: usize) {
    let mut made = 0;
    for _ in 0..count {
        match sys::fork() {
            Ok(0) => {
                std::thread::sleep(Duration::from_secs(20));
                sys::exit(0);
            }
            Ok(_) => made += 1,
            Err(_) => break,
        }
    }
    tell("forked", &made.to_string());
}

/// Signals ids by every call: those of children that have just been reaped, which others get, and those
/// that come next. Says how many were somebody's.
fn kill_reused(count: usize) {
    // Harmless to who does not block it.
    const SIGNAL: usize = libc::SIGWINCH as usize;
    let mut info = [0u8; 128];
    info[..4].copy_from_slice(&libc::SIGWINCH.to_ne_bytes());
    info[8..12].copy_from_slice(&(-1i32).to_ne_bytes());
    let (mut done, mut hits) = (0, 0);
    let mut former = std::collections::VecDeque::new();
    while done < count {
        let Ok(child) = sys::fork() else { continue };
        if child == 0 {
            sys::exit(0);
        }
        let _ = call(libc::SYS_wait4, &[child, 0, 0, 0]);
        former.push_front(child);
        former.truncate(400);
        let next = (1..=3).map(|ahead| child + ahead);
        let ids = [former.len() / 2, former.len() - 1].map(|at| former[at]).into_iter();
        for id in std::iter::once(child).chain(next).chain(ids) {
            let at = addr_mut(&mut info);
            let results = match done % 4 {
                0 => call(libc::SYS_kill, &[id, SIGNAL]),
                1 => call(libc::SYS_tgkill, &[id, id, SIGNAL]),
                2 => call(libc::SYS_rt_sigqueueinfo, &[id, SIGNAL, at]),
                _ => call(libc::SYS_pidfd_open, &[id, 0]).and_then(|fd| {
                    let sent = call(libc::SYS_pidfd_send_signal, &[fd, SIGNAL, 0, 0]);
                    let _ = call(libc::SYS_close, &[fd]);
                    sent
                }),
            };
            hits += usize::from(results.is_ok());
            done += 1;
        }
    }
    tell("hits", &hits.to_string());
    say("kill-reused", Ok(0));
}

/// Makes children that end at once, and says how many got a signal.
fn churn(time: Duration) {
    let end = Instant::now() + time;
    let (mut made, mut killed) = (0, 0);
    let winch = [1u64 << (libc::SIGWINCH - 1)];
    let _ = call(libc::SYS_rt_sigprocmask, &[0, addr(&winch), 0, 8]);
    while made == 0 || Instant::now() < end {
        let Ok(child) = sys::fork() else { continue };
        if child == 0 {
            std::thread::sleep(Duration::from_micros(200));
            let mut pending = [0u64];
            let _ = call(libc::SYS_rt_sigpending, &[addr_mut(&mut pending), 8]);
            sys::exit(usize::from(pending != [0]));
        }
        let mut status = 0i32;
        let _ = call(libc::SYS_wait4, &[child, addr_mut(&mut status), 0, 0]);
        made += 1;
        killed += usize::from(status != 0);
    }
    tell("made", &made.to_string());
    tell("killed", &killed.to_string());
}

/// Leaves processes that append to `path`, fork and end, the child doing the same in a session of its
/// own, for longer than anybody waits for their end.
fn runners(count: usize, path: &str) {
    for _ in 0..count {
        if sys::fork() != Ok(0) {
            continue;
        }
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            if let Ok(fd) = open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND) {
                let _ = call(libc::SYS_write, &[fd, addr(b"."), 1]);
                let _ = call(libc::SYS_close, &[fd]);
            }
            match sys::fork() {
                Ok(0) => {
                    let _ = call(libc::SYS_setsid, &[]);
                }
                Ok(_) => sys::exit(0),
                Err(_) => {}
            }
        }
        sys::exit(0);
    }
    say("runners", Ok(0));
}

/// Opens until the limit, then shows that mediated calls still give an orderly error.
fn fd_exhaust() {
    let mut count = 0;
    let last = loop {
        match open("/dev/null", libc::O_RDONLY) {
            Ok(_) => count += 1,
            Err(errno) => break errno,
        }
    };
    tell("opened", &count.to_string());
    tell("limit", &sys::name(last));
    let _ = call(libc::SYS_close, &[(count + 2).min(3)]);
    say("after", open("/dev/null", libc::O_RDONLY));
}

/// Makes the terminal `path` the controlling one by opening it for reading, and writes to it as that.
fn controlling(path: &str) -> Result {
    let child = sys::fork()?;
    if child == 0 {
        let attempt = || {
            call(libc::SYS_setsid, &[])?;
            open(path, libc::O_RDONLY)?;
            open("/dev/tty", libc::O_WRONLY).and_then(crate::file::mark)
        };
        sys::exit(attempt().err().unwrap_or(0) as usize);
    }
    let mut status = 0i32;
    call(libc::SYS_wait4, &[child, addr_mut(&mut status), 0, 0])?;
    match status >> 8 & 0xff {
        0 => Ok(0),
        errno => Err(errno),
    }
}
