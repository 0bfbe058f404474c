//! What this kernel gives, found by trying: there are kernels that report a version of Landlock and
//! refuse its attributes. Sources: landlock(7), seccomp(2).

#![allow(unsafe_code)]

use super::{errno, ruleset};
use common::landlock::{RulesetAttributes, is_lacking};
use nix::libc;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::{self, Errno};

bitflags::bitflags! {
    /// What of Landlock there is. What is not, the broker or the filter sees to, or nothing runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features: u8 {
        /// Rules for files.
        const FILES = 1 << 0;
        /// Moves between directories.
        const MOVES = 1 << 1;
        /// Truncation.
        const TRUNCATION = 1 << 2;
        /// Rules for TCP.
        const TCP = 1 << 3;
        /// What devices are asked for (ioctl(2)).
        const DEVICES = 1 << 4;
        /// Scopes for signals and abstract sockets.
        const SCOPES = 1 << 5;
    }
}

const fn files(access: u64) -> RulesetAttributes {
    RulesetAttributes { handled_access_fs: access, handled_access_net: 0, scoped: 0 }
}

/// The attributes of a ruleset that show each, in the order in which they came.
#[rustfmt::skip]
const PARTS: [(Features, RulesetAttributes); 6] = [
    (Features::FILES, files((1 << 13) - 1)),
    (Features::MOVES, files(1 << 13)),
    (Features::TRUNCATION, files(1 << 14)),
    (Features::TCP, RulesetAttributes { handled_access_net: 3, ..files(0) }),
    (Features::DEVICES, files(1 << 15)),
    (Features::SCOPES, RulesetAttributes { scoped: 3, ..files(0) }),
];

/// Why nothing can run.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// Any Landlock: what the kernel says to the question.
    Landlock(Errno),
    /// These, which nobody takes the place of.
    Features(Features),
}

impl Features {
    /// What this kernel gives; `is_scoped` if the launcher has entered a domain with a scope already, as
    /// only a kernel lets it that has all of these.
    ///
    /// # Errors
    /// Returns what is missing that nothing can take the place of.
    pub fn find(is_scoped: bool) -> Result<Self, Missing> {
        if is_scoped { Ok(Self::all()) } else { Self::probe() }
    }

    /// Tries each.
    pub fn probe() -> Result<Self, Missing> {
        let mut found = Self::empty();
        for (feature, attributes) in &PARTS {
            match ruleset::create(attributes) {
                Ok(_) => found |= *feature,
                Err(errno) if is_lacking(errno.raw_os_error()) => {}
                Err(errno) => return Err(Missing::Landlock(errno)),
            }
        }
        // Of all else others take the place.
        match (Self::FILES | Self::MOVES) - found {
            none if none.is_empty() => Ok(found),
            missing => Err(Missing::Features(missing)),
        }
    }
}

/// linux/seccomp.h
const SET_MODE_FILTER: u32 = 1;
const NEW_LISTENER: u64 = 1 << 3;

/// Installs a filter with a listener, which allows everything, for a thread that ends with it.
///
/// # Errors
/// Returns why none can be had here: [`Errno::BUSY`] where another supervisor has one, as on WSL2, and
/// [`Errno::PERM`] inside of another sandbox.
pub fn try_listener() -> io::Result<()> {
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    let install = || {
        let mut allow = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW };
        let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
        let program = &raw const program;
        // SAFETY: the program and its one instruction live until the kernel has copied them.
        let result =
            unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, program) };
        match i32::try_from(result) {
            // SAFETY: the kernel just returned it, and nothing else holds it.
            Ok(listener) if listener >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(listener) }),
            _ => Err(errno::last()),
        }
    };
    std::thread::spawn(move || install().map(drop)).join().unwrap_or(Err(Errno::AGAIN))
}

/// What of seccomp user notification this kernel lacks, in words; nothing if a filter can be installed
/// with it. Looked for when one could not be.
pub fn missing_of_notification() -> Option<&'static str> {
    const GET_ACTION_AVAIL: u32 = 2;
    let user_notif = 0x7fc0_0000_u32;
    let action = &raw const user_notif;
    // SAFETY: reads one action.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, action) };
    (result != 0).then_some("seccomp user notification (CONFIG_SECCOMP_FILTER)")
}

/// Whether signals with a handler wait until a received call is answered (Linux 5.19).
pub fn signals_wait() -> bool {
    const WAIT_KILLABLE_RECV: u64 = 1 << 5;
    let flags = NEW_LISTENER | WAIT_KILLABLE_RECV;
    let none = std::ptr::null::<u8>();
    // SAFETY: the flags are looked at first, and a null pointer is no program.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, none) };
    result != -1 || errno::last() != Errno::INVAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_the_kernel_takes() {
        let found = Features::probe().unwrap();
        for (feature, attributes) in &PARTS {
            let taken = ruleset::create(attributes).is_ok();
            assert_eq!(found.contains(*feature), taken, "{feature:?}");
        }
        // The probe can tell.
        let unknown = RulesetAttributes { scoped: 1 << 63, ..RulesetAttributes::default() };
        assert_eq!(ruleset::create(&unknown).err(), Some(Errno::INVAL));
        assert_eq!(missing_of_notification(), None);
        assert!(signals_wait());
        rustix::thread::set_no_new_privs(true).unwrap();
        // The thread that had one has ended with it.
        assert_eq!([try_listener(), try_listener()], [Ok(()); 2]);
    }
}
