//! From a resolved policy to what the kernel is given.

mod filter;
