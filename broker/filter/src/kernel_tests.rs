//! The program in the running kernel: a forked child installs it and looks at what it gets.

#![allow(clippy::unwrap_used, reason = "a test that cannot run has failed")]
#![allow(unsafe_code, reason = "fork and raw system calls; the child calls nothing else")]

use std::io::Read;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use crate::program::{Instruction, RET_ALLOW, RET_K};
use crate::{Arch, Variant};

/// A system call by number; the result, or the negative errno.
fn call(number: i64, args: [u64; 5]) -> i64 {
    // SAFETY: the callers pass null or valid pointers; the kernel checks them in any case.
    let result = unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4]) };
    if result == -1 {
        return -i64::from(nix::errno::Errno::last_raw());
    }
    result
}

/// What seccomp(2) takes as a program.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

fn address<T>(value: *const T) -> u64 {
    value.addr() as u64
}

fn install(program: &Program) -> bool {
    call(libc::SYS_prctl, [38, 1, 0, 0, 0]) == 0 // PR_SET_NO_NEW_PRIVS
        && call(libc::SYS_seccomp, [1, 0, address(program), 0, 0]) == 0
}

fn compile(variant: Variant) -> Vec<Instruction> {
    crate::Program::compile(Arch::NATIVE, variant).unwrap().instructions
}

/// Runs `child` in a process of its own, with a pipe to write to, and returns what it wrote.
fn in_child(child: impl FnOnce(u64)) -> (WaitStatus, Vec<u8>) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    // SAFETY: the child makes system calls on memory prepared before, and leaves by exit_group: it takes
    // no lock and allocates nothing.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            child(u64::try_from(writer.as_raw_fd()).unwrap_or(0));
            call(libc::SYS_exit_group, [0, 0, 0, 0, 0]);
            unreachable!()
        }
        ForkResult::Parent { child } => {
            drop(writer);
            let mut output = Vec::new();
            reader.read_to_end(&mut output).unwrap();
            (waitpid(child, None).unwrap(), output)
        }
    }
}

/// The results of the calls under the filter, one after the other.
fn under_filter<const N: usize>(variant: Variant, calls: &[(i64, [u64; 5]); N]) -> [i64; N] {
    let instructions = compile(variant);
    let program = Program {
        length: instructions.len().try_into().unwrap(),
        instructions: instructions.as_ptr(),
    };
    let (status, output) = in_child(|pipe| {
        let mut results = [i64::MIN; N];
        if install(&program) {
            for (result, (number, args)) in results.iter_mut().zip(calls) {
                *result = call(*number, *args);
            }
        }
        call(libc::SYS_write, [pipe, address(&results), size_of_val(&results) as u64, 0, 0]);
    });
    assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
    let mut results = [0; N];
    for (result, bytes) in results.iter_mut().zip(output.chunks_exact(8)) {
        *result = i64::from_ne_bytes(bytes.try_into().unwrap());
    }
    results
}

const EPERM: i64 = -1;
const ENOSYS: i64 = -38;

