//! launcher
#![no_std]
#![no_main]
#![allow(unsafe_code)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    core::arch::naked_asm!("mov rdi, rsp", "xor ebp, ebp", "and rsp, -16", "call {m}", m = sym main)
}
extern "C" fn main(_sp: *const usize) -> ! {
    // SAFETY: x
    unsafe { core::arch::asm!("syscall", in("rax") 231, in("rdi") 7, options(noreturn)) }
}
