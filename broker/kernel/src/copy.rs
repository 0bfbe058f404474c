//! memcpy(3), memmove(3) and memcmp(3) of a broker with musl on x86-64, whose own begins a string instruction for eight
//! bytes, and compares byte by byte: a launch copies and compares names and paths of some dozen bytes ten thousand times,
//! which took 7 and 9 of 100 parts of it.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
use std::ffi::c_int;
use std::slice;

/// Copies `count` bytes; the first and the last piece may overlap, both are read before one is written.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    match count {
        0 => {}
        // SAFETY: the caller gives `count` readable and writable bytes that do not overlap; a piece is not longer.
        1 => unsafe { ends::<u8>(to, from, count) },
        // SAFETY: as above.
        2..=3 => unsafe { ends::<u16>(to, from, count) },
        // SAFETY: as above.
        4..=7 => unsafe { ends::<u32>(to, from, count) },
        // SAFETY: as above.
        8..=15 => unsafe { ends::<u64>(to, from, count) },
        16..=128 => {
            let mut done = 0;
            while count - done > 32 {
                // SAFETY: as above: more than 32 bytes are left.
                unsafe { piece(to.wrapping_add(done), from.wrapping_add(done)) };
                done += 16;
            }
            // SAFETY: as above: 16 bytes are left at least, and the ends of at most 32 leave none between.
            unsafe { ends::<Piece>(to.wrapping_add(done), from.wrapping_add(done), count - done) };
        }
        // SAFETY: as above; the direction flag is clear (System V ABI).
        _ => unsafe {
            asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack, preserves_flags));
        },
    }
    to
}

/// The same of bytes that may overlap.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // From a lower place on, what was written has been read.
    if count <= 32 || to.addr().wrapping_sub(from.addr()) >= count {
        // SAFETY: the caller's contract; see above for what overlaps.
        return unsafe { memcpy(to, from, count) };
    }
    let mut left = count;
    while left > 32 {
        left -= 16;
        // SAFETY: so many bytes lie before.
        unsafe { piece(to.wrapping_add(left), from.wrapping_add(left)) };
    }
    // SAFETY: as above: 16 bytes are left at least.
    unsafe { ends::<Piece>(to, from, left) };
    to
}

/// Compares `count` bytes, eight at a time; the first counts most.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> c_int {
    // SAFETY: the caller gives `count` readable bytes.
    let (one, rest) = unsafe { slice::from_raw_parts(one, count) }.as_chunks::<8>();
    // SAFETY: as above.
    let (other, other_rest) = unsafe { slice::from_raw_parts(other, count) }.as_chunks::<8>();
    for (one, other) in one.iter().zip(other) {
        if one != other {
            return u64::from_be_bytes(*one).cmp(&u64::from_be_bytes(*other)) as c_int;
        }
    }
    let mut rest = rest.iter().zip(other_rest);
    rest.find(|(one, other)| one != other).map_or(0, |(one, other)| one.cmp(other) as c_int)
}

/// 16 bytes, wherever they lie.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Piece(__m128i);

unsafe fn piece(to: *mut u8, from: *const u8) {
    // SAFETY: the caller gives 16 bytes each.
    let bytes = unsafe { _mm_loadu_si128(from.cast()) };
    // SAFETY: as above.
    unsafe { _mm_storeu_si128(to.cast(), bytes) };
}

/// Copies the first and the last `T`.
unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, count: usize) {
    let last = count - size_of::<T>();
    // SAFETY: the caller gives so many bytes; none need be aligned.
    let begin = unsafe { from.cast::<T>().read_unaligned() };
    // SAFETY: as above.
    let end = unsafe { from.wrapping_add(last).cast::<T>().read_unaligned() };
    // SAFETY: as above.
    unsafe { to.cast::<T>().write_unaligned(begin) };
    // SAFETY: as above.
    unsafe { to.wrapping_add(last).cast::<T>().write_unaligned(end) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_as_they_were_whether_they_overlap_or_not() {
        let original: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for count in 0..=300 {
            for (from, to) in [(0, 500), (3, 501), (500, 7), (100, 100), (100, 101), (101, 100)]
                .into_iter()
                .chain([(100, 115), (115, 100), (100, 133), (133, 100), (99, 230), (230, 99)])
            {
                let (mut expected, mut found) = (original.clone(), original.clone());
                expected.copy_within(from..from + count, to);
                let memory = found.as_mut_ptr();
                let (source, target) = (memory.wrapping_add(from), memory.wrapping_add(to));
                // SAFETY: both lie within the vector.
                let end = unsafe { memmove(target, source, count) };
                assert!(end == target && found == expected, "{count} from {from} to {to}");
                // SAFETY: as above.
                let order = unsafe { memcmp(source, target, count) };
                let is_next = found[from..from + count].cmp(&found[to..to + count]);
                assert_eq!(order.cmp(&0), is_next, "{count} at {from} and {to}");
                if from.abs_diff(to) >= count {
                    found.clone_from(&original);
                    let memory = found.as_mut_ptr();
                    let (source, target) = (memory.wrapping_add(from), memory.wrapping_add(to));
                    // SAFETY: as above, and they do not overlap.
                    unsafe { memcpy(target, source, count) };
                    assert!(found == expected, "{count} from {from} to {to}");
                }
            }
        }
    }
}
