//! An object that the broker holds, and what the kernel says of it.
//!
//! Held by a descriptor, it stays the one that was judged, whatever becomes of its names. Sources:
//! open(2) on O_PATH, proc_pid_fd(5).

use super::identity::{HELD, Identity, identity};
use super::long_paths;
use super::mounts;
use super::self_proc::{own_link, path_of, place};
use super::threads::once;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use rustix::process;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A descriptor, most often without rights (O_PATH), and its object.
#[derive(Debug)]
pub struct Object {
    descriptor: OwnedFd,
    identity: Identity,
    kind: FileType,
    device: fs::Dev,
    is_unlinked: bool,
    /// Whether it is in a proc(5), once that was asked.
    on_proc: OnceLock<bool>,
    /// Its path as the kernel wrote it first.
    path: OnceLock<Box<Path>>,
    /// Whether it was found by that, without symbolic links.
    is_found_by_path: bool,
    /// The directory that it was found in, and its name there, if it is no directory itself and so deep that the
    /// kernel does not write its path.
    place: Option<Box<(OwnedFd, OsString)>>,
}

/// What an object is called.
#[derive(Debug, PartialEq, Eq)]
pub enum Name {
    /// It is there.
    Path(PathBuf),
    /// It was there, and may have other names.
    Former(PathBuf),
    /// It never was: a pipe, a socket, memory, a namespace; and what the kernel writes in place of a
    /// path.
    Nameless(PathBuf),
}

impl Object {
    /// Takes a descriptor over.
    pub fn of(descriptor: OwnedFd) -> io::Result<Self> {
        let stat = fs::fstat(&descriptor)?;
        Ok(Self {
            descriptor,
            identity: identity(&stat),
            kind: FileType::from_raw_mode(stat.st_mode),
            device: stat.st_rdev,
            is_unlinked: stat.st_nlink == 0,
            on_proc: OnceLock::new(),
            path: OnceLock::new(),
            is_found_by_path: false,
            place: None,
        })
    }

    /// The same of one whose path the kernel has just written.
    pub fn called(descriptor: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let path = OnceLock::from(path.into_boxed_path());
        Ok(Self { path, ..Self::of(descriptor)? })
    }

    /// The same of one that was just found by this path, on which there is no symbolic link: so it is called.
    pub fn found_by(descriptor: OwnedFd, path: PathBuf) -> io::Result<Self> {
        Ok(Self { is_found_by_path: true, ..Self::called(descriptor, path)? })
    }

    /// The same, found as `name` in this directory.
    pub fn found_in(self, directory: OwnedFd, name: &OsStr) -> Self {
        Self { place: Some(Box::new((directory, name.to_owned()))), ..self }
    }

