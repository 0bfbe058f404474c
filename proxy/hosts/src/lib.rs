//! Names and addresses of hosts, and the patterns of a policy that name them.
//!
//! The proxy decides by them. The policy reads them, and the broker asks whether a connect is one for the proxy, which
//! judges it again. Nothing here makes a system call.

#![forbid(unsafe_code)]

pub mod address;
pub mod domain;
pub mod hosts;
mod rules;

pub use rules::rule_for;
