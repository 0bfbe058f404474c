//! Calls on files: most are let through to Landlock; what the rules allow beyond what Landlock was
//! told at launch, the broker does.
//!
//! Each is prepared (paths followed, objects and directories held, verdict on their names), and
//! performed only when the target still waits: by then it is certain that the arguments were its own.
//! What cannot be prepared is let through: the kernel stumbles over it too, and Landlock grants
//! nothing there.

use crate::answer::answer::Server;
use crate::call::decode::{Creation, FileCall, Spot};
use crate::call::how::OpenHow;
use crate::files::entry::{self, Entry};
use crate::files::open;
use crate::files::opens::{self, Source};
use crate::files::path;
use crate::files::view::{Decider, View};
use crate::kernel::limits;
use crate::kernel::object::{Name, Object};
use crate::kernel::target::{AT_FDCWD, Target};
use crate::report::denials::Denial;
use crate::rules::paths::{Access, Names};
use common::trap::FileOperation;
use nix::libc;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What the broker does in the place of a call, with all that it needs held.
#[derive(Debug)]
pub(crate) enum Task {
    Open(Object, FileType, OpenHow),
    /// The same of a regular file with O_TRUNC, which is heeded only when the target has its descriptor.
    OpenThenTruncate(Object, OpenHow),
    CreateFile(Entry, OpenHow),
    MakeDirectory(Entry, u32),
    MakeNode(Entry, FileType, u32),
    MakeSymlink(Entry, Vec<u8>),
    Remove(Entry, AtFlags),
    Rename(Entry, Entry, RenameFlags),
    Link(Object, Entry),
    Truncate(Object, i64),
    /// Done as it is.
    Nothing,
    /// Not done; with what there is to report.
    Refuse(Errno, Option<Denial>),
}

/// What a performed call returns.
pub(crate) enum Done {
    Nothing,
    Opened { file: OwnedFd, how: OpenHow, after: After },
}

/// What depends on whether the target gets the descriptor of an opened file.
pub(crate) enum After {
    Nothing,
    /// The entry was made for it: it goes if not.
    Created(Entry),
    /// This one, open for writing, is still to be truncated.
    Truncate(OwnedFd),
}

impl Task {
    /// Whether it makes something, which is subject to the target's umask.
    fn creates(&self) -> bool {
        match self {
            Self::CreateFile(..) | Self::MakeDirectory(..) | Self::MakeNode(..) => true,
            Self::Open(_, _, how) => how.flags.contains(OFlags::TMPFILE),
            _ => false,
        }
    }

    fn perform(self, umask: Mode, is_waited_for: impl Fn() -> bool) -> io::Result<Done> {
        let nothing = |()| Done::Nothing;
        let opened = |file, how, after| Done::Opened { file, how, after };
        match self {
            Self::Open(object, FileType::Fifo, how) => open::open_fifo(object, how, is_waited_for)
                .map(|file| opened(file, how, After::Nothing)),
            Self::Open(object, _, how) => {
                open::open(&object, &how, umask).map(|file| opened(file, how, After::Nothing))
            }
            Self::OpenThenTruncate(object, how) => {
                let (file, writer) = open::open_untruncated(&object, &how)?;
                Ok(opened(file, how, After::Truncate(writer)))
            }
            Self::CreateFile(entry, how) => open::create(&entry, &how, umask)
                .map(|file| opened(file, how, After::Created(entry))),
            Self::MakeDirectory(entry, mode) => {
                entry.make_directory(entry.mode(mode, umask)).map(nothing)
            }
            Self::MakeNode(entry, file_type, mode) => {
                entry.make_node(file_type, entry.mode(mode, umask)).map(nothing)
            }
            Self::MakeSymlink(entry, text) => entry.make_symlink(&text).map(nothing),
            Self::Remove(entry, flags) => entry.remove(flags).map(nothing),
            Self::Rename(old, new, flags) => old.rename_to(&new, flags).map(nothing),
            Self::Link(object, entry) => entry.link_to(&object).map(nothing),
            Self::Truncate(object, length) => entry::truncate(&object, length).map(nothing),
            Self::Nothing => Ok(Done::Nothing),
            Self::Refuse(errno, _) => Err(errno),
        }
    }
}

impl Server {
    /// Does the call if it is the broker's to do. Returns whether it was answered.
    pub(crate) fn broker(&self, id: u64, target: Target, call: &FileCall) -> bool {
        let view = &self.judges.view;
        let must_answer = view.grants.brokers_reads && opens::may_read(call);
        if !view.brokers_writes() && !must_answer {
            return false;
        }
        let done = self
            .with_rights_of(target, || Ok(self.broker_with_rights(id, target, call, must_answer)));
        done.unwrap_or_else(|errno| {
            self.traps.log(&format!("cannot act with the target's rights: {errno}"));
            if must_answer {
                self.listener.complete(id, Err(Errno::ACCESS));
            }
            must_answer
        })
    }

