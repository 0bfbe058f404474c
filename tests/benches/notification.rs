//! What a notified system call takes by itself, without anything that landstrip does: the floor below
//! the figures of the other benchmarks.
//!
//! ```text
//! cargo bench -p tests --bench notification
//! taskset -c 0 cargo bench -p tests --bench notification
//! ```
//!
//! A process has three system calls notified; its supervisor answers them at once, and does nothing
//! else. Beside them stands the opening of a file that no filter knows of, in the same process. On one
//! CPU there are no wake-ups across CPUs, which are most of what differs between machines. Source:
//! seccomp_unotify(2).

#![allow(unsafe_code)] // for ioctl(2) and seccomp(2), which no library here has

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::process::{self, Pid, PidfdFlags, PidfdGetfdFlags};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, thread};
use tests::bench::{Outcome, Worker, finish, in_turn, machine, median};

/// The first argument of the process that makes the calls.
const TARGET: &str = "--target";
/// Samples of each figure, and calls of each sample. Odd: the median is one of them.
const ROUNDS: usize = 101;
const CALLS: usize = 101;

/// What is measured: its name, what the target is asked for, and what it stands beside.
const FIGURES: [(&str, &str); 5] = [
    ("open and close, not notified", "open"),
    ("notified, answered with a descriptor, and close", "creat"),
    ("close of no descriptor, not notified", "close"),
    ("notified, answered with an error", "fchmod"),
    ("notified, let through", "truncate"),
];

// linux/seccomp.h
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const ADD_DESCRIPTOR: libc::c_ulong = 0x4018_2103;
const SET_FLAGS: libc::c_ulong = 0x4008_2104;
const SYNC_WAKE_UP: libc::c_ulong = 1;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    finish(match &arguments[..] {
        [first] if first == TARGET => make_calls(),
        _ if arguments.iter().any(|argument| argument == "--bench") => measure(),
        // `cargo test --benches`: that it builds is all that a test can say.
        _ => Ok(()),
    })
}

fn measure() -> Outcome<()> {
    println!("medians of {ROUNDS} samples taken in turn; {}\n", machine()?);
    let mut target = Worker::start(Command::new(env::current_exe()?).arg(TARGET))?;
    let number = target.ask("listen")?.trim().parse()?;
    let id = i32::try_from(target.process.id()).ok().and_then(Pid::from_raw);
    let pidfd = process::pidfd_open(id.ok_or("no process")?, PidfdFlags::empty())?;
    let listener = process::pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty())?;
    thread::spawn(move || supervise(&listener));

    let mut figures = FIGURES;
    let medians =
        in_turn(ROUNDS, &mut figures, |(_, call)| Ok(target.ask(call)?.trim().parse()?))?;
    println!("{:50} {:>8} {:>8}", "", "µs", "ratio");
    for ((name, _), taken) in FIGURES.iter().zip(&medians) {
        println!("{name:50} {taken:8.2} {:8.2}", taken / medians[0]);
    }
    Ok(())
}

/// The life of the target: answers each name of a call with the microseconds that one takes.
fn make_calls() -> Outcome<()> {
    let mut listener = None;
    for line in io::stdin().lock().lines() {
        // SAFETY: creat, fchmod and truncate get a string and integers.
        let call =
            |number, first: &std::ffi::CStr| unsafe { libc::syscall(number, first.as_ptr(), 0) };
        match line?.as_str() {
            "listen" => println!("{}", listener.insert(listen()?).as_raw_fd()),
            "open" => report(|| drop(File::open("/etc/passwd"))),
            // SAFETY: takes an integer.
            "close" => report(|| _ = unsafe { libc::close(-1) }),
            "creat" => report(|| {
                let descriptor = i32::try_from(call(libc::SYS_creat, c"/nowhere")).unwrap_or(-1);
                // SAFETY: takes an integer, the number of a descriptor that nothing else has.
                unsafe { libc::close(descriptor) };
            }),
            "truncate" => report(|| _ = call(libc::SYS_truncate, c"/nowhere")),
            // SAFETY: takes integers.
            _ => report(|| _ = unsafe { libc::syscall(libc::SYS_fchmod, -1, 0) }),
        }
    }
    Ok(())
}

fn report(mut call: impl FnMut()) {
    let sample = |_| {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64() * 1e6
    };
    println!("{}", median((0..CALLS).map(sample).collect(), f64::total_cmp));
}

/// Has creat, fchmod and truncate notified.
fn listen() -> Result<OwnedFd, Box<dyn Error>> {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt| libc::sock_filter { code, jt, jf: 0, k };
    let number = |call: libc::c_long| u32::try_from(call);
    let mut filter = [
        step(LOAD_NUMBER, 0, 0),
        step(IF_EQUAL, number(libc::SYS_creat)?, 3),
        step(IF_EQUAL, number(libc::SYS_fchmod)?, 2),
        step(IF_EQUAL, number(libc::SYS_truncate)?, 1),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0),
        step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0),
    ];
    let program = libc::sock_fprog { len: 6, filter: filter.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true)?;
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: reads the program that the pointer leads to.
    let listener = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    let listener = i32::try_from(listener)?;
    if listener < 0 {
        return Err(io::Error::last_os_error().into());
    }
    // SAFETY: the kernel has made it for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// Answers until the target has ended.
fn supervise(listener: &OwnedFd) -> io::Result<()> {
    let file = File::open("/etc/passwd")?;
    let listener = listener.as_fd().as_raw_fd();
    // SAFETY: takes an integer. Its failure only costs time.
    let _ = unsafe { libc::ioctl(listener, SET_FLAGS, SYNC_WAKE_UP) };
    loop {
        // SAFETY: plain integers.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: writes one structure of this type.
        if unsafe { libc::ioctl(listener, RECEIVE, &raw mut asked) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if i64::from(asked.data.nr) == libc::SYS_creat {
            let added = libc::seccomp_notif_addfd {
                id: asked.id,
                flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
                srcfd: file.as_raw_fd().cast_unsigned(),
                newfd: 0,
                newfd_flags: 0,
            };
            // SAFETY: reads one structure of this type.
            unsafe { libc::ioctl(listener, ADD_DESCRIPTOR, &raw const added) };
            continue;
        }
        let through = i64::from(asked.data.nr) == libc::SYS_truncate;
        let mut answer = libc::seccomp_notif_resp {
            id: asked.id,
            val: 0,
            error: if through { 0 } else { -libc::EBADF },
            flags: if through { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 },
        };
        // SAFETY: reads one structure of this type.
        unsafe { libc::ioctl(listener, SEND, &raw mut answer) };
    }
}
