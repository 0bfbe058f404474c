//! What the policy says, as matchers: pure, asked by the launch and by every verdict.

mod access;
pub(crate) mod address;
pub(crate) mod domains;
pub(crate) mod files;
pub(crate) mod harmless;
pub(crate) mod memory;
pub(crate) mod option;
pub(crate) mod paths;
pub(crate) mod pattern;
pub(crate) mod policy;
pub(crate) mod proxies;
pub(crate) mod quick;
pub(crate) mod socket;
pub(crate) mod variables;
