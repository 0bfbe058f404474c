//! Generated input: calls, policies and command lines that nobody would write.

mod differential;
mod words;
