//! What a notified call asks for, read off registers and copied bytes. Pure: no system call, no state.

pub(crate) mod ancillary;
pub(crate) mod decode;
pub(crate) mod how;
pub(crate) mod ipc;
pub(crate) mod metadata;
pub(crate) mod signal;
pub(crate) mod terminal;
