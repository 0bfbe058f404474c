//! Changes of metadata: chmod, chown, utime and xattr families, as their registers say.

use kernel::listener::Notification;
use kernel::target::{TargetAddress, TargetFd};
use landstrip_filter::Syscall;
use rustix::fs::AtFlags;

/// A change of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataCall {
    /// What is changed.
    pub(crate) subject: Subject,
    /// How.
    pub(crate) change: RawChange,
}

/// How the object is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// By a path; an empty one names `directory` itself if `empty`.
    Path { directory: TargetFd, path: TargetAddress, follow: bool, empty: bool },
    /// By a descriptor.
    Descriptor(TargetFd),
    /// Not at all: the flags are wrong.
    Invalid,
}

/// The new value, or where it lies in the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawChange {
    /// Permission bits.
    Mode(u32),
    /// User and group; all ones leaves one as it is.
    Owner(u32, u32),
    /// Two `struct timespec` at the address, now if it is null.
    Timespec(TargetAddress),
    /// Two `struct timeval`.
    Timeval(TargetAddress),
    /// A `struct utimbuf`.
    Utimbuf(TargetAddress),
    /// Extended attribute: name, value, size, flags.
    SetXattr(TargetAddress, TargetAddress, u64, u32),
    /// Extended attribute: name.
    RemoveXattr(TargetAddress),
}

pub(super) fn at_subject(n: &Notification, directory: usize, flags: u32) -> Subject {
    let flags = AtFlags::from_bits_retain(flags);
    if !(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
        return Subject::Invalid;
    }
    Subject::Path {
        directory: n.descriptor(directory),
        path: n.address(directory + 1),
        follow: !flags.contains(AtFlags::SYMLINK_NOFOLLOW),
        empty: flags.contains(AtFlags::EMPTY_PATH),
    }
}

pub(super) fn times(n: &Notification) -> RawChange {
    if Syscall::of(n.number) == Some(Syscall::futimesat) {
        RawChange::Timeval(n.address(2))
    } else {
        RawChange::Timespec(n.address(2))
    }
}

pub(super) fn set_xattr(n: &Notification) -> RawChange {
    RawChange::SetXattr(n.address(1), n.address(2), n.arguments[3], n.unsigned(4))
}
