//! Which way connections take: which connects of programs that do not ask `landstrip-proxy` are led to it, and which
//! proxy of the caller's that goes through; and what names resolve by.
//!
//! Nothing is permitted here: the proxy judges what is led to it, and the core connects it to nobody else.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for the crates of the broker alone")]

pub mod direct;
pub mod names;
pub mod upstream;
