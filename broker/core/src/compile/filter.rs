//! The filters that the build script compiled from the table in the crate `landstrip-filter`.

use landstrip_filter::Variant;

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filters.bin"));

/// Where each variant's program starts and ends.
static PLACES: [(u32, u32); Variant::COUNT] = include!(concat!(env!("OUT_DIR"), "/filters.rs"));

/// The filter for this variant, as the bytes that travel to the child: a program for
/// `SECCOMP_SET_MODE_FILTER` (seccomp(2)).
pub(crate) fn program(variant: Variant) -> &'static [u8] {
    let (start, end) = PLACES[variant.index()];
    &PROGRAMS[start as usize..end as usize]
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
}
