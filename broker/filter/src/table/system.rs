//! The sandbox itself, what would be a way out of it, and the machine.

use super::{case, is, judge, lacks, row};
use crate::Syscall::*;
use crate::rule::Errno::{ENOSYS, EPERM};
use crate::rule::Verdict::{Allow, Deny, Notify};
use crate::rule::{Arg, Row};
use crate::uapi::*;
use common::wire::OF_LAUNCHER;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(
        &[landlock_create_ruleset, landlock_add_rule],
        Allow,
        "makes what the caller can restrict itself by",
    ),
    judge(
        &[landlock_restrict_self],
        &[case(&[is(Arg(2, "the third argument"), &[OF_LAUNCHER])], Allow)],
        Notify,
        "can only restrict the caller further; the broker must know of it, and not do what it forbids",
    )
    .alone(Allow),
    judge(
        &[seccomp],
        &[case(&[lacks(Arg(1, "flags"), SECCOMP_FILTER_FLAG_NEW_LISTENER)], Notify)],
        Deny(EPERM),
        "with a listener of its own it could answer for the broker; other filters only restrict, but the \
         broker must know of them",
    )
    .alone(Allow),
    row(
        &[io_uring_setup, io_uring_enter, io_uring_register],
        Deny(ENOSYS),
        "does system calls that no filter sees",
    ),
    row(&[userfaultfd], Deny(EPERM), "stalls the kernel inside a system call: a tool to win races"),
    row(
        &[bpf, perf_event_open],
        Notify,
        "looks into the kernel and other processes: the broker refuses, and says so if the command fails",
    ),
    row(
        &[add_key, request_key, keyctl],
        Deny(ENOSYS),
        "keyrings are shared with the user's other processes",
    ),
    row(
        &[shmget, shmat, shmctl, semget, semop, semctl, semtimedop, msgget, msgsnd, msgrcv, msgctl],
        Notify,
        "System V IPC reaches every process of the user; the broker lets what the sandbox made be used",
    )
    .alone(Deny(ENOSYS)),
    row(&[shmdt], Allow, "the caller's own memory"),
    row(
        &[mq_open, mq_unlink, mq_timedsend, mq_timedreceive, mq_notify, mq_getsetattr],
        Deny(ENOSYS),
        "message queues reach every process of the user; Landlock does not know them",
    ),
    row(&[lsm_set_self_attr], Deny(EPERM), "changes labels that other security modules go by"),
    row(&[modify_ldt], Deny(ENOSYS), "16-bit segments: nothing but attack surface"),
    row(
        &[
            swapon, swapoff, reboot, kexec_load, kexec_file_load, init_module, finit_module,
            delete_module, acct, quotactl, quotactl_fd, settimeofday, clock_settime, adjtimex,
            clock_adjtime, sethostname, setdomainname, iopl, ioperm, vhangup,
        ],
        Notify,
        "administers the machine: the broker refuses, and says so if the command fails",
    ),
    row(&[syslog], Notify, "reads and clears the kernel's log: the broker refuses, and says so if the command fails"),
    row(
        &[
            uselib, ustat, sysfs, _sysctl, create_module, get_kernel_syms, query_module, nfsservctl,
            getpmsg, putpmsg, afs_syscall, tuxcall, security, set_thread_area, get_thread_area,
            lookup_dcookie, epoll_ctl_old, epoll_wait_old, vserver,
        ],
        Deny(ENOSYS),
        "obsolete or never built for this architecture",
    ),
    row(
        &[uretprobe, uprobe],
        Deny(ENOSYS),
        "only the kernel's own code in a probed process makes these, and no filter sees it",
    ),
    row(&[rseq_slice_yield, fchroot], Deny(ENOSYS), "too new to be relied on (Linux 7)"),
];
