//! In a container like Docker's: its default seccomp profile, no capabilities, an unprivileged
//! user, and a read-only root.
//!
//! `runtime` holds programs for the Anthropic Sandbox Runtime; `scratch` holds tests of an image that has nothing but the three programs and a static busybox;
//! `suites` runs the other modules where the programs of this host are too. Skipped,
//! loudly, only where runc cannot start such a container at all.

pub(crate) mod bundle;
mod runtime;
mod scratch;
mod suites;
