//! What may be done with a canonical path, and who sees to it: the file rules, and what of them
//! Landlock was told at launch.
//!
//! Landlock's rules hold for the objects that were there at launch. Whatever else the rules allow to
//! be changed, the broker changes for the command: entries of the directories on the way to a denied
//! path, and what is made in them later.

use crate::rules::paths::{Cursor, Rules};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, Mode, OFlags, StatxFlags};
use rustix::io;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Device and inode number: the object behind a path.
pub(crate) type Identity = (u64, u64);

/// What the file rules mean for the objects of this run.
#[derive(Debug)]
pub(crate) struct View {
    /// The policy's rules for files.
    pub(crate) rules: Rules,
    /// What Landlock lets the command write, with all beneath, and the object that it was.
    pub(crate) granted: HashMap<PathBuf, Identity>,
    /// The same for what it may read, as far as the rules allow it.
    pub(crate) readable: HashMap<PathBuf, Identity>,
    /// Whether the rules let more be written than is granted.
    pub(crate) brokers_writes: bool,
    /// Whether Landlock lets more be read than the rules do, so that the broker judges.
    pub(crate) brokers_reads: bool,
    /// Directories on the way to a path that may not be read: they may be listed, but a Landlock
    /// rule for that would hold for all beneath. They can be too many to be held.
    pub(crate) unlistable: HashMap<PathBuf, Origin>,
    /// Usable whatever the rules say, and for what: standard devices, standard streams.
    pub(crate) always: HashMap<Identity, Wanted>,
    /// The files that a rule names, and what is denied of them: by another name (hard links, link(2))
    /// it is the same file.
    pub(crate) denied: HashMap<Identity, Wanted>,
    /// The allowed paths, and the objects that they were at launch, if they were there.
    pub(crate) roots: Vec<(PathBuf, Option<Identity>)>,
    /// The objects of `roots` and `denied`, held: the number of one that is removed would soon be
    /// another's. What is granted, or usable always, Landlock holds.
    pub(crate) _held: Vec<OwnedFd>,
}

/// What an open asks for, or a rule gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// Who decides about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decider {
    /// Landlock: it was granted at launch, or nothing allows it.
    Landlock,
    /// The broker: the rules allow it, and Landlock does not.
    Broker,
}

impl View {
    /// Whether what is named `path` may be changed. The rules go by paths, access by the objects that
    /// were there at launch: another directory at an allowed path is not the one that was allowed.
    pub(crate) fn is_writable(&self, path: &Path) -> bool {
        self.rules.access(path).write && self.is_rooted(path)
    }

    /// Whether a rule denies what is wanted of an object, whatever its name.
    pub(crate) fn denies_object(&self, object: Identity, wanted: Wanted) -> bool {
        self.denied
            .get(&object)
            .is_some_and(|denied| denied.read && wanted.read || denied.write && wanted.write)
    }

    /// Whether an object is usable for what is wanted, whatever the rules say.
    pub(crate) fn is_always_usable(&self, object: Identity, wanted: Wanted) -> bool {
        self.always
            .get(&object)
            .is_some_and(|usable| (usable.read || !wanted.read) && (usable.write || !wanted.write))
    }

    fn is_rooted(&self, path: &Path) -> bool {
        self.roots.iter().any(|(root, at_launch)| {
            let unchanged = || at_launch.is_none_or(|object| identity_of(root) == Some(object));
            path.starts_with(root) && unchanged()
        })
    }

    /// Whether what is named `path` may be read: it was there at launch, or lies where entries that are
    /// made later are covered.
    pub(crate) fn is_readable(&self, path: &Path) -> bool {
        self.rules.access(path).read && (covers(&self.readable, path) || self.is_writable(path))
    }

    /// Whether the directory `path` may be listed though what others make in it may not be read.
    pub(crate) fn is_listable(&self, path: &Path, directory: impl AsFd) -> bool {
        let known = self.unlistable.get(path);
        known.is_some_and(|known| Origin::of(directory).is_ok_and(|origin| origin == *known))
    }

    /// Whether Landlock lets what is named `path` be written.
    fn is_granted(&self, path: &Path) -> bool {
        covers(&self.granted, path)
    }

    /// Who decides about writing to the object that is named `path`.
    pub(crate) fn content(&self, path: &Path) -> Decider {
        if !self.is_granted(path) && self.is_writable(path) {
            Decider::Broker
        } else {
            Decider::Landlock
        }
    }

    /// Where the entry `name` of `directory` stands, and who decides about making, removing or replacing
    /// it, if it may change.
    pub(crate) fn entry(&self, directory: &Path, name: &OsStr) -> Option<(Cursor, Decider)> {
        let cursor = self.entry_cursor(directory, name)?;
        let granted = self.is_granted(directory);
        Some((cursor, if granted { Decider::Landlock } else { Decider::Broker }))
    }

    /// Whether the entry is the broker's to make, remove or replace.
    pub(crate) fn brokers_entry(&self, directory: &Path, name: &OsStr) -> bool {
        self.entry(directory, name).is_some_and(|(_, decider)| decider == Decider::Broker)
    }

    /// Whether the entry `name` of `directory` may be made, removed or replaced.
    pub(crate) fn may_change(&self, directory: &Path, name: &OsStr) -> bool {
        self.entry_cursor(directory, name).is_some()
    }

    /// Where the entry stands, if it may change.
    fn entry_cursor(&self, directory: &Path, name: &OsStr) -> Option<Cursor> {
        let above = self.rules.cursor(directory)?;
        let cursor = self.rules.enter(&above, name.as_bytes());
        let path = directory.join(name);
        // An allowed path that was missing may be made, though what is around it may not change.
        let may_change = cursor.entry_may_change()
            && (above.access().write || self.is_missing_root(&path))
            && self.is_rooted(&path);
        may_change.then_some(cursor)
    }

    /// Whether `path` is an allowed path that was missing at launch.
    pub(crate) fn is_missing_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|(root, at_launch)| at_launch.is_none() && *root == path)
    }

    /// Whether `path` leads to an allowed path that was missing at launch: such directories may be
    /// made.
    pub(crate) fn leads_to_missing(&self, path: &Path) -> bool {
        self.roots.iter().any(|(root, at_launch)| at_launch.is_none() && root.starts_with(path))
    }
}

/// Whether one of the trees is still there and `path` lies in it.
fn covers(trees: &HashMap<PathBuf, Identity>, path: &Path) -> bool {
    let is_there = |tree| trees.get(tree).is_some_and(|object| identity_of(tree) == Some(*object));
    path.ancestors().any(is_there)
}

/// The object that `path` names now.
pub(crate) fn identity_of(path: &Path) -> Option<Identity> {
    fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().as_ref().map(identity)
}

/// Holds the object that `path` names now.
///
/// # Errors
/// Returns what open(2) and fstat(2) return.
pub(crate) fn hold(path: &Path) -> io::Result<(OwnedFd, fs::Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let object = fs::open(path, flags, Mode::empty())?;
    let stat = fs::fstat(&object)?;
    Ok((object, stat))
}

/// What tells an object from another that gets its number when it is removed: when it was made, as far
/// as the file system knows (statx(2), stx_btime).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    device: (u32, u32),
    number: u64,
    made: Option<(i64, u32)>,
}

impl Origin {
    /// Of an object that is held.
    ///
    /// # Errors
    /// Returns what statx(2) returns.
    pub(crate) fn of(object: impl AsFd) -> io::Result<Self> {
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

/// The object that `stat` was read of.
pub(crate) fn identity(stat: &fs::Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}
