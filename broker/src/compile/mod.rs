//! From a resolved policy to what the kernel is given.

pub(crate) mod datagrams;
// Compiled by the build script; here for its tests.
#[cfg(test)]
pub(crate) mod filter;
pub(crate) mod filters;
mod fold;
pub(crate) mod grants;
mod hard_links;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod protect;
