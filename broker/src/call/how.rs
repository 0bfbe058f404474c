//! How a file is opened: the flags, mode and resolution of open(2) and openat2(2), as the kernel takes
//! them before it looks at the path. Pure. Source: build_open_how and build_open_flags in fs/open.c.

use nix::libc;
use rustix::fs::{OFlags, ResolveFlags};
use rustix::io::Errno;

/// `struct open_how` (openat2(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenHow {
    pub(crate) flags: OFlags,
    pub(crate) mode: u32,
    pub(crate) resolve: ResolveFlags,
}

/// The file has no name yet; a flag by itself is an error.
const TMPFILE: OFlags =
    OFlags::from_bits_retain(libc::O_TMPFILE.cast_unsigned()).difference(OFlags::DIRECTORY);
/// What both calls make a file by.
const CREATING: OFlags = OFlags::CREATE.union(TMPFILE);
/// What O_PATH goes together with; open(2) ignores everything else.
const WITH_PATH: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// All that the kernel knows (VALID_OPEN_FLAGS); open(2) ignores everything else.
const KNOWN: OFlags = WITH_PATH
    .union(OFlags::RWMODE)
    .union(CREATING)
    .union(OFlags::EXCL)
    .union(OFlags::NOCTTY)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::NONBLOCK)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::from_bits_retain(libc::O_ASYNC.cast_unsigned()))
    .union(OFlags::DIRECT)
    .union(OFlags::LARGEFILE)
    .union(OFlags::NOATIME);
const MODES: u32 = 0o7777;

impl OpenHow {
    /// What open(2) and openat(2) ask for: what means nothing is left out.
    pub(crate) fn of_open(flags: u32, mode: u32) -> Self {
        let flags = OFlags::from_bits_retain(flags) & KNOWN;
        let flags = if flags.contains(OFlags::PATH) { flags & WITH_PATH } else { flags };
        let mode = if flags.intersects(CREATING) { mode & MODES } else { 0 };
        Self { flags, mode, resolve: ResolveFlags::empty() }
    }

    /// What openat2(2) asks for, by the words of its structure.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] for what the kernel does not know.
    pub(crate) fn of_words(flags: u64, mode: u64, resolve: u64) -> Result<Self, Errno> {
        let word = |word: u64| u32::try_from(word).map_err(|_| Errno::INVAL);
        let how = Self {
            flags: OFlags::from_bits_retain(word(flags)?),
            mode: word(mode)?,
            resolve: ResolveFlags::from_bits_retain(resolve),
        };
        let flags = if how.flags.contains(OFlags::PATH) { WITH_PATH } else { KNOWN };
        let modes = if how.flags.intersects(CREATING) { MODES } else { 0 };
        let is_known = flags.contains(how.flags)
            && RESOLUTIONS.contains(how.resolve)
            && how.mode & !modes == 0;
        if is_known { Ok(how) } else { Err(Errno::INVAL) }
    }

    /// Whether it could have to wait, which RESOLVE_CACHED rules out.
    fn may_wait(&self) -> bool {
        self.flags.intersects(CREATING | OFlags::TRUNC)
    }

    /// What the kernel says before it looks at the path.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] for flags that contradict each other, [`Errno::AGAIN`] for
    /// RESOLVE_CACHED with what cannot be had without waiting.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        let writes = self.flags & OFlags::RWMODE != OFlags::RDONLY;
        let unnamed = self.flags.intersects(TMPFILE);
        let scopes = ResolveFlags::BENEATH | ResolveFlags::IN_ROOT;
        if self.resolve.contains(scopes)
            || self.flags.contains(OFlags::CREATE | OFlags::DIRECTORY)
            || unnamed && !(self.flags.contains(OFlags::DIRECTORY) && writes)
        {
            return Err(Errno::INVAL);
        }
        match self.resolve.contains(ResolveFlags::CACHED) && self.may_wait() {
            true => Err(Errno::AGAIN),
            false => Ok(()),
        }
    }
}

