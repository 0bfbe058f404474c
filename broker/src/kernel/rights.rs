//! Work with the credentials of a target that has others than the broker: a process of root's that
//! became another user, for instance.
//!
//! A thread of its own takes them on, is compared with the target, does the work, and ends: what it
//! gave up, it does not get back. So a path that the target may not search, it does not search
//! either. System calls that change credentials concern the calling thread alone; the C library's
//! wrappers, which pass them on to all threads, are not used. Source: nptl(7), credentials(7).

#![allow(unsafe_code)] // for system calls of a single thread

use crate::kernel::target::{Credentials, Status};
use nix::libc;
use rustix::io::{self, Errno};

/// `struct __user_cap_header_struct` (capset(2)).
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    process: i32,
}

/// `struct __user_cap_data_struct`: 32 capabilities each.
#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// linux/capability.h
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Has a thread with exactly these credentials do `work`.
///
/// # Errors
/// Returns what `work` returns; [`Errno::ACCESS`] if the broker cannot take them on, because it is
/// not root or they hold more than it has; [`Errno::AGAIN`] if there can be no thread.
pub(crate) fn with<R: Send>(
    credentials: &Credentials,
    work: impl FnOnce() -> io::Result<R> + Send,
) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            take_on(credentials)?;
            // What could not be taken on, or is not known here, shows.
            if Status::own()?.credentials != *credentials {
                return Err(Errno::ACCESS);
            }
            work()
        });
        let result = thread.map_err(|_| Errno::AGAIN)?.join();
        result.unwrap_or(Err(Errno::ACCESS))
    })
}

fn take_on(credentials: &Credentials) -> io::Result<()> {
    let groups = credentials.groups().ok_or(Errno::ACCESS)?;
    // SAFETY: reads that many group ids.
    done(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
    let [real, effective, saved, _] = credentials.ids("Gid:").ok_or(Errno::ACCESS)?;
    // SAFETY: takes integers.
    done(unsafe { libc::syscall(libc::SYS_setresgid, real, effective, saved) })?;
    let [real, effective, saved, _] = credentials.ids("Uid:").ok_or(Errno::ACCESS)?;
    // SAFETY: takes integers.
    done(unsafe { libc::syscall(libc::SYS_setresuid, real, effective, saved) })?;
    let (permitted, effective) = credentials.capabilities().ok_or(Errno::ACCESS)?;
    let half = |set: u64, upper: bool| (set >> if upper { 32 } else { 0 }) & u64::from(u32::MAX);
    let data = [false, true].map(|upper| CapabilityData {
        effective: u32::try_from(half(effective, upper)).unwrap_or(0),
        permitted: u32::try_from(half(permitted, upper)).unwrap_or(0),
        inheritable: 0,
    });
    let header = CapabilityHeader { version: CAPABILITY_VERSION_3, process: 0 };
    // SAFETY: version 3 reads a header and two structures.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) })
}

fn done(result: i64) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(Errno::ACCESS) }
}
