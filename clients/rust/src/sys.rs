//! The system calls that the standard library does not offer: descriptors that a child keeps, signals, and sealed memory.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
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
pub(crate) fn keep(command: &mut Command, numbers: Vec<c_int>) {
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

/// Memory that can be written, executed and sealed, called `name`; not kept by children.
#[cfg(feature = "embedded")]
pub(crate) fn memory(name: &std::ffi::CStr) -> io::Result<std::fs::File> {
    use std::os::fd::FromRawFd;
    unsafe extern "C" {
        fn memfd_create(name: *const std::ffi::c_char, flags: std::ffi::c_uint) -> c_int;
    }
    const CLOEXEC_ALLOW_SEALING: std::ffi::c_uint = 1 | 2;
    /// Before Linux 6.3 an unknown flag; there all memory can be executed.
    const EXEC: std::ffi::c_uint = 0x10;
    for flags in [CLOEXEC_ALLOW_SEALING | EXEC, CLOEXEC_ALLOW_SEALING] {
        // SAFETY: the name ends with NUL.
        let made = unsafe { memfd_create(name.as_ptr(), flags) };
        if made >= 0 {
            // SAFETY: just made, and nobody else's.
            return Ok(unsafe { std::fs::File::from_raw_fd(made) });
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::InvalidInput {
            break;
        }
    }
    Err(io::Error::last_os_error())
}

/// Keeps all from changing what `memory` holds, this process as well.
#[cfg(feature = "embedded")]
pub(crate) fn seal(memory: &std::fs::File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    const F_ADD_SEALS: c_int = 1033;
    const SEAL_SHRINK_GROW_WRITE: c_int = 1 | 2 | 4 | 8;
    // SAFETY: fcntl(2) takes any number; F_ADD_SEALS has an int as its argument.
    let sealed = unsafe { fcntl(memory.as_raw_fd(), F_ADD_SEALS, SEAL_SHRINK_GROW_WRITE) };
    if sealed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
