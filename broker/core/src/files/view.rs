//! What may be done with a canonical path, and who sees to it: the file rules, and what of them
//! Landlock was told at launch.
//!
//! Landlock's rules hold for the objects that were there at launch. Whatever else the rules allow to
//! be changed, the broker changes for the command: entries of the directories on the way to a denied
//! path, and what is made in them later.

use super::reserve::{Need, Reserve};
use super::trees::{Trees, covers};
use kernel::identity::{Identity, Origin, identity};
use kernel::long_paths::identity_of;
use kernel::object::Object;
use rules::files::Files;
use rules::git_links::GitLinks;
use rules::memory;
use rules::paths::{Access, Cursor, Kind, Rules};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the file rules mean for the objects of this run.
#[derive(Clone, Debug)]
pub struct View {
    /// The policy's rules for files.
    pub rules: Rules,
    /// What of git's links they do not deny.
    pub git_links: GitLinks,
    /// What of them Landlock was told.
    pub grants: Arc<Grants>,
    /// Landlock does not judge truncation: the broker truncates, whatever it was told.
    pub brokers_truncation: bool,
    /// The files that a rule names, and what it leaves of them: by another name (hard links, link(2))
    /// it is the same file.
    pub named: Arc<HashMap<Identity, Access>>,
    /// The allowed paths, and the objects that they were at launch, if they were there.
    pub roots: Vec<(PathBuf, Option<Identity>)>,
    /// Paths that are opened inside denied ones and were missing at launch.
    pub(crate) openings: Vec<PathBuf>,
    /// Directories and files that Landlock was told of, to be put where the command makes some.
    pub(crate) reserve: Option<Arc<Reserve>>,
    /// The objects of `roots` and `named`, held: the number of one that is removed would soon be
    /// another's. What is granted, or usable always, Landlock holds.
    pub _held: Arc<Vec<OwnedFd>>,
    /// A pipe that the command may read, and not write, because the caller reads it too. Landlock knows no pipes, so that
    /// the broker opens all that is opened for writing.
    pub shared_input: Option<Identity>,
    /// The private TMPDIR.
    pub(crate) temporary: Option<PathBuf>,
    /// What proc(5) holds Landlock lets nobody read.
    pub brokers_processes: bool,
    /// Rules may be added during the run.
    pub(crate) grows: bool,
    /// What was added since the launch, of which Landlock was not told.
    pub(crate) added: Added,
}

/// What somebody who was asked has added to what may be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Added {
    /// The objects of the paths that became roots, held.
    roots: Vec<Arc<OwnedFd>>,
    /// Paths that a single call may change, whatever is around them.
    once: Vec<PathBuf>,
    /// They are what rules name.
    are_named: bool,
}

/// What Landlock was told, and what it could not be told.
#[derive(Debug, Default)]
pub struct Grants {
    /// What the command may write, with all beneath, and the object that it was.
    pub writable: Trees<Identity>,
    /// The same for what it may read, as far as the rules allow it.
    pub readable: Trees<Identity>,
    /// Whether the rules let more be written than is granted: in the directories on the way to a path
    /// that may not be written, which a Landlock rule would open with all beneath.
    pub brokers_writes: bool,
    /// What Landlock lets be read, beside what the rules do.
    pub reads: Reads,
    /// Directories on the way to a path that may not be read: they may be listed, but a Landlock
    /// rule for that would hold for all beneath. They can be too many to be held.
    pub unlistable: Trees<Origin>,
    /// The names of files that are granted one by one, beside what may not be read, and of what is missing on the way to
    /// what may be made there.
    pub exception_names: HashSet<OsString>,
    /// Usable whatever the rules say, and for what: standard devices, standard streams.
    pub always: HashMap<Identity, Access>,
    /// Devices that the policy names, or directories of them.
    pub devices: Trees<Identity>,
}

/// What Landlock lets be read, beside what the rules do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reads {
    /// The same, but for directories that are listed and files that others replace.
    #[default]
    Exact,
    /// Nothing else, but not all: what the command makes at an allowed path that was missing, or beside what
    /// it could execute and may not read, is granted to nobody. The broker opens that.
    Less,
    /// More: where the command may make files beside what may not be read, and where that can be at any
    /// depth. The broker judges and opens all that is read.
    More,
}

