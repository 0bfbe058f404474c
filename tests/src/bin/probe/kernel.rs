//! Kernel interfaces that a command has no business with, and the other system call entries.

use crate::file::open;
use crate::sys::{self, addr, addr_mut, call, cstr};
use crate::{number, say, tell, usage};
use std::os::unix::process::CommandExt;

const TIOCSTI: usize = 0x5412;
const TIOCLINUX: usize = 0x541c;
const NEW_LISTENER: usize = 1 << 3;

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    let empty = cstr("");
    let root = cstr("/");
    let tmp = cstr("/tmp");
    let tmpfs = cstr("tmpfs");
    let (empty, root) = (addr(empty.as_c_str()), addr(root.as_c_str()));
    let (tmp, tmpfs) = (addr(tmp.as_c_str()), addr(tmpfs.as_c_str()));
    let zeroes = [0u64; 32];
    let block = addr(&zeroes);
    match (op, args) {
        ("tiocsti", rest) => terminal(TIOCSTI, rest.contains(&"--upper"), op),
        ("tioclinux", rest) => terminal(TIOCLINUX, rest.contains(&"--upper"), op),
        ("unshare", [flag]) => say(op, in_child(|| call(libc::SYS_unshare, &[number(flag)]))),
        ("clone-ns", [flag]) => say(op, clone_with(number(flag))),
        ("clone3-user", []) => say(op, clone3(0x1000_0000)),
        ("clone3", []) => say(op, clone3(0)),
        ("setns", []) => {
            let fd = open("/proc/self/ns/uts", libc::O_RDONLY);
            say(op, fd.and_then(|fd| call(libc::SYS_setns, &[fd, 0])));
        }
        ("chroot", []) => say(op, in_child(|| call(libc::SYS_chroot, &[root]))),
        ("pivot-root", []) => say(op, call(libc::SYS_pivot_root, &[tmp, tmp])),
        ("mount", []) => say(op, call(libc::SYS_mount, &[tmpfs, tmp, tmpfs, 0, 0])),
        ("umount", []) => say(op, call(libc::SYS_umount2, &[tmp, 0])),
        ("fsopen", []) => say(op, call(430, &[tmpfs, 0])),
        ("open-tree", []) => say(op, call(428, &[libc::AT_FDCWD as usize, root, 1])),
        ("move-mount", []) => say(op, call(429, &[0, empty, 0, empty, 0])),
        ("mount-setattr", []) => say(op, call(442, &[0, root, 0, block, 32])),
        ("seccomp-listener", []) => say(op, seccomp(NEW_LISTENER)),
        ("seccomp-filter", []) => say(op, seccomp(0)),
        ("with-listener", [program, rest @ ..]) => {
            // Stays open in the program, which must not have another one.
            let listener = seccomp(NEW_LISTENER);
            if let Ok(fd) = listener {
                let _ = call(libc::SYS_fcntl, &[fd, libc::F_SETFD as usize, 0]);
            }
            say(op, listener);
            let error = std::process::Command::new(program).args(rest).exec();
            tell("exec", &error.to_string());
        }
        ("without", [call, errno, program, rest @ ..]) => {
            say(op, deny(call, number(errno)));
            // Returns only if it failed.
            let error = std::process::Command::new(program).args(rest).exec();
            tell("exec", &error.to_string());
        }
        ("own-domain", [kind, program, rest @ ..]) => {
            say(op, own_domain(*kind == "everything"));
            let error = std::process::Command::new(program).args(rest).exec();
            tell("exec", &error.to_string());
        }
        ("landlock", []) => {
            // LANDLOCK_CREATE_RULESET_VERSION.
            say(op, call(444, &[0, 0, 1]));
        }
        ("io-uring", []) => say(op, call(425, &[1, block])),
        ("io-uring-enter", []) => say(op, call(426, &[0, 0, 0, 0, 0, 0])),
        ("bpf", []) => say(op, call(libc::SYS_bpf, &[0, block, 64])),
        ("perf", []) => {
            let mut event = [0u64; 16];
            // PERF_TYPE_SOFTWARE, size 128.
            event[0] = 128 << 32 | 1;
            say(op, call(libc::SYS_perf_event_open, &[addr(&event), 0, usize::MAX, usize::MAX, 0]));
        }
        ("userfaultfd", []) => say(op, call(libc::SYS_userfaultfd, &[1])),
        ("keyctl", []) => {
            // KEYCTL_GET_KEYRING_ID of the session keyring.
            say(op, call(libc::SYS_keyctl, &[0, -3i32 as usize, 1]));
        }
        ("add-key", []) => {
            let kind = cstr("user");
            let kind = addr(kind.as_c_str());
            say(op, call(libc::SYS_add_key, &[kind, kind, kind, 4, -3i32 as usize]));
        }
        ("mq-open", []) => {
            // One of its own: another user may do the same right now.
            let name = cstr(&format!("landstrip-probe-{}", std::process::id()));
            let flags = (libc::O_CREAT | libc::O_RDWR) as usize;
            let result = call(libc::SYS_mq_open, &[addr(name.as_c_str()), flags, 0o600, 0]);
            let _ = call(libc::SYS_mq_unlink, &[addr(name.as_c_str())]);
            say(op, result);
        }
        ("kexec", []) => say(op, call(libc::SYS_kexec_load, &[0, 0, 0, 0])),
        ("init-module", []) => say(op, call(libc::SYS_init_module, &[block, 1, empty])),
        ("swapon", []) => say(op, call(libc::SYS_swapon, &[empty, 0])),
        ("acct", []) => say(op, call(libc::SYS_acct, &[empty])),
        ("quotactl", []) => say(op, call(libc::SYS_quotactl, &[0x80_0007 << 8, empty, 0, 0])),
        ("memfd-secret", []) => say(op, call(447, &[0])),
        ("int80", []) => tell(op, &sys::int80_getpid().to_string()),
        ("x32", []) => say(op, call(0x4000_0000 + libc::SYS_getpid, &[])),
        ("syscall", [nr]) => {
            let result = in_child(|| call(number(nr) as i64, &[usize::MAX; 6]));
            say(&format!("syscall-{nr}"), result);
        }
        _ => return false,
    }
    true
}

