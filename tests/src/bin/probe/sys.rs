//! The only unsafe file of the probe: raw system calls and foreign entry points.
//!
//! Everything else passes addresses as integers through [`call`], so that an attack reads as the
//! list of its system calls.
#![allow(unsafe_code)]

use crate::older;
use std::ffi::CString;

/// An errno, or any value that a call returned.
pub(crate) type Result<T = usize> = std::result::Result<T, i32>;

/// Makes the system call `nr` with up to six arguments.
pub(crate) fn call(nr: i64, args: &[usize]) -> Result {
    let arg = |i: usize| args.get(i).copied().unwrap_or(0);
    let (nr, [a, b, c, d, e, f]) = older::translate(nr, std::array::from_fn(arg));
    // SAFETY: callers pass integers, or addresses of memory that outlives the call and is as large
    // as the call expects; the probe is single-purpose and ends after its attack.
    let value = unsafe { libc::syscall(nr, a, b, c, d, e, f) };
    if value == -1 {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    } else {
        Ok(value as usize)
    }
}

/// Forks; 0 in the child.
pub(crate) fn fork() -> Result {
    call(older::SYS_fork, &[])
}

/// Ends the process at once.
pub(crate) fn exit(code: usize) -> ! {
    let _ = call(libc::SYS_exit_group, &[code]);
    unreachable!("exit_group returned")
}

/// A NUL-terminated copy of `text`.
pub(crate) fn cstr(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// The address of something, for [`call`].
pub(crate) fn addr<T: ?Sized>(value: &T) -> usize {
    std::ptr::from_ref(value).cast::<u8>() as usize
}

/// The address of something that the kernel writes to, for [`call`].
pub(crate) fn addr_mut<T: ?Sized>(value: &mut T) -> usize {
    std::ptr::from_mut(value).cast::<u8>() as usize
}

/// getpid through the i386 entry (number 20).
#[cfg(target_arch = "x86_64")]
pub(crate) fn int80_getpid() -> i32 {
    let mut value: i64 = 20;
    // SAFETY: int 0x80 with number 20 takes no argument; r8 to r11 may be cleared by the entry.
    unsafe {
        core::arch::asm!("int 0x80", inout("rax") value,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    value as i32
}

/// There is no such entry.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn int80_getpid() -> i32 {
    -libc::ENOSYS
}

/// A page shared with children, writable.
pub(crate) fn map(fd: i32, len: usize) -> Result {
    call(libc::SYS_mmap, &[0, len, 3, libc::MAP_SHARED as usize, fd as usize, 0])
}

/// Stores one byte into mapped memory.
pub(crate) fn poke(address: usize, byte: u8) {
    // SAFETY: `address` came from a successful writable mmap of at least one byte.
    unsafe { (address as *mut u8).write_volatile(byte) }
}

/// Loads one byte of mapped memory.
pub(crate) fn peek(address: usize) -> u8 {
    // SAFETY: `address` came from a successful readable mmap or shmat of at least one byte.
    unsafe { (address as *const u8).read_volatile() }
}

/// Name of an errno as the tests spell it.
pub(crate) fn name(errno: i32) -> String {
    let known = match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ESRCH => "ESRCH",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::E2BIG => "E2BIG",
        libc::ENOEXEC => "ENOEXEC",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::EXDEV => "EXDEV",
        libc::ENODEV => "ENODEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENFILE => "ENFILE",
        libc::ENOSPC => "ENOSPC",
        libc::ENOTTY => "ENOTTY",
        libc::ERANGE => "ERANGE",
        libc::EROFS => "EROFS",
        libc::EMLINK => "EMLINK",
        libc::ENAMETOOLONG => "ENAMETOOLONG",
        libc::ENOSYS => "ENOSYS",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::ELOOP => "ELOOP",
        libc::EPROTO => "EPROTO",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::EPROTOTYPE => "EPROTOTYPE",
        libc::ESOCKTNOSUPPORT => "ESOCKTNOSUPPORT",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::ECONNRESET => "ECONNRESET",
        libc::ENOTCONN => "ENOTCONN",
        libc::EISCONN => "EISCONN",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EINPROGRESS => "EINPROGRESS",
        libc::ENODATA => "ENODATA",
        libc::ESTALE => "ESTALE",
        libc::EPIPE => "EPIPE",
        _ => return format!("E{errno}"),
    };
    known.to_owned()
}
