//! The filters that the build script compiled from the table in `filter`.

use super::options::Options;

static FILTERS: [&[u8]; Options::COUNT] = include!(concat!(env!("OUT_DIR"), "/filters.rs"));

/// The filter for these options, as the bytes that travel to the child: a program for
/// `SECCOMP_SET_MODE_FILTER` (seccomp(2)).
pub(crate) fn filter(options: Options) -> &'static [u8] {
    FILTERS[options.index()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::filter as table;
    use super::*;

    #[test]
    fn every_set_of_options_has_the_filter_of_the_table() {
        for (index, options) in Options::all().enumerate() {
            assert_eq!(options.index(), index);
            let program = table::compile(&options).unwrap();
            assert_eq!(filter(options), table::encode(&program), "{options:?}");
        }
    }
}