/// Who decides about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// Landlock: it was granted at launch, or nothing allows it.
    Landlock,
    /// The broker: the rules allow it, and Landlock does not.
    Broker,
}

impl View {
    /// The view of the same objects with `root`, a canonical path where this was `found`, among what may be written:
    /// `files` has it, and whatever was added before. Deny rules hold as before.
    pub(crate) fn with_root(
        &self,
        files: &Files,
        root: &Path,
        found: Option<(OwnedFd, Stat)>,
    ) -> Self {
        let mut view = Self { rules: Rules::new(files), ..self.clone() };
        view.roots.push((root.to_owned(), found.as_ref().map(|(_, stat)| identity(stat))));
        view.added.roots.extend(found.map(|(object, _)| Arc::new(object)));
        view
    }

    /// The same for a single call that may also change `once`, canonical paths, which `files` has.
    pub(crate) fn for_once(&self, files: &Files, once: Vec<PathBuf>, are_named: bool) -> Self {
        let added = Added { once, are_named, ..self.added.clone() };
        Self { rules: Rules::new(files), added, ..self.clone() }
    }

    /// Whether what is named `path` may be changed. The rules go by paths, access by the objects that
    /// were there at launch: another directory at an allowed path is not the one that was allowed.
    pub fn is_writable(&self, path: &Path) -> bool {
        self.rules.access(path).write && self.is_rooted(path)
    }

    /// Whether the command may write more, or less, than Landlock lets it.
    pub fn brokers_writes(&self) -> bool {
        self.lets_write_more() || self.shared_input.is_some()
    }

    /// Whether the command may write more than Landlock lets it.
    fn lets_write_more(&self) -> bool {
        let has_missing = || self.roots.iter().any(|(_, at_launch)| at_launch.is_none());
        self.grants.brokers_writes
            || !self.openings.is_empty()
            || has_missing()
            || !(self.added.roots.is_empty() && self.added.once.is_empty())
    }

    /// Whether Landlock alone decides about reading, but for directories that are listed and what others replace.
    pub fn leaves_reads(&self) -> bool {
        self.grants.reads == Reads::Exact
    }

    /// Whether it alone decides about changes, but for what is named in /dev/shm, and for terminals.
    pub fn leaves_changes(&self) -> bool {
        !self.brokers_writes() && self.leaves_reads() && !self.brokers_truncation && !self.grows
    }

    /// Whether a rule denies what is wanted of an object, whatever its name.
    pub fn denies_object(&self, object: Identity, wanted: Access) -> bool {
        self.named.get(&object).is_some_and(|left| !left.covers(wanted))
    }

    /// Whether an object is usable for what is wanted, whatever the rules say.
    pub fn is_always_usable(&self, object: Identity, wanted: Access) -> bool {
        self.grants.always.get(&object).is_some_and(|usable| usable.covers(wanted))
    }

    /// Whether a device may be used for what is wanted because the policy names it.
    pub fn is_named_device(&self, path: &Path, wanted: Access) -> bool {
        covers(&self.grants.devices, path) && self.rules.access(path).covers(wanted)
    }

    /// Whether an allowed path that `path` lies in leads to what it led to at launch.
    pub fn is_rooted(&self, path: &Path) -> bool {
        self.roots.iter().any(|(root, at_launch)| {
            let unchanged = || at_launch.is_none_or(|object| identity_of(root) == Some(object));
            path.starts_with(root) && unchanged()
        }) || self.is_for_once(path)
    }

    /// Whether a single call was permitted on `path`.
    pub(super) fn is_for_once(&self, path: &Path) -> bool {
        self.added.once.iter().any(|once| once == path)
    }

    /// Whether what is named `path` may be read: it was there at launch, or lies where entries that are
    /// made later are covered.
    pub fn is_readable(&self, path: &Path) -> bool {
        let is_granted = || covers(&self.grants.readable, path) && !self.is_memory_of_others(path);
        self.rules.access(path).read && (is_granted() || self.is_writable(path))
    }

    /// Whether Landlock lets what is named `path` be executed, whatever the rules say of reading it.
    pub fn lets_execute(&self, path: &Path) -> bool {
        covers(&self.grants.readable, path) || self.reserve_grants(path).read
    }

