//! All of the launcher that depends on the architecture: system call numbers, and every instruction that
//! is not the compiler's. Another architecture is another file here with the same items.

#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("landstrip knows the system calls of x86-64 and AArch64 only");

// The same everywhere, as of all calls since Linux 5.1.
pub(crate) const CLOSE_RANGE: usize = 436;
pub(crate) const LANDLOCK_CREATE_RULESET: usize = 444;
pub(crate) const LANDLOCK_ADD_RULE: usize = 445;
pub(crate) const LANDLOCK_RESTRICT_SELF: usize = 446;

/// Where a process begins that [`clone`] makes: the initial stack pointer of its program, two
/// numbers that are its own to interpret, and the id of its parent.
pub(crate) type Begin = extern "C" fn(*mut usize, i32, i32, i32) -> !;
