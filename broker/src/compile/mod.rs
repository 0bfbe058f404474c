//! From a resolved policy to what the kernel is given.

pub(crate) mod filter;
pub(crate) mod grants;
pub(crate) mod plan;
