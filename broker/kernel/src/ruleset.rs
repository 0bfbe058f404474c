//! Landlock rulesets: landlock_create_ruleset(2), landlock_add_rule(2).

#![allow(unsafe_code)]

use super::errno;
use common::landlock::{PATH_BENEATH, PathBeneath, RulesetAttributes};
use nix::libc;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io;

bitflags::bitflags! {
    /// Rights to files (linux/landlock.h).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FileAccess: u64 {
        const EXECUTE = 1 << 0;
        const WRITE_FILE = 1 << 1;
        const READ_FILE = 1 << 2;
        const READ_DIR = 1 << 3;
        const REMOVE_DIR = 1 << 4;
        const REMOVE_FILE = 1 << 5;
        const MAKE_CHAR = 1 << 6;
        const MAKE_DIR = 1 << 7;
        const MAKE_REG = 1 << 8;
        const MAKE_SOCK = 1 << 9;
        const MAKE_FIFO = 1 << 10;
        const MAKE_BLOCK = 1 << 11;
        const MAKE_SYM = 1 << 12;
        const REFER = 1 << 13;
        const TRUNCATE = 1 << 14;
        const IOCTL_DEV = 1 << 15;
        /// Those of what is no directory.
        const OF_FILES = Self::EXECUTE.bits()
            | Self::WRITE_FILE.bits()
            | Self::READ_FILE.bits()
            | Self::TRUNCATE.bits()
            | Self::IOCTL_DEV.bits();
    }
}

/// Makes one that handles what `attributes` say.
///
/// # Errors
/// Returns what the kernel says, which [`common::landlock::is_lacking`] can tell.
pub fn create(attributes: &RulesetAttributes) -> io::Result<OwnedFd> {
    let pointer = std::ptr::from_ref(attributes);
    let size = size_of_val(attributes);
    // SAFETY: the pointer and the size are those of a live attribute structure.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, pointer, size, 0) };
    match i32::try_from(result) {
        // SAFETY: the kernel just returned it, and nothing else holds it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(errno::last()),
    }
}

/// Grants `access`, of the rights that `ruleset` handles, to an object and all beneath it.
///
/// # Errors
/// Returns [`io::Errno::INVAL`] for a right that is not handled, or one of directories on something else;
/// [`io::Errno::BADFD`] for what Landlock takes no rule for.
pub fn allow_beneath(
    ruleset: BorrowedFd<'_>,
    object: BorrowedFd<'_>,
    access: FileAccess,
) -> io::Result<()> {
    let rule = PathBeneath { allowed_access: access.bits(), parent: object.as_raw_fd() };
    let (number, kind) = (libc::SYS_landlock_add_rule, libc::c_int::from(PATH_BENEATH));
    let (ruleset, rule) = (ruleset.as_raw_fd(), &raw const rule);
    // SAFETY: the pointer is to a live rule of the type that the argument before it names; the rest are
    // two integers.
    errno::result(unsafe { libc::syscall(number, ruleset, kind, rule, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::io::Errno;
    use std::fs::File;

    #[test]
    fn a_rule_fits_its_object() {
        let handled = (FileAccess::all() - FileAccess::TRUNCATE - FileAccess::IOCTL_DEV).bits();
        let attributes = RulesetAttributes { handled_access_fs: handled, ..Default::default() };
        let (ruleset, file) = (create(&attributes).unwrap(), File::open("/dev/null").unwrap());
        let allow = |access| allow_beneath(ruleset.as_fd(), file.as_fd(), access);
        assert_eq!(allow(FileAccess::READ_FILE), Ok(()));
        assert_eq!(allow(FileAccess::READ_DIR), Err(Errno::INVAL));
        // Not handled.
        assert_eq!(allow(FileAccess::TRUNCATE), Err(Errno::INVAL));
    }
}
