//! From a resolved policy to what the kernel is given.

pub(crate) mod device_mounts;
mod devices;
mod directories;
mod executables;
pub(crate) mod files;
pub(crate) mod filter;
mod fold;
mod grants;
mod hard_links;
pub mod notes;
mod other_places;
pub(crate) mod plan;
pub(crate) mod protect;
mod ruleset;
pub mod runs;
