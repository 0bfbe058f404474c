//! Devices, and what of them may be used: those of every policy, the terminal that the command was
//! started on, its standard streams, and what the policy names.
//!
//! To read a device can be to act on it: an open makes a terminal the controlling one of its session,
//! and a disk holds what is denied on it. So Landlock grants nothing beneath /dev, and where file systems
//! of devices are mounted elsewhere, but to list the directories; what is mounted in them and holds no
//! devices, but for shared memory, is granted like other trees. Sources: tty(4), pts(4), landlock(7).

use super::device_mounts::{DEVICES, Place};
use super::grants::Builder;
use super::ruleset::rights;
use crate::files::terminals;
use crate::report::failure::Failure;
use kernel::identity::{hold_followed, identity};
use kernel::ruleset::FileAccess;
use kernel::terminal::streams;
use rules::files::Files;
use rules::memory;
use rules::paths::{Access, Kind, Rules};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{self, FileType, OFlags};
use std::path::Path;

/// Devices that are usable under every policy.
const ALWAYS: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

impl Builder {
    /// Grants the devices that are usable whatever the rules say, and those that `files` names.
    pub(super) fn grant_devices(&mut self, files: &Files, rules: &Rules) -> Result<(), Failure> {
        for device in ALWAYS.map(Path::new) {
            // A container may lack some.
            let Ok(object) = hold_followed(device) else { continue };
            self.grant_device(object.as_fd(), device)?;
        }
        if let Some((terminal, path)) = terminals::of_caller() {
            self.grant_device(terminal.as_fd(), &path)?;
        }
        for path in files.allow_write.iter().chain(&files.allow_read) {
            let is_named = self.places.place(path) == Place::Inside && path != Path::new(DEVICES);
            if is_named && rules.access(path).read {
                self.grant_named(path)?;
            }
        }
        Ok(())
    }

    fn grant_device(&mut self, object: BorrowedFd<'_>, path: &Path) -> Result<(), Failure> {
        let access = FileAccess::READ_FILE
            | FileAccess::WRITE_FILE
            | FileAccess::IOCTL_DEV
            | FileAccess::TRUNCATE;
        self.grant_always(object, access, path, &[FileType::CharacterDevice])
    }

    /// A device that the policy names, or a directory of them, may be asked what devices are asked
    /// (ioctl(2)). Whether it may be written, the rules say.
    fn grant_named(&mut self, path: &Path) -> Result<(), Failure> {
        if self.grants.devices.contains_key(path) {
            return Ok(());
        }
        let Ok(object) = hold_followed(path) else { return Ok(()) };
        let Ok(stat) = fs::fstat(&object) else { return Ok(()) };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let access = match path.starts_with(memory::PLACE) {
            true => rights(Kind::Read),
            false => FileAccess::READ_FILE | FileAccess::READ_DIR | FileAccess::IOCTL_DEV,
        };
        self.add(object.as_fd(), is_directory, access, path)?;
        self.grants.devices.insert(path.to_owned(), identity(&stat));
        Ok(())
    }

    /// What the command holds as standard stream it can open again with the same access.
    pub(super) fn grant_standard_streams(&mut self) -> Result<(), Failure> {
        for (path, stream) in ["/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().zip(streams()) {
            let Ok(mode) = fs::fcntl_getfl(stream) else { continue };
            let mut access = FileAccess::IOCTL_DEV;
            if mode & OFlags::RWMODE != OFlags::WRONLY {
                access |= FileAccess::READ_FILE;
            }
            if mode & OFlags::RWMODE != OFlags::RDONLY {
                access |= FileAccess::WRITE_FILE | FileAccess::TRUNCATE;
            }
            if mode.contains(OFlags::PATH) || is_anonymous(stream) {
                continue;
            }
            let kinds = [FileType::RegularFile, FileType::CharacterDevice, FileType::Fifo];
            self.grant_always(stream, access, Path::new(path), &kinds)?;
        }
        Ok(())
    }

    fn grant_always(
        &mut self,
        object: BorrowedFd<'_>,
        access: FileAccess,
        path: &Path,
        kinds: &[FileType],
    ) -> Result<(), Failure> {
        let Ok(stat) = fs::fstat(object) else { return Ok(()) };
        let linked = stat.st_nlink > 0;
        if linked && kinds.contains(&FileType::from_raw_mode(stat.st_mode)) {
            self.add(object, false, access, path)?;
            let read = access.contains(FileAccess::READ_FILE);
            let write = access.contains(FileAccess::WRITE_FILE);
            // A stream can be one of the devices.
            let usable = self.grants.always.entry(identity(&stat)).or_default();
            *usable = Access { read: usable.read || read, write: usable.write || write };
        }
        Ok(())
    }
}

/// Pipes live on a mount that is visible to nobody: Landlock does not restrict them and takes no
/// rule for them (EBADFD).
fn is_anonymous(stream: BorrowedFd<'_>) -> bool {
    const PIPEFS_MAGIC: i64 = 0x5049_5045;
    fs::fstatfs(stream).is_ok_and(|stat| stat.f_type == PIPEFS_MAGIC)
}
