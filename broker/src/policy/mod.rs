//! From policy files to a resolved [`Policy`](resolve::Policy): text, tree, merged fields, rules. Data walks one way.

pub(crate) mod callers;
pub(crate) mod document;
pub(crate) mod domains;
pub(crate) mod error;
pub(crate) mod expand;
mod git_settings;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod load;
pub(crate) mod merged;
mod moved;
pub(crate) mod nearest;
pub(crate) mod origins;
mod owners;
mod packed;
pub(crate) mod parse;
mod paths;
pub(crate) mod presets;
pub(crate) mod reach;
pub(crate) mod remarks;
mod repositories;
pub(crate) mod resolve;
mod split;
mod trees;
mod unexpanded;
pub(crate) mod variables;
mod without;

#[cfg(test)]
mod schema;
