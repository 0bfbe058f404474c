//! One run, from the options to the exit status: the story and those who act in it.

pub(crate) mod control;
mod removal;
mod run;
pub(crate) mod sandbox;
mod scratch;
pub(crate) mod supervise;
