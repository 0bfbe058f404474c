//! Calls on files by path, and changes of metadata: judged by the view, left to Landlock, or performed
//! on objects that are held.
//!
//! Where a call is let through is argued in `verdict`; what the broker does instead is a
//! `task::Task`. Nothing here answers a call.

mod changes;
pub mod entry;
mod exceptions;
mod interruptible;
pub(crate) mod judge;
pub(crate) mod learning;
mod locks;
pub mod look;
mod metadata;
pub mod moves;
pub mod open;
mod opens;
pub mod path;
mod questions;
pub(crate) mod reserve;
pub(crate) mod shared;
pub(crate) mod task;
pub(crate) mod terminals;
pub(crate) mod trees;
pub(crate) mod verdict;
pub mod view;
pub(crate) mod walk;
