//! Notifications of the seccomp filter: received, judged, answered (seccomp_unotify(2)).

mod files;
mod limits;
pub(crate) mod listener;
mod messages;
pub(crate) mod observe;
mod opens;
mod pidfds;
pub(crate) mod serve;
pub(crate) mod signals;
mod sockets;
pub(crate) mod target;
mod watch;
