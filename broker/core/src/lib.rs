//! The core: what runs a command under a resolved policy, and answers for it.
//!
//! It reads neither policies nor options, and knows nothing of what is said to people beyond its reports.
//! A room is a folder of a subject, or one file; each imports only from those above it in this list, which a test
//! holds. docs/architecture.md has the whole.
//!
//! | room | what it owns | what it never does |
//! |---|---|---|
//! | [`report`] | denials, where they go, and why landstrip gave up | decide |
//! | `call` | what a notified call asks for, and what decides it | make a system call |
//! | `ipc` | the System V objects that the command made: its segments, and callers of [`sysv`] | reach those of others |
//! | `signals` | verdicts on signals where Landlock has none, and their sending | signal what it does not hold |
//! | `jobs` | verdicts on process groups and on terminals that the caller uses | touch what others lead |
//! | [`files`] | verdicts on paths and metadata; what the broker does instead of the kernel | answer |
//! | `sockets` | verdicts on addresses; connects, binds and messages made for the command | answer |
//! | [`compile`] | the Landlock ruleset, the view, the plan; what is protected whatever the policy says | serve |
//! | [`domains`] | the broker's side of `landstrip-proxy` | speak HTTP or SOCKS |
//! | [`ask`] | the calls that wait while somebody is asked about them | say what may be granted |
//! | [`answer`] | the threads, what registers decide, and the only place from which answers leave | follow a path or an address |
//! | [`session`] | one run, from a policy to the exit status: protect, compile, launch, serve | look at a call |

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for the crates of the broker alone")]

pub mod answer;
pub mod ask;
mod call;
pub mod compile;
pub mod domains;
pub mod files;
#[cfg(test)]
mod house;
mod ipc;
mod jobs;
pub mod report;
pub mod session;
mod signals;
mod sockets;
