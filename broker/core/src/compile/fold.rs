//! Directories that ignore case, or whose entries have second names: there the rules, which compare names byte by byte,
//! would miss other spellings of a denied name.
//!
//! ext4, f2fs and tmpfs flag such directories (FS_CASEFOLD_FL, ioctl_iflags(2)). Others, among them
//! network and shared file systems of hosts that ignore case, show it only when a name is looked up in
//! another spelling: one that is there, or that of the directory itself.

use super::directories::open;
use kernel::identity::{Identity, known};
use kernel::mounts;
use kernel::self_proc::own_link;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, Dir, FileType, IFlags};
use rustix::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// linux/fs.h
const CASEFOLD: IFlags = IFlags::from_bits_retain(0x4000_0000);
/// linux/magic.h, and fs/ntfs3/ntfs_fs.h
const FUSE: fs::FsWord = 0x6573_5546;
const NTFS3: fs::FsWord = 0x7366_746e;

/// Whether names in `directory`, which is open for reading, that differ in case mean one entry; none if what is in it cannot
/// tell.
pub(super) fn ignores_case(directory: &OwnedFd) -> io::Result<Option<bool>> {
    if is_flagged(directory) {
        return Ok(Some(true));
    }
    for entry in Dir::read_from(directory)? {
        if let Some(told) = is_told_by(directory, entry?.file_name().to_bytes()) {
            return Ok(Some(told));
        }
    }
    Ok(None)
}

/// The same by the name of that directory at `path`, and of those above it on its file system, or by what this is.
pub(super) fn is_told_above(directory: &OwnedFd, path: &Path) -> Option<bool> {
    let above = |directory: &OwnedFd| open(directory.as_fd(), c"..").ok();
    let device = |directory: &OwnedFd| fs::fstat(directory).ok().map(|found| found.st_dev);
    let mut next = above(directory);
    for name in path.ancestors().filter_map(Path::file_name) {
        let Some(parent) = next.filter(|it| device(it) == device(directory)) else { break };
        if let Some(told) = is_told_by(&parent, name.as_bytes()) {
            return Some(told);
        }
        next = above(&parent);
    }
    mounts::is_local(directory).ok()?.then_some(false)
}

/// Whether entries of `directory` can have second names: ntfs-3g, in user space, has attributes of its own.
pub(super) fn has_second_names(directory: &OwnedFd) -> bool {
    match fs::fstatfs(directory).map(|found| found.f_type) {
        Ok(NTFS3) => true,
        Ok(FUSE) => fs::getxattr(own_link(directory), c"system.ntfs_attrib", &mut [0u8; 0]).is_ok(),
        _ => false,
    }
}

/// Whether `directory`, which is open for reading, is flagged so. File systems without flags refuse.
pub(super) fn is_flagged(directory: &OwnedFd) -> bool {
    fs::ioctl_getflags(directory).is_ok_and(|flags| flags.contains(CASEFOLD))
}

/// Whether `name` is found in `directory` under another spelling, too; none if it cannot tell.
pub(super) fn is_told_by(directory: &OwnedFd, name: &[u8]) -> Option<bool> {
    is_told(name, |name| known(directory, name).ok())
}

/// What [`known`] says.
type Known = (Identity, FileType, u32);

fn is_told(name: &[u8], look_up: impl Fn(&[u8]) -> Option<Known>) -> Option<bool> {
    let other = respelled(name);
    if other == name {
        return None;
    }
    let (found, kind, links) = look_up(name)?;
    let is_other = |(other, ..): Known| other == found;
    // A hard link can be spelled so.
    let has_one_name = kind == FileType::Directory || links == 1;
    has_one_name.then(|| look_up(&other).is_some_and(is_other))
}

/// The name with each letter of ASCII in the other case.
fn respelled(name: &[u8]) -> Vec<u8> {
    let respell = |byte: &u8| match byte.is_ascii_uppercase() {
        true => byte.to_ascii_lowercase(),
        false => byte.to_ascii_uppercase(),
    };
    name.iter().map(respell).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_directory::TestDirectory;
    use rustix::fs::{Mode, OFlags};

    fn open(path: impl AsRef<Path>) -> OwnedFd {
        fs::open(path.as_ref(), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn an_empty_directory_is_told_by_its_name_or_by_the_kind_of_its_file_system() {
        let dir = TestDirectory::new();
        for name in ["new", "new/1", "new/1/2"] {
            let path = dir.directory(name);
            assert_eq!(is_told_above(&open(&path), &path), Some(false), "{name}");
        }
        assert_eq!(ignores_case(&open(dir.path("new/1/2"))), Ok(None));
        // It flags none, and nothing above is of its kind.
        assert_eq!(is_told_above(&open("/proc"), Path::new("/proc")), None);
        assert_eq!(is_told_above(&open("/proc/sys"), Path::new("/proc/sys")), Some(false));
    }

    /// Asks of a directory of this machine as one would answer that looks names up by `spell`.
    fn meets(directory: &OwnedFd, spell: impl Fn(&[u8]) -> Vec<u8>) -> bool {
        let mut names = Dir::read_from(directory).unwrap();
        let look_up = |name: &[u8]| known(directory, &spell(name)[..]).ok();
        let told = names.find_map(|entry| is_told(entry.unwrap().file_name().to_bytes(), look_up));
        told.unwrap_or(false)
    }

    #[test]
    fn a_name_that_is_found_in_another_spelling_tells() {
        let dir = TestDirectory::new();
        dir.directory("tree");
        let tree = open(dir.path("tree"));
        let exact = |name: &[u8]| name.to_vec();
        let lower = |name: &[u8]| name.to_ascii_lowercase();
        assert!(!meets(&tree, lower), "nothing is there");
        dir.file("tree/1", "");
        assert!(!meets(&tree, lower), "no letter is there");
        dir.file("tree/.env", "");
        assert!(meets(&tree, lower));
        assert!(!meets(&tree, exact));
        assert_eq!(ignores_case(&tree), Ok(Some(false)));
        // Two files, or two names of one, are no spellings.
        dir.file("tree/.ENV", "");
        assert!(!meets(&tree, exact));
        std::fs::remove_file(dir.path("tree/.ENV")).unwrap();
        std::fs::hard_link(dir.path("tree/.env"), dir.path("tree/.ENV")).unwrap();
        assert!(!meets(&tree, exact));
    }

    #[test]
    fn letters_change_case_and_nothing_else_does() {
        assert_eq!(respelled(b".Env-1\xc3\xa9"), b".eNV-1\xc3\xa9");
        assert_eq!(respelled(b"1"), b"1");
    }
}
