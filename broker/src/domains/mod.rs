//! The broker's side of the filtering proxy: what it is started with, and which proxy of the caller's
//! it goes through.

pub(crate) mod proxy;
mod upstream;
