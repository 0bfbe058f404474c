//! Rules of a Landlock ruleset (landlock_add_rule(2)).
//!
//! The landlock crate, which makes the ruleset, looks at every object (fstat(2)) before it adds a rule for it.
//! Launches grant dozens, whose kind is known: that was a fifth of their calls.

#![allow(unsafe_code)]

use super::errno;
use common::landlock::{PATH_BENEATH, PathBeneath};
use nix::libc;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io;

/// Grants `access`, of the rights that `ruleset` handles, to an object and all beneath it.
///
/// # Errors
/// Returns [`io::Errno::INVAL`] for a right that is not handled, or one of directories on something else;
/// [`io::Errno::BADFD`] for what Landlock takes no rule for.
pub fn allow_beneath(
    ruleset: BorrowedFd<'_>,
    object: BorrowedFd<'_>,
    access: u64,
) -> io::Result<()> {
    let rule = PathBeneath { allowed_access: access, parent: object.as_raw_fd() };
    let (number, kind) = (libc::SYS_landlock_add_rule, libc::c_int::from(PATH_BENEATH));
    let (ruleset, rule) = (ruleset.as_raw_fd(), &raw const rule);
    // SAFETY: the pointer is to a live rule of the type that the argument before it names; the rest are
    // two integers.
    errno::result(unsafe { libc::syscall(number, ruleset, kind, rule, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr};
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::io::Errno;

    #[test]
    fn a_rule_fits_its_object() {
        let created = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1));
        let ruleset: Option<OwnedFd> = created.and_then(Ruleset::create).unwrap().into();
        let (ruleset, file) = (ruleset.unwrap(), std::fs::File::open("/dev/null").unwrap());
        let allow = |access: AccessFs| allow_beneath(ruleset.as_fd(), file.as_fd(), access as u64);
        assert_eq!(allow(AccessFs::ReadFile), Ok(()));
        assert_eq!(allow(AccessFs::ReadDir), Err(Errno::INVAL));
        // Not handled.
        assert_eq!(allow(AccessFs::Truncate), Err(Errno::INVAL));
    }
}
