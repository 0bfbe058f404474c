//! The heap of a broker with musl, whose own is slow and returns memory to the system at once. The lock is that of the
//! standard library, an atomic exchange where nobody waits: with the crate's own, pthread_mutex_lock(3), locking took
//! 7 of 100 parts of a launch.

#![allow(unsafe_code)]

use crate::threads::lock;
use dlmalloc::Dlmalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::Mutex;

/// How much it takes from the kernel at a time, in bytes: about what a launch needs. In pieces of 64 KiB, as is usual,
/// that took 1 or 2 of 100 parts of a launch.
const PIECE: usize = 1 << 20;

/// One for all threads.
#[expect(missing_debug_implementations, reason = "printing it would allocate")]
pub struct Heap(Mutex<Dlmalloc>);

impl Heap {
    /// One with nothing in it.
    pub const fn empty() -> Self {
        let mut heap = Dlmalloc::new();
        heap.set_granularity(PIECE);
        Self(Mutex::new(heap))
    }
}

// SAFETY: the lock lets one thread at a time at the heap, which keeps the promises of the trait and never unwinds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { lock(&self.0).malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { lock(&self.0).free(memory, layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { lock(&self.0).realloc(memory, layout.size(), layout.align(), size) }
    }
}