    /// Whether the kernel does not write its path, and nothing else tells it.
    pub fn lacks_place(&self) -> bool {
        self.path().err() == Some(Errno::NAMETOOLONG)
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    pub fn kind(&self) -> FileType {
        self.kind
    }

    /// The number of the device that it is, if it is one.
    pub fn device(&self) -> fs::Dev {
        self.device
    }

    /// Whether it had no name in a directory when it was taken: it was removed, or never had one.
    pub fn is_unlinked(&self) -> bool {
        self.is_unlinked
    }

    /// Whether it has no name any more.
    pub fn is_gone(&self) -> bool {
        fs::fstat(&self.descriptor).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether it is in a proc(5), wherever that is mounted.
    pub fn is_on_proc(&self) -> io::Result<bool> {
        let is_on_proc = || Ok(fs::fstatfs(&self.descriptor)?.f_type == fs::PROC_SUPER_MAGIC);
        // What is on a block device is not asked.
        Ok(fs::major(self.identity.0) == 0 && *once(&self.on_proc, is_on_proc)?)
    }

    /// What it is called now.
    ///
    /// # Errors
    /// As [`Object::path`]; [`Errno::ACCESS`] where it is mounted nowhere, or not for this process, or another mount covers
    /// it.
    pub fn name(&self) -> io::Result<Name> {
        let mut path = self.path()?.to_owned();
        if self.is_found_by_path {
            return Ok(Name::Path(path));
        }
        loop {
            let text = path.as_os_str().as_bytes();
            if !text.contains(&b'/') || self.is_unlinked() && text.starts_with(MEMORY) {
                return Ok(Name::Nameless(path));
            }
            // After the path of a removed object the kernel writes ` (deleted)`, which can also be part of a name.
            // By no link: one could lead to what has no such path.
            let there = long_paths::open(&path, HELD, ResolveFlags::NO_SYMLINKS);
            if there.and_then(fs::fstat).is_ok_and(|there| identity(&there) == self.identity()) {
                return Ok(Name::Path(path));
            }
            let before = std::mem::replace(&mut path, self.path_now()?);
            if path == before {
                // Where no mount leads, or another one covers it, that is only the end of a path.
                let was_there = path.as_os_str().as_bytes().ends_with(REMOVED);
                let is_former = was_there && mounts::have(self)?;
                return is_former.then_some(Name::Former(path)).ok_or(Errno::ACCESS);
            }
            // It was moved between the two looks.
        }
    }

    /// Its path as the kernel wrote it when it was first asked for, which says less than [`Object::name`].
    ///
    /// # Errors
    /// Returns what readlink(2) returns; [`Errno::NAMETOOLONG`] only if a longer path is not found either.
    pub fn path(&self) -> io::Result<&Path> {
        once(&self.path, || self.path_now().map(PathBuf::into_boxed_path)).map(|path| &**path)
    }

    fn path_now(&self) -> io::Result<PathBuf> {
        match path_of(&self.descriptor) {
            Err(Errno::NAMETOOLONG) if self.kind == FileType::Directory => {
                long_paths::path_of_directory(self.as_fd())
            }
            Err(Errno::NAMETOOLONG) => {
                let (directory, name) = self.place.as_deref().ok_or(Errno::NAMETOOLONG)?;
                long_paths::path_of_entry(directory.as_fd(), name, self.identity)
            }
            path => path,
        }
    }

    /// Opens it with these flags and this mode.
    pub fn open(&self, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let (directory, number) = place(&self.descriptor)?;
        fs::openat(directory, number, flags, mode)
    }

    /// Whether `access` to it is permitted to the calling thread (access(2)).
    pub fn permits(&self, access: fs::Access) -> bool {
        self.access(access, fs::AtFlags::empty()).is_ok()
    }

    /// Checks that `access` to it is permitted to the calling thread, by its effective ids if the flags
    /// say so.
    pub fn access(&self, access: fs::Access, flags: fs::AtFlags) -> io::Result<()> {
        let (directory, number) = place(&self.descriptor)?;
        // A thread that acts for another user really is the broker's still.
        let acts_for_another = process::getuid() != process::geteuid();
        let effective = if acts_for_another { fs::AtFlags::EACCESS } else { flags };
        fs::accessat(directory, number, access, effective)
    }

    /// The magic link that leads the broker's own system calls to it.
    pub fn link(&self) -> String {
        own_link(&self.descriptor)
    }
}

impl AsFd for Object {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl From<Object> for OwnedFd {
    fn from(object: Object) -> Self {
        object.descriptor
    }
}

impl Name {
    /// The path, whatever it is worth.
    pub fn as_path(&self) -> &Path {
        match self {
            Self::Path(path) | Self::Former(path) | Self::Nameless(path) => path,
        }
    }

    /// Whether the object belongs to those who hold it, and to nobody else: not so a namespace.
    pub fn is_of_its_holders(&self) -> bool {
        let Self::Nameless(text) = self else { return false };
        let kinds = [&b"pipe:["[..], b"socket:[", b"anon_inode:", MEMORY];
        kinds.iter().any(|kind| text.as_os_str().as_bytes().starts_with(kind))
    }

    /// The paths that an object with this name can have had: what looks like a mark of the kernel's
    /// may belong to the name.
    pub fn candidates(&self) -> impl Iterator<Item = &Path> {
        let path = self.as_path();
        let former = match self {
            Self::Former(path) => path.as_os_str().as_bytes().strip_suffix(REMOVED),
            _ => None,
        };
        std::iter::once(path).chain(former.map(|text| Path::new(OsStr::from_bytes(text))))
    }
}

/// What the kernel writes after a path that was removed.
const REMOVED: &[u8] = b" (deleted)";
/// What the kernel writes before the name of a memfd_create(2).
const MEMORY: &[u8] = b"/memfd:";
