//! The two system calls that the standard library does not offer: descriptors that a child keeps, and signals.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

unsafe extern "C" {
    fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
    fn kill(process: c_int, signal: c_int) -> c_int;
}

const F_SETFD: c_int = 2;
pub(crate) const SIGTERM: c_int = 15;
pub(crate) const SIGKILL: c_int = 9;

/// Has the process that `command` starts keep these descriptors, by the same numbers. In this one they stay as they are:
/// another child that is started meanwhile gets none.
pub(crate) fn keep(command: &mut Command, descriptors: &[OwnedFd]) {
    let numbers: Vec<c_int> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let keep = move || {
        for &number in &numbers {
            // SAFETY: fcntl(2) takes any number; F_SETFD has an int as its argument.
            if unsafe { fcntl(number, F_SETFD, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: fcntl(2) is safe in a child of a process with threads (signal-safety(7)); nothing is allocated.
    unsafe { command.pre_exec(keep) };
}

/// Sends a signal to a child that has not been waited for.
pub(crate) fn signal(process: u32, number: c_int) -> io::Result<()> {
    let process = c_int::try_from(process).map_err(io::Error::other)?;
    // SAFETY: kill(2) takes any numbers.
    let sent = unsafe { kill(process, number) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