    fn broker_with_rights(
        &self,
        id: u64,
        target: Target,
        call: &FileCall,
        must_answer: bool,
    ) -> bool {
        let view = &self.judges.view;
        // A file that another thread creates or removes meanwhile turns one kind of task into another.
        for _ in 0..RETRIES {
            let task = match prepare(view, target, call) {
                Ok(Some(task)) => task,
                // Landlock would let what is denied be read.
                Ok(None) if must_answer => Task::Refuse(Errno::ACCESS, None),
                Err(errno) if must_answer => Task::Refuse(errno, None),
                Ok(None) | Err(_) => return false,
            };
            let creates = matches!(&task, Task::CreateFile(_, how)
                if !how.flags.contains(OFlags::EXCL));
            let result = self.perform_task(id, target, task);
            if creates && matches!(result, Err(Errno::EXIST)) {
                continue;
            }
            self.answer_task(id, result);
            return true;
        }
        self.listener.complete(id, Err(Errno::AGAIN));
        true
    }

    fn perform_task(&self, id: u64, target: Target, task: Task) -> io::Result<Done> {
        let umask = if task.creates() { self.umask_of(target)? } else { Mode::empty() };
        // Only now is it certain that all this was the target's.
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        let task = match task {
            Task::Open(object, FileType::RegularFile, how)
                if how.flags.contains(OFlags::TRUNC) && !limits::has_room(target) =>
            {
                Task::OpenThenTruncate(object, how)
            }
            task => task,
        };
        if let Task::Refuse(_, Some(denial)) = &task {
            self.traps.report(denial.clone(), "file rules");
        }
        task.perform(umask, || self.listener.is_waiting(id))
    }

    fn answer_task(&self, id: u64, result: io::Result<Done>) {
        let (file, how, after) = match result {
            Ok(Done::Opened { file, how, after }) => (file, how, after),
            Ok(Done::Nothing) => {
                self.listener.complete(id, Ok(()));
                return;
            }
            Err(errno) => {
                self.listener.complete(id, Err(errno));
                return;
            }
        };
        let close_on_exec = how.flags.contains(OFlags::CLOEXEC);
        let waits = matches!(after, After::Truncate(_)) || may_be_executed(&file, &how);
        let result = if !waits {
            self.listener.hand_over(id, file.as_fd(), close_on_exec).map(|()| None)
        } else {
            // The target may close and execute it at once, which fails as long as anyone has it open
            // for writing (ETXTBSY): the broker must not have it any more when the target goes on.
            // That takes two wake-ups more.
            let number = self.listener.give(id, file.as_fd(), close_on_exec);
            drop(file);
            number.map(Some)
        };
        // The kernel takes the number of the descriptor first, and changes nothing if it cannot.
        let result = match (result, after) {
            (Err(Errno::MFILE), After::Created(entry)) => {
                let _ = entry.remove(AtFlags::empty());
                Err(Errno::MFILE)
            }
            // The descriptor cannot be taken back: it stays if this fails, which it could only where
            // files are opened for writing that then cannot be written.
            (Ok(number), After::Truncate(writer)) => fs::ftruncate(writer, 0).map(|()| number),
            (result, _) => result,
        };
        if let Some(result) = result.transpose() {
            self.listener.complete_with(id, result);
        }
    }
}

/// Whether `file` was opened for writing and can be executed. If it cannot yet, the call that makes it
/// executable comes to this thread, after it has closed the file.
fn may_be_executed(file: &OwnedFd, how: &OpenHow) -> bool {
    let executable = Mode::XUSR | Mode::XGRP | Mode::XOTH;
    how.flags & OFlags::RWMODE != OFlags::RDONLY
        && fs::fstat(file)
            .is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode).intersects(executable))
}

/// How often a call is prepared again because of what other threads do.
const RETRIES: usize = 16;

