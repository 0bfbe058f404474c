//! The system calls that rustix does not offer as stable interfaces.

#![allow(unsafe_code)]

use crate::arch::{self, Begin};
use crate::vector::Vector;
use common::landlock::{PATH_BENEATH, PathBeneath, RulesetAttributes};
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::process;

/// Makes the system call `number`.
///
/// # Safety
/// The arguments must be what that call expects of its caller, pointers above all.
unsafe fn syscall(number: usize, arguments: [usize; 5]) -> Result<usize, Errno> {
    // SAFETY: the caller's contract.
    outcome(unsafe { arch::syscall(number, arguments) })
}

/// What the kernel returned.
fn outcome(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| {
        // The kernel returns -4095 to -1 as errors, which fit an i32.
        Errno::from_raw_os_error(i32::try_from(result.unsigned_abs()).unwrap_or(i32::MAX))
    })
}

/// exit_group(2).
pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: takes an integer and does not return.
        let _ = unsafe { syscall(arch::EXIT_GROUP, [status.cast_unsigned() as usize, 0, 0, 0, 0]) };
    }
}

/// The stack of a process that [`spawn`] makes, in .bss, where pages that stay unused cost nothing.
/// Aligned as the architectures want it.
#[repr(C, align(16))]
pub(crate) struct Stack<const SIZE: usize> {
    memory: UnsafeCell<[u8; SIZE]>,
    is_used: AtomicBool,
}

// SAFETY: the memory is given to one process, and looked at by nobody else.
unsafe impl<const SIZE: usize> Sync for Stack<SIZE> {}

impl<const SIZE: usize> Stack<SIZE> {
    pub(crate) const fn new() -> Self {
        Self { memory: UnsafeCell::new([0; SIZE]), is_used: AtomicBool::new(false) }
    }
}

/// Starts a process at `begin`, on a stack that nobody has used; returns its id. `signal` tells the
/// launcher of its end, none if it is 0. The process gets `arguments` and the launcher's id.
///
/// It shares this process's memory until one of the two executes another program, as vfork(2) has
/// it, but neither waits for the other. Copying that memory, and copying again what both sides write
/// to, takes as long as all else that is done here. What this process writes from here on is its
/// stack, and `argv[0]`, which the child may need only when the broker has answered.
///
/// # Errors
/// Returns [`Errno::AGAIN`] or [`Errno::NOMEM`], [`Errno::BUSY`] if the stack is used.
pub(crate) fn spawn<const SIZE: usize>(
    begin: Begin,
    stack: &'static Stack<SIZE>,
    signal: usize,
    (initial, first, second): (*mut usize, i32, i32),
) -> io::Result<i32> {
    const CLONE_VM: usize = 0x100;
    if stack.is_used.swap(true, Ordering::Relaxed) {
        return Err(Errno::BUSY);
    }
    let top = stack.memory.get().wrapping_add(1);
    let launcher = process::getpid().as_raw_pid();
    let arguments = (initial, first, second, launcher);
    // SAFETY: nobody else uses the stack, as was just seen, and it is aligned to 16.
    let result = unsafe { arch::clone(CLONE_VM | signal, top, begin, arguments) };
    outcome(result).map(|child| i32::try_from(child).unwrap_or(i32::MAX))
}

/// Blocks every signal that can be blocked (rt_sigprocmask(2)).
pub(crate) fn block_signals() -> io::Result<()> {
    const SIG_BLOCK: usize = 0;
    let all = u64::MAX;
    let arguments = [SIG_BLOCK, (&raw const all) as usize, 0, size_of_val(&all), 0];
    // SAFETY: the pointer and the size are those of a live set of signals.
    unsafe { syscall(arch::RT_SIGPROCMASK, arguments) }.map(drop)
}

/// Waits for a blocked signal, up to a time in seconds and nanoseconds (rt_sigtimedwait(2)). Returns whether it came.
pub(crate) fn wait_for(signal: process::Signal, limit: Option<[i64; 2]>) -> bool {
    let set = 1u64 << (signal.as_raw() - 1);
    let limit = limit.as_ref().map_or(0, |limit| core::ptr::from_ref(limit) as usize);
    let arguments = [(&raw const set) as usize, 0, limit, size_of_val(&set), 0];
    // Interrupted, it returns too early: what was waited for is looked at in any case.
    // SAFETY: the pointers and the size are those of a live set of signals and a live time; the rest may be null.
    unsafe { syscall(arch::RT_SIGTIMEDWAIT, arguments) }.is_ok()
}

/// kill(2) of everything that this process can signal.
pub(crate) fn kill_all() {
    let signal = process::Signal::KILL.as_raw().cast_unsigned() as usize;
    // SAFETY: takes integers.
    let _ = unsafe { syscall(arch::KILL, [usize::MAX, signal, 0, 0, 0]) };
}

/// The process group (getpgid(2)); none of this PID namespace has the number 0.
pub(crate) fn group() -> Option<process::Pid> {
    // SAFETY: takes an integer.
    let group = unsafe { syscall(arch::GETPGID, [0; 5]) };
    group.ok().and_then(|group| process::Pid::from_raw(i32::try_from(group).ok()?))
}

/// execve(2). Returns only if it failed.
pub(crate) fn execve(path: &CStr, argv: Vector, envp: Vector) -> Errno {
    let pointers = [path.as_ptr() as usize, argv.address(), envp.address(), 0, 0];
    // SAFETY: `path` ends with NUL and a `Vector` is a null-terminated array of such strings.
    match unsafe { syscall(arch::EXECVE, pointers) } {
        Err(errno) => errno,
        Ok(_) => Errno::NOSYS,
    }
}

