//! What Landlock is told to grant: what remains of the allowed trees when the denied paths are subtracted.
//!
//! A subtree in which no rule can change the verdict is one Landlock rule. A directory on the way to
//! a denied path gets none, since a Landlock rule holds for all beneath; its other entries are granted
//! one by one. So the cost follows what is denied, not the size of the tree. What is granted is the
//! object that was opened here: another at the same path later is another object. Source: landlock(7).

use super::device_mounts::{DeviceMounts, Place};
use super::directories::{self, Listed, is_directory_now, list, open};
use super::ruleset::rights;
use super::{executables, fold, hard_links};
use crate::files::reserve::{Need, Reserve};
use crate::files::trees::Trees;
use crate::files::view::{Grants, Reads};
use crate::report::failure::Failure;
use kernel::identity::{Origin, hold, identity, known};
use kernel::mounts::Mount;
use kernel::ruleset::{FileAccess, allow_beneath};
use rules::paths::{Cursor, Kind, List, Names, Rules};
use rules::pattern::Pattern;
use rules::quick::QuickSet;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType};
use rustix::io::Errno;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// An object that is still to be looked at.
struct Pending {
    parent: Rc<OwnedFd>,
    name: CString,
    /// What the directory said of it, if it did.
    file_type: FileType,
    path: PathBuf,
    cursor: Cursor,
}

/// An object that is held.
struct Visited {
    object: Rc<OwnedFd>,
    is_directory: bool,
    path: PathBuf,
    cursor: Cursor,
}

pub(super) struct Builder {
    pub(super) ruleset: OwnedFd,
    /// What the ruleset decides on.
    handled: FileAccess,
    pub(super) grants: Grants,
    pub(super) places: DeviceMounts,
    /// Directories that are known to tell upper from lower case.
    told: QuickSet<PathBuf>,
    /// Files with other names that may be read, as long as it is not known whether by all of them.
    linked: Vec<PathBuf>,
    /// What may not be read.
    denied: Vec<PathBuf>,
    /// Those that were looked through: what is granted for writing mostly lies where reading has led already.
    listed: Trees<Found>,
}

/// A directory, and what is in it, or why that is not known.
type Found = (Rc<OwnedFd>, Rc<Result<Listed, Errno>>);

impl Builder {
    /// Grants nothing yet.
    pub(super) fn new(ruleset: OwnedFd, handled: FileAccess, places: DeviceMounts) -> Self {
        let (grants, told, listed) = (Grants::default(), QuickSet::default(), Trees::default());
        let (linked, denied) = (Vec::new(), Vec::new());
        Self { ruleset, handled, grants, places, told, linked, denied, listed }
    }

    /// Grants the trees that `rules` allow, but for devices.
    pub(super) fn grant_trees(&mut self, rules: &Rules, mounts: &[Mount]) -> Result<(), Failure> {
        let root = open(fs::CWD, c"/").map_err(|errno| no_way_through(Path::new("/"), errno))?;
        let root = Rc::new(root);
        self.grants.unlistable = self.grant(Kind::Read, rules, Rc::clone(&root))?;
        self.grant_linked(mounts)?;
        self.grants.brokers_writes |= !self.grant(Kind::Write, rules, root)?.is_empty();
        Ok(())
    }

    /// Lets files with other names be read, but where one of them is denied: a rule is for the inode, and would hold by
    /// that name as well.
    fn grant_linked(&mut self, mounts: &[Mount]) -> Result<(), Failure> {
        let linked = std::mem::take(&mut self.linked);
        let is_open = |path: &Path| self.grants.readable.contains_key(path);
        let open = hard_links::without_names_in((&self.denied, is_open), &linked, mounts);
        for path in linked {
            // There can be more than a process may hold.
            let found = hold(&path).ok().filter(|(_, stat)| open.contains(&identity(stat)));
            match found {
                Some((object, _)) => self.add(object.as_fd(), false, rights(Kind::Read), &path)?,
                None => drop(self.grants.readable.remove(&path)),
            }
        }
        Ok(())
    }

    /// Lets files and directories that are still to get their place be read and written with all beneath, as they need.
    pub(super) fn grant_reserve(&mut self, reserve: &Reserve) -> Result<(), Failure> {
        let all = rights(Kind::Read) | rights(Kind::Write);
        let place = Path::new("the reserve");
        reserve.grant(|object, need| {
            let access = if need == Need::Reading { rights(Kind::Read) } else { all };
            self.add(object, need != Need::File, access, place)
        })
    }