/// Follows the paths of `call` and decides. `None`, or an error, leaves it to Landlock.
fn prepare(view: &View, target: Target, call: &FileCall) -> io::Result<Option<Task>> {
    match *call {
        FileCall::Open(spot, how) => opens::prepare(view, target, spot, how, Source::Registers),
        FileCall::OpenBy(spot, address, size) => {
            let how = opens::copy_how(target, address, size)?;
            opens::prepare(view, target, spot, how, Source::Memory)
        }
        FileCall::Truncate(spot, length) => {
            let path = target.read_path(spot.path)?;
            let object = path::resolve(target, spot.directory, &path, true, false)?;
            let ours = is_content_ours(view, &object)?;
            Ok(ours.then_some(Task::Truncate(object, length)))
        }
        FileCall::Create(spot, creation) => prepare_creation(view, target, spot, creation),
        FileCall::Remove(spot, flags) => {
            let entry = Entry::resolve(target, spot)?;
            Ok(is_ours(view, &entry).then_some(Task::Remove(entry, flags)))
        }
        FileCall::Rename(old, new, flags) => {
            let old = Entry::resolve(target, old)?;
            Ok(prepare_rename(view, old, Entry::resolve(target, new)?, flags))
        }
        FileCall::Link(old, new, flags) => prepare_link(view, target, old, new, flags),
    }
}

pub(crate) fn is_ours(view: &View, entry: &Entry) -> bool {
    view.brokers_entry(entry.directory(), entry.name())
}

/// Whether an object that is held is the broker's to open for writing, which permits to read it, too. Else it
/// is Landlock's, which grants neither. Callers leave devices to Landlock.
pub(crate) fn is_content_ours(view: &View, object: &Object) -> io::Result<bool> {
    // What proc(5) holds is about who opens it.
    if object.is_on_proc()? {
        return Ok(false);
    }
    if view.denies_object(object.identity(), Access::WRITE) {
        return Ok(false);
    }
    Ok(match object.name()? {
        Name::Nameless(_) => false,
        Name::Path(name) => view.content(&name) == Decider::Broker,
        // A former name says nothing of an object any more if it has others. If it has none, whatever
        // its name can have been must be permitted.
        former @ Name::Former(_) => {
            object.is_unlinked()
                && former.candidates().all(|name| view.is_writable(name))
                && former.candidates().nth(1).map(|name| view.content(name))
                    == Some(Decider::Broker)
        }
    })
}

fn prepare_creation(
    view: &View,
    target: Target,
    spot: Spot,
    creation: Creation,
) -> io::Result<Option<Task>> {
    // The kernel looks at the text first.
    let text = match creation {
        Creation::Symlink(text) => target.read_path(text)?,
        _ => Vec::new(),
    };
    let entry = Entry::resolve(target, spot)?;
    let leads_on =
        matches!(creation, Creation::Directory(_)) && view.leads_to_missing(&entry.path());
    if !leads_on && !is_ours(view, &entry) {
        return Ok(None);
    }
    Ok(match creation {
        Creation::Directory(mode) => Some(Task::MakeDirectory(entry, mode)),
        Creation::Symlink(_) if text.is_empty() => None,
        Creation::Symlink(_) if leads_astray(view, &entry) => Some(refuse_symlink(&entry)),
        Creation::Symlink(_) => Some(Task::MakeSymlink(entry, text)),
        Creation::Node(mode, _) => {
            let kind = match mode & libc::S_IFMT {
                0 | libc::S_IFREG => FileType::RegularFile,
                libc::S_IFIFO => FileType::Fifo,
                libc::S_IFSOCK => FileType::Socket,
                // Devices are not made, whatever the rules allow.
                _ => return Ok(None),
            };
            Some(Task::MakeNode(entry, kind, mode & !libc::S_IFMT))
        }
    })
}

