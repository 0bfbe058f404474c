//! What is told: denials, where they go, and why landstrip itself gave up.

pub(crate) mod denials;
pub(crate) mod errno;
pub(crate) mod failure;
pub(crate) mod needs;
pub(crate) mod noise;
pub(crate) mod stream;
pub(crate) mod traps;
