//! The programs against expectations written by hand: nothing here is derived from the table.

#![allow(clippy::unwrap_used, reason = "a test that cannot run has failed")]
#![allow(clippy::panic, reason = "as above")]

mod files;
mod network;
mod older;
mod processes;
mod program;

use crate::Syscall::*;
use crate::interpreter::{Call, run};
use crate::syscall::NEWEST;
use crate::{Arch, Program, Syscall, Variant};

/// linux/audit.h
const AUDIT_VALUES: [(&str, u32); 4] = [
    ("x86_64", 0xc000_003e),
    ("i386", 0x4000_0003),
    ("aarch64", 0xc000_00b7),
    ("arm", 0x4000_0028),
];

const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const EROFS: u32 = 0x0005_001e;
const EACCES: u32 = 0x0005_000d;
const ENOSYS: u32 = 0x0005_0026;
const ENOPROTOOPT: u32 = 0x0005_005c;
const EOPNOTSUPP: u32 = 0x0005_005f;

const GARBAGE: u64 = 0xdead_beef_0000_0000;

const CLOSED: Variant = Variant::empty();
const OPEN: Variant = Variant::ALLOW_NETWORK;
const LOCAL: Variant = Variant::LOCAL_BINDING;

/// Those under which every change of files is notified, and some under which not.
fn all_variants() -> impl Iterator<Item = Variant> {
    let reads = [CLOSED, Variant::REPORT_READS, Variant::LISTINGS];
    let changes_left = [Variant::CHANGES_LEFT, Variant::CHANGES_LEFT | Variant::LISTINGS];
    let without_network_rules = [OPEN, OPEN | Variant::REPORT_READS];
    reads.into_iter().chain(changes_left).chain(without_network_rules)
}

/// The programs of all architectures for one variant, which must agree.
struct Filter(Vec<Program>);

impl Filter {
    fn new(variant: Variant) -> Self {
        Self(Arch::ALL.iter().map(|arch| Program::compile(arch, variant).unwrap()).collect())
    }

    fn verdict(&self, call: Syscall, args: [u64; 6]) -> u32 {
        let verdicts = Arch::ALL.iter().zip(&self.0).filter_map(|(arch, program)| {
            let number = arch.number(call)?;
            Some(run(&program.instructions, &Call { number, arch: arch.audit, args }))
        });
        let verdicts: Vec<_> = verdicts.map(Result::unwrap).collect();
        assert!(verdicts.windows(2).all(|pair| pair[0] == pair[1]), "{call} {args:x?}");
        verdicts[0]
    }

    /// The verdict, which must not depend on the upper halves of `int` arguments.
    fn int_verdict(&self, call: Syscall, args: [u64; 6]) -> u32 {
        let plain = self.verdict(call, args);
        assert_eq!(plain, self.verdict(call, args.map(|arg| arg | GARBAGE)), "{call} {args:x?}");
        plain
    }
}

// What happens to each call whatever its arguments are.

