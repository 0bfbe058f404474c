//! From a resolved policy to what the kernel is given.

// Compiled by the build script; here for its tests.
#[cfg(test)]
pub(crate) mod filter;
pub(crate) mod filters;
mod fold;
pub(crate) mod grants;
pub(crate) mod options;
pub(crate) mod plan;
