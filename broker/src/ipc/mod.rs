//! Shared memory, semaphores and queues of the command's own.

pub(crate) mod objects;
