//! What happens to every system call, and why: the policy of the filter, to be read from top to bottom.
//!
//! Two rules hold for every row. A verdict that needs what a pointer leads to (a path, an address) is the
//! broker's, never the filter's: other threads write to that memory. And whatever is allowed is either
//! confined by Landlock, or touches nothing but the caller and what it already holds.

use crate::rule::Errno::{EACCES, ENOPROTOOPT, ENOSYS, EOPNOTSUPP, EPERM};
use crate::rule::Verdict::{Allow, Deny, Notify};
use crate::rule::{Arg, Case, Row, Syscall, Test, Verdict, When};
use crate::syscalls::*;
use crate::uapi::*;

/// The table.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // Allowed: confined by Landlock, or nothing but the caller's own.
    row(
        &[
            read, pread64, readv, preadv, preadv2, write, pwrite64, writev, pwritev, pwritev2,
            lseek, sendfile, splice, tee, vmsplice, copy_file_range, io_setup, io_destroy,
            io_submit, io_cancel, io_getevents, io_pgetevents,
        ],
        Allow,
        "moves data between descriptors that the command already holds",
    ),
    row(
        &[ftruncate, fallocate, fsync, fdatasync, sync_file_range, fadvise64, readahead, cachestat],
        Allow,
        "works on an open file; Landlock judged the opening",
    ),
    row(&[sync, syncfs], Allow, "writes caches back, changes no content"),
    row(
        &[close, close_range, dup, dup2, dup3, flock, pipe, pipe2],
        Allow,
        "manages the caller's own descriptors",
    ),
    judge(
        &[fcntl],
        &[case(&[is(Arg(1, "op"), &[F_SETLEASE, F_NOTIFY, F_SETDELEG])], Deny(EPERM))],
        Allow,
        "a lease or watch on a file opened for reading holds up others; Landlock confines F_SETOWN signals",
    ),
    row(
        &[
            stat, fstat, lstat, newfstatat, statx, access, faccessat, faccessat2, readlink,
            readlinkat, statfs, fstatfs, getxattr, lgetxattr, fgetxattr, getxattrat, listxattr,
            llistxattr, flistxattr, listxattrat, file_getattr,
        ],
        Allow,
        "reads metadata, which no policy hides",
    ),
    row(&[getdents, getdents64], Allow, "lists an open directory; Landlock judged the opening"),
    row(&[chdir, fchdir, getcwd], Allow, "the caller's own working directory"),
    row(
        &[umask],
        Notify,
        "the caller's own; the broker reads the umask of those for whom it makes files only once somebody has set one",
    )
    .alone(Allow),
    row(
        &[
            mmap, mprotect, munmap, brk, mremap, msync, mincore, madvise, mlock, mlock2, munlock,
            mlockall, munlockall, remap_file_pages, pkey_mprotect, pkey_alloc, pkey_free, mseal,
            map_shadow_stack, membarrier, mbind, set_mempolicy, get_mempolicy,
            set_mempolicy_home_node, memfd_create, memfd_secret,
        ],
        Allow,
        "the caller's own memory; a shared mapping needs a descriptor opened for it",
    ),
    row(
        &[
            poll, ppoll, select, pselect6, epoll_create, epoll_create1, epoll_ctl, epoll_wait,
            epoll_pwait, epoll_pwait2, eventfd, eventfd2, signalfd, signalfd4, timerfd_create,
            timerfd_settime, timerfd_gettime, futex, futex_waitv, futex_wake, futex_wait,
            futex_requeue, pause, sched_yield,
        ],
        Allow,
        "waits for events of the caller's own",
    ),
    row(
        &[inotify_init, inotify_init1, inotify_add_watch, inotify_rm_watch],
        Allow,
        "tells names and that something changed, not content",
    ),
    row(
        &[
            nanosleep, clock_nanosleep, getitimer, setitimer, alarm, timer_create, timer_settime,
            timer_gettime, timer_getoverrun, timer_delete, gettimeofday, time, clock_gettime,
            clock_getres, times,
        ],
        Allow,
        "reads clocks and sets the caller's own timers",
    ),
    row(
        &[
            getpid, gettid, getppid, getpgid, getpgrp, getsid, getuid, geteuid, getgid, getegid,
            getresuid, getresgid, getgroups, capget, getpriority, getrlimit, getrusage, sysinfo,
            uname, getcpu, getrandom, sched_getparam, sched_getscheduler, sched_getattr,
            sched_getaffinity, sched_get_priority_max, sched_get_priority_min,
            sched_rr_get_interval, ioprio_get, lsm_get_self_attr, lsm_list_modules, pidfd_open,
        ],
        Allow,
        "only asks; changes nothing",
    ),
    row(
        &[
            setuid, setgid, setreuid, setregid, setresuid, setresgid, setfsuid, setfsgid, setgroups,
            capset,
        ],
        Notify,
        "the kernel's rules hold, and no_new_privs is set; the broker acts only for those with its own credentials",
    )
    .alone(Allow),
    judge(
        &[prctl],
        &[case(
            &[is(Arg(0, "op"), &[PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_SET_SECCOMP])],
            Notify,
        )],
        Allow,
        "changes the caller or its children only; what capabilities and filters they have, the broker must know",
    )
    .alone(Allow),
    row(
        &[
            setpgid, setsid, setrlimit, arch_prctl, personality, set_tid_address,
            set_robust_list, rseq, restart_syscall,
        ],
        Allow,
        "changes the caller or its children only",
    ),
    row(
        &[fork, vfork, execve, execveat, exit, exit_group, wait4, waitid],
        Allow,
        "children stay in the sandbox; Landlock judges what may be executed",
    ),
    row(
        &[
            rt_sigaction, rt_sigprocmask, rt_sigreturn, rt_sigpending, rt_sigtimedwait,
            rt_sigsuspend, sigaltstack,
        ],
        Allow,
        "the caller's own signal handling",
    ),
    row(
        &[kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal],
        Allow,
        "Landlock's signal scope confines it to the sandbox",
    ),
    row(
        &[
            process_vm_readv, process_vm_writev, pidfd_getfd, kcmp, process_madvise, get_robust_list,
        ],
        Allow,
        "needs ptrace access, which Landlock confines to the sandbox",
    ),
    judge(
        &[ptrace],
        &[case(&[is(Arg(0, "op"), &[PTRACE_TRACEME])], Notify)],
        Allow,
        "Landlock confines it to the sandbox, but lets a parent outside be made the tracer",
    ),
    row(&[process_mrelease], Allow, "frees the memory of a process that is already being killed"),
    row(
        &[
            accept, accept4, recvfrom, recvmsg, recvmmsg, getsockname, getpeername, getsockopt,
        ],
        Allow,
        "works on a socket whose making, binding and connecting was judged",
    ),
    row(
        &[landlock_create_ruleset, landlock_add_rule, landlock_restrict_self],
        Allow,
        "can only restrict the caller further",
    ),
    // Files: Landlock decides, the broker watches so that a refusal is reported.
    judge(
        &[open],
        &[
            case(&[masked(Arg(1, "flags"), O_PATH, &[O_PATH])], Allow),
            when(When::ReadsNotReported, &[lacks(Arg(1, "flags"), O_WRITES)], Allow),
        ],
        Notify,
        "opening for writing or creating; a path descriptor gives no access, O_PATH voids other flags",
    )
    .alone(Allow),
    judge(
        &[openat],
        &[
            case(&[masked(Arg(2, "flags"), O_PATH, &[O_PATH])], Allow),
            when(When::ReadsNotReported, &[lacks(Arg(2, "flags"), O_WRITES)], Allow),
        ],
        Notify,
        "opening for writing or creating; a path descriptor gives no access, O_PATH voids other flags",
    )
    .alone(Allow),
    row(&[openat2], Notify, "its flags are in memory").alone(Allow),
    row(
        &[
            creat, truncate, mkdir, mkdirat, mknod, mknodat, rmdir, unlink, unlinkat, rename,
            renameat, renameat2, link, linkat, symlink, symlinkat,
        ],
        Notify,
        "changes files by path: Landlock decides, a refusal is reported",
    )
    .alone(Allow),
    row(
        &[
            chmod, fchmod, fchmodat, fchmodat2, chown, fchown, lchown, fchownat, utime, utimes,
            futimesat, utimensat, setxattr, lsetxattr, fsetxattr, setxattrat, removexattr,
            lremovexattr, fremovexattr, removexattrat, file_setattr,
        ],
        Notify,
        "changes metadata, which Landlock does not know",
    ),
    judge(
        &[ioctl],
        &[
            case(
                &[is(IOCTL_COMMAND, &[TIOCSTI, TIOCLINUX, TIOCSETD, FAT_IOCTL_SET_ATTRIBUTES])],
                Deny(EPERM),
            ),
            case(
                &[is(
                    IOCTL_COMMAND,
                    &[
                        FS_IOC_GETFLAGS, FS_IOC_GETVERSION, EXT4_IOC_GETVERSION, FS_IOC_FIEMAP,
                        FS_IOC_MEASURE_VERITY, FS_IOC_FSGETXATTR, FS_IOC_GETFSLABEL, FICLONE,
                        FICLONERANGE, FIDEDUPERANGE,
                    ],
                )],
                Allow,
            ),
            case(
                &[masked(
                    IOCTL_COMMAND,
                    IOC_TYPE_MASK,
                    &[
                        IOC_EXT, IOC_VERSION, IOC_XFS, IOC_OCFS2, IOC_ZFS, IOC_BTRFS, IOC_CEPH,
                        IOC_BCACHEFS, IOC_CIFS, IOC_F2FS,
                    ],
                )],
                Deny(EPERM),
            ),
        ],
        Allow,
        "no typing into the terminal; no change of files, attributes or subvolumes through a descriptor \
         opened for reading",
    ),
    // Network: the broker judges addresses; the filter, what kind of socket there can be at all.
    judge(
        &[socket],
        &[
            // Where it cannot get at those that the command makes.
            when(When::SocketsMade, &[], Notify),
            case(UNIX_STREAM, Allow),
            when(When::AllUnixSockets, UNIX_DATAGRAM, Allow),
            when(When::UnixDatagrams, UNIX_DATAGRAM, Allow),
            when(When::NetworkAllowed, &[is(DOMAIN, &[AF_INET, AF_INET6])], Allow),
            case(
                &[
                    is(DOMAIN, &[AF_INET, AF_INET6]),
                    masked(TYPE, SOCK_TYPE_MASK, &[SOCK_STREAM]),
                    is(PROTOCOL, &[PROTOCOL_DEFAULT, IPPROTO_TCP]),
                ],
                Allow,
            ),
            case(
                &[
                    is(DOMAIN, &[AF_NETLINK]),
                    masked(TYPE, SOCK_TYPE_MASK, &[SOCK_RAW, SOCK_DGRAM]),
                    is(PROTOCOL, &[NETLINK_ROUTE]),
                ],
                Allow,
            ),
        ],
        Notify,
        "Landlock judges TCP only; other families and protocols are refused and reported",
    )
    .alone(Deny(EACCES)),
    judge(
        &[socketpair],
        &[
            case(UNIX_STREAM, Allow),
            when(When::AllUnixSockets, UNIX_DATAGRAM, Allow),
            when(When::UnixDatagrams, UNIX_DATAGRAM, Allow),
        ],
        Notify,
        "a datagram socket can send to any Unix socket by name: the broker makes a seqpacket pair instead",
    ),
    row(
        &[connect, bind],
        Notify,
        "the address is in memory: the broker judges and uses its own copy",
    )
    .alone(Deny(EACCES)),
    judge(
        &[listen],
        &[when(When::NetworkAllowed, &[], Allow)],
        Notify,
        "without a bind it would listen on every address; the broker remembers the port",
    )
    .alone(Deny(EACCES)),
    judge(
        &[shutdown],
        &[
            case(&[is(Arg(1, "how"), &[SHUT_WR])], Allow),
            when(When::LocalBinding, &[], Notify),
        ],
        Allow,
        "gives up a port that is listened on, so that another program can take it: never while the \
         broker connects to it",
    ),
    judge(
        &[sendto],
        &[
            when(
                When::UnixDatagrams,
                &[Test::Null { arg: Arg(4, "dest_addr") }, lacks(Arg(3, "flags"), MSG_FASTOPEN)],
                Allow,
            ),
            when(When::UnixDatagrams, &[lacks(Arg(3, "flags"), MSG_FASTOPEN)], Notify),
            when(When::UnixDatagrams, &[], Deny(EOPNOTSUPP)),
            when(When::NetworkAllowed, &[], Allow),
            case(&[lacks(Arg(3, "flags"), MSG_FASTOPEN)], Allow),
        ],
        Deny(EOPNOTSUPP),
        "MSG_FASTOPEN connects; only datagram sockets reach a new peer without it, and where some are listed the broker sends",
    ),
    judge(
        &[sendmsg],
        &[
            when(When::UnixDatagrams, &[lacks(Arg(2, "flags"), MSG_FASTOPEN)], Notify),
            when(When::UnixDatagrams, &[], Deny(EOPNOTSUPP)),
            when(When::NetworkAllowed, &[], Allow),
            case(&[lacks(Arg(2, "flags"), MSG_FASTOPEN)], Allow),
        ],
        Deny(EOPNOTSUPP),
        "MSG_FASTOPEN connects; only datagram sockets reach a new peer without it, and where some are listed the broker sends",
    ),
    judge(
        &[sendmmsg],
        &[
            when(When::UnixDatagrams, &[lacks(Arg(3, "flags"), MSG_FASTOPEN)], Notify),
            when(When::UnixDatagrams, &[], Deny(EOPNOTSUPP)),
            when(When::NetworkAllowed, &[], Allow),
            case(&[lacks(Arg(3, "flags"), MSG_FASTOPEN)], Allow),
        ],
        Deny(EOPNOTSUPP),
        "MSG_FASTOPEN connects; only datagram sockets reach a new peer without it, and where some are listed the broker sends",
    ),
    judge(
        &[setsockopt],
        &[
            when(When::NetworkAllowed, &[], Allow),
            case(&[is(LEVEL, &[SOL_IP]), is(OPTION, &[IP_OPTIONS])], Deny(EPERM)),
            case(
                &[
                    is(LEVEL, &[SOL_IPV6]),
                    is(
                        OPTION,
                        &[
                            IPV6_2292PKTOPTIONS, IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR,
                            IPV6_DSTOPTS,
                        ],
                    ),
                ],
                Deny(EPERM),
            ),
            when(
                When::LocalBinding,
                &[is(LEVEL, &[SOL_SOCKET]), is(OPTION, &[SO_REUSEPORT])],
                Deny(ENOPROTOOPT),
            ),
            // A connect put off until the first write would find whoever has the port by then.
            when(
                When::LocalBinding,
                &[is(LEVEL, &[IPPROTO_TCP]), is(OPTION, &[TCP_FASTOPEN_CONNECT])],
                Deny(ENOPROTOOPT),
            ),
            case(
                &[is(LEVEL, &[SOL_SOCKET]), is(OPTION, &[SO_BINDTODEVICE, SO_BINDTOIFINDEX])],
                Deny(EPERM),
            ),
        ],
        Allow,
        "a shared port, a source route or another interface leads elsewhere than the address that was judged",
    ),
    // Other processes: what Landlock does not confine.
    judge(
        &[prlimit64],
        &[case(&[is(PID, &[0])], Allow), case(&[Test::Null { arg: Arg(2, "new_limit") }], Allow)],
        Notify,
        "limits of other processes; the caller's own, and asking, are free",
    ),
    judge(
        &[sched_setaffinity, sched_setscheduler, sched_setparam, sched_setattr],
        &[case(&[is(PID, &[0])], Allow)],
        Notify,
        "scheduling of other processes; the caller's own is free",
    ),
    judge(
        &[setpriority],
        &[case(&[is(Arg(0, "which"), &[PRIO_PROCESS]), is(Arg(1, "who"), &[0])], Allow)],
        Notify,
        "priority of other processes; the caller's own is free",
    ),
    judge(
        &[ioprio_set],
        &[case(&[is(Arg(0, "which"), &[IOPRIO_WHO_PROCESS]), is(Arg(1, "who"), &[0])], Allow)],
        Notify,
        "input and output priority of other processes; the caller's own is free",
    ),
    judge(
        &[migrate_pages, move_pages],
        &[case(&[is(PID, &[0])], Allow)],
        Deny(EPERM),
        "memory placement of other processes; the caller's own is free",
    ),
    // The sandbox itself, and what would be a way out of it.
    judge(
        &[seccomp],
        &[case(&[lacks(Arg(1, "flags"), SECCOMP_FILTER_FLAG_NEW_LISTENER)], Notify)],
        Deny(EPERM),
        "with a listener of its own it could answer for the broker; other filters only restrict, but the \
         broker must know of them",
    )
    .alone(Allow),
    judge(
        &[clone],
        &[case(&[lacks(Arg(0, "flags"), CLONE_NAMESPACES)], Allow)],
        Deny(EPERM),
        "new namespaces bring capabilities and mounts; processes and threads are free",
    ),
    row(&[clone3], Deny(ENOSYS), "its flags are in memory; callers fall back to clone"),
    judge(
        &[unshare],
        &[case(&[lacks(Arg(0, "flags"), !UNSHARE_HARMLESS)], Allow)],
        Deny(EPERM),
        "new namespaces bring capabilities and mounts; unsharing descriptors and the like is free",
    ),
    row(&[setns], Deny(EPERM), "enters namespaces of other processes"),
    row(
        &[
            mount, umount2, pivot_root, chroot, open_tree, open_tree_attr, move_mount, fsopen,
            fsconfig, fsmount, fspick, mount_setattr,
        ],
        Deny(EPERM),
        "changes which files paths lead to",
    ),
    row(
        &[statmount, listmount, listns],
        Deny(ENOSYS),
        "tells of mounts and namespaces outside; too new to be relied on",
    ),
    row(
        &[open_by_handle_at, name_to_handle_at],
        Deny(EPERM),
        "opens files without a path, past Landlock's view of directories",
    ),
    row(
        &[fanotify_init, fanotify_mark],
        Deny(EPERM),
        "watches, and hands over, files of the whole file system",
    ),
    row(
        &[io_uring_setup, io_uring_enter, io_uring_register],
        Deny(ENOSYS),
        "does system calls that no filter sees",
    ),
    row(&[userfaultfd], Deny(EPERM), "stalls the kernel inside a system call: a tool to win races"),
    row(&[bpf, perf_event_open], Deny(EPERM), "looks into the kernel and other processes"),
    row(
        &[add_key, request_key, keyctl],
        Deny(ENOSYS),
        "keyrings are shared with the user's other processes",
    ),
    row(
        &[
            shmget, shmat, shmctl, shmdt, semget, semop, semctl, semtimedop, msgget, msgsnd, msgrcv,
            msgctl,
        ],
        Deny(ENOSYS),
        "System V IPC reaches every process of the user; Landlock does not know it",
    ),
    row(
        &[mq_open, mq_unlink, mq_timedsend, mq_timedreceive, mq_notify, mq_getsetattr],
        Deny(ENOSYS),
        "message queues reach every process of the user; Landlock does not know them",
    ),
    row(&[lsm_set_self_attr], Deny(EPERM), "changes labels that other security modules go by"),
    row(&[modify_ldt], Deny(ENOSYS), "16-bit segments: nothing but attack surface"),
    // The machine.
    row(
        &[
            swapon, swapoff, reboot, kexec_load, kexec_file_load, init_module, finit_module,
            delete_module, acct, quotactl, quotactl_fd, settimeofday, clock_settime, adjtimex,
            clock_adjtime, sethostname, setdomainname, iopl, ioperm, vhangup,
        ],
        Deny(EPERM),
        "administers the machine",
    ),
    row(&[syslog], Deny(EPERM), "reads and clears the kernel's log"),
    row(
        &[
            uselib, ustat, sysfs, _sysctl, create_module, get_kernel_syms, query_module, nfsservctl,
            getpmsg, putpmsg, afs_syscall, tuxcall, security, set_thread_area, get_thread_area,
            lookup_dcookie, epoll_ctl_old, epoll_wait_old, vserver,
        ],
        Deny(ENOSYS),
        "obsolete or never built for this architecture",
    ),
];

