//! A directory entry: its directory held, its name in it. For the changes that the broker makes, for
//! sockets that are bound, and for reports.
//!
//! The directory is held, and the entry named in it: whatever becomes of the path that the target
//! gave, the change happens there. It can be moved meanwhile, but only to where the rules say the
//! same of all that is in it (`Cursor::same_zone`). The last component is never followed. So the
//! kernel finds what is wrong with it, and says so in its own order. Sources: mkdir(2), mknod(2),
//! symlink(2), unlink(2), rename(2), link(2), truncate(2), path_resolution(7).

use super::path::{self, Base, IsGranted};
use super::walk::{Lost, NO_ENTRY};
use crate::call::decode::PathArg;
use kernel::identity::{HELD, identity};
use kernel::limits;
use kernel::object::{Name, Object};
use kernel::request::Confirmed;
use kernel::target::Target;
use nix::libc;
use rustix::fd::AsFd;
use rustix::fs::{self, AtFlags, FileType, Mode};
use rustix::io::{self, Errno};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An entry of a directory that is held; it need not exist.
#[derive(Debug)]
pub struct Entry {
    parent: Object,
    directory: PathBuf,
    /// The last component with the slashes after it, which mean something to the kernel.
    last: Vec<u8>,
}

impl Entry {
    /// Follows the path of `arg` up to its last component, unless the directory `is_granted`.
    ///
    /// # Errors
    /// As [`path::resolve_from`]; [`NO_ENTRY`] for a path that names none, such as `a/..`.
    pub(crate) fn resolve(
        target: Target,
        arg: PathArg,
        is_granted: IsGranted<'_>,
    ) -> Result<Self, Lost> {
        let path = target.read_path(arg.path)?;
        let base = Base::of(target, arg.directory, &path)?;
        Self::resolve_from(target, &base, &path, is_granted)
    }

    /// The same from where the path starts.
    pub(crate) fn resolve_from(
        target: Target,
        base: &Base<'_>,
        path: &[u8],
        is_granted: IsGranted<'_>,
    ) -> Result<Self, Lost> {
        let (above, _) = path::split(path).ok_or(NO_ENTRY)?;
        let last = path[above.len()..].to_vec();
        // The kernel asks for the right to search the directory before it looks at another path.
        let above = [above, b"."].concat();
        Ok(Self::of(path::resolve_from(target, base, &above, true, is_granted)?, last)?)
    }

    /// The entry of a directory that is held; slashes may follow the name.
    ///
    /// # Errors
    /// Returns what readlink(2) returns of the directory's name; [`Errno::NOENT`] if the kernel's path of it
    /// leads to another one: it was removed, or is mounted nowhere.
    pub(crate) fn of(parent: Object, last: Vec<u8>) -> io::Result<Self> {
        let Name::Path(directory) = parent.name()? else { return Err(Errno::NOENT) };
        Ok(Self { parent, directory, last })
    }

    /// The entry of a directory of landstrip's own, which nobody moves, and which the target may not be
    /// able to reach by its path.
    pub(super) fn of_own(parent: Object, directory: &Path, last: Vec<u8>) -> Self {
        Self { parent, directory: directory.to_owned(), last }
    }

    /// The canonical path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory itself.
    pub fn parent(&self) -> &Object {
        &self.parent
    }

    /// Its name in the directory.
    pub fn name(&self) -> &OsStr {
        let end = self.last.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        OsStr::from_bytes(&self.last[..end])
    }

    /// As the kernel is given it: the last component with the slashes after it.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Its canonical path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(self.name())
    }

    /// Holds what is there.
    ///
    /// # Errors
    /// Returns what open(2) returns; [`Errno::NOTDIR`] if a slash follows what is no directory.
    pub fn hold(&self) -> io::Result<Object> {
        self.hold_by(OsStr::from_bytes(&self.last))
    }

    /// The same without regard to slashes, which lead the kernel through a symbolic link.
    pub(crate) fn hold_itself(&self) -> io::Result<Object> {
        self.hold_by(self.name())
    }

    fn hold_by(&self, name: &OsStr) -> io::Result<Object> {
        let object = fs::openat(&self.parent, name, HELD, Mode::empty()).and_then(Object::of)?;
        if !object.lacks_place() {
            return Ok(object);
        }
        let parent = self.parent.as_fd().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        Ok(object.found_in(parent, name))
    }

    /// Whether `file` is what is there.
    pub(crate) fn leads_to(&self, file: impl AsFd) -> bool {
        let there = fs::statat(&self.parent, &self.last[..], AtFlags::SYMLINK_NOFOLLOW);
        there.is_ok_and(|there| fs::fstat(file).is_ok_and(|of| identity(&of) == identity(&there)))
    }

    /// The permission bits that what is made here gets. The broker's own umask is empty: where a
    /// directory has a default ACL, that takes the umask's place (umask(2), acl(5)).
    pub(crate) fn mode(&self, asked: u32, umask: Mode) -> Mode {
        masked(&self.parent, asked, umask)
    }

    /// unlink(2) and rmdir(2), for a target that waits.
    pub(crate) fn remove(&self, _: Confirmed<'_>, flags: AtFlags) -> io::Result<()> {
        fs::unlinkat(&self.parent, &self.last[..], flags)
    }
}

/// `asked` without what `umask` takes away, unless `directory` has a default ACL.
pub(crate) fn masked(directory: &Object, asked: u32, umask: Mode) -> Mode {
    let asked = Mode::from_raw_mode(asked & 0o7777);
    if !asked.intersects(umask) {
        return asked;
    }
    match has_default_acl(&directory.link()) {
        true => asked,
        false => asked - umask,
    }
}

/// Whether the directory that `link` leads to has a default ACL (acl(5)).
pub(super) fn has_default_acl(link: &str) -> bool {
    let mut none = [0u8; 0];
    fs::getxattr(link, c"system.posix_acl_default", &mut none).is_ok()
}

/// truncate(2) of an object that is held. What the target may not make as long as that, the broker does
/// not (setrlimit(2), RLIMIT_FSIZE).
pub(crate) fn truncate(by: Confirmed<'_>, object: &Object, length: i64) -> io::Result<()> {
    let size = fs::stat(object.link()).map(|stat| stat.st_size)?;
    let is_file = object.kind() == FileType::RegularFile;
    if is_file && length > size && length.unsigned_abs() > limits::file_size(by.target())? {
        object.access(fs::Access::WRITE_OK, AtFlags::EACCESS)?;
        // The answer is the error all the same.
        let _ = by.signal(Signal::XFSZ);
        return Err(Errno::FBIG);
    }
    nix::unistd::truncate(object.link().as_str(), length as libc::off_t)
        .map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_directory::TestDirectory;

    #[test]
    fn a_file_is_not_taken_for_another_in_its_place() {
        let dir = TestDirectory::new();
        dir.file("made", "");
        dir.file("other", "");
        let parent = Object::of(std::fs::File::open(dir.path(".")).unwrap().into()).unwrap();
        let entry = Entry::of(parent, b"made".to_vec()).unwrap();
        let made = std::fs::File::open(entry.path()).unwrap();
        assert!(entry.leads_to(&made));
        std::fs::rename(dir.path("other"), entry.path()).unwrap();
        assert!(!entry.leads_to(&made));
        std::fs::remove_file(entry.path()).unwrap();
        assert!(!entry.leads_to(&made));
        std::os::unix::fs::symlink("elsewhere", entry.path()).unwrap();
        assert!(!entry.leads_to(&made));
    }
}
