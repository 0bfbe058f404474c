//! The filters that the build script compiled from the table in the crate `landstrip-filter`.

use landstrip_filter::Variant;

/// Each instruction that a program has, once.
static INSTRUCTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/instructions.bin"));

/// The programs, as the numbers of their instructions: a megabyte otherwise.
static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filters.bin"));

/// Where each variant's program starts and ends.
static PLACES: [(u32, u32); Variant::COUNT] = include!(concat!(env!("OUT_DIR"), "/filters.rs"));

/// The filter for this variant, as the bytes that travel to the child: a program for
/// `SECCOMP_SET_MODE_FILTER` (seccomp(2)).
pub(crate) fn program(variant: Variant) -> Vec<u8> {
    let (start, end) = PLACES[variant.index()];
    let numbers = PROGRAMS[start as usize..end as usize].as_chunks().0.iter();
    let numbers = numbers.map(|number| usize::from(u16::from_le_bytes(*number)));
    let instructions: Vec<_> = numbers.map(|at| INSTRUCTIONS.as_chunks::<8>().0[at]).collect();
    instructions.into_flattened()
}

/// That of a `variant` without a listener which leaves to the sandbox around what the table marks for that: what changes
/// metadata, and, if `sockets` are left as well, what Unix sockets need.
pub(crate) fn leaving(variant: Variant, sockets: bool) -> Vec<u8> {
    const ALLOW: u32 = 0x7fff_0000;
    const EROFS: u32 = 0x0005_0000 | 30;
    const EACCES: u32 = 0x0005_0000 | 13;
    let left = if sockets { [EROFS, EACCES] } else { [EROFS; 2] }.map(returning);
    let mut program = program(variant | Variant::ALONE);
    for instruction in program.as_chunks_mut().0 {
        if left.contains(instruction) {
            *instruction = returning(ALLOW);
        }
    }
    program
}

/// The instruction that returns a constant: a code of two bytes, two jumps of one, the constant (linux/filter.h).
fn returning(constant: u32) -> [u8; 8] {
    let [a, b, c, d] = constant.to_ne_bytes();
    [0x06, 0, 0, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use landstrip_filter::{Arch, Program};

    #[test]
    fn every_variant_has_the_filter_of_the_table() {
        for variant in Variant::every() {
            let compiled = Program::compile(Arch::NATIVE, variant).unwrap();
            assert_eq!(program(variant), compiled.to_bytes(), "{variant:?}");
        }
    }

    #[test]
    fn what_is_left_to_others_is_let_through_and_nothing_else() {
        for (sockets, left) in [(false, &[0x0005_001e][..]), (true, &[0x0005_001e, 0x0005_000d])] {
            let (was, now) = (program(Variant::ALONE), leaving(Variant::empty(), sockets));
            assert_eq!(was.len(), now.len());
            let pairs = was.as_chunks::<8>().0.iter().zip(now.as_chunks::<8>().0);
            let changed: Vec<_> = pairs.filter(|(was, now)| was != now).collect();
            assert!(!changed.is_empty());
            for (was, now) in changed {
                assert_eq!(was[..4], [6, 0, 0, 0]);
                assert!(left.contains(&u32::from_ne_bytes(was[4..].try_into().unwrap())));
                assert_eq!(u32::from_ne_bytes(now[4..].try_into().unwrap()), 0x7fff_0000);
            }
        }
    }
}
