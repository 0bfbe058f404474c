//! Which object it is: what tells one from another, whatever it is called.

use rules::quick::QuickMap;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io;
use rustix::path::Arg;
use std::ffi::OsStr;
use std::path::Path;

/// Device and inode number: the object behind a path.
pub type Identity = (u64, u64);

/// The flags to hold by what a path names, be it a symbolic link.
pub const HELD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The object that `stat` was read of.
pub fn identity(stat: &fs::Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// Holds the object that `path` names now.
pub fn hold(path: &Path) -> io::Result<(OwnedFd, fs::Stat)> {
    let object = fs::open(path, HELD, Mode::empty())?;
    let stat = fs::fstat(&object)?;
    Ok((object, stat))
}

/// Which object `name` in `directory` is, or that itself, what kind of one, and how many names it has, as far as the kernel
/// knows: a server of its file system, which may not answer, is not asked (statx(2), AT_STATX_DONT_SYNC).
pub fn known(directory: impl AsFd, name: impl Arg) -> io::Result<(Identity, FileType, u32)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK;
    let found = fs::statx(directory, name, flags, wanted)?;
    let device = fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    Ok(((device, found.stx_ino), FileType::from_raw_mode(found.stx_mode.into()), found.stx_nlink))
}

/// Holds what `path` leads to now, through symbolic links.
pub fn hold_followed(path: &Path) -> io::Result<OwnedFd> {
    fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// What is known of paths that were looked at one after another.
#[derive(Debug, Default)]
pub struct Fronts<'a>(QuickMap<&'a OsStr, bool>);

impl<'a> Fronts<'a> {
    /// The longest front of the absolute `path` that is there, be it a symbolic link. Beneath what is missing all is.
    pub fn nearest(&mut self, path: &'a Path) -> Option<&'a Path> {
        let Self(known) = self;
        let met = path.ancestors().find(|above| known.contains_key(above.as_os_str()));
        let from = met.filter(|met| !known[met.as_os_str()]).unwrap_or(path);
        let is_there = |above: &Path| fs::lstat(above).is_ok();
        from.ancestors()
            .find(|above| *known.entry(above.as_os_str()).or_insert_with(|| is_there(above)))
    }
}

/// What tells an object from another that gets its number when it is removed: when it was made, as far
/// as the file system knows (statx(2), stx_btime).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    device: (u32, u32),
    number: u64,
    made: Option<(i64, u32)>,
}

impl Origin {
    /// Of an object that is held.
    pub fn of(object: impl AsFd) -> io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = fs::statx(object, c"", AtFlags::EMPTY_PATH, wanted)?;
        let known = StatxFlags::from_bits_retain(found.stx_mask);
        let made = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
        Ok(Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            number: found.stx_ino,
            made: known.contains(StatxFlags::BTIME).then_some(made),
        })
    }
}
