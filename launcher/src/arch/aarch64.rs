//! AArch64: Procedure Call Standard (AAPCS64); syscall(2).

use super::Begin;
use core::arch::asm;

pub(crate) const CLONE: usize = 220;
pub(crate) const EXECVE: usize = 221;
pub(crate) const EXIT_GROUP: usize = 94;
pub(crate) const KILL: usize = 129;
pub(crate) const GETPGID: usize = 155;
pub(crate) const RT_SIGPROCMASK: usize = 135;
pub(crate) const RT_SIGTIMEDWAIT: usize = 137;
pub(crate) const SECCOMP: usize = 277;

/// Defines where the kernel starts: the stack holds argc, argv, envp. `$entry` gets its address.
macro_rules! entry_point {
    ($entry:path) => {
        #[allow(unsafe_code, reason = "an entry point has no caller to keep a contract")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn _start() -> ! {
            core::arch::naked_asm!(
                "mov x29, xzr", "mov x30, xzr", "mov x0, sp", "bl {entry}", "brk #1",
                entry = sym $entry,
            )
        }
    };
}
pub(crate) use entry_point;

/// Makes the system call `number`; returns what the kernel does.
///
/// # Safety
/// The arguments must be what that call expects of its caller, pointers above all.
pub(crate) unsafe fn syscall(number: usize, arguments: [usize; 5]) -> isize {
    let [a, b, c, d, e] = arguments;
    let result: isize;
    // SAFETY: the kernel changes x0 only; the rest is the caller's contract.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") a.cast_signed() => result, in("x1") b,
             in("x2") c, in("x3") d, in("x4") e, options(nostack));
    }
    result
}

/// clone(2) with these flags, onto a stack that ends at `top`, where `begin` is called.
///
/// # Safety
/// The stack must be the new process's own, and `top` aligned to 16 bytes.
pub(crate) unsafe fn clone<T>(
    flags: usize,
    top: *mut T,
    begin: Begin,
    (stack, ours, theirs, parent): (*mut usize, i32, i32, i32),
) -> isize {
    let result: isize;
    // SAFETY: for this process it is a system call like any other. The new one has the same registers, a
    // stack by the caller's contract, and calls a function that does not return.
    unsafe {
        asm!(
            "svc #0", "cbnz x0, 2f",
            "mov x29, xzr", "mov x30, xzr", "mov x0, x20", "mov w1, w21", "mov w2, w22", "mov w3, w23",
            "blr x24", "brk #1",
            "2:",
            in("x8") CLONE,
            inlateout("x0") flags.cast_signed() => result, in("x1") top, in("x2") 0, in("x3") 0, in("x4") 0,
            in("x20") stack, in("x21") ours, in("x22") theirs, in("x23") parent, in("x24") begin,
            lateout("x30") _,
        );
    }
    result
}