#[rustfmt::skip]
const ALLOWED: &[Syscall] = &[
    read, write, close, stat, fstat, lstat, poll, lseek, mmap, mprotect, munmap, brk, rt_sigaction,
    rt_sigprocmask, rt_sigreturn, pread64, pwrite64, readv, writev, pipe, select,
    sched_yield, mremap, msync, mincore, madvise, dup, dup2, pause, nanosleep, getitimer, alarm,
    setitimer, getpid, sendfile, accept, recvfrom, recvmsg, shutdown, getsockname, getpeername,
    getsockopt, fork, vfork, execve, exit, wait4, kill, uname, fsync, fdatasync, ftruncate,
    getdents, getcwd, chdir, fchdir, readlink, gettimeofday, getrlimit, getrusage, sysinfo, times,
    getuid, getgid, geteuid, getegid, getppid, getpgrp, getgroups, getresuid,
    getresgid, getpgid, getsid, capget, rt_sigpending, rt_sigtimedwait, rt_sigqueueinfo,
    rt_sigsuspend, sigaltstack, personality, statfs, fstatfs, getpriority, sched_getparam,
    sched_getscheduler, sched_get_priority_max, sched_get_priority_min, sched_rr_get_interval,
    mlock, munlock, mlockall, munlockall, arch_prctl, setrlimit, sync, gettid, readahead, getxattr,
    lgetxattr, fgetxattr, listxattr, llistxattr, flistxattr, tkill, time, futex, sched_getaffinity,
    io_setup, io_destroy, io_getevents, io_submit, io_cancel, epoll_create, remap_file_pages,
    getdents64, set_tid_address, restart_syscall, fadvise64, timer_create, timer_settime,
    timer_gettime, timer_getoverrun, timer_delete, clock_gettime, clock_getres, clock_nanosleep,
    exit_group, epoll_wait, epoll_ctl, tgkill, mbind, set_mempolicy, get_mempolicy, waitid,
    ioprio_get, inotify_init, inotify_add_watch, inotify_rm_watch, newfstatat, readlinkat,
    pselect6, ppoll, set_robust_list, get_robust_list, splice, tee, sync_file_range,
    vmsplice, epoll_pwait, signalfd, timerfd_create, eventfd, fallocate, timerfd_settime,
    timerfd_gettime, accept4, signalfd4, eventfd2, epoll_create1, dup3, pipe2, inotify_init1,
    preadv, pwritev, rt_tgsigqueueinfo, recvmmsg, syncfs, getcpu, process_vm_readv,
    process_vm_writev, kcmp, sched_getattr, getrandom, memfd_create, execveat, membarrier, mlock2,
    copy_file_range, preadv2, pwritev2, pkey_mprotect, pkey_alloc, pkey_free, statx, io_pgetevents,
    rseq, pidfd_send_signal, pidfd_open, close_range, pidfd_getfd, process_madvise,
    epoll_pwait2, landlock_create_ruleset, landlock_add_rule, memfd_secret,
    process_mrelease, futex_waitv, set_mempolicy_home_node, cachestat, map_shadow_stack, futex_wake,
    futex_wait, futex_requeue, lsm_get_self_attr, lsm_list_modules, mseal, getxattrat, listxattrat,
    file_getattr, shmdt,
];

#[rustfmt::skip]
const NOTIFIED: &[Syscall] = &[
    connect, bind, listen, truncate, rename, mkdir, rmdir, link, unlink, symlink, chmod, fchmod,
    chown, fchown, lchown, umask, setuid, setgid, setreuid, setregid, setgroups, setresuid,
    setresgid, setfsuid, setfsgid, capset, utime, setxattr, lsetxattr, fsetxattr,
    removexattr, lremovexattr, fremovexattr, utimes, mkdirat, fchownat, futimesat,
    unlinkat, renameat, linkat, symlinkat, fchmodat, utimensat, fchmodat2,
    setxattrat, removexattrat, file_setattr, shmget, shmat, shmctl, semget, semop, semctl,
    semtimedop, msgget, msgsnd, msgrcv, msgctl, pivot_root, chroot, mount, umount2, setns, open_tree,
    open_tree_attr, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, bpf,
    perf_event_open, syslog, vhangup, adjtimex, acct, settimeofday, swapon, swapoff, reboot,
    sethostname, setdomainname, iopl, ioperm, init_module, delete_module, quotactl, clock_settime,
    kexec_load, clock_adjtime, finit_module, kexec_file_load, quotactl_fd,
];

#[rustfmt::skip]
const REFUSED_EPERM: &[Syscall] = &[
    fanotify_init, fanotify_mark, name_to_handle_at, open_by_handle_at, userfaultfd,
    lsm_set_self_attr,
];

#[rustfmt::skip]
const REFUSED_ENOSYS: &[Syscall] = &[
    uselib, ustat, sysfs, modify_ldt, _sysctl, create_module, get_kernel_syms, query_module,
    nfsservctl, getpmsg, putpmsg, afs_syscall, tuxcall, security, set_thread_area, get_thread_area,
    lookup_dcookie, epoll_ctl_old, epoll_wait_old, vserver, mq_open, mq_unlink, mq_timedsend,
    mq_timedreceive, mq_notify, mq_getsetattr, add_key, request_key, keyctl, io_uring_setup,
    io_uring_enter, io_uring_register, clone3, statmount, listmount, listns, uretprobe, uprobe,
    rseq_slice_yield, fchroot, openat2,
];

