//! What compiled code expects of a runtime, which no C library supplies here: memory routines (C11 7.24),
//! and what becomes of a panic.
//!
//! The loops read and write volatile, so that the compiler cannot recognise what they do and turn them into calls
//! of themselves. The launcher moves a few thousand bytes, so that speed does not matter.

#![allow(unsafe_code)]

use crate::sys;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(common::exit::FAILED)
}

/// The unwinder's hook, which unoptimised code of `core` refers to. Panics abort, so nothing calls it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    for index in 0..count {
        // SAFETY: the caller gives `count` readable bytes.
        let byte = unsafe { byte(from, index) };
        // SAFETY: and as many writable ones, which do not overlap.
        unsafe { set(to, index, byte) };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    let [byte, ..] = value.to_le_bytes();
    for index in 0..count {
        // SAFETY: the caller gives `count` writable bytes.
        unsafe { set(to, index, byte) };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    for index in 0..count {
        // SAFETY: the caller gives `count` readable bytes.
        let a = unsafe { byte(left, index) };
        // SAFETY: here too.
        let b = unsafe { byte(right, index) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(left, right, count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(string: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller gives a string that ends with NUL, at which the loop stops.
    while unsafe { byte(string, length) } != 0 {
        length += 1;
    }
    length
}

/// # Safety
/// `start` must point to more than `index` readable bytes.
unsafe fn byte(start: *const u8, index: usize) -> u8 {
    // SAFETY: within the bytes that the caller vouches for.
    let address = unsafe { start.add(index) };
    // SAFETY: readable by the same contract.
    unsafe { address.read_volatile() }
}

/// # Safety
/// `start` must point to more than `index` writable bytes.
unsafe fn set(start: *mut u8, index: usize, byte: u8) {
    // SAFETY: within the bytes that the caller vouches for.
    let address = unsafe { start.add(index) };
    // SAFETY: writable by the same contract.
    unsafe { address.write_volatile(byte) };
}
