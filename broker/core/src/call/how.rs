//! How a file is opened: the flags and mode of open(2), as the kernel takes them before it looks at the
//! path. Pure. Source: build_open_how and build_open_flags in fs/open.c.

use nix::libc;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// What open(2) asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenHow {
    pub(crate) flags: OFlags,
    pub(crate) mode: u32,
}

/// The file has no name yet; a flag by itself is an error.
const TMPFILE: OFlags =
    OFlags::from_bits_retain(libc::O_TMPFILE.cast_unsigned()).difference(OFlags::DIRECTORY);
/// What makes a file.
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
        Self { flags, mode }
    }

    /// What the kernel says before it looks at the path.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] for flags that contradict each other.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        let writes = self.flags & OFlags::RWMODE != OFlags::RDONLY;
        let unnamed = self.flags.intersects(TMPFILE);
        let contradict = self.flags.contains(OFlags::CREATE | OFlags::DIRECTORY)
            || unnamed && !(self.flags.contains(OFlags::DIRECTORY) && writes);
        if contradict { Err(Errno::INVAL) } else { Ok(()) }
    }
}

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
    fn contradictions_are_found_before_the_path() {
        for (flags, expected) in [
            (OFlags::CREATE | OFlags::DIRECTORY, Err(Errno::INVAL)),
            (OFlags::CREATE, Ok(())),
            (OFlags::TMPFILE, Err(Errno::INVAL)),
            (OFlags::TMPFILE | OFlags::RDWR, Ok(())),
            (TMPFILE | OFlags::RDWR, Err(Errno::INVAL)),
            (OFlags::empty(), Ok(())),
        ] {
            assert_eq!(OpenHow { flags, mode: 0 }.check(), expected, "{flags:?}");
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
