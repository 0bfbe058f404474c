//! All black-box tests, a module a subject: what users and attackers see of the three programs.
//!
//! One executable, so that the programs are built and copied once, and all processors are busy until
//! the last test. The tests share its process: none of them changes what belongs to all of it (the
//! working directory, variables, the umask, how signals are handled). What needs another of those is
//! set for a command by `Sandbox`, or done by the probe.
//!
//! What takes long stands in `races`, `fuzzing`, `tools`, `container` and `dist`, or in a module `large` of its
//! subject: `.ci/run quick` leaves those out, `.ci/run` runs all, and `.ci/run long` what luck decides at length.

mod access;
mod admission;
mod advice;
mod asking;
mod attacks;
mod carveouts;
mod clients;
mod completions;
mod container;
mod control;
mod control_groups;
mod datagrams;
mod deep;
mod devices;
mod dist;
mod doctor;
mod documents;
mod embedded;
mod environment;
mod exceptions;
mod executables;
mod explain;
mod fifos;
mod files;
mod fuzzing;
mod harnesses;
mod hidden_processes;
mod jobs;
mod kept;
mod killing;
mod labels;
mod learning;
mod lifetime;
mod limits;
mod local;
mod locks;
mod matrix;
mod mistakes;
mod modes;
mod names;
mod namespaces;
mod nested;
mod network;
mod offline;
mod own_datagrams;
mod own_processes;
mod own_sockets;
mod policy;
mod presets;
mod processes;
mod protocol;
mod proxy;
mod races;
mod remedies;
mod reopened;
mod reports;
mod requests;
mod reserve;
mod runs;
mod schema;
mod sessions;
mod shared_memory;
mod signals;
mod sockets;
mod tools;
mod tunnels;
mod udp;
mod unix;
mod upstream;
mod without;
mod worktrees;
