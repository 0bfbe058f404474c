//! What the kernel is asked for on behalf of a target: its notifications, its memory, descriptors and
//! credentials, objects held, work under other credentials.
//!
//! All unsafe code that serves notifications stands here. It decides nothing, and knows neither
//! policy nor reports.

pub(crate) mod apart;
pub(crate) mod holders;
pub(crate) mod identity;
pub(crate) mod inherited;
pub(crate) mod kill;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod object;
pub(crate) mod pidfds;
pub(crate) mod rights;
pub(crate) mod signals;
pub(crate) mod target;
