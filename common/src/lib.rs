//! What more than one of landstrip's programs must agree on.
//!
//! The launcher has neither a standard library nor an allocator, so nothing here allocates: encoders
//! write into what the caller gives, decoders borrow from it. No serde: Cargo unifies features over
//! a workspace, and one would end up in the launcher.

#![no_std]
#![forbid(unsafe_code)]

pub mod asking;
pub mod exit;
pub mod landlock;
pub mod memory;
pub mod passing;
pub mod proxy;
pub mod told;
pub mod trap;
pub mod wire;
