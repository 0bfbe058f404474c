//! What gets another name: rename(2) and link(2).

use super::changes::{leads_astray, refuse_new, refuse_new_with};
use super::entry::Entry;
use super::path::{self, IsGranted, NOTHING};
use super::task::{Task, refuse_across, refuse_write};
use super::verdict::LandlockReason;
use super::view::{Decider, View};
use super::walk::{GRANTED, Lost, NO_ENTRY};
use crate::call::decode::PathArg;
use kernel::identity::{HELD, known};
use kernel::long_paths;
use kernel::object::{Name, Object};
use kernel::target::{Target, TargetFd};
use rules::paths::{Access, Kind, Names};
use rustix::fs::{self, AtFlags, Dir, FileType, OFlags, RenameFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Judges a rename.
pub(crate) fn judge_rename(
    view: &View,
    target: Target,
    (old, new): (PathArg, PathArg),
    flags: RenameFlags,
) -> Result<Task, Lost> {
    // RENAME_WHITEOUT makes a device node; the others exclude each other.
    let known = [RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
    if !known.contains(&flags) {
        return Err(Lost::ToLandlock(LandlockReason::Alone));
    }
    let is_granted: IsGranted<'_> = &|_, directory| view.is_granted(directory);
    let (old, new) = match [old, new].map(|arg| Entry::resolve(target, arg, is_granted)) {
        [Err(GRANTED), Err(GRANTED)] => return Err(GRANTED),
        [Err(GRANTED), entry] => (Entry::resolve(target, old, NOTHING)?, entry?),
        [entry, Err(GRANTED)] => (entry?, Entry::resolve(target, new, NOTHING)?),
        [old, new] => (old?, new?),
    };
    let places = [&old, &new].map(|entry| view.entry(entry.directory(), entry.name()));
    let [Some((from, from_by)), Some((to, to_by))] = places else {
        return Err(Lost::ToLandlock(LandlockReason::DeniedAnyway));
    };
    if [from_by, to_by] == [Decider::Landlock; 2] {
        return Err(GRANTED);
    }
    // All that is beneath must be judged as before. What is not said of a file is said all the same:
    // another thread can put a directory in its place. Programs copy then, entry by entry, as
    // between file systems. What is denied must not be carried away either: nothing that holds it
    // moves, so that no other thread can put it there after the look. What is replaced does not
    // move: a directory must be empty for that, which the kernel sees to.
    let same_zone = from.same_zone(&to);
    let exchanges = flags.contains(RenameFlags::EXCHANGE);
    let moved = [Some(&old), exchanges.then_some(&new)];
    let by = [(from_by, to_by), (to_by, from_by)];
    for (entry, by) in moved.into_iter().zip(by).filter_map(|(entry, by)| Some((entry?, by))) {
        if let Ok(object) = entry.hold_itself() {
            // A rule denies it by another name (link(2)).
            if view.denies_object(object.identity(), Access::ALL) {
                return Ok(refuse_write(&entry.path()));
            }
            // Nobody has looked for such names beneath what was added during the run.
            let is_opened = view.grows && by == (Decider::Broker, Decider::Landlock);
            if is_opened && object.kind() == FileType::Directory {
                return Ok(refuse_rename(&old, &new, flags));
            }
        }
        match holds_denied(view, &entry.path()) {
            Beneath::Nothing => {}
            Beneath::Denied => return Ok(refuse_write(&entry.path())),
            Beneath::Unknown => return Ok(refuse_rename(&old, &new, flags)),
        }
    }
    let comes_to = |is_one: fn(&View, &Path) -> bool| {
        is_one(view, &new.path()) || exchanges && is_one(view, &old.path())
    };
    let is_for_once = [&old, &new].iter().any(|entry| view.is_for_once(&entry.path()));
    // What moves to an allowed path could be a symbolic link by then.
    Ok(match same_zone && !comes_to(View::bars_links) {
        true if !is_for_once || moves_once(view, &old, flags) => Task::Rename(old, new, flags),
        _ => refuse_rename(&old, &new, flags),
    })
}

/// Whether a single call may move what is at `old`: a file that has no other name, by which it could be changed afterwards,
/// and nothing that Landlock was told of, whose rule would hold wherever it lies, as for all beneath a directory. (A file of
/// the reserve it cannot be: where rules may be added during the run, none is put in place.) Where other calls may change
/// `old`, another thread could give it a second name, or put a directory there.
fn moves_once(view: &View, old: &Entry, flags: RenameFlags) -> bool {
    debug_assert!(view.reserve.as_ref().is_none_or(|reserve| !reserve.serves_reads));
    let is_fit = |object: Object| {
        known(&object, c"").is_ok_and(|(_, kind, links)| kind != FileType::Directory && links == 1)
            && !view.grants.writable.values().any(|granted| *granted == object.identity())
    };
    let is_alone = !flags.contains(RenameFlags::EXCHANGE) && view.is_for_once(&old.path());
    is_alone && old.hold_itself().is_ok_and(is_fit)
}

fn refuse_rename(old: &Entry, new: &Entry, flags: RenameFlags) -> Task {
    match why_not_renamed(old, new, flags) {
        Ok(()) => Task::Nothing,
        Err(Errno::XDEV) => refuse_across(&new.path()),
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
        (Ok(source), Err(Errno::NOENT)) if !exchanges => (source, None),
        (_, Err(errno)) => return Err(errno),
        (_, Ok(_)) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST),
        (Ok(source), Ok(target)) => (source, Some(target)),
    };
    let is_directory = |found: &Object| found.kind() == FileType::Directory;
    let moves_directory = is_directory(&source);
    let replaces_directory = target.as_ref().map(is_directory);
    let is_slashed = |entry: &Entry| entry.last().ends_with(b"/");
    let comes_to_directory =
        if exchanges { replaces_directory == Some(true) } else { moves_directory };
    if is_slashed(new) && !comes_to_directory || is_slashed(old) && !moves_directory {
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

/// What a rule wants to stay where it is, beneath a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beneath {
    Nothing,
    Denied,
    /// There is too much to look at.
    Unknown,
}

/// Looks for what is beneath `path` that a rule wants to stay where it is.
pub fn holds_denied(view: &View, path: &Path) -> Beneath {
    /// Most entries that are looked at: a few milliseconds' worth.
    const LOOKED_AT_MAX: usize = 10_000;
    let Some(cursor) = view.rules.cursor(path) else { return Beneath::Nothing };
    let mut looked_at = 0;
    let mut pending = vec![(path.to_owned(), cursor)];
    while let Some((path, cursor)) = pending.pop() {
        if cursor.is_settled(Kind::Write) {
            continue;
        }
        let names = match cursor.names(Kind::Write) {
            Names::Exactly(names) => names,
            Names::Any => match names_in(&path) {
                Ok(names) => names,
                Err(Errno::NOTDIR | Errno::NOENT | Errno::LOOP) => continue,
                // Its owner can close a directory for a while.
                Err(_) => return Beneath::Unknown,
            },
        };
        looked_at += names.len();
        if looked_at > LOOKED_AT_MAX {
            return Beneath::Unknown;
        }
        for name in names {
            let inner = path.join(OsStr::from_bytes(&name));
            let cursor = cursor.enter(&name);
            if cursor.entry_may_change() {
                pending.push((inner, cursor));
                continue;
            }
            match long_paths::open(&inner, HELD, ResolveFlags::empty()) {
                Ok(_) => return Beneath::Denied,
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(_) => return Beneath::Unknown,
            }
        }
    }
    Beneath::Nothing
}

fn names_in(directory: &Path) -> io::Result<Vec<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = long_paths::open(directory, flags, ResolveFlags::empty())?;
    let names = Dir::new(directory)?.map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
    let names: io::Result<Vec<_>> = names.collect();
    Ok(names?.into_iter().filter(|name| name != b"." && name != b"..").collect())
}

/// Judges a link.
pub(crate) fn judge_link(
    view: &View,
    target: Target,
    (old, new): (PathArg, PathArg),
    flags: AtFlags,
) -> Result<Task, Lost> {
    if !(AtFlags::SYMLINK_FOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
        return Err(Lost::ToLandlock(LandlockReason::Futile));
    }
    let path = target.read_path(old.path)?;
    // With AT_EMPTY_PATH the kernel first looks who opened the descriptor that the path starts from:
    // where that was the broker, it finds nothing. So the broker answers.
    let empty = flags & AtFlags::EMPTY_PATH;
    let by_descriptor =
        !empty.is_empty() && old.directory != TargetFd::CWD && !path.starts_with(b"/");
    let follow = match flags.contains(AtFlags::SYMLINK_FOLLOW) {
        true => AtFlags::empty(),
        false => AtFlags::SYMLINK_NOFOLLOW,
    };
    let must_answer = |lost| if by_descriptor { Lost::Errno(Errno::from(lost)) } else { lost };
    let object =
        path::resolve(target, old.directory, &path, follow | empty).map_err(must_answer)?;
    let entry = match Entry::resolve(target, new, NOTHING) {
        // It ends in no name that could be made.
        Err(NO_ENTRY) if by_descriptor => {
            let path = target.read_path(new.path)?;
            path::resolve(target, new.directory, &path, AtFlags::empty())?;
            return Err(Errno::EXIST.into());
        }
        entry => entry.map_err(must_answer)?,
    };
    let name = object.name()?;
    // Neither a directory nor what never had a path gets a link: the kernel says what is wrong first.
    if object.kind() == FileType::Directory || by_descriptor && matches!(name, Name::Nameless(_)) {
        return Ok(Task::Link(object, entry));
    }
    // A file without a name (O_TMPFILE) has that of its directory in front. One that was removed under
    // this name, and has others, could be denied by those.
    let unlinked = object.is_unlinked();
    let name = match name {
        Name::Former(name) if !unlinked => return Ok(refuse_write(&name)),
        Name::Path(name) | Name::Former(name) | Name::Nameless(name) => name,
    };
    let denied = |path: &Path| match by_descriptor {
        true => Ok(refuse_write(path)),
        false => Err(Lost::ToLandlock(LandlockReason::DeniedAnyway)),
    };
    let (Some(directory), Some(last)) = (name.parent(), name.file_name()) else {
        return Err(Lost::ToLandlock(LandlockReason::Alone));
    };
    let Some((_, from_by)) = view.entry(directory, last) else { return denied(&name) };
    let Some((_, to_by)) = view.entry(entry.directory(), entry.name()) else {
        return denied(&entry.path());
    };
    if !by_descriptor && [from_by, to_by] == [Decider::Landlock; 2] {
        return Err(GRANTED);
    }
    if view.denies_object(object.identity(), Access::WRITE) {
        return Ok(refuse_write(&name));
    }
    if object.kind() == FileType::Symlink && leads_astray(view, &entry) {
        return Ok(refuse_new(&entry));
    }
    // Nobody could read it by this name, or what was permitted once could be written by the other for good: programs copy
    // then, as between file systems.
    let is_for_once = view.is_for_once(&name) || view.is_for_once(&entry.path());
    if view.needs_reserve(entry.directory()) || is_for_once {
        return Ok(refuse_new_with(&entry, refuse_across(&entry.path())));
    }
    Ok(Task::Link(object, entry))
}
