//! Where the program starts.

/// Defines `main` as the C library calls it, without Rust's own start-up in between, and has it return what
/// `$main` does. Unit tests have a start of their own.
macro_rules! entry_point {
    ($main:path) => {
        #[cfg(not(test))]
        #[allow(unsafe_code, reason = "no other function of this program has this name")]
        #[unsafe(no_mangle)]
        extern "C" fn main(
            _count: ::std::ffi::c_int,
            _arguments: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            $main()
        }
    };
}
pub(crate) use entry_point;