/// Any of these means that more than reading is asked for. O_ACCMODE 3 is write access too (open(2)).
const O_WRITES: u32 = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE_BIT;

const CLONE_NAMESPACES: u32 = CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET;

/// What unshare may take apart. A list of the harmless: newer flags imply namespaces without naming one.
const UNSHARE_HARMLESS: u32 =
    CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;

/// Connected Unix sockets. The kernel makes SOCK_RAW a datagram socket here, which can send to any name.
const UNIX_STREAM: &[Test] = &[
    is(DOMAIN, &[AF_UNIX]),
    masked(TYPE, SOCK_TYPE_MASK, &[SOCK_STREAM, SOCK_SEQPACKET]),
    is(PROTOCOL, &[PROTOCOL_DEFAULT, PF_UNIX]),
];

/// Unix sockets that send without being connected.
const UNIX_DATAGRAM: &[Test] = &[
    is(DOMAIN, &[AF_UNIX]),
    masked(TYPE, SOCK_TYPE_MASK, &[SOCK_DGRAM]),
    is(PROTOCOL, &[PROTOCOL_DEFAULT, PF_UNIX]),
];

const IOCTL_COMMAND: Arg = Arg(1, "op");
const DOMAIN: Arg = Arg(0, "domain");
const TYPE: Arg = Arg(1, "type");
const PROTOCOL: Arg = Arg(2, "protocol");
const LEVEL: Arg = Arg(1, "level");
const OPTION: Arg = Arg(2, "optname");
const PID: Arg = Arg(0, "pid");

const fn row(calls: &'static [Syscall], always: Verdict, why: &'static str) -> Row {
    judge(calls, &[], always, why)
}

const fn judge(
    calls: &'static [Syscall],
    cases: &'static [Case],
    otherwise: Verdict,
    why: &'static str,
) -> Row {
    // Without a broker to judge what a pointer leads to, nothing is let through.
    Row { calls, cases, otherwise, alone: Deny(EPERM), why }
}

const fn case(all: &'static [Test], then: Verdict) -> Case {
    when(When::Always, all, then)
}

const fn when(when: When, all: &'static [Test], then: Verdict) -> Case {
    Case { when, all, then }
}

const fn is(arg: Arg, values: &'static [u32]) -> Test {
    masked(arg, u32::MAX, values)
}

const fn masked(arg: Arg, mask: u32, values: &'static [u32]) -> Test {
    Test::Low { arg, mask, values }
}

/// None of the flags is set.
const fn lacks(arg: Arg, flags: u32) -> Test {
    masked(arg, flags, &[0])
}
