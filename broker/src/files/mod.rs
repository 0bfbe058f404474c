//! Calls on files by path: judged by the view, left to Landlock, or performed on objects that are held.

pub(crate) mod changes;
pub(crate) mod entry;
pub(crate) mod metadata;
pub(crate) mod observe;
pub(crate) mod open;
pub(crate) mod opens;
pub(crate) mod path;
pub(crate) mod view;
mod walk;
