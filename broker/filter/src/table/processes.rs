//! Processes: the caller's own memory, time and identity; others, of which Landlock confines signals and
//! tracing only; namespaces.

use super::{NO_SCOPES, WITH_BROKER, case, is, judge, lacks, row, when};
use crate::Syscall::*;
use crate::Variant;
use crate::rule::Errno::{ENOSYS, EPERM};
use crate::rule::Verdict::{Allow, Deny, Ignore, Notify};
use crate::rule::{Arg, Row, Test, When};
use crate::uapi::*;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
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
        "the kernel's rules hold, and no_new_privs is set; the broker acts for each with the rights that it has",
    )
    .alone(Allow),
    judge(
        &[prctl],
        &[
            case(&[is(Arg(0, "op"), KNOWN_OPERATIONS)], Notify),
            // Agents that hold keys ask for it.
            case(&[is(Arg(0, "op"), &[PR_SET_DUMPABLE]), is(Arg(1, "value"), &[0])], Ignore),
        ],
        Allow,
        "its children's and its own; the broker must know of capabilities and filters, and read their memory",
    )
    .alone(Allow),
    row(
        &[
            setrlimit, arch_prctl, personality, set_tid_address, set_robust_list, rseq, restart_syscall,
        ],
        Allow,
        "changes the caller or its children only",
    ),
    row(&[setsid], Notify, "the broker has the kernel end each group when it ends itself")
        .alone(Allow),
    judge(
        &[setpgid],
        &[when(When::is(Variant::ALONE), &[is(Arg(1, "pgid"), &[0])], Allow)],
        Notify,
        "a group of its own ends with the broker; one that is joined must be led from inside",
    ),
    row(
        &[execve, execveat, exit, exit_group, wait4, waitid],
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
    judge(
        &[fork, vfork],
        &[when(NO_SCOPES, &[], Notify)],
        Allow,
        "children stay in the sandbox; the broker counts them, or ends them one by one and lets nobody fork then",
    ),
    judge(
        &[kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal],
        &[when(NO_SCOPES, &[], Notify)],
        Allow,
        "Landlock's signal scope confines it to the sandbox; without it, the broker sends",
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
        &[
            case(&[is(Arg(0, "op"), &[PTRACE_TRACEME])], Notify),
            when(WITH_BROKER, &[is(Arg(0, "op"), &[PTRACE_ATTACH, PTRACE_SEIZE])], Notify),
        ],
        Allow,
        "Landlock confines it to the sandbox, but lets a parent outside be made the tracer; the broker tells of refusals",
    ),
    row(&[process_mrelease], Allow, "frees the memory of a process that is already being killed"),
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
    judge(
        &[clone],
        &[
            when(NO_SCOPES, &[lacks(Arg(0, "flags"), CLONE_NAMESPACES | CLONE_THREAD)], Notify),
            case(&[lacks(Arg(0, "flags"), CLONE_NAMESPACES)], Allow),
        ],
        Notify,
        "new namespaces bring capabilities and mounts: the broker refuses them; processes and threads are free",
    ),
    row(&[clone3], Deny(ENOSYS), "its flags are in memory; callers fall back to clone"),
    judge(
        &[unshare],
        &[case(&[lacks(Arg(0, "flags"), !UNSHARE_HARMLESS)], Allow)],
        Notify,
        "new namespaces bring capabilities and mounts: the broker refuses them; unsharing descriptors and the like is free",
    ),
    row(&[setns], Notify, "enters namespaces of other processes: the broker refuses, and says so"),
];

/// Of capabilities and filters.
const KNOWN_OPERATIONS: &[u32] =
    &[PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_SET_SECCOMP];

/// What unshare may take apart. A list of the harmless: newer flags imply namespaces without naming one.
const UNSHARE_HARMLESS: u32 =
    CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;

const PID: Arg = Arg(0, "pid");
