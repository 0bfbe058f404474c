//! What the kernel is asked for on behalf of a target: its notifications, its memory, descriptors and
//! credentials, objects held, work under other credentials.
//!
//! All unsafe code of the broker stands here. It decides nothing, and knows neither policy
//! nor reports. That an argument was the target's own is [`request::Confirmed`], made here alone.

#![allow(missing_docs, reason = "for the crates of the broker alone")]

pub mod address;
pub mod bound;
#[cfg(all(target_arch = "x86_64", any(test, target_env = "musl")))]
mod copy;
pub mod credentials;
pub mod cwd_guard;
pub mod denied_syscalls;
pub mod diag;
mod errno;
pub mod fd_scan;
pub mod features;
pub mod group;
#[cfg(target_env = "musl")]
pub mod heap;
pub mod identity;
pub mod inherited;
pub mod interrupt;
pub mod ipc;
pub mod kill;
pub mod kill_on_exit;
pub mod label;
pub mod limits;
pub mod listener;
pub mod locate;
pub mod long_paths;
pub mod mounts;
pub mod nested_landlock;
pub mod object;
pub mod options;
pub mod owner;
pub mod pidfds;
pub mod proc;
pub mod processes;
pub mod ptrace_capability;
pub mod repetition;
pub mod request;
pub mod responsive;
pub mod rights;
pub mod ruleset;
pub mod self_proc;
pub mod shortcuts;
pub mod signals;
pub mod socket_filter;
pub mod start;
pub mod target;
pub mod terminal;
#[cfg(any(test, feature = "tests"))]
#[path = "tests/call.rs"]
pub mod test_call;
#[cfg(any(test, feature = "tests"))]
#[path = "tests/directory.rs"]
pub mod test_directory;
pub mod threads;
pub mod umask;
pub mod vfork_helper;
