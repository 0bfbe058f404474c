//! Notifications of the seccomp filter: received, judged, answered (seccomp_unotify(2)).

#[allow(clippy::module_inception, reason = "the room is named after its main file")]
pub(crate) mod answer;
mod watch;