/// All that the kernel knows (VALID_RESOLVE_FLAGS).
const RESOLUTIONS: ResolveFlags = ResolveFlags::NO_XDEV
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::BENEATH)
    .union(ResolveFlags::IN_ROOT)
    .union(ResolveFlags::CACHED);

/// Whether an open with these flags may change something.
pub(crate) fn writes(flags: OFlags) -> bool {
    changes(flags) || flags.contains(OFlags::CREATE) || flags.contains(OFlags::TMPFILE)
}

/// Whether an open with these flags may change a file that is there: with O_CREAT alone it does not.
pub(crate) fn changes(flags: OFlags) -> bool {
    flags & OFlags::RWMODE != OFlags::RDONLY || flags.contains(OFlags::TRUNC)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: u32 = 1 << 30;

    #[test]
    fn open_leaves_out_what_means_nothing() {
        let of = |flags: OFlags, mode| OpenHow::of_open(flags.bits(), mode);
        assert_eq!(of(OFlags::PATH | OFlags::CREATE | OFlags::WRONLY, 0o644).flags, OFlags::PATH);
        assert_eq!(of(OFlags::RDONLY, 0o644).mode, 0);
        assert_eq!(of(OFlags::CREATE, 0o100_644).mode, 0o644);
        assert_eq!(OpenHow::of_open(UNKNOWN, 0).flags, OFlags::empty());
        let all = OFlags::RDWR | OFlags::SYNC | OFlags::NOATIME | OFlags::DIRECT;
        assert_eq!(of(all, 0).flags, all);
    }

    #[test]
    fn openat2_refuses_what_means_nothing() {
        let path = u64::from(OFlags::PATH.bits());
        let create = u64::from(OFlags::CREATE.bits());
        for (flags, mode, resolve, taken) in [
            (0, 0, 0, true),
            (create, 0o644, 0x3f, true),
            (create, 0o10_644, 0, false),
            (0, 0o644, 0, false),
            (path, 0, 0, true),
            (path | create, 0, 0, false),
            (u64::from(UNKNOWN), 0, 0, false),
            (1 << 32, 0, 0, false),
            (0, 1 << 32, 0, false),
            (0, 0, 0x40, false),
            (0, 0, 1 << 32, false),
        ] {
            let how = OpenHow::of_words(flags, mode, resolve);
            assert_eq!(how.is_ok(), taken, "{flags:#o} {mode:#o} {resolve:#x}");
        }
    }

    #[test]
    fn contradictions_are_found_before_the_path() {
        let none = ResolveFlags::empty();
        let both = ResolveFlags::BENEATH | ResolveFlags::IN_ROOT;
        for (flags, resolve, expected) in [
            (OFlags::CREATE | OFlags::DIRECTORY, none, Err(Errno::INVAL)),
            (OFlags::CREATE, none, Ok(())),
            (OFlags::TMPFILE, none, Err(Errno::INVAL)),
            (OFlags::TMPFILE | OFlags::RDWR, none, Ok(())),
            (TMPFILE | OFlags::RDWR, none, Err(Errno::INVAL)),
            (OFlags::empty(), both, Err(Errno::INVAL)),
            (OFlags::empty(), ResolveFlags::CACHED, Ok(())),
            (OFlags::CREATE, ResolveFlags::CACHED, Err(Errno::AGAIN)),
            (OFlags::WRONLY | OFlags::TRUNC, ResolveFlags::CACHED, Err(Errno::AGAIN)),
        ] {
            assert_eq!(OpenHow { flags, mode: 0, resolve }.check(), expected, "{flags:?}");
        }
    }

    #[test]
    fn an_open_for_reading_is_no_write() {
        for (flags, expected) in [
            (OFlags::RDONLY, false),
            (OFlags::RDONLY | OFlags::DIRECTORY, false),
            (OFlags::WRONLY, true),
            (OFlags::RDWR, true),
            (OFlags::CREATE, true),
            (OFlags::TRUNC, true),
            (OFlags::TMPFILE, true),
        ] {
            assert_eq!(writes(flags), expected, "{flags:?}");
        }
    }
}