/// Pushes a character into the terminal's input; with the command's upper 32 bits set, if asked.
fn terminal(command: usize, upper: bool, name: &str) {
    let command = if upper { command | 0xdead_beef_0000_0000 } else { command };
    let byte = [if command as u32 == TIOCSTI as u32 { b'#' } else { 2 }];
    let fd = open("/dev/tty", libc::O_RDWR).unwrap_or(0);
    say(name, call(libc::SYS_ioctl, &[fd, command, addr(&byte)]));
}

/// Runs `attempt` in a child and returns its outcome, so that it cannot change this process.
fn in_child(attempt: impl FnOnce() -> sys::Result) -> sys::Result {
    let child = sys::fork()?;
    if child == 0 {
        sys::exit(match attempt() {
            Ok(_) => 0,
            Err(errno) => errno as usize,
        });
    }
    let mut status = 0i32;
    call(libc::SYS_wait4, &[child, addr_mut(&mut status), 0, 0])?;
    if status & 0x7f != 0 {
        tell("child-signal", &(status & 0x7f).to_string());
    }
    match status >> 8 & 0xff {
        0 if status & 0x7f == 0 => Ok(0),
        errno => Err(errno),
    }
}

/// clone with namespace flags and SIGCHLD.
fn clone_with(flags: usize) -> sys::Result {
    reap(call(libc::SYS_clone, &[flags | libc::SIGCHLD as usize, 0, 0, 0, 0]))
}

fn clone3(flags: u64) -> sys::Result {
    let mut args = [0u64; 11];
    args[0] = flags;
    args[4] = libc::SIGCHLD as u64;
    reap(call(libc::SYS_clone3, &[addr(&args), 88]))
}

/// Ends the child that a clone made, and waits for it in the parent.
fn reap(child: sys::Result) -> sys::Result {
    let child = child?;
    if child == 0 {
        sys::exit(0);
    }
    let mut status = 0i32;
    call(libc::SYS_wait4, &[child, addr_mut(&mut status), 0, 0])
}

/// Enters a Landlock domain in which no file can be changed, nor TCP be used if it is about the network too.
fn own_domain(network: bool) -> sys::Result {
    // LANDLOCK_CREATE_RULESET_VERSION
    let version = call(444, &[0, 0, 1])?;
    // All rights but to execute, to read a file, and to list a directory; to truncate only since Linux 6.2 (version 3).
    let files = if version < 3 { 0x3ff2_u64 } else { 0x7ff2 };
    // Of TCP since Linux 6.7.
    let has_network = network && version >= 4;
    let ruleset = [files, if has_network { 3 } else { 0 }];
    let size = if has_network { 16 } else { 8 };
    let ruleset = call(444, &[addr(&ruleset), size, 0])?;
    let _ = call(libc::SYS_prctl, &[libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0]);
    call(446, &[ruleset, 0])
}

/// Installs an allow-all filter, with a listener if `flags` say so.
fn seccomp(flags: usize) -> sys::Result {
    // One instruction: BPF_RET | BPF_K, SECCOMP_RET_ALLOW.
    install(flags, &[0x7fff_0000_0000_0006])
}

fn install(flags: usize, program: &[u64]) -> sys::Result {
    let _ = call(libc::SYS_prctl, &[libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0]);
    let header = [program.len(), program.as_ptr().addr()];
    call(libc::SYS_seccomp, &[1, flags, addr(&header)])
}

/// Makes the kernel seem to lack a system call: it fails with `errno` from now on. It is written `NUMBER`, or
/// `NUMBER:INDEX:BITS` if it only fails where that argument has any of these bits.
fn deny(which: &str, errno: usize) -> sys::Result {
    let words: Vec<_> = which.split(':').map(|word| number(word) as u64).collect();
    let (allow, deny) = (0x7fff_0000_0000_0006, (0x0005_0000 | errno as u64) << 32 | 0x0006);
    // Each is code, jt, jf, k. Another number, or an argument without such bits, jumps to the end.
    let load_number = 0x0020;
    let is_number = |number: u64, otherwise: u64| number << 32 | otherwise << 24 | 0x0015;
    match words[..] {
        [number] => install(0, &[load_number, is_number(number, 1), deny, allow]),
        [number, index, bits] => {
            let (load_argument, has_bits) =
                ((16 + 8 * index) << 32 | 0x0020, bits << 32 | 1 << 24 | 0x0045);
            let program = [load_number, is_number(number, 3), load_argument, has_bits, deny, allow];
            install(0, &program)
        }
        _ => usage(&format!("not a call: {which}")),
    }
}
