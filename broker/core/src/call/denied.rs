//! Calls that no policy allows, and that are notified only so that people can be told: clone(2), mount(2), bpf(2),
//! perf_event_open(2), reboot(2) and the like. None of them is ever let through or performed.

use kernel::listener::Notification;
use landstrip_filter::Syscall;
use nix::libc;

/// The flags of clone(2) that make namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Whether `call` is one of these; a clone is, unless it is a fork.
#[rustfmt::skip]
pub(super) fn is_denied(call: Syscall, notification: &Notification) -> bool {
    use Syscall::*;
    call == clone && notification.int(0) & NAMESPACES != 0 || [
        unshare, setns, mount, umount2, pivot_root, chroot, open_tree, open_tree_attr,
        move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, bpf, perf_event_open, swapon,
        swapoff, reboot, kexec_load, kexec_file_load, init_module, finit_module, delete_module,
        acct, quotactl, quotactl_fd, settimeofday, clock_settime, adjtimex, clock_adjtime,
        sethostname, setdomainname, iopl, ioperm, vhangup, syslog,
    ]
    .contains(&call)
}
