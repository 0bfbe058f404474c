//! tokio as the proxy uses it, with sockets in memory: `net` is defined here, everything else is tokio's own.
//!
//! A connection uses no port and nearly no system calls. Since all input and output is in memory, a runtime with a paused
//! clock can advance it to the next timer whenever all tasks wait.

pub mod net;

pub use tokio::{io, runtime, spawn, sync, task, task_local, time};