#[test]
fn the_kernel_takes_the_program_and_obeys_it() {
    let name = c"/nonexistent/landstrip";
    let path = address(name.as_ptr());
    let at_cwd = u64::from_ne_bytes(i64::from(libc::AT_FDCWD).to_ne_bytes());
    let newuser = 0x1000_0000;
    for variant in [Variant::empty(), Variant::REPORT_READS, Variant::LISTINGS] {
        // Without a listener a notified call gets ENOSYS.
        let reading =
            if variant.contains(Variant::REPORT_READS) { ENOSYS } else { i64::from(-libc::ENOENT) };
        let results = under_filter(
            variant,
            &[
                (libc::SYS_unshare, [newuser, 0, 0, 0, 0]),
                (libc::SYS_unshare, [0x400, 0, 0, 0, 0]),
                (libc::SYS_clone3, [0; 5]),
                (libc::SYS_clone, [newuser | 17, 0, 0, 0, 0]),
                (libc::SYS_ioctl, [u64::MAX, 0x5412 | 1 << 32, 0, 0, 0]),
                (libc::SYS_ioctl, [u64::MAX, 0x5401, 0, 0, 0]),
                (libc::SYS_seccomp, [1, 8, 0, 0, 0]),
                (libc::SYS_seccomp, [1, 0, 0, 0, 0]),
                (libc::SYS_sendto, [u64::MAX, 0, 0, 0x2000_0000, 0]),
                (libc::SYS_sendto, [u64::MAX, 0, 0, 0, 0]),
                (libc::SYS_openat, [at_cwd, path, 0, 0, 0]),
                (libc::SYS_openat, [at_cwd, path, 0o101, 0, 0]),
                (libc::SYS_openat, [at_cwd, path, 0o10_000_101, 0, 0]),
                (libc::SYS_fchmodat, [at_cwd, path, 0, 0, 0]),
                (libc::SYS_socket, [2, 2, 0, 0, 0]),
                (libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
                (473, [0; 5]),
                (-1, [0; 5]),
                (libc::SYS_setsockopt, [u64::MAX, 41, 57, 0, 0]),
                (libc::SYS_setsockopt, [u64::MAX, 1, 2, 0, 0]),
                (libc::SYS_setsockopt, [u64::MAX, 1, 65, 0, 0]),
                (libc::SYS_setsockopt, [u64::MAX, 6, 31, 0, 0]),
            ],
        );
        let bad_descriptor = i64::from(-libc::EBADF);
        assert_eq!(
            results,
            [
                ENOSYS,
                0,
                ENOSYS,
                ENOSYS,
                EPERM,
                bad_descriptor,
                EPERM,
                ENOSYS,
                ENOSYS,
                bad_descriptor,
                reading,
                ENOSYS,
                i64::from(-libc::ENOENT),
                ENOSYS,
                ENOSYS,
                ENOSYS,
                ENOSYS,
                ENOSYS,
                ENOSYS,
                bad_descriptor,
                bad_descriptor,
                ENOSYS,
            ]
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn x32_calls_kill_in_the_kernel_too() {
    let instructions = compile(Variant::ALLOW_NETWORK);
    let program = Program {
        length: instructions.len().try_into().unwrap(),
        instructions: instructions.as_ptr(),
    };
    let (status, _) = in_child(|_| {
        if install(&program) {
            call(0x4000_0000 | libc::SYS_getpid, [0; 5]);
        }
    });
    assert!(
        matches!(status, WaitStatus::Signaled(_, nix::sys::signal::Signal::SIGSYS, _)),
        "{status:?}"
    );
}

/// `path` opened with O_PATH and everything else neither creates nor truncates: the rows for open rest on it.
#[test]
fn a_path_descriptor_voids_other_flags() {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let directory = std::env::temp_dir().join(format!("landstrip-filter-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (full, missing) = (directory.join("full"), directory.join("missing"));
    std::fs::write(&full, "text").unwrap();
    let flags = OFlags::PATH | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    openat(CWD, &full, flags, Mode::RWXU).unwrap();
    assert!(openat(CWD, &missing, flags, Mode::RWXU).is_err());
    assert_eq!(std::fs::read(&full).unwrap(), b"text");
    assert!(!missing.exists());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
#[ignore = "a measurement: run with --ignored --nocapture"]
fn time_to_install() {
    let trivial = vec![Instruction { code: RET_K, jt: 0, jf: 0, k: RET_ALLOW }];
    let full = compile(Variant::empty());
    for (name, instructions) in [("allow all", trivial), ("filter", full)] {
        let program = Program {
            length: instructions.len().try_into().unwrap(),
            instructions: instructions.as_ptr(),
        };
        let mut times: Vec<u64> = (0..200)
            .map(|_| {
                let (_, output) = in_child(|pipe| {
                    let mut clock = [[0_u64; 2]; 2];
                    call(libc::SYS_prctl, [38, 1, 0, 0, 0]);
                    call(libc::SYS_clock_gettime, [1, address(&clock[0]), 0, 0, 0]);
                    call(libc::SYS_seccomp, [1, 0, address(&program), 0, 0]);
                    call(libc::SYS_clock_gettime, [1, address(&clock[1]), 0, 0, 0]);
                    let clock = std::hint::black_box(&mut clock);
                    let nanoseconds =
                        (clock[1][0] - clock[0][0]) * 1_000_000_000 + clock[1][1] - clock[0][1];
                    call(libc::SYS_write, [pipe, address(&nanoseconds), 8, 0, 0]);
                });
                u64::from_ne_bytes(output.try_into().unwrap())
            })
            .collect();
        times.sort_unstable();
        println!(
            "{name}: {} instructions, {} ns minimum, {} ns median",
            instructions.len(),
            times[0],
            times[100]
        );
    }
}
