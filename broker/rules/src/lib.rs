//! What the policy says, as matchers: pure, asked by the launch and by every verdict.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for the crates of the broker alone")]

mod access;
pub mod address;
mod component;
pub mod files;
pub mod git_links;
pub mod memory;
pub mod option;
pub mod paths;
pub mod pattern;
pub mod policy;
pub mod proxies;
pub mod quick;
pub mod socket;
mod tree;
pub mod variables;
mod verdict;
