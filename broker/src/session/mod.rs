//! One run, from the options to the exit status: the story and those who act in it.

pub(crate) mod child;
mod costs;
pub(crate) mod family;
mod job;
mod judges;
pub(crate) mod launch;
pub(crate) mod learning;
mod load;
mod removal;
mod run;
pub(crate) mod sandbox;
mod scratch;
mod signals;
mod surroundings;