    /// Grants `kind` wherever `rules` allow it; returns the directories on the way to a denied path.
    fn grant(
        &mut self,
        kind: Kind,
        rules: &Rules,
        root: Rc<OwnedFd>,
    ) -> Result<Trees<Origin>, Failure> {
        let mut on_the_way = Trees::default();
        // A stack of its own: a tree may be deeper than the thread's stack.
        let mut pending = Vec::new();
        let cursor = rules.root();
        let mut next = Some(Visited { object: root, is_directory: true, path: "/".into(), cursor });
        while let Some(visited) = next {
            let allowed = visited.cursor.permits(kind);
            if !allowed && kind == Kind::Read {
                self.denied.push(visited.path.clone());
            }
            if allowed && visited.is_directory && !visited.cursor.is_settled(kind) {
                self.check_names(&visited)?;
            }
            // Nothing lies beneath a file, whatever the rules would say of it.
            if visited.cursor.is_settled(kind) || !visited.is_directory {
                match self.places.place(&visited.path) {
                    _ if !allowed => {}
                    Place::Above if kind == Kind::Read && visited.is_directory => {
                        self.grant_around_devices(visited, &mut pending)?;
                    }
                    Place::Inside if kind == Kind::Read => self.grant_listing(&visited)?,
                    Place::OfProcesses if kind == Kind::Read => drop(self.note(kind, &visited)?),
                    _ => self.grant_one(kind, visited)?,
                }
            } else if kind == Kind::Read && allowed && is_shared(&visited) {
                self.grant_one(kind, visited)?;
                self.grants.reads = Reads::More;
            } else if kind == Kind::Write && allowed && visited.cursor.any_depth() {
                // What a rule singles out can be anywhere beneath: all of it is the broker's.
                visited.add_to(&mut on_the_way)?;
            } else {
                self.look_through(&visited, kind, &mut pending)?;
                if allowed {
                    // What the command makes there nobody is let read.
                    if kind == Kind::Read && visited.cursor.access().write {
                        self.grants.reads = self.grants.reads.max(Reads::Less);
                    }
                    visited.add_to(&mut on_the_way)?;
                }
            }
            next = self.hold_next(&mut pending)?;
        }
        Ok(on_the_way)
    }

    /// Lets all be read that is beneath a directory, but for devices.
    fn grant_around_devices(
        &mut self,
        visited: Visited,
        pending: &mut Vec<Pending>,
    ) -> Result<(), Failure> {
        if visited.cursor.access().write || visited.cursor.any_depth() {
            self.grants.reads = Reads::More;
            return self.grant_one(Kind::Read, visited);
        }
        self.look_through(&visited, Kind::Read, pending)?;
        self.note(Kind::Read, &visited)?;
        let access = FileAccess::READ_DIR;
        self.add(visited.object.as_fd(), true, access, &visited.path)
    }

    /// Lets directories of devices be listed, and what is mounted in them and holds none be read.
    fn grant_listing(&mut self, visited: &Visited) -> Result<(), Failure> {
        if !visited.is_directory {
            return Ok(());
        }
        self.note(Kind::Read, visited)?;
        let access = FileAccess::READ_DIR;
        self.add(visited.object.as_fd(), true, access, &visited.path)?;
        let others: Vec<_> = self.places.others_in(&visited.path).map(Path::to_owned).collect();
        for path in others {
            let Ok((object, stat)) = hold(&path) else { continue };
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            self.add(object.as_fd(), is_directory, rights(Kind::Read), &path)?;
            self.grants.readable.insert(path, identity(&stat));
        }
        Ok(())
    }

    fn grant_one(&mut self, kind: Kind, visited: Visited) -> Result<(), Failure> {
        let has_other_names = self.note(kind, &visited)?;
        let Visited { object, is_directory, path, .. } = visited;
        match kind {
            Kind::Read if has_other_names => self.linked.push(path),
            // The broker goes by the name that is written to.
            Kind::Write if has_other_names => {
                self.grants.writable.remove(&path);
                self.grants.brokers_writes = true;
            }
            _ => self.add(object.as_fd(), is_directory, rights(kind), &path)?,
        }
        Ok(())
    }

