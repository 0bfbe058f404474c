//! The broker's side of the filtering proxy: what it is started with, which connections it gets, what
//! the command is told of it, and which proxy of the caller's it goes through.

mod clients;
mod ports;
pub mod proxy;
pub mod setup;
pub mod waiting;
