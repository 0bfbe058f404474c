//! AArch64: scripts/syscall.tbl, which all newer architectures share (include/uapi/asm-generic/unistd.h
//! in older kernels). It leaves out what newer calls replace.

use super::{AUDIT_64BIT_LE, Arch, numbers};

pub(super) const ARCH: Arch = Arch {
    name: "aarch64",
    audit: 183 | AUDIT_64BIT_LE, // EM_AARCH64
    // 32-bit callers have an audit value of their own.
    foreign: None,
    #[rustfmt::skip]
    numbers: numbers! {
        0: io_setup, io_destroy, io_submit, io_cancel, io_getevents, setxattr, lsetxattr, fsetxattr,
            getxattr, lgetxattr;
        10: fgetxattr, listxattr, llistxattr, flistxattr, removexattr, lremovexattr, fremovexattr,
            getcwd, lookup_dcookie, eventfd2;
        20: epoll_create1, epoll_ctl, epoll_pwait, dup, dup3, fcntl, inotify_init1,
            inotify_add_watch, inotify_rm_watch, ioctl;
        30: ioprio_set, ioprio_get, flock, mknodat, mkdirat, unlinkat, symlinkat, linkat, renameat,
            umount2;
        40: mount, pivot_root, nfsservctl, statfs, fstatfs, truncate, ftruncate, fallocate,
            faccessat, chdir;
        50: fchdir, chroot, fchmod, fchmodat, fchownat, fchown, openat, close, vhangup, pipe2;
        60: quotactl, getdents64, lseek, read, write, readv, writev, pread64, pwrite64, preadv;
        70: pwritev, sendfile, pselect6, ppoll, signalfd4, vmsplice, splice, tee, readlinkat,
            newfstatat;
        80: fstat, sync, fsync, fdatasync, sync_file_range, timerfd_create, timerfd_settime,
            timerfd_gettime, utimensat, acct;
        90: capget, capset, personality, exit, exit_group, waitid, set_tid_address, unshare, futex,
            set_robust_list;
        100: get_robust_list, nanosleep, getitimer, setitimer, kexec_load, init_module,
            delete_module, timer_create, timer_gettime, timer_getoverrun;
        110: timer_settime, timer_delete, clock_settime, clock_gettime, clock_getres,
            clock_nanosleep, syslog, ptrace, sched_setparam, sched_setscheduler;
        120: sched_getscheduler, sched_getparam, sched_setaffinity, sched_getaffinity, sched_yield,
            sched_get_priority_max, sched_get_priority_min, sched_rr_get_interval, restart_syscall,
            kill;
        130: tkill, tgkill, sigaltstack, rt_sigsuspend, rt_sigaction, rt_sigprocmask, rt_sigpending,
            rt_sigtimedwait, rt_sigqueueinfo, rt_sigreturn;
        140: setpriority, getpriority, reboot, setregid, setgid, setreuid, setuid, setresuid,
            getresuid, setresgid;
        150: getresgid, setfsuid, setfsgid, times, setpgid, getpgid, getsid, setsid, getgroups,
            setgroups;
        160: uname, sethostname, setdomainname, getrlimit, setrlimit, getrusage, umask, prctl,
            getcpu, gettimeofday;
        170: settimeofday, adjtimex, getpid, getppid, getuid, geteuid, getgid, getegid, gettid,
            sysinfo;
        180: mq_open, mq_unlink, mq_timedsend, mq_timedreceive, mq_notify, mq_getsetattr, msgget,
            msgctl, msgrcv, msgsnd;
        190: semget, semctl, semtimedop, semop, shmget, shmctl, shmat, shmdt, socket, socketpair;
        200: bind, listen, accept, connect, getsockname, getpeername, sendto, recvfrom, setsockopt,
            getsockopt;
        210: shutdown, sendmsg, recvmsg, readahead, brk, munmap, mremap, add_key, request_key,
            keyctl;
        220: clone, execve, mmap, fadvise64, swapon, swapoff, mprotect, msync, mlock, munlock;
        230: mlockall, munlockall, mincore, madvise, remap_file_pages, mbind, get_mempolicy,
            set_mempolicy, migrate_pages, move_pages;
        240: rt_tgsigqueueinfo, perf_event_open, accept4, recvmmsg;
        260: wait4, prlimit64, fanotify_init, fanotify_mark, name_to_handle_at, open_by_handle_at,
            clock_adjtime, syncfs, setns, sendmmsg;
        270: process_vm_readv, process_vm_writev, kcmp, finit_module, sched_setattr, sched_getattr,
            renameat2, seccomp, getrandom, memfd_create;
        280: bpf, execveat, userfaultfd, membarrier, mlock2, copy_file_range, preadv2, pwritev2,
            pkey_mprotect, pkey_alloc;
        290: pkey_free, statx, io_pgetevents, rseq, kexec_file_load;
    },
};
