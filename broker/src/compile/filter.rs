//! The system call filter.
