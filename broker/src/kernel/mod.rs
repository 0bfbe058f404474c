//! What the kernel is asked for on behalf of a target: its notifications, its memory, descriptors and
//! credentials, objects held, work under other credentials.
//!
//! All unsafe code of the broker stands here. It decides nothing, and knows neither policy
//! nor reports. That an argument was the target's own is [`request::Confirmed`], made here alone.

pub(crate) mod address;
pub(crate) mod apart;
pub(crate) mod bound;
pub(crate) mod credentials;
pub(crate) mod deep;
pub(crate) mod diag;
mod errno;
pub(crate) mod features;
pub(crate) mod forbidden;
pub(crate) mod group;
pub(crate) mod hearing;
pub(crate) mod here;
pub(crate) mod holders;
pub(crate) mod identity;
pub(crate) mod inherited;
pub(crate) mod interrupt;
pub(crate) mod ipc;
pub(crate) mod kill;
pub(crate) mod kill_on_exit;
mod label;
pub(crate) mod limits;
pub(crate) mod listener;
mod listing;
pub(crate) mod locate;
pub(crate) mod mounts;
pub(crate) mod object;
pub(crate) mod options;
pub(crate) mod own;
pub(crate) mod own_domain;
pub(crate) mod owner;
pub(crate) mod passing;
pub(crate) mod pidfds;
pub(crate) mod proc;
pub(crate) mod processes;
pub(crate) mod request;
pub(crate) mod rights;
pub(crate) mod ruleset;
pub(crate) mod shortcuts;
pub(crate) mod sight;
pub(crate) mod signals;
pub(crate) mod start;
pub(crate) mod target;
pub(crate) mod terminal;
#[cfg(test)]
pub(crate) mod test_directory;
pub(crate) mod threads;
pub(crate) mod umask;
