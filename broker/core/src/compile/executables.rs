//! Executables among what may not be read: what executes them has their content, since the kernel asks
//! nobody but Landlock. It looks at directories and changes nothing. Source: execve(2).

use super::directories::{self, open};
use rules::paths::{Cursor, Names};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, FileType, Mode};
use rustix::io::{self, Errno};
use std::ffi::CString;
use std::rc::Rc;

/// Most objects that are looked at.
const OBJECTS_MAX: usize = 10_000;

/// Whether something beneath `directory`, where `cursor` stands, may not be read and could be executed.
/// It goes by the rules the depth of which is known, and says yes where it cannot look.
pub(super) fn are_denied_in(directory: &Rc<OwnedFd>, cursor: &Cursor) -> bool {
    find(directory, cursor).unwrap_or(true)
}

fn find(directory: &Rc<OwnedFd>, cursor: &Cursor) -> io::Result<bool> {
    let mut pending = Vec::new();
    look_through(directory, cursor, &mut pending)?;
    for _ in 0..OBJECTS_MAX {
        let Some((parent, name, cursor)) = pending.pop() else { return Ok(false) };
        let object = match open(parent.as_fd(), &name) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            object => object?,
        };
        let stat = fs::fstat(&object)?;
        let executable = Mode::XUSR | Mode::XGRP | Mode::XOTH;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => look_through(&Rc::new(object), &cursor, &mut pending)?,
            FileType::RegularFile
                if !cursor.access().read
                    && Mode::from_raw_mode(stat.st_mode).intersects(executable) =>
            {
                return Ok(true);
            }
            _ => {}
        }
    }
    Err(Errno::TOOBIG)
}

/// An entry that is still to be looked at.
type Pending = (Rc<OwnedFd>, CString, Cursor);

/// Adds what may be denied in a directory to `pending`.
fn look_through(
    directory: &Rc<OwnedFd>,
    cursor: &Cursor,
    pending: &mut Vec<Pending>,
) -> io::Result<()> {
    let names = match cursor.fixed_read_names() {
        Some(Names::Exactly(names)) if cursor.access().read => names,
        None if cursor.access().read => return Ok(()),
        _ => directories::look_through(directory)?
            .entries
            .into_iter()
            .map(|(name, _)| name)
            .collect(),
    };
    pending.extend(names.into_iter().filter_map(|name| {
        let cursor = cursor.enter(&name);
        let name = CString::new(name).ok()?;
        let is_open = cursor.access().read && cursor.fixed_read_names().is_none();
        (!is_open).then(|| (Rc::clone(directory), name, cursor))
    }));
    Ok(())
}
