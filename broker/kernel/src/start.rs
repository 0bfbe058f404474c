//! Where the program starts.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

/// Defines `main` as the C library calls it, without Rust's own start-up in between, and has it return what
/// `$main` does with the arguments. Unit tests have a start of their own.
#[macro_export]
macro_rules! entry_point {
    ($main:path) => {
        #[cfg(not(test))]
        #[allow(
            unsafe_code,
            reason = "only here the arguments are known; no other function has this name"
        )]
        #[unsafe(no_mangle)]
        extern "C" fn main(
            count: ::std::ffi::c_int,
            arguments: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: they are what the C library passes.
            $main(&unsafe { $crate::start::arguments(count, arguments) })
        }
    };
}

/// The arguments of `main`. The standard library finds them by itself with glibc only.
///
/// # Safety
/// `arguments` must point to `count` C strings that live as long as the process.
pub unsafe fn arguments(count: c_int, arguments: *const *const c_char) -> Vec<OsString> {
    let argument = |index| {
        // SAFETY: one of them, by the caller's contract.
        let argument = unsafe { arguments.add(index) };
        // SAFETY: here too.
        let argument = unsafe { argument.read() };
        // SAFETY: a C string by the same contract.
        OsStr::from_bytes(unsafe { CStr::from_ptr(argument) }.to_bytes()).to_owned()
    };
    (0..usize::try_from(count).unwrap_or(0)).map(argument).collect()
}
