//! x86-64: arch/x86/entry/syscalls/syscall_64.tbl.

use super::{AUDIT_64BIT_LE, Arch, numbers};

/// Runs of calls by the number of the first, for the macro that takes them. No other architecture has others.
#[rustfmt::skip]
macro_rules! first_calls {
    ($take:ident) => { $take! {
        0: read, write, open, close, stat, fstat, lstat, poll, lseek, mmap;
        10: mprotect, munmap, brk, rt_sigaction, rt_sigprocmask, rt_sigreturn, ioctl, pread64,
            pwrite64, readv;
        20: writev, access, pipe, select, sched_yield, mremap, msync, mincore, madvise, shmget;
        30: shmat, shmctl, dup, dup2, pause, nanosleep, getitimer, alarm, setitimer, getpid;
        40: sendfile, socket, connect, accept, sendto, recvfrom, sendmsg, recvmsg, shutdown, bind;
        50: listen, getsockname, getpeername, socketpair, setsockopt, getsockopt, clone, fork,
            vfork, execve;
        60: exit, wait4, kill, uname, semget, semop, semctl, shmdt, msgget, msgsnd;
        70: msgrcv, msgctl, fcntl, flock, fsync, fdatasync, truncate, ftruncate, getdents, getcwd;
        80: chdir, fchdir, rename, mkdir, rmdir, creat, link, unlink, symlink, readlink;
        90: chmod, fchmod, chown, fchown, lchown, umask, gettimeofday, getrlimit, getrusage,
            sysinfo;
        100: times, ptrace, getuid, syslog, getgid, setuid, setgid, geteuid, getegid, setpgid;
        110: getppid, getpgrp, setsid, setreuid, setregid, getgroups, setgroups, setresuid,
            getresuid, setresgid;
        120: getresgid, getpgid, setfsuid, setfsgid, getsid, capget, capset, rt_sigpending,
            rt_sigtimedwait, rt_sigqueueinfo;
        130: rt_sigsuspend, sigaltstack, utime, mknod, uselib, personality, ustat, statfs, fstatfs,
            sysfs;
        140: getpriority, setpriority, sched_setparam, sched_getparam, sched_setscheduler,
            sched_getscheduler, sched_get_priority_max, sched_get_priority_min,
            sched_rr_get_interval, mlock;
        150: munlock, mlockall, munlockall, vhangup, modify_ldt, pivot_root, _sysctl, prctl,
            arch_prctl, adjtimex;
        160: setrlimit, chroot, sync, acct, settimeofday, mount, umount2, swapon, swapoff, reboot;
        170: sethostname, setdomainname, iopl, ioperm, create_module, init_module, delete_module,
            get_kernel_syms, query_module, quotactl;
        180: nfsservctl, getpmsg, putpmsg, afs_syscall, tuxcall, security, gettid, readahead,
            setxattr, lsetxattr;
        190: fsetxattr, getxattr, lgetxattr, fgetxattr, listxattr, llistxattr, flistxattr,
            removexattr, lremovexattr, fremovexattr;
        200: tkill, time, futex, sched_setaffinity, sched_getaffinity, set_thread_area, io_setup,
            io_destroy, io_getevents, io_submit;
        210: io_cancel, get_thread_area, lookup_dcookie, epoll_create, epoll_ctl_old,
            epoll_wait_old, remap_file_pages, getdents64, set_tid_address, restart_syscall;
        220: semtimedop, fadvise64, timer_create, timer_settime, timer_gettime, timer_getoverrun,
            timer_delete, clock_settime, clock_gettime, clock_getres;
        230: clock_nanosleep, exit_group, epoll_wait, epoll_ctl, tgkill, utimes, vserver, mbind,
            set_mempolicy, get_mempolicy;
        240: mq_open, mq_unlink, mq_timedsend, mq_timedreceive, mq_notify, mq_getsetattr,
            kexec_load, waitid, add_key, request_key;
        250: keyctl, ioprio_set, ioprio_get, inotify_init, inotify_add_watch, inotify_rm_watch,
            migrate_pages, openat, mkdirat, mknodat;
        260: fchownat, futimesat, newfstatat, unlinkat, renameat, linkat, symlinkat, readlinkat,
            fchmodat, faccessat;
        270: pselect6, ppoll, unshare, set_robust_list, get_robust_list, splice, tee,
            sync_file_range, vmsplice, move_pages;
        280: utimensat, epoll_pwait, signalfd, timerfd_create, eventfd, fallocate, timerfd_settime,
            timerfd_gettime, accept4, signalfd4;
        290: eventfd2, epoll_create1, dup3, pipe2, inotify_init1, preadv, pwritev,
            rt_tgsigqueueinfo, perf_event_open, recvmmsg;
        300: fanotify_init, fanotify_mark, prlimit64, name_to_handle_at, open_by_handle_at,
            clock_adjtime, syncfs, sendmmsg, setns, getcpu;
        310: process_vm_readv, process_vm_writev, kcmp, finit_module, sched_setattr, sched_getattr,
            renameat2, seccomp, getrandom, memfd_create;
        320: kexec_file_load, bpf, execveat, userfaultfd, membarrier, mlock2, copy_file_range,
            preadv2, pwritev2, pkey_mprotect;
        330: pkey_alloc, pkey_free, statx, io_pgetevents, rseq, uretprobe, uprobe;
    } };
}
pub(crate) use first_calls;

pub(super) const ARCH: Arch = Arch {
    name: "x86_64",
    audit: 62 | AUDIT_64BIT_LE, // EM_X86_64
    // Those with __X32_SYSCALL_BIT: other argument layouts. Negative numbers, which have that bit too,
    // are no system call in any ABI.
    foreign: Some((0x4000_0000, 0x7fff_ffff)),
    numbers: first_calls!(numbers),
};
