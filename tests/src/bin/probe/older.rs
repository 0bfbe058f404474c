//! The older calls, which x86-64 has and newer architectures leave out: there the probe makes the calls
//! that took their place, as a C library does.

#[cfg(target_arch = "x86_64")]
pub(crate) use libc::{
    SYS_access, SYS_chmod, SYS_chown, SYS_creat, SYS_dup2, SYS_fork, SYS_futimesat, SYS_lchown,
    SYS_link, SYS_lstat, SYS_mkdir, SYS_mknod, SYS_open, SYS_pipe, SYS_poll, SYS_rename, SYS_rmdir,
    SYS_stat, SYS_symlink, SYS_unlink, SYS_utime, SYS_utimes,
};

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use numbers::*;

/// The call with this number and these arguments, as this architecture has it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn translate(nr: i64, args: [usize; 6]) -> (i64, [usize; 6]) {
    (nr, args)
}

/// The call with this number and these arguments, as this architecture has it.
#[cfg(not(target_arch = "x86_64"))]
#[allow(non_upper_case_globals, reason = "as libc has them")]
pub(crate) fn translate(nr: i64, args: [usize; 6]) -> (i64, [usize; 6]) {
    const AT: usize = libc::AT_FDCWD as usize;
    const NOFOLLOW: usize = libc::AT_SYMLINK_NOFOLLOW as usize;
    const REMOVEDIR: usize = libc::AT_REMOVEDIR as usize;
    const CREAT: usize = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as usize;
    let [a, b, c, ..] = args;
    match nr {
        SYS_access => (libc::SYS_faccessat, [AT, a, b, 0, 0, 0]),
        SYS_chmod => (libc::SYS_fchmodat, [AT, a, b, 0, 0, 0]),
        SYS_chown => (libc::SYS_fchownat, [AT, a, b, c, 0, 0]),
        SYS_creat => (libc::SYS_openat, [AT, a, CREAT, b, 0, 0]),
        SYS_dup2 => (libc::SYS_dup3, [a, b, 0, 0, 0, 0]),
        SYS_fork => (libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]),
        // Microseconds are few nanoseconds, and as good.
        SYS_futimesat => (libc::SYS_utimensat, [a, b, c, 0, 0, 0]),
        SYS_lchown => (libc::SYS_fchownat, [AT, a, b, c, NOFOLLOW, 0]),
        SYS_link => (libc::SYS_linkat, [AT, a, AT, b, 0, 0]),
        SYS_lstat => (libc::SYS_newfstatat, [AT, a, b, NOFOLLOW, 0, 0]),
        SYS_mkdir => (libc::SYS_mkdirat, [AT, a, b, 0, 0, 0]),
        SYS_mknod => (libc::SYS_mknodat, [AT, a, b, c, 0, 0]),
        SYS_open => (libc::SYS_openat, [AT, a, b, c, 0, 0]),
        SYS_pipe => (libc::SYS_pipe2, [a, 0, 0, 0, 0, 0]),
        // Without its limit: what is waited for comes.
        SYS_poll => (libc::SYS_ppoll, [a, b, 0, 0, 0, 0]),
        SYS_rename => (libc::SYS_renameat2, [AT, a, AT, b, 0, 0]),
        SYS_rmdir => (libc::SYS_unlinkat, [AT, a, REMOVEDIR, 0, 0, 0]),
        SYS_stat => (libc::SYS_newfstatat, [AT, a, b, 0, 0, 0]),
        SYS_symlink => (libc::SYS_symlinkat, [a, AT, b, 0, 0, 0]),
        SYS_unlink => (libc::SYS_unlinkat, [AT, a, 0, 0, 0, 0]),
        // To now: the times lie otherwise in memory.
        SYS_utime => (libc::SYS_utimensat, [AT, a, 0, 0, 0, 0]),
        SYS_utimes => (libc::SYS_utimensat, [AT, a, b, 0, 0, 0]),
        _ => (nr, args),
    }
}

/// Numbers that no call has.
#[cfg(not(target_arch = "x86_64"))]
#[allow(non_upper_case_globals, reason = "as libc has them")]
mod numbers {
    macro_rules! numbers {
        ($number:expr; $name:ident $($names:ident)*) => {
            pub(crate) const $name: i64 = $number;
            numbers!($number - 1; $($names)*);
        };
        ($number:expr;) => {};
    }
    numbers!(-2; SYS_access SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_fork SYS_futimesat SYS_lchown
        SYS_link SYS_lstat SYS_mkdir SYS_mknod SYS_open SYS_pipe SYS_poll SYS_rename SYS_rmdir SYS_stat
        SYS_symlink SYS_unlink SYS_utime SYS_utimes);
}
