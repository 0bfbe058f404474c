//! One run, from a policy to the exit status: the story and those who act in it.

mod demands;
mod job;
pub mod launch;
pub mod launch_channel;
pub mod prepared;
pub mod process_tree;
mod removal;
mod run;
mod scratch;
mod signals;
pub mod surroundings;