    /// Notes which object is granted, and tells whether it is a file with other names (hard links) that no rule names.
    fn note(&mut self, kind: Kind, visited: &Visited) -> Result<bool, Failure> {
        let granted = match kind {
            Kind::Read => &mut self.grants.readable,
            Kind::Write => &mut self.grants.writable,
        };
        let path = visited.path.clone();
        let found = match visited.is_directory {
            // Of a mount whose server does not answer, which nobody may need.
            true => known(&visited.object, c"").map(|(found, ..)| (found, false, 1)),
            false => fs::fstat(&visited.object).map(|stat| {
                let kind = FileType::from_raw_mode(stat.st_mode);
                (identity(&stat), kind == FileType::RegularFile, stat.st_nlink)
            }),
        };
        let (found, is_file, links) = found.map_err(|errno| no_way_through(&path, errno))?;
        if let Some(name) = path.file_name().filter(|_| is_file && kind == Kind::Read) {
            self.grants.exception_names.insert(name.to_owned());
        }
        granted.insert(path, found);
        Ok(is_file && links > 1 && !visited.is_named())
    }

    /// Makes sure that a directory on the way to a denied path tells upper from lower case, and has one name for each
    /// entry.
    fn check_names(&mut self, visited: &Visited) -> Result<(), Failure> {
        if !self.told.insert(visited.path.clone()) {
            return Ok(());
        }
        let told = match visited.cursor.any_depth() {
            // Nobody looks through it.
            true => list(&visited.object).and_then(|listed| fold::ignores_case(&listed)),
            false => match &*self.entries_of(visited) {
                Ok(Listed { is_folded: true, .. }) => Ok(Some(true)),
                Ok(Listed { entries, .. }) => {
                    let mut names = entries.iter().map(|(name, _)| name);
                    Ok(names.find_map(|name| fold::is_told_by(&visited.object, name)))
                }
                Err(errno) => Err(*errno),
            },
        };
        let told = match told {
            // Its owner can let it be listed, but no sandbox can flag a directory (FS_IOC_SETFLAGS).
            Ok(None) | Err(Errno::ACCESS | Errno::PERM) => {
                Ok(fold::is_told_above(&visited.object, &visited.path))
            }
            told => told,
        };
        let shown = visited.path.display();
        let message = match told {
            _ if fold::has_second_names(&visited.object) => format!(
                "{shown} is on NTFS: a name that is denied in it or beneath could be reached by a second name \
                 (GIT~1 for .git); deny {shown} as a whole, or use a directory on another file system"
            ),
            Ok(Some(false)) | Err(Errno::NOENT) => return Ok(()),
            Ok(Some(true)) => format!(
                "{shown} ignores case: a name that is denied in it or beneath could be reached in another \
                 spelling; deny {shown} as a whole, or a directory that tells upper from lower case"
            ),
            Ok(None) => format!(
                "{shown} may ignore case, which only what is in it can show: deny {shown} as a whole, or let it be \
                 listed, with a letter in the name of a file there"
            ),
            Err(errno) => return Err(no_way_through(&visited.path, errno)),
        };
        Err(Failure::Internal("platform", message))
    }

    /// What is in a directory; it is listed once.
    fn entries_of(&mut self, directory: &Visited) -> Rc<Result<Listed, Errno>> {
        if let Some((_, listed)) = self.listed.get(&directory.path) {
            return Rc::clone(listed);
        }
        let listed = Rc::new(directories::look_through(&directory.object));
        let found = (Rc::clone(&directory.object), Rc::clone(&listed));
        self.listed.insert(directory.path.clone(), found);
        listed
    }

