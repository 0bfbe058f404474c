//! What is told: denials, where they go, and why landstrip itself gave up.

pub mod denials;
pub mod errno;
pub mod failure;
pub mod permitted;
pub mod traps;