    /// Whether Landlock lets what is named `path` be read, if the rules do.
    pub fn is_granted_to_read(&self, path: &Path) -> bool {
        self.rules.access(path).read && self.lets_execute(path)
    }

    /// Whether what is made in `directory` nobody can read unless it was granted before.
    pub(super) fn needs_reserve(&self, directory: &Path) -> bool {
        self.reserve.as_ref().is_some_and(|reserve| reserve.serves_reads)
            && !self.is_granted_to_read(directory)
    }

    /// Whether `path` is shared memory that the policy does not name.
    fn is_memory_of_others(&self, path: &Path) -> bool {
        let is_inside = path.starts_with(memory::PLACE) && path != Path::new(memory::PLACE);
        is_inside && !covers(&self.grants.devices, path)
    }

    /// Whether the directory `path` may be listed though what others make in it may not be read: it was so at launch, or
    /// is one that was missing on the way to what may be made.
    pub fn is_listable(&self, path: &Path, directory: &Object) -> bool {
        let known = self.grants.unlistable.get(path);
        known.is_some_and(|known| Origin::of(directory).is_ok_and(|origin| origin == *known))
            || self.leads_to_missing(path)
                && self.rules.access(path).read
                && directory.kind() == FileType::Directory
    }

    /// Whether Landlock lets what is named `path` be written.
    pub fn is_granted(&self, path: &Path) -> bool {
        covers(&self.grants.writable, path) || self.reserve_grants(path).write
    }

    /// What Landlock lets be done where a directory or a file of the reserve was put.
    fn reserve_grants(&self, path: &Path) -> Access {
        self.reserve.as_ref().map_or(Access::NONE, |reserve| reserve.grants(path))
    }

    /// Whether a file is what others have put in the place of one that may be read, as editors do: the
    /// command could not, and the rules go by paths.
    pub fn is_replacement(&self, path: &Path, object: &Object) -> bool {
        let is_single =
            path.file_name().is_some_and(|name| self.grants.exception_names.contains(name));
        let before = self.grants.readable.get(path).filter(|_| is_single);
        before.is_some_and(|before| *before != object.identity())
            && object.kind() == FileType::RegularFile
            && self.rules.access(path).read
            && !self.denies_object(object.identity(), Access::READ)
    }

    /// Whether there are files and directories that Landlock does not let be opened for reading though the rules do.
    pub(crate) fn has_exceptions(&self) -> bool {
        !self.grants.unlistable.is_empty()
            || !self.grants.exception_names.is_empty()
            || self.brokers_processes
    }

    /// Whether `name` is the last component of one of them, wherever it is.
    pub(super) fn names_exception(&self, name: &OsStr) -> bool {
        self.grants.exception_names.contains(name)
            || self.grants.unlistable.keys().any(|path| path.file_name() == Some(name))
    }

    /// Whether Landlock lets what is named `path` be written, or is not asked.
    pub(super) fn grants_or_brokers(&self, path: &Path) -> bool {
        self.lets_write_more() || self.is_granted(path)
    }

    /// Who decides about writing to the object that is named `path`, if it may be written.
    pub fn content(&self, path: &Path) -> Option<Decider> {
        if self.is_granted(path) {
            Some(Decider::Landlock)
        } else {
            self.is_writable(path).then_some(Decider::Broker)
        }
    }

    /// Where the entry `name` of `directory` stands, and who decides about making, removing or replacing
    /// it, if it may change.
    pub fn entry(&self, directory: &Path, name: &OsStr) -> Option<(Cursor, Decider)> {
        let cursor = self.entry_cursor(directory, name)?;
        let granted = self.is_granted(directory);
        Some((cursor, if granted { Decider::Landlock } else { Decider::Broker }))
    }

    /// Whether the entry `name` of `directory` may be made, removed or replaced.
    pub fn may_change(&self, directory: &Path, name: &OsStr) -> bool {
        self.entry_cursor(directory, name).is_some()
    }

    /// Where the entry stands, if it may change.
    fn entry_cursor(&self, directory: &Path, name: &OsStr) -> Option<Cursor> {
        let cursor = self.named_cursor(directory, name)?;
        self.is_rooted(&directory.join(name)).then_some(cursor)
    }