    /// Adds what is in a directory to `pending`, but for what is denied with all beneath.
    fn look_through(
        &mut self,
        directory: &Visited,
        kind: Kind,
        pending: &mut Vec<Pending>,
    ) -> Result<(), Failure> {
        let allowed = directory.cursor.permits(kind);
        let mut denied = Vec::new();
        let mut add = |name: &[u8], file_type| {
            let cursor = directory.cursor.enter(name);
            let path = || directory.path.join(OsStr::from_bytes(name));
            if cursor.is_settled(kind) && !cursor.permits(kind) {
                if allowed && kind == Kind::Read {
                    denied.push(path());
                }
                return;
            }
            let path = path();
            let Ok(name) = CString::new(name) else { return };
            let parent = Rc::clone(&directory.object);
            pending.push(Pending { parent, name, file_type, path, cursor });
        };
        let closed = (!allowed).then(|| directory.cursor.names(kind));
        match closed {
            Some(Names::Exactly(names)) => {
                names.iter().for_each(|name| add(name, FileType::Unknown));
            }
            _ => match &*self.entries_of(directory) {
                Ok(Listed { entries, .. }) => {
                    // Landlock never asks whether a symbolic link may be used, but what it leads to.
                    let entries = entries.iter().filter(|(_, kind)| *kind != FileType::Symlink);
                    entries.for_each(|(name, file_type)| add(name, *file_type));
                }
                Err(Errno::ACCESS | Errno::PERM) => {}
                Err(errno) => return Err(no_way_through(&directory.path, *errno)),
            },
        }
        self.denied.append(&mut denied);
        Ok(())
    }

    /// Opens the next one; those that are gone, or that this user may not enter, are not granted.
    fn hold_next(&self, pending: &mut Vec<Pending>) -> Result<Option<Visited>, Failure> {
        while let Some(Pending { parent, name, file_type, path, cursor }) = pending.pop() {
            if let Some((object, _)) = self.listed.get(&path) {
                let object = Rc::clone(object);
                return Ok(Some(Visited { object, is_directory: true, path, cursor }));
            }
            let object = match open(parent.as_fd(), &name) {
                Ok(object) => object,
                Err(Errno::NOENT | Errno::ACCESS | Errno::PERM) => continue,
                Err(errno) => return Err(no_way_through(&path, errno)),
            };
            let is_directory = match file_type {
                FileType::Unknown => is_directory_now(object.as_fd()),
                known => known == FileType::Directory,
            };
            return Ok(Some(Visited { object: Rc::new(object), is_directory, path, cursor }));
        }
        Ok(None)
    }

    /// Adds a rule for what is held.
    pub(super) fn add(
        &mut self,
        object: BorrowedFd<'_>,
        is_directory: bool,
        access: FileAccess,
        path: &Path,
    ) -> Result<(), Failure> {
        // The kernel takes no directory rights for anything else.
        let access = if is_directory { access } else { access & FileAccess::OF_FILES };
        let access = access & self.handled;
        if access.is_empty() {
            return Ok(());
        }
        match allow_beneath(self.ruleset.as_fd(), object, access) {
            Ok(()) => Ok(()),
            // A file took the place of a directory since that was listed: then it is not granted.
            Err(_) if is_directory && !is_directory_now(object) => Ok(()),
            Err(errno) => Err(Failure::platform("cannot grant access to", path, errno)),
        }
    }
}

/// Why there is no ruleset: a directory on the way could not be looked through.
fn no_way_through(path: &Path, errno: Errno) -> Failure {
    Failure::platform("cannot look through", path, errno)
}

impl Visited {
    /// Whether a rule opens this path itself for reading.
    fn is_named(&self) -> bool {
        let names = |(list, pattern): (List, &Pattern)| {
            list == List::AllowRead && pattern.as_path().as_ref() == Some(&self.path)
        };
        self.cursor.basis(Kind::Read).is_some_and(names)
    }

    fn add_to(self, directories: &mut Trees<Origin>) -> Result<(), Failure> {
        match Origin::of(&self.object) {
            Ok(origin) => {
                directories.insert(self.path, origin);
                Ok(())
            }
            Err(errno) => Err(no_way_through(&self.path, errno)),
        }
    }
}

/// Whether Landlock must let all beneath a directory be read, though some of it may not be: what the
/// command makes there it must be able to execute, for which it must be able to read it, and rules
/// cannot be added later. Nor is a tree looked through to its end. There the broker judges what is read,
/// but nobody what is executed, so that beside what could be, all is granted one by one; what is denied
/// by `**` alone is the exception.
fn is_shared(visited: &Visited) -> bool {
    let cursor = &visited.cursor;
    match cursor.access().write {
        true => !executables::are_denied_in(&visited.object, cursor),
        false => cursor.any_depth() && cursor.fixed_read_names().is_none(),
    }
}
