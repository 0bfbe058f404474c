//! Notifications of the seccomp filter, received and answered (seccomp_unotify(2)): the threads that
//! do it, and the one place from which answers leave.
//!
//! A call is let through by [`answers`] alone, and only for a verdict of a kind that can say so: by
//! registers, or of a file call. Why that is safe is argued beside [`answers::Answerer::answer`].

pub(crate) mod answers;
pub(crate) mod crew;
mod watch;
