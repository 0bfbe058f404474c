//! Pure verdicts over what was copied from the target: no system call, no state.

pub(crate) mod address;
pub(crate) mod ancillary;
pub(crate) mod call;
pub(crate) mod how;
pub(crate) mod socket;
