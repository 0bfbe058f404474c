//! Null-terminated arrays of C strings, as the kernel passes them and takes them (execve(2)).

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

/// A null-terminated array of C strings: an argv or an envp.
#[derive(Clone, Copy)]
pub(crate) struct Vector(*mut *const c_char);

impl Vector {
    /// The array that starts here.
    ///
    /// # Safety
    /// It must be one: pointers to C strings that live as long as the process, then a null.
    pub(crate) unsafe fn at(start: *mut *const c_char) -> Self {
        Self(start)
    }

    /// The part from `index` on.
    ///
    /// # Safety
    /// `index` must not lie beyond the terminating null.
    pub(crate) unsafe fn from(self, index: usize) -> Self {
        // SAFETY: the caller keeps `index` within the array.
        Self(unsafe { self.0.add(index) })
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    /// The string at `index`, or `None` at the end.
    ///
    /// # Safety
    /// `index` must not lie beyond the terminating null.
    pub(crate) unsafe fn get(self, index: usize) -> Option<&'static CStr> {
        // SAFETY: the caller keeps `index` within the array.
        let slot = unsafe { self.0.add(index) };
        // SAFETY: `slot` is an element of the array, the terminating null at most.
        let string = unsafe { slot.read() };
        // SAFETY: what is not null is a C string that lives as long as the process.
        (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
    }

    /// Replaces the string at `index`.
    ///
    /// # Safety
    /// `index` must lie within the array, and no terminator may be lost by the replacement.
    pub(crate) unsafe fn set(self, index: usize, string: *const c_char) {
        // SAFETY: the caller keeps `index` within the array.
        let slot = unsafe { self.0.add(index) };
        // SAFETY: the array is writable memory, and only one of launcher and child touches this slot
        // while they share it (see `sys::spawn`).
        unsafe { slot.write(string) };
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'static CStr> {
        // SAFETY: `map_while` stops at the terminating null, so that no index passes it.
        (0..).map_while(move |index| unsafe { self.get(index) })
    }
}
