//! Files: what may be done with one, and who sees to it.

pub(crate) mod view;
