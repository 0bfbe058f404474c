//! Entries that are made and removed: mkdir(2), mknod(2), symlink(2), unlink(2), rmdir(2).

use super::entry::Entry;
use super::path::IsGranted;
use super::reserve::Reserve;
use super::task::{Task, refuse_write};
use super::verdict::{LandlockReason, leave_entry};
use super::view::View;
use super::walk::Lost;
use crate::call::decode::{Creation, PathArg};
use kernel::target::Target;
use nix::libc;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::sync::Arc;

const WRITE_FOR_OTHERS: u32 = libc::S_IWGRP | libc::S_IWOTH;

/// Judges a call that makes an entry.
pub(crate) fn judge_creation(
    view: &View,
    target: Target,
    arg: PathArg,
    creation: Creation,
) -> Result<Task, Lost> {
    // The kernel looks at the text and the type first.
    let text = match creation {
        Creation::Symlink(text) => target.read_path(text)?,
        _ => Vec::new(),
    };
    let kind = match creation {
        Creation::Symlink(_) if text.is_empty() => return Err(Errno::NOENT.into()),
        Creation::Node(mode) => match mode & libc::S_IFMT {
            0 | libc::S_IFREG => FileType::RegularFile,
            libc::S_IFIFO => FileType::Fifo,
            libc::S_IFSOCK => FileType::Socket,
            // Devices are not made, whatever the rules allow.
            _ => return Err(Lost::ToLandlock(LandlockReason::DeniedAnyway)),
        },
        _ => FileType::Unknown,
    };
    let is_directory = matches!(creation, Creation::Directory(_));
    // Where Landlock grants the directory, it decides, but for one on the way to what is missing.
    let is_granted: IsGranted<'_> = &|_, directory| {
        view.is_granted(directory) && !(is_directory && view.leads_to_missing(directory))
    };
    let entry = Entry::resolve(target, arg, is_granted)?;
    let leads_on = is_directory && view.leads_to_missing(&entry.path());
    if !leads_on {
        leave_entry(view, entry.directory(), entry.name())?;
    }
    Ok(match creation {
        Creation::Directory(mode) => {
            let (directory, name) = (entry.directory(), entry.name());
            let is_of_use = |reserve: &Arc<Reserve>| reserve.is_of_use();
            let reserve = view.reserve.clone().filter(is_of_use);
            let reserve = reserve
                .and_then(|reserve| Some((reserve, view.need_of_directory(directory, name)?)));
            if let Some((reserve, need)) = &reserve
                && reserve.is_all_for(*need)
                && !reserve.can_make(&entry, *need)
            {
                return Ok(refuse_new(&entry));
            }
            // Whoever can write to what leads to an allowed path decides what lies there.
            let is_on_the_way = leads_on && !view.rules.access(&entry.path()).write;
            let mode = if is_on_the_way { mode & !WRITE_FOR_OTHERS } else { mode };
            Task::MakeDirectory(entry, mode, reserve)
        }
        Creation::Symlink(_) if leads_astray(view, &entry) => refuse_new(&entry),
        Creation::Symlink(_) => Task::MakeSymlink(entry, text),
        Creation::Node(mode) => Task::MakeNode(entry, kind, mode & !libc::S_IFMT),
    })
}

/// Judges a call that removes an entry.
pub(crate) fn judge_removal(
    view: &View,
    target: Target,
    arg: PathArg,
    flags: AtFlags,
) -> Result<Task, Lost> {
    if !AtFlags::REMOVEDIR.contains(flags) {
        return Err(Lost::ToLandlock(LandlockReason::Futile));
    }
    let entry = Entry::resolve(target, arg, &|_, directory| view.is_granted(directory))?;
    if !(flags.is_empty() && view.may_remove_git_link(entry.directory(), entry.name())) {
        leave_entry(view, entry.directory(), entry.name())?;
    }
    Ok(Task::Remove(entry, flags))
}

/// Whether a rule names something beneath the entry, so that a symbolic link in its place would make
/// that something else, or make it exist; or the entry itself, so that the next run would allow what
/// the link leads to.
pub(crate) fn leads_astray(view: &View, entry: &Entry) -> bool {
    view.bars_links(&entry.path())
        || view.rules.cursor(&entry.path()).is_some_and(|cursor| cursor.leads_on())
}

/// Refuses to make an entry.
pub(crate) fn refuse_new(entry: &Entry) -> Task {
    refuse_new_with(entry, refuse_write(&entry.path()))
}

/// Refuses to make an entry, with what is there already, if anything is.
pub(crate) fn refuse_new_with(entry: &Entry, refusal: Task) -> Task {
    match entry.hold() {
        Err(Errno::NOENT) => refusal,
        found => Task::Refuse(found.err().unwrap_or(Errno::EXIST), None),
    }
}
