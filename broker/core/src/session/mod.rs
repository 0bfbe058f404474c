//! One run, from a policy to the exit status: the story and those who act in it.

pub mod child;
mod demands;
pub mod family;
mod job;
mod judges;
pub mod launch;
pub mod prepared;
mod removal;
mod run;
mod scratch;
mod signals;
pub mod surroundings;
