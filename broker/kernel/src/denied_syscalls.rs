//! System calls that no policy permits, made by `--doctor` inside of a sandbox to see that they are refused.
//!
//! Their arguments are numbers, and null where the kernel wants an address: what is not refused changes
//! nothing but the calling process.

#![allow(unsafe_code)]

use super::errno;
use nix::libc::{self, c_long};
use rustix::io;

/// One of them: its name and how it is made.
#[derive(Clone, Copy, Debug)]
pub struct DeniedCall {
    pub name: &'static str,
    number: c_long,
    arguments: [c_long; 5],
}

const fn call(name: &'static str, number: c_long, arguments: [c_long; 5]) -> DeniedCall {
    DeniedCall { name, number, arguments }
}

/// All of them; those that would give the process rights of its own come last.
#[rustfmt::skip]
pub const CALLS: [DeniedCall; 16] = [
    call("mount", libc::SYS_mount, [0; 5]),
    call("pivot_root", libc::SYS_pivot_root, [0; 5]),
    call("chroot", libc::SYS_chroot, [0; 5]),
    call("setns", libc::SYS_setns, [-1, 0, 0, 0, 0]),
    call("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
    call("bpf", libc::SYS_bpf, [0; 5]),
    call("add_key", libc::SYS_add_key, [0; 5]),
    call("perf_event_open", libc::SYS_perf_event_open, [0, 0, -1, -1, 0]),
    call("userfaultfd", libc::SYS_userfaultfd, [-1, 0, 0, 0, 0]),
    call("open_by_handle_at", libc::SYS_open_by_handle_at, [-1, 0, 0, 0, 0]),
    call("fanotify_init", libc::SYS_fanotify_init, [-1, 0, 0, 0, 0]),
    call("seccomp with a listener", libc::SYS_seccomp, [1, 1 << 3, 0, 0, 0]),
    call("ioctl TIOCSTI", libc::SYS_ioctl, [0, 0x5412, 0, 0, 0]),
    call("reboot", libc::SYS_reboot, [0; 5]),
    call("clock_settime", libc::SYS_clock_settime, [0; 5]),
    call("unshare of a user namespace", libc::SYS_unshare, [0x1000_0000, 0, 0, 0, 0]),
];

impl DeniedCall {
    /// Makes the call.
    pub fn make(&self) -> io::Result<()> {
        let [a, b, c, d, e] = self.arguments;
        // SAFETY: numbers and null; the kernel writes to no memory.
        errno::result(unsafe { libc::syscall(self.number, a, b, c, d, e) })
    }
}