fn prepare_rename(view: &View, old: Entry, new: Entry, flags: RenameFlags) -> Option<Task> {
    // RENAME_WHITEOUT makes a device node; the others exclude each other.
    let known = [RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
    if !known.contains(&flags) {
        return None;
    }
    let (from, from_by) = view.entry(old.directory(), old.name())?;
    let (to, to_by) = view.entry(new.directory(), new.name())?;
    if [from_by, to_by] == [Decider::Landlock; 2] {
        return None;
    }
    // All that is beneath must be judged as before. What is not said of a file is said all the same:
    // another thread can put a directory in its place. Programs copy then, entry by entry, as
    // between file systems. What is denied must not be carried away either: nothing that holds it
    // moves, so that no other thread can put it there after the look. What is replaced does not
    // move: a directory must be empty for that, which the kernel sees to.
    let same_zone = from.same_zone(&to);
    let moved = [Some(&old), flags.contains(RenameFlags::EXCHANGE).then_some(&new)];
    for entry in moved.into_iter().flatten() {
        match holds_denied(view, &entry.path()) {
            Held::Nothing => {}
            Held::Denied => return Some(refuse_write(&entry.path())),
            Held::Unknown => return Some(refuse_rename(&old, &new, flags)),
        }
    }
    // What moves to an allowed path could be a symbolic link by then.
    let to_root = view.is_missing_root(&new.path())
        || flags.contains(RenameFlags::EXCHANGE) && view.is_missing_root(&old.path());
    Some(match same_zone && !to_root {
        true => Task::Rename(old, new, flags),
        false => refuse_rename(&old, &new, flags),
    })
}

fn refuse_rename(old: &Entry, new: &Entry, flags: RenameFlags) -> Task {
    match why_not_renamed(old, new, flags) {
        Ok(()) => Task::Nothing,
        Err(errno) => Task::Refuse(errno, None),
    }
}

/// What the kernel would find wrong with a rename, in its order; if nothing, that it leads to another
/// file system, so that programs copy (rename(2), vfs_rename in fs/namei.c). Two names of one object
/// are left as they are.
fn why_not_renamed(old: &Entry, new: &Entry, flags: RenameFlags) -> io::Result<()> {
    let exchanges = flags.contains(RenameFlags::EXCHANGE);
    let (source, target) = match (old.hold_itself(), new.hold_itself()) {
        (Err(Errno::ACCESS), _) | (_, Err(Errno::ACCESS)) => return Err(Errno::ACCESS),
        (Err(errno), _) => return Err(errno),
        (_, Err(Errno::NOENT)) if exchanges => return Err(Errno::NOENT),
        (Ok(source), Err(Errno::NOENT)) => (source, None),
        (_, Err(errno)) => return Err(errno),
        (_, Ok(_)) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST),
        (Ok(source), Ok(target)) => (source, Some(target)),
    };
    let is_directory = |found: &Object| found.kind() == FileType::Directory;
    let moves_directory = is_directory(&source);
    let replaces_directory = target.as_ref().map(is_directory);
    let is_slashed = |entry: &Entry| entry.last().ends_with(b"/");
    let names_no_directory = match exchanges {
        true => is_slashed(new) && replaces_directory == Some(false),
        false => is_slashed(new) && !moves_directory,
    };
    if names_no_directory || is_slashed(old) && !moves_directory {
        return Err(Errno::NOTDIR);
    }
    if new.directory().starts_with(old.path()) {
        return Err(Errno::INVAL);
    }
    if old.directory().starts_with(new.path()) {
        return Err(if exchanges { Errno::INVAL } else { Errno::NOTEMPTY });
    }
    if target.as_ref().is_some_and(|target| target.identity() == source.identity()) {
        return Ok(());
    }
    let may_write = |object: &Object| object.permits(fs::Access::WRITE_OK);
    if !(may_write(old.parent()) && may_write(new.parent())) {
        return Err(Errno::ACCESS);
    }
    match replaces_directory {
        Some(true) if !exchanges && !moves_directory => return Err(Errno::ISDIR),
        Some(false) if !exchanges && moves_directory => return Err(Errno::NOTDIR),
        _ => {}
    }
    // It gets another `..`.
    let changes_parent = old.directory() != new.directory();
    let moved = [Some(&source), target.as_ref().filter(|_| exchanges)];
    let mut moved = moved.into_iter().flatten().filter(|found| is_directory(found));
    if changes_parent && moved.any(|directory| !may_write(directory)) {
        return Err(Errno::ACCESS);
    }
    let is_filled = || names_in(&new.path()).is_ok_and(|names| !names.is_empty());
    if !exchanges && replaces_directory == Some(true) && is_filled() {
        return Err(Errno::NOTEMPTY);
    }
    Err(Errno::XDEV)
}

pub(crate) fn refuse_write(path: &Path) -> Task {
    Task::Refuse(Errno::ACCESS, Some(Denial::file(FileOperation::Write, path)))
}

/// Whether a rule names something beneath the entry, so that a symbolic link in its place would make
/// that something else, or make it exist; or the entry itself, so that the next run would allow what
/// the link leads to.
fn leads_astray(view: &View, entry: &Entry) -> bool {
    view.is_missing_root(&entry.path())
        || view.rules.cursor(&entry.path()).is_some_and(|cursor| cursor.leads_on())
}

fn refuse_symlink(entry: &Entry) -> Task {
    match entry.hold() {
        Err(Errno::NOENT) => refuse_write(&entry.path()),
        found => Task::Refuse(found.err().unwrap_or(Errno::EXIST), None),
    }
}

/// What a rule wants to stay where it is, beneath a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    Denied,
    /// There is too much to look at.
    Unknown,
}