/// The arguments decide; each has a test of its own.
#[rustfmt::skip]
const JUDGED: &[Syscall] = &[
    open, ioctl, socket, sendto, sendmsg, socketpair, setsockopt, clone, fcntl, ptrace,
    access, faccessat, faccessat2,
    setpriority, sched_setparam, sched_setscheduler, prctl, sched_setaffinity, ioprio_set,
    migrate_pages, openat, unshare, move_pages, prlimit64, sendmmsg, sched_setattr, seccomp,
    landlock_restrict_self, setpgid, setsid, creat, mknod, mknodat, flock, renameat2,
];

#[test]
fn every_number_has_exactly_the_expected_fate() {
    let arguments = [[0; 6], [u64::MAX; 6], [1, 2, 3, 4, 5, 6], [GARBAGE; 6]];
    let told = || all_variants().filter(|variant| !variant.contains(Variant::CHANGES_LEFT));
    for (&arch, variant) in Arch::ALL.iter().flat_map(|arch| told().map(move |v| (arch, v))) {
        let program = Program::compile(arch, variant).unwrap();
        let calls = arch.calls();
        for number in 0..=1023 {
            let call = calls.get(number as usize).copied().flatten();
            let is_in = |list: &[Syscall]| call.is_some_and(|call| list.contains(&call));
            let lists = [ALLOWED, NOTIFIED, REFUSED_EPERM, REFUSED_ENOSYS, JUDGED].map(is_in);
            let listed = lists.iter().filter(|&&listed| listed).count();
            assert_eq!(listed, usize::from(call.is_some()), "{} {number} {call:?}", arch.name);
            let expected = match lists {
                [true, ..] => ALLOW,
                [_, true, ..] => NOTIFY,
                [_, _, true, ..] => EPERM,
                [_, _, _, _, true] => continue,
                _ => ENOSYS,
            };
            for args in arguments {
                let verdict = run(&program.instructions, &Call { number, arch: arch.audit, args });
                assert_eq!(verdict, Ok(expected), "{} {number} {variant:?} {args:x?}", arch.name);
            }
        }
    }
}

#[test]
fn without_a_listener_only_what_landlock_decides_is_let_through() {
    let (asked, alone) = (Filter::new(CLOSED), Filter::new(Variant::ALONE));
    let files = [
        open, openat, creat, truncate, rename, renameat, renameat2, mkdir, mkdirat, rmdir, link,
        linkat, unlink, unlinkat, symlink, symlinkat, mknod, mknodat, access, faccessat,
        faccessat2,
    ];
    let metadata = [
        chmod,
        fchmod,
        fchmodat,
        fchmodat2,
        chown,
        fchown,
        lchown,
        fchownat,
        utime,
        utimes,
        futimesat,
        utimensat,
        setxattr,
        lsetxattr,
        fsetxattr,
        setxattrat,
        removexattr,
        lremovexattr,
        fremovexattr,
        removexattrat,
        file_setattr,
    ];
    // The broker only wants to know.
    let own = [
        umask, setuid, setgid, setreuid, setregid, setgroups, setresuid, setresgid, setfsuid,
        setfsgid, capset, prctl, seccomp,
    ];
    // As if the kernel had none.
    let ipc =
        [shmget, shmat, shmctl, semget, semop, semctl, semtimedop, msgget, msgsnd, msgrcv, msgctl];
    for &call in Syscall::ALL {
        for args in [[0; 6], [u64::MAX; 6], [1, 2, 3, 4, 5, 6], [1; 6], [9; 6], [0, 9, 9, 9, 9, 9]]
        {
            let (before, now) = (asked.verdict(call, args), alone.verdict(call, args));
            let expected = match before {
                NOTIFY if files.contains(&call) || own.contains(&call) => ALLOW,
                NOTIFY if [landlock_restrict_self, setsid, flock].contains(&call) => ALLOW,
                NOTIFY if call == setpgid && args[1] == 0 => ALLOW,
                NOTIFY if [connect, bind, listen].contains(&call) => EACCES,
                NOTIFY if ipc.contains(&call) => ENOSYS,
                NOTIFY if call == setsockopt => ENOPROTOOPT,
                // All that the kernel would refuse by itself, but MSG_FASTOPEN.
                NOTIFY if [sendto, sendmmsg].contains(&call) => {
                    if args[3] & 0x2000_0000 == 0 {
                        ALLOW
                    } else {
                        EOPNOTSUPP
                    }
                }
                NOTIFY if metadata.contains(&call) => EROFS,
                NOTIFY => EPERM,
                // Access mode 3, which nobody else decides on.
                EACCES => EPERM,
                other => other,
            };
            assert_eq!(now, expected, "{call} {args:x?}");
        }
    }
}

