//! Shared memory of the command's own: what it makes in /dev/shm (shm_overview(7), sem_overview(7)).
//!
//! There everyone's objects lie side by side. So the broker keeps those of the sandbox in a directory of
//! the run's own, which the command may write, and does there what calls that name an entry of /dev/shm
//! ask for. What others have there is as if it were not: Landlock lets neither be read nor changed what lies
//! beside that directory. A call is taken for one of these by the text of its path alone, which can gain
//! nothing: whatever it says, it leads to an object of the sandbox.
//!
//! The C library opens such objects without following symbolic links, which the filter notifies even if
//! they are to be read only. Another open for reading only is notified where something is denied for
//! reading, and else finds nothing. A symbolic link in /dev/shm would mend that, and lead whoever finds it
//! outside to where the command wants.

use super::entry::Entry;
use super::task::{Task, refuse_write};
use super::view::View;
use crate::call::decode::{Creation, FileCall};
use crate::call::how::OpenHow;
use kernel::object::Object;
use kernel::target::Target;
use rules::memory::{OF_RUNS, PLACE, name};
use rustix::fd::OwnedFd;
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The objects of one sandbox.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Where the command's own are.
    pub(super) path: PathBuf,
    directory: OwnedFd,
}

/// The name of an entry of /dev/shm.
type Name = Vec<u8>;

/// What the paths of a call name there.
type Named = [Option<Name>; 2];

impl Shared {
    /// Those in the directory `path`.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = fs::open(path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), directory })
    }

    /// The object that `path` names, if it is the name of one.
    pub(super) fn find(&self, path: &[u8]) -> Option<io::Result<Object>> {
        name(path).map(|name| self.hold(&name.to_vec()))
    }

    /// What `call` names there; none if that is nothing, or if it makes what is no shared memory. Only the
    /// directory that landstrip itself makes in a sandbox like this one is known, and refused without a
    /// word.
    pub(crate) fn named(target: Target, call: &FileCall) -> Option<Named> {
        let mut names = call.path_args().map(|arg| {
            let path = target.read_path(arg.path).ok()?;
            name(&path).map(<[u8]>::to_vec)
        });
        let named = [names.next().flatten(), names.next().flatten()];
        let is_known = match call {
            FileCall::Create(_, creation) => {
                let is_of_runs = |name: &Name| name.starts_with(OF_RUNS);
                matches!(creation, Creation::Directory(_))
                    && named[0].as_ref().is_some_and(is_of_runs)
            }
            _ => named.iter().any(Option::is_some),
        };
        is_known.then_some(named)
    }

    /// What to do in the place of a call that names entries of /dev/shm.
    ///
    /// # Errors
    /// Returns what the call would where nobody else has such objects.
    pub(crate) fn judge(&self, view: &View, call: &FileCall, named: &Named) -> io::Result<Task> {
        let [Some(name), second] = named else { return Err(Errno::XDEV) };
        if let Some(denied) = named.iter().flatten().find(|name| {
            let above = view.rules.cursor(&self.path);
            !above.is_some_and(|above| above.enter(name).entry_may_change())
        }) {
            return Ok(refuse_write(&Path::new(PLACE).join(OsStr::from_bytes(denied))));
        }
        Ok(match (*call, second) {
            (FileCall::Open(_, how), _) => self.open(name, how)?,
            (FileCall::Truncate(_, length), _) => Task::Truncate(self.hold(name)?, length),
            (FileCall::Remove(_, flags), _) => Task::Remove(self.entry(name)?, flags),
            (FileCall::Rename(_, _, flags), Some(new)) => {
                Task::Rename(self.entry(name)?, self.entry(new)?, flags)
            }
            (FileCall::Link(..), Some(new)) => Task::Link(self.hold(name)?, self.entry(new)?),
            // It lies in another file system, as it were.
            (FileCall::Rename(..) | FileCall::Link(..), None) => return Err(Errno::XDEV),
            (FileCall::Create(..), _) => return Err(Errno::ACCESS),
        })
    }

    fn open(&self, name: &Name, how: OpenHow) -> io::Result<Task> {
        how.check()?;
        if how.flags.contains(OFlags::PATH) {
            return Err(Errno::NOSYS);
        }
        match self.hold(name) {
            Ok(object) => {
                let kind = object.kind();
                Ok(Task::Open(object, kind, how))
            }
            Err(Errno::NOENT) if how.flags.contains(OFlags::CREATE) => {
                Ok(Task::CreateFile(self.entry(name)?, how, None))
            }
            Err(errno) => Err(errno),
        }
    }

    fn hold(&self, name: &Name) -> io::Result<Object> {
        let object = self.entry(name)?.hold_itself()?;
        // The command can have made one itself, which leads anywhere.
        if object.kind() == FileType::Symlink { Err(Errno::LOOP) } else { Ok(object) }
    }

    fn entry(&self, name: &Name) -> io::Result<Entry> {
        let directory = self.directory.try_clone().map_err(|_| Errno::MFILE)?;
        Ok(Entry::of_own(Object::of(directory)?, &self.path, name.clone()))
    }
}