    /// The same by the names alone, where the allowed paths are known to lead to what they led to at launch.
    pub fn named_cursor(&self, directory: &Path, name: &OsStr) -> Option<Cursor> {
        let above = self.rules.cursor(directory)?;
        let cursor = above.enter(name.as_bytes());
        // An allowed path that was missing may be made, though what is around it may not change.
        let is_allowed_itself = || {
            let path = directory.join(name);
            self.is_missing_root(&path) || self.is_for_once(&path)
        };
        let may_change = cursor.entry_may_change() && (above.access().write || is_allowed_itself());
        may_change.then_some(cursor)
    }

    /// Whether a link of git's may be made as the entry `name` of `directory`.
    pub(crate) fn may_make_git_link(&self, directory: &Path, name: &OsStr) -> bool {
        self.git_links.may_make(&directory.join(name)) && self.is_writable(directory)
    }

    /// Whether the entry is a link of git's that may be removed.
    pub(crate) fn may_remove_git_link(&self, directory: &Path, name: &OsStr) -> bool {
        // Nothing can be made there again.
        let is_gone = |path: &Path| {
            path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        self.git_links.may_remove(&directory.join(name), is_gone) && self.is_writable(directory)
    }

    /// What the command may do with the entry and whatever is made beneath it later, so that Landlock can judge all that:
    /// nothing if it may not read and write the entry itself.
    pub(super) fn settled(&self, directory: &Path, name: &OsStr) -> Access {
        let path = directory.join(name);
        // What one call makes is not open to the next; nor is what leads to an allowed path, at which Landlock would let a
        // link be made.
        let is_above = |(root, _): &(PathBuf, _)| *root != path && root.starts_with(&path);
        let is_closed = self.is_for_once(&path) || self.grows && self.roots.iter().any(is_above);
        let cursor = self.entry_cursor(directory, name).filter(|_| !is_closed);
        let cursor = cursor.filter(|cursor| cursor.access().covers(Access::ALL));
        cursor.map_or(Access::NONE, |cursor| {
            let read = cursor.is_settled(Kind::Read);
            Access { read, write: read && cursor.is_settled(Kind::Write) }
        })
    }

    /// For what a directory of the reserve is wanted in the place of a new one; none if it can be no such.
    pub(super) fn need_of_directory(&self, directory: &Path, name: &OsStr) -> Option<Need> {
        match self.settled(directory, name) {
            Access::ALL if self.lets_execute(directory) => Some(Need::Speed),
            Access::ALL => Some(Need::Execution),
            Access::READ if self.needs_reserve(directory) => Some(Need::Reading),
            _ => None,
        }
    }

    /// Whether `path` is an allowed path that was missing at launch, or by a rule for a single call.
    pub fn is_missing_root(&self, path: &Path) -> bool {
        let mut openings = self.openings.iter().filter(|path| self.rules.access(path).write);
        self.missing_roots().any(|root| *root == path)
            || openings.any(|opening| *opening == path)
            || self.added.are_named && self.is_for_once(path)
    }

    /// Whether no symbolic link may come to lie at `path`, as the next run would allow what it leads to: at an allowed path
    /// that was missing, and where answers open what is around allowed paths, at any of those and on the way there.
    pub(super) fn bars_links(&self, path: &Path) -> bool {
        let leads_on = || self.roots.iter().any(|(root, _)| root.starts_with(path));
        self.is_missing_root(path) || self.grows && leads_on()
    }

    /// Whether `path` leads to an allowed path that was missing at launch: such directories may be
    /// made. What leads to one that is opened inside a denied path is denied.
    pub fn leads_to_missing(&self, path: &Path) -> bool {
        self.missing_roots().any(|root| root.starts_with(path))
    }

    /// The allowed paths that were missing at launch, but for those that a rule denies: deny wins.
    pub fn missing_roots(&self) -> impl Iterator<Item = &PathBuf> {
        let missing = self.roots.iter().filter(|(_, at_launch)| at_launch.is_none());
        missing.map(|(root, _)| root).filter(|root| self.rules.access(root).write)
    }
}
