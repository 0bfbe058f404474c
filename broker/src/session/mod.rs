//! One run, from a policy to the exit status: the story and those who act in it.

pub(crate) mod child;
mod demands;
pub(crate) mod family;
mod job;
mod judges;
pub(crate) mod launch;
pub(crate) mod prepared;
mod removal;
mod run;
mod scratch;
mod signals;
pub(crate) mod surroundings;