/// Closes all descriptors from `first` on (close_range(2)).
///
/// # Safety
/// Nothing in this process may use or own one of them any more.
pub(crate) unsafe fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: takes integers; the rest is the caller's contract.
    unsafe { syscall(arch::CLOSE_RANGE, [first as usize, u32::MAX as usize, 0, 0, 0]) }.map(drop)
}

/// close_range(2) with CLOSE_RANGE_CLOEXEC (Linux 5.11): what the command must not inherit closes
/// when it is executed, so that the control socket can still carry a failure.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: usize = 4;
    let range = [first as usize, u32::MAX as usize, CLOSE_RANGE_CLOEXEC, 0, 0];
    // SAFETY: takes integers; no descriptor is closed under its owner.
    unsafe { syscall(arch::CLOSE_RANGE, range) }.map(drop)
}

/// landlock_create_ruleset(2).
///
/// # Errors
/// Returns [`Errno::NOSYS`] or [`Errno::OPNOTSUPP`] without Landlock, and what [`is_lacking`] knows.
///
/// [`is_lacking`]: common::landlock::is_lacking
pub(crate) fn landlock_create_ruleset(attributes: &RulesetAttributes) -> io::Result<OwnedFd> {
    let arguments = [core::ptr::from_ref(attributes) as usize, size_of_val(attributes), 0, 0, 0];
    // SAFETY: the pointer and the size are those of a live attribute structure.
    let fd = unsafe { syscall(arch::LANDLOCK_CREATE_RULESET, arguments) }?;
    Ok(own(fd))
}

/// landlock_add_rule(2): allows `access` beneath the directory `parent`.
///
/// # Errors
/// Returns [`Errno::INVAL`] if the ruleset does not handle `access`.
pub(crate) fn landlock_allow_beneath(
    ruleset: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    access: u64,
) -> io::Result<()> {
    let rule = PathBeneath { allowed_access: access, parent: parent.as_raw_fd() };
    let fd = ruleset.as_raw_fd().cast_unsigned() as usize;
    let pointer = core::ptr::from_ref(&rule) as usize;
    // SAFETY: the pointer is to a live rule of the type that the second argument names.
    unsafe { syscall(arch::LANDLOCK_ADD_RULE, [fd, PATH_BENEATH.into(), pointer, 0, 0]) }.map(drop)
}

/// landlock_restrict_self(2), with a third argument for filters.
///
/// # Errors
/// Returns [`Errno::PERM`] without no_new_privs, [`Errno::TOOBIG`] beyond 16 layers.
pub(crate) fn landlock_restrict_self(ruleset: BorrowedFd<'_>, word: u32) -> io::Result<()> {
    let fd = ruleset.as_raw_fd().cast_unsigned() as usize;
    // SAFETY: takes integers.
    unsafe { syscall(arch::LANDLOCK_RESTRICT_SELF, [fd, 0, word as usize, 0, 0]) }.map(drop)
}

/// `struct sock_fprog` (linux/filter.h).
#[repr(C)]
struct FilterProgram {
    length: u16,
    filter: *const u8,
}

/// seccomp(2), SECCOMP_SET_MODE_FILTER with a listener (Linux 5.0). Non-fatal signals wait until a
/// received notification is answered (WAIT_KILLABLE_RECV, Linux 5.19); before that, the broker knows repeated calls.
///
/// # Errors
/// Returns [`Errno::BUSY`] if a listener exists already, [`Errno::INVAL`] for a bad program or a
/// flag that the kernel does not know.
pub(crate) fn seccomp_listener(program: &[u8]) -> io::Result<OwnedFd> {
    const NEW_LISTENER: usize = 1 << 3;
    const WAIT_KILLABLE_RECV: usize = 1 << 5;
    let installed = match seccomp(program, NEW_LISTENER | WAIT_KILLABLE_RECV) {
        Err(Errno::INVAL) => seccomp(program, NEW_LISTENER),
        installed => installed,
    };
    installed.map(own)
}

/// seccomp(2), SECCOMP_SET_MODE_FILTER without a listener.
///
/// # Errors
/// Returns [`Errno::INVAL`] for a bad program.
pub(crate) fn seccomp_filter(program: &[u8]) -> io::Result<()> {
    seccomp(program, 0).map(drop)
}

fn seccomp(program: &[u8], flags: usize) -> io::Result<usize> {
    const SET_MODE_FILTER: usize = 1;
    let length = u16::try_from(program.len() / common::wire::INSTRUCTION_SIZE);
    let program =
        FilterProgram { length: length.map_err(|_| Errno::INVAL)?, filter: program.as_ptr() };
    let pointer = core::ptr::from_ref(&program) as usize;
    let arguments = [SET_MODE_FILTER, flags, pointer, 0, 0];
    // SAFETY: the program points to `length` instructions that outlive the call; the kernel copies
    // them byte by byte, so that alignment does not matter.
    unsafe { syscall(arch::SECCOMP, arguments) }
}

fn own(fd: usize) -> OwnedFd {
    // Descriptors are below RLIMIT_NOFILE, which is at most 2^30 (fs.nr_open).
    let fd = i32::try_from(fd).unwrap_or(i32::MAX);
    // SAFETY: the kernel just returned it and nothing else holds it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
