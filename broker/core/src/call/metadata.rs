//! Changes of metadata: chmod, chown, utime and xattr families, as their registers say.

use super::decode::PathArg;
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
    /// By a path, as these flags say, which are known.
    Path(PathArg, AtFlags),
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

impl MetadataCall {
    /// None for another call.
    pub(super) fn decode(call: Syscall, n: &Notification) -> Option<Self> {
        let at_cwd = |flags| Subject::Path(PathArg::at_cwd(n, 0), flags);
        let (followed, unfollowed) = (at_cwd(AtFlags::empty()), at_cwd(AtFlags::SYMLINK_NOFOLLOW));
        let held = Subject::Descriptor(n.descriptor(0));
        let mode = |index| RawChange::Mode(n.unsigned(index));
        let owner = |index| RawChange::Owner(n.unsigned(index), n.unsigned(index + 1));
        let set = RawChange::SetXattr(n.address(1), n.address(2), n.arguments[3], n.unsigned(4));
        let remove = RawChange::RemoveXattr(n.address(1));
        let times = match call {
            Syscall::futimesat => RawChange::Timeval(n.address(2)),
            _ => RawChange::Timespec(n.address(2)),
        };
        let (subject, change) = match call {
            Syscall::chmod => (followed, mode(1)),
            Syscall::fchmod => (held, mode(1)),
            Syscall::fchmodat => (Subject::at(n, 0), mode(2)),
            Syscall::fchmodat2 => (Subject::at(n, n.unsigned(3)), mode(2)),
            Syscall::chown => (followed, owner(1)),
            Syscall::lchown => (unfollowed, owner(1)),
            Syscall::fchown => (held, owner(1)),
            Syscall::fchownat => (Subject::at(n, n.unsigned(4)), owner(2)),
            Syscall::utime => (followed, RawChange::Utimbuf(n.address(1))),
            Syscall::utimes => (followed, RawChange::Timeval(n.address(1))),
            // A null path means the descriptor itself (utimensat(2), notes), without flags.
            Syscall::futimesat | Syscall::utimensat
                if n.address(1).is_null() && n.descriptor(0) != TargetFd::CWD =>
            {
                let has_flags = call == Syscall::utimensat && n.unsigned(3) != 0;
                (if has_flags { Subject::Invalid } else { held }, times)
            }
            Syscall::futimesat => (Subject::at(n, 0), times),
            Syscall::utimensat => (Subject::at(n, n.unsigned(3)), times),
            Syscall::setxattr => (followed, set),
            Syscall::lsetxattr => (unfollowed, set),
            Syscall::fsetxattr => (held, set),
            Syscall::removexattr => (followed, remove),
            Syscall::lremovexattr => (unfollowed, remove),
            Syscall::fremovexattr => (held, remove),
            _ => return None,
        };
        Some(Self { subject, change })
    }
}

impl Subject {
    /// What the first two arguments name, with these flags.
    fn at(n: &Notification, flags: u32) -> Self {
        let flags = AtFlags::from_bits_retain(flags);
        if !(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
            return Self::Invalid;
        }
        Self::Path(PathArg::of(n, 0), flags)
    }
}
