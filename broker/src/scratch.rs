//! The private TMPDIR of the built-in policy: made for the run, removed after it.

use rustix::fs::{self, AtFlags, Mode};
use rustix::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory that is removed with all it holds when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    identity: (u64, u64),
}

impl Scratch {
    /// Makes the directory in `parent`, for this user alone.
    ///
    /// # Errors
    /// Returns what getrandom(2), mkdir(2) or stat(2) returns.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let path = parent.join(format!("landstrip-{:016x}", u64::from_ne_bytes(random)));
        // Fails if anything has that name, a symbolic link too.
        fs::mkdir(&path, Mode::RWXU)?;
        let stat = fs::statat(fs::CWD, &path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Self { path, identity: (stat.st_dev, stat.st_ino) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Removed only if it is still the one that was made. The removal does not follow symbolic
        // links, and nothing of the command runs any more.
        let same = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if same && std::fs::remove_dir_all(&self.path).is_err() {
            make_removable(&self.path, DEPTH_MAX);
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// How deep directories are made removable again; deeper ones were not made by a tool.
const DEPTH_MAX: usize = 64;

/// Gives the owner back what the command may have taken from directories (Go's module cache is
/// read-only, for instance): without it their entries cannot be removed.
fn make_removable(directory: &Path, depth: usize) {
    let _ = fs::chmod(directory, Mode::RWXU);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path(), depth - 1);
        }
    }
}
