//! The work of file calls: what was judged, and what comes of it.

use super::entry::{self, Entry};
use super::open;
use super::reserve::{Need, Reserve};
use crate::call::how::OpenHow;
use crate::report::denials::Denial;
use common::trap::FileOperation;
use kernel::limits;
use kernel::object::Object;
use kernel::request::Confirmed;
use rules::git_links;
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{self, Errno};
use std::path::Path;
use std::sync::Arc;

/// What the broker does in the place of a call, with all that it needs held.
#[derive(Debug)]
pub(crate) enum Task {
    Open(Object, FileType, OpenHow),
    /// A file of these takes its place, if one can.
    CreateFile(Entry, OpenHow, Option<Arc<Reserve>>),
    /// The same of a file with a content of its own; what the target writes is lost.
    MakeGitLink(Entry, OpenHow),
    /// A directory of these takes its place, if one can.
    MakeDirectory(Entry, u32, Option<(Arc<Reserve>, Need)>),
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

/// What a performed call returns, if it opens a file; else nothing.
pub(crate) type Done = Option<Opened>;

/// A file that the broker has opened for the target.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: OwnedFd,
    pub(crate) flags: OFlags,
    pub(crate) after: After,
}

/// What depends on whether the target gets the descriptor of an opened file.
#[derive(Debug)]
pub(crate) enum After {
    Nothing,
    /// It is an end of a pipe: the broker must have closed its own when the target goes on, or the next
    /// to open the other end finds that.
    PipeEnd,
    /// The entry was made for it: it goes if not.
    Created(Box<Entry>),
    /// This one, open for writing, is still to be truncated.
    Truncate(OwnedFd),
}

impl Opened {
    /// Whether the target may close and execute it at once, which fails as long as anyone has it open
    /// for writing (ETXTBSY). If it cannot be executed yet, the call that makes it so waits until the
    /// broker has closed the file.
    pub(crate) fn may_be_executed(&self) -> bool {
        let executable = Mode::XUSR | Mode::XGRP | Mode::XOTH;
        let mode = || fs::fstat(&self.file).map(|stat| Mode::from_raw_mode(stat.st_mode));
        self.flags & OFlags::RWMODE != OFlags::RDONLY
            && mode().is_ok_and(|mode| mode.intersects(executable))
    }
}

impl Task {
    /// Whether it makes something, which is subject to the target's umask.
    pub(crate) fn creates(&self) -> bool {
        match self {
            Self::CreateFile(..)
            | Self::MakeGitLink(..)
            | Self::MakeDirectory(..)
            | Self::MakeNode(..) => true,
            Self::Open(_, _, how) => how.flags.contains(OFlags::TMPFILE),
            _ => false,
        }
    }

    /// Does it for a target that waits.
    pub(crate) fn perform(self, by: Confirmed<'_>, umask: Mode) -> io::Result<Done> {
        let opened = |file, how: OpenHow, after| Ok(Some(Opened { file, flags: how.flags, after }));
        let done = match self {
            // It is truncated only when the target has its descriptor.
            Self::Open(object, FileType::RegularFile, how)
                if how.flags.contains(OFlags::TRUNC) && !limits::has_room(by.target()) =>
            {
                let (file, writer) = open::open_untruncated(by, &object, &how)?;
                return opened(file, how, After::Truncate(writer));
            }
            Self::Open(object, kind, how) => {
                // Without a name it can be a pipe.
                let is_end = matches!(kind, FileType::Fifo | FileType::Unknown);
                let after = if is_end { After::PipeEnd } else { After::Nothing };
                return opened(open::open(by, object, kind, how, umask)?, how, after);
            }
            Self::CreateFile(entry, how, reserve) => {
                let file = open::create(by, &entry, &how, umask, reserve.as_deref())?;
                return opened(file, how, After::Created(Box::new(entry)));
            }
            Self::MakeGitLink(entry, how) => {
                let lost = open::create_with(by, &entry, &how, umask, git_links::COMMON)?;
                return opened(lost, how, After::Created(Box::new(entry)));
            }
            Self::MakeDirectory(entry, mode, reserve) => {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
                let how = (entry.mode(mode, umask), flags);
                let placed = reserve.map(|(reserve, need)| {
                    (reserve.make(by, &entry, how, need), reserve.is_all_for(need))
                });
                match placed {
                    Some((Some(_), _)) => Ok(()),
                    // Another thread made it, or took the last one, since.
                    Some((None, true)) => {
                        Err(entry.hold_itself().map_or(Errno::ACCESS, |_| Errno::EXIST))
                    }
                    _ => fs::mkdirat(entry.parent(), entry.last(), how.0),
                }
            }
            Self::MakeNode(entry, file_type, mode) => {
                let mode = entry.mode(mode, umask);
                fs::mknodat(entry.parent(), entry.last(), file_type, mode, 0)
            }
            Self::MakeSymlink(entry, text) => fs::symlinkat(text, entry.parent(), entry.last()),
            Self::Remove(entry, flags) => entry.remove(by, flags),
            Self::Rename(old, new, flags) => {
                fs::renameat_with(old.parent(), old.last(), new.parent(), new.last(), flags)
            }
            Self::Link(object, entry) => {
                let follow = AtFlags::SYMLINK_FOLLOW;
                fs::linkat(fs::CWD, object.link(), entry.parent(), entry.last(), follow)
            }
            Self::Truncate(object, length) => entry::truncate(by, &object, length),
            Self::Nothing => Ok(()),
            Self::Refuse(errno, _) => Err(errno),
        };
        done.map(|()| None)
    }
}

/// Refuses a change of what is at `path`, and reports it.
pub(crate) fn refuse_write(path: &Path) -> Task {
    Task::Refuse(Errno::ACCESS, Some(Denial::file(FileOperation::Write, path)))
}

/// Refuses to give something the name `path`, as between file systems.
pub(crate) fn refuse_across(path: &Path) -> Task {
    Task::Refuse(Errno::XDEV, Some(Denial::file(FileOperation::Write, path)))
}
