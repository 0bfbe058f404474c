//! The directory that this process stands in: to enter one and ask for its path takes a third of what it takes to
//! open it by its link in proc(5) and to read that of the descriptor.
//!
//! getcwd(2) says of a directory that was removed, or is mounted nowhere, that it is; the link in proc(5) leaves
//! that to be found out. All threads stand in the same place: while one needs it, others do without, and wait for
//! nothing. Then the broker goes back to where it was started, or to the root directory
//! where another user's rights do not lead there, so that it keeps nobody from unmounting anything. Nothing
//! else of it relies on where it stands once notifications are answered. Sources: chdir(2), getcwd(2).

use super::ptrace_capability;
use super::shortcuts::Shortcut;
use super::target::Target;
use super::threads::once;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::process;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Who needs it.
static TAKEN: Mutex<()> = Mutex::new(());
/// Where the broker was started.
static START: OnceLock<OwnedFd> = OnceLock::new();

/// A directory that this process stands in as long as this lives.
#[derive(Debug)]
pub struct CwdGuard {
    path: PathBuf,
    _taken: MutexGuard<'static, ()>,
}

impl CwdGuard {
    /// Enters the working directory of `target`.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] while another thread needs the place, [`Errno::NOENT`] if the directory was removed or
    /// is mounted nowhere, and what chdir(2) and getcwd(2) return.
    pub fn of(target: Target) -> io::Result<Self> {
        let link = target.proc("cwd");
        Self::enter(|| ptrace_capability::of(|| process::chdir(&link)))
    }

    /// Enters a directory that is held.
    ///
    /// # Errors
    /// The same.
    pub fn at(directory: impl AsFd) -> io::Result<Self> {
        Self::enter(|| process::fchdir(&directory))
    }

    /// The same for tests, beside others that follow paths.
    #[cfg(any(test, feature = "tests"))]
    pub fn waiting(directory: impl AsFd) -> io::Result<Self> {
        loop {
            match Self::at(&directory) {
                Err(Errno::AGAIN) => std::thread::yield_now(),
                entered => break entered,
            }
        }
    }

    fn enter(enter: impl FnOnce() -> io::Result<()>) -> io::Result<Self> {
        if !Shortcut::CWD_GUARD.is_open() {
            return Err(Errno::AGAIN);
        }
        let taken = TAKEN.try_lock().map_err(|_| Errno::AGAIN)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        once(&START, || fs::open(c".", flags, Mode::empty()))?;
        let mut here = Self { path: PathBuf::new(), _taken: taken };
        enter()?;
        let path = process::getcwd(Vec::new())?.into_bytes();
        here.path = OsString::from_vec(path).into();
        // In front of what is mounted nowhere the kernel says so.
        if here.path.is_absolute() { Ok(here) } else { Err(Errno::NOENT) }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for CwdGuard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        fs::CWD
    }
}

impl Drop for CwdGuard {
    fn drop(&mut self) {
        // With the rights of another user there may be no way back.
        if START.get().is_none_or(|start| process::fchdir(start).is_err()) {
            let _ = process::chdir(c"/");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::identity::hold_followed;
    use crate::test_directory::TestDirectory;

    #[test]
    fn a_directory_is_entered_by_one_at_a_time_and_left() {
        let dir = TestDirectory::new();
        dir.directory("a");
        dir.file("a/file", "");
        let held = hold_followed(&dir.path("a")).unwrap();
        let here = CwdGuard::waiting(&held).unwrap();
        assert_eq!(here.path(), dir.path("a"));
        assert!(fs::statat(&here, "file", fs::AtFlags::empty()).is_ok());
        assert_eq!(CwdGuard::at(&held).err(), Some(Errno::AGAIN));
        drop(here);
        std::fs::remove_dir_all(dir.path("a")).unwrap();
        assert_eq!(CwdGuard::waiting(&held).err(), Some(Errno::NOENT));
    }
}