/// Looks for what is beneath `path` that a rule wants to stay where it is.
fn holds_denied(view: &View, path: &Path) -> Held {
    /// Most entries that are looked at: a few milliseconds' worth.
    const LOOKED_AT_MAX: usize = 10_000;
    let Some(cursor) = view.rules.cursor(path) else { return Held::Nothing };
    let mut looked_at = 0;
    let mut pending = vec![(path.to_owned(), cursor)];
    while let Some((path, cursor)) = pending.pop() {
        if cursor.write_settled() {
            continue;
        }
        let names = match cursor.write_names() {
            Names::Exactly(names) => names,
            Names::Any => match names_in(&path) {
                Ok(names) => names,
                Err(Errno::NOTDIR | Errno::NOENT | Errno::LOOP) => continue,
                // Its owner can close a directory for a while.
                Err(_) => return Held::Unknown,
            },
        };
        looked_at += names.len();
        if looked_at > LOOKED_AT_MAX {
            return Held::Unknown;
        }
        for name in names {
            let inner = path.join(OsStr::from_bytes(&name));
            let cursor = view.rules.enter(&cursor, &name);
            if cursor.entry_may_change() {
                pending.push((inner, cursor));
                continue;
            }
            match fs::statat(fs::CWD, &inner, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => return Held::Denied,
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(_) => return Held::Unknown,
            }
        }
    }
    Held::Nothing
}

fn names_in(directory: &Path) -> io::Result<Vec<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = fs::open(directory, flags, Mode::empty())?;
    let names = Dir::new(directory)?.map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
    let names: io::Result<Vec<_>> = names.collect();
    Ok(names?.into_iter().filter(|name| name != b"." && name != b"..").collect())
}

fn prepare_link(
    view: &View,
    target: Target,
    old: Spot,
    new: Spot,
    flags: AtFlags,
) -> io::Result<Option<Task>> {
    if !(AtFlags::SYMLINK_FOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
        return Ok(None);
    }
    let path = target.read_path(old.path)?;
    // With AT_EMPTY_PATH the kernel first looks who opened the descriptor that the path starts from:
    // where that was the broker, it finds nothing. So the broker answers.
    let by_descriptor =
        flags.contains(AtFlags::EMPTY_PATH) && old.directory != AT_FDCWD && !path.starts_with(b"/");
    match judge_link(view, target, (old.directory, &path), new, flags, by_descriptor) {
        Err(errno) if by_descriptor => Ok(Some(Task::Refuse(errno, None))),
        judged => judged,
    }
}

fn judge_link(
    view: &View,
    target: Target,
    (directory, path): (RawFd, &[u8]),
    new: Spot,
    flags: AtFlags,
    must_answer: bool,
) -> io::Result<Option<Task>> {
    let follow = flags.contains(AtFlags::SYMLINK_FOLLOW);
    let empty = flags.contains(AtFlags::EMPTY_PATH);
    let object = path::resolve(target, directory, path, follow, empty)?;
    let entry = match Entry::resolve(target, new) {
        // It ends in no name that could be made.
        Err(Errno::INVAL) if must_answer => {
            let path = target.read_path(new.path)?;
            path::resolve(target, new.directory, &path, true, false)?;
            return Err(Errno::EXIST);
        }
        entry => entry?,
    };
    let name = object.name()?;
    // Neither a directory nor what never had a path gets a link: the kernel says what is wrong first.
    if object.kind() == FileType::Directory || must_answer && matches!(name, Name::Nameless(_)) {
        return Ok(Some(Task::Link(object, entry)));
    }
    // A file without a name (O_TMPFILE) has that of its directory in front. One that was removed under
    // this name, and has others, could be denied by those.
    let unlinked = object.is_unlinked();
    let name = match name {
        Name::Former(name) if !unlinked => return Ok(Some(refuse_write(&name))),
        Name::Path(name) | Name::Former(name) | Name::Nameless(name) => name,
    };
    let (Some(directory), Some(last)) = (name.parent(), name.file_name()) else { return Ok(None) };
    let Some((_, from_by)) = view.entry(directory, last) else {
        return Ok(must_answer.then(|| refuse_write(&name)));
    };
    let Some((_, to_by)) = view.entry(entry.directory(), entry.name()) else {
        return Ok(must_answer.then(|| refuse_write(&entry.path())));
    };
    if !must_answer && [from_by, to_by] == [Decider::Landlock; 2] {
        return Ok(None);
    }
    if view.denies_object(object.identity(), Access::WRITE) {
        return Ok(Some(refuse_write(&name)));
    }
    if object.kind() == FileType::Symlink && leads_astray(view, &entry) {
        return Ok(Some(refuse_symlink(&entry)));
    }
    Ok(Some(Task::Link(object, entry)))
}
