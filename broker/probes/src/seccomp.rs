//! What of seccomp(2) this kernel and what surrounds landstrip permit.

#![allow(unsafe_code)]

use super::result;
use nix::libc;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::{self, Errno};

/// Installs a filter with a listener, which allows everything, for a thread that ends with it.
///
/// # Errors
/// Returns why none can be had here: [`Errno::BUSY`] where another supervisor has one, as on WSL2, and
/// [`Errno::PERM`] inside of another sandbox.
pub fn try_listener() -> io::Result<()> {
    /// linux/seccomp.h
    const SET_MODE_FILTER: u32 = 1;
    const NEW_LISTENER: u64 = 1 << 3;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    let install = || {
        let mut allow = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW };
        let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
        let program = &raw const program;
        // SAFETY: the program and its one instruction live until the kernel has copied them.
        let listener = result(unsafe {
            libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, program)
        })?;
        let listener = i32::try_from(listener).map_err(|_| Errno::BADF)?;
        // SAFETY: the kernel just returned it, and nothing else holds it.
        drop(unsafe { OwnedFd::from_raw_fd(listener) });
        Ok(())
    };
    std::thread::spawn(install).join().unwrap_or(Err(Errno::AGAIN))
}

/// What of seccomp user notification this kernel lacks, in words; nothing if a filter can be installed
/// with it. Looked for when one could not be.
pub fn missing_of_notification() -> Option<&'static str> {
    const GET_ACTION_AVAIL: u32 = 2;
    let user_notif = 0x7fc0_0000_u32;
    let action = &raw const user_notif;
    // SAFETY: reads one action.
    let found = result(unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, action) });
    found.is_err().then_some("seccomp user notification (CONFIG_SECCOMP_FILTER)")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_ends_with_the_thread_that_had_it() {
        assert_eq!(missing_of_notification(), None);
        rustix::thread::set_no_new_privs(true).unwrap();
        assert_eq!([try_listener(), try_listener()], [Ok(()); 2]);
    }
}
