//! x86-64: System V ABI, AMD64 supplement; syscall(2).

use super::Begin;
use core::arch::asm;

pub(crate) const CLONE: usize = 56;
pub(crate) const EXECVE: usize = 59;
pub(crate) const EXIT_GROUP: usize = 231;
pub(crate) const KILL: usize = 62;
pub(crate) const GETPGID: usize = 121;
pub(crate) const RT_SIGPROCMASK: usize = 14;
pub(crate) const RT_SIGTIMEDWAIT: usize = 128;
pub(crate) const SECCOMP: usize = 317;

/// Defines where the kernel starts: the stack holds argc, argv, envp (supplement 3.4.1). `$entry` gets its
/// address.
macro_rules! entry_point {
    ($entry:path) => {
        #[allow(unsafe_code, reason = "an entry point has no caller to keep a contract")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn _start() -> ! {
            core::arch::naked_asm!(
                "xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {entry}", "ud2",
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
    // SAFETY: the kernel clobbers rcx and r11 only; the rest is the caller's contract.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
             in("r10") d, in("r8") e, lateout("rcx") _, lateout("r11") _, options(nostack));
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
            "syscall", "test rax, rax", "jnz 2f",
            "xor ebp, ebp", "mov rdi, r12", "mov esi, r13d", "mov edx, r14d", "mov ecx, r15d",
            "call r9", "ud2",
            "2:",
            inlateout("rax") CLONE => result,
            in("rdi") flags, in("rsi") top, in("rdx") 0, in("r10") 0, in("r8") 0, in("r9") begin,
            in("r12") stack, in("r13") ours, in("r14") theirs, in("r15") parent,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}
