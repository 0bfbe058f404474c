//! From policy files to a resolved [`Policy`](rules::policy::Policy): text, tree, merged fields, rules. Data walks one way.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for the crates of the broker alone")]

pub mod amend;
pub mod amounts;
mod beside;
pub mod callers;
mod companions;
mod datagrams;
pub mod document;
pub mod domains;
mod elsewhere;
mod entered;
pub mod error;
pub mod expand;
mod git_index;
mod git_settings;
pub mod harmless;
mod inner_links;
pub mod keys;
mod linked_trees;
mod listing;
mod literals;
pub mod load;
mod meant;
mod merge;
pub mod merged;
mod moved;
pub mod nearest;
pub mod origins;
pub mod owners;
mod packed;
pub mod parse;
mod path_memory;
mod paths;
mod planted;
pub mod presets;
pub mod reach;
pub mod remarks;
mod reopened;
pub mod repositories;
pub mod resolve;
mod shell_words;
mod split;
pub mod submodules;
mod subrepositories;
mod trees;
mod unexpanded;
pub mod variables;
pub mod without;

#[cfg(test)]
mod schema;
#[cfg(test)]
mod types;