/// The broker lets through what gets these errors, where a sandbox around is to decide.
#[test]
fn without_a_listener_nothing_but_metadata_and_sockets_of_unix_is_marked_for_others() {
    let marked = [connect, bind, listen, sendto, sendmsg, sendmmsg];
    let words = [0, 1, 2, 3, 5, 10, 16, 40, 262, 0x2000_0000, u64::MAX];
    for variant in [CLOSED, OPEN, Variant::DATAGRAMS, Variant::ALL_UNIX_SOCKETS, Variant::LISTINGS]
    {
        let (asked, alone) = (Filter::new(variant), Filter::new(variant | Variant::ALONE));
        for &call in Syscall::ALL {
            for [a, b, c] in words
                .iter()
                .flat_map(|a| words.iter().map(move |b| (a, b)))
                .flat_map(|(a, b)| words.iter().map(move |c| [*a, *b, *c]))
            {
                let args = [a, b, c, b, c, a];
                let now = alone.verdict(call, args);
                if now == EACCES {
                    let is_unix = call == socket && [a, b] == [1, 2] && c < 2;
                    assert!(is_unix || marked.contains(&call), "{variant:?} {call} {args:x?}");
                }
                if now == EROFS {
                    assert_eq!(asked.verdict(call, args), NOTIFY, "{call}");
                }
            }
        }
    }
}

#[test]
fn other_architectures_and_x32_are_killed() {
    for (&arch, variant) in Arch::ALL.iter().flat_map(|arch| all_variants().map(move |v| (arch, v)))
    {
        let program = Program::compile(arch, variant).unwrap();
        let run = |arch, number, args| run(&program.instructions, &Call { number, arch, args });
        // With the number of a plain call, and with bits of its own missing or added.
        let others = AUDIT_VALUES.map(|(_, audit)| audit).into_iter().filter(|&a| a != arch.audit);
        let foreign = arch.name == "x86_64";
        for number in (0..=1023).flat_map(|number| [number, number | 0x4000_0000]).chain([u32::MAX])
        {
            for args in [[0; 6], [u64::MAX; 6]] {
                for other in others.clone() {
                    assert_eq!(run(other, number, args), Ok(KILL), "{other:#x} {number:#x}");
                }
                if number & 0xc000_0000 == 0x4000_0000 {
                    let expected = if foreign { KILL } else { ENOSYS };
                    assert_eq!(run(arch.audit, number, args), Ok(expected), "{number:#x}");
                }
            }
        }
        let audit = arch.audit;
        for other in [0, audit ^ 1, audit & !0x8000_0000, audit & !0x4000_0000] {
            assert_eq!(run(other, 0, [0; 6]), Ok(KILL), "{other:#x}");
        }
    }
}

#[test]
fn audit_values_are_those_of_the_kernel() {
    for arch in Arch::ALL {
        assert!(AUDIT_VALUES.contains(&(arch.name, arch.audit)), "{}", arch.name);
        assert_eq!(Arch::named(arch.name).map(|named| named.name), Some(arch.name));
    }
    assert!(Arch::named("vax").is_none());
}

#[test]
fn numbers_that_no_abi_has_do_not_exist() {
    let numbers = [
        300,
        400,
        423,
        NEWEST + 1,
        511,
        512,
        547,
        1024,
        0x3fff_ffff,
        0x8000_0000,
        0xc000_0000,
        u32::MAX - 1,
        u32::MAX,
    ];
    for (&arch, variant) in Arch::ALL.iter().flat_map(|arch| all_variants().map(move |v| (arch, v)))
    {
        let program = Program::compile(arch, variant).unwrap();
        for number in numbers.into_iter().filter(|number| !arch.numbers.contains(&Some(*number))) {
            let verdict =
                run(&program.instructions, &Call { number, arch: arch.audit, args: [0; 6] });
            assert_eq!(verdict, Ok(ENOSYS), "{} {number:#x}", arch.name);
        }
    }
}
