//! What is in a directory, listed once where many names are looked up: of the hundreds of paths that a preset names most
//! are missing, and each would be a system call by itself. It reads directories and changes nothing. Source: readdir(3).

use kernel::locate::Found;
use kernel::mounts;
use rules::quick::QuickMap;
use rustix::fs::{self, Dir, FileType, Mode, OFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// No name is longer (`limits.h`).
const NAME_MAX: usize = 255;

/// More entries take longer to list than the names to look up.
const ENTRIES_MAX: usize = 4096;

/// The entries of a directory, by their names in lower case.
#[derive(Debug)]
pub(crate) struct Listing {
    entries: QuickMap<Vec<u8>, Vec<(Vec<u8>, FileType)>>,
}

impl Listing {
    /// That of a canonical path; none where a name can be there all the same.
    pub(crate) fn of(directory: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(directory, flags, Mode::empty()).ok()?;
        if !mounts::is_local(&directory).ok()? {
            return None;
        }
        let mut entries: QuickMap<_, Vec<_>> = QuickMap::default();
        // The C library's takes memory from the kernel for each directory, and gives it back.
        for (number, entry) in Dir::new(directory).ok()?.enumerate() {
            let entry = entry.ok().filter(|_| number < ENTRIES_MAX)?;
            let name = entry.file_name().to_bytes();
            entries
                .entry(name.to_ascii_lowercase())
                .or_default()
                .push((name.to_owned(), entry.file_type()));
        }
        Some(Self { entries })
    }

    /// What is called `name`; none if that has to be asked: where it leads to if it is a link, and what is spelled
    /// alike, for some directories tell no upper from lower case.
    pub(crate) fn find(&self, name: &OsStr) -> Option<Found> {
        let name = name.as_bytes();
        if !name.is_ascii() {
            return None;
        }
        let mut lower = [0; NAME_MAX];
        let Some(lower) = lower.get_mut(..name.len()) else { return Some(Found::Missing) };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let Some(alike) = self.entries.get(&*lower) else {
            return Some(Found::Missing);
        };
        let (_, file_type) = alike.iter().find(|(known, _)| known == name)?;
        match file_type {
            FileType::Directory => Some(Found::Directory),
            FileType::RegularFile => Some(Found::File),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_directory::TestDirectory;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_listing_says_only_what_it_knows() {
        let dir = TestDirectory::new();
        dir.directory("d/sub");
        dir.file("d/file", "");
        dir.file("d/Upper", "");
        symlink("file", dir.path("d/link")).unwrap();
        let Some(listing) = Listing::of(&dir.path("d")) else {
            // The tests' directory lies on another file system.
            let directory = std::fs::File::open(dir.path("d")).unwrap();
            return assert_eq!(mounts::is_local(directory), Ok(false));
        };
        for (name, expected) in [
            ("sub", Some(Found::Directory)),
            ("file", Some(Found::File)),
            ("Upper", Some(Found::File)),
            ("missing", Some(Found::Missing)),
            ("link", None),
            // Where case is ignored these are there.
            ("FILE", None),
            ("upper", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(listing.find(OsStr::new(name)), expected, "{name}");
        }
        assert!(Listing::of(&dir.path("missing")).is_none());
        assert!(Listing::of(Path::new("/proc")).is_none());
    }
}
