//! Where the paths of a policy lead, remembered from one to the next: see [`kernel::locate`].

use super::listing::Listing;
use kernel::locate::{self, Found, LocateError, Located};
use kernel::long_paths::PATH_MAX;
use rules::quick::QuickMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What was found on the way to the paths that were followed so far, so that nothing is looked at twice: the paths
/// of a policy share their beginnings, and beneath what is missing all is.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// By their paths, which are canonical but for the last component.
    known: QuickMap<OsString, Known>,
}

#[derive(Debug)]
struct Known {
    found: Found,
    /// How many names in it were looked up.
    looked_up: usize,
    /// What is in it, once that was worth its time.
    listing: Option<Box<Listing>>,
}

/// Longer paths, which a tree can name, are followed part by part: to look beside takes stack for each part.
const NEAR: usize = 512;
/// So many names are looked up one by one before their directory is listed.
const FEW: usize = 6;

impl Memory {
    /// As [`locate::locate`].
    pub(crate) fn locate(&mut self, absolute: &Path) -> Result<Located, LocateError> {
        if absolute.as_os_str().len() >= PATH_MAX {
            return Err(LocateError::TooLong);
        }
        let (located, is_whole) = self.follow(absolute);
        is_whole.map(|()| located)
    }

    /// As [`locate::locate`], but as far as `absolute` leads, however long it is: if that is nowhere, to the name that
    /// cannot be followed, and false.
    pub(crate) fn locate_as_far(&mut self, absolute: &Path) -> (Located, bool) {
        let (located, is_whole) = self.follow(absolute);
        (located, is_whole.is_ok())
    }

    /// Follows from the longest front of `absolute` on that is known to lead to itself.
    fn follow(&mut self, absolute: &Path) -> (Located, Result<(), LocateError>) {
        if absolute.as_os_str().len() < NEAR
            && let Some(Found::Missing | Found::Directory | Found::File | Found::Other) =
                self.look_beside(absolute)
        {
            return (Located::at(absolute), Ok(()));
        }
        let leads_to_itself = |path: &&Path| {
            let known = self.known.get(path.as_os_str());
            known.is_some_and(|known| !matches!(known.found, Found::Link(_)))
        };
        let start = absolute.ancestors().find(leads_to_itself).unwrap_or(Path::new("/"));
        let mut located = Located::at(start);
        let outcome = match absolute.strip_prefix(start) {
            Ok(rest) if rest.as_os_str().is_empty() => Ok(()),
            rest => located.follow(rest.unwrap_or(absolute), |path| self.look(path)),
        };
        (located, outcome)
    }

    /// What is at `path` if the directories on the way are known to lead to themselves, or to be missing.
    fn look_beside(&mut self, path: &Path) -> Option<Found> {
        let (parent, _) = split(path).filter(|(_, name)| *name != "." && *name != "..")?;
        let above = match self.known.get(parent) {
            Some(known) => known.found.clone(),
            None => self.look_beside(Path::new(parent))?,
        };
        match above {
            Found::Directory => self.look(path).ok(),
            Found::Missing | Found::File | Found::Other => Some(Found::Missing),
            Found::Link(_) => None,
        }
    }

    /// The beginning of `path`, a canonical one, that lies right in a directory. What is not a directory yet on the
    /// way to a path that a preset protects must not become a file: as `.git`, one would name another directory with
    /// settings.
    pub(crate) fn beneath_directory<'a>(&mut self, path: &'a Path) -> &'a Path {
        let mut beneath = path;
        while let Some((above, _)) = split(beneath).map(|(above, name)| (Path::new(above), name))
            && !self.look(above).is_ok_and(|found| found == Found::Directory)
        {
            beneath = above;
        }
        beneath
    }

    /// Whether `path`, whose directory is canonical, is known to be no file.
    pub(crate) fn is_no_file(&mut self, path: &Path) -> bool {
        !matches!(self.look(path), Ok(Found::File) | Err(_))
    }

    /// Whether `directory`, a canonical path, is known to have no entry `name`.
    pub(crate) fn is_missing_in(&self, directory: &Path, name: &OsStr) -> bool {
        let listing = self.known.get(directory.as_os_str()).and_then(|at| at.listing.as_ref());
        listing.is_some_and(|listing| listing.find(name) == Some(Found::Missing))
    }

    /// What is at `path`, whose directory is canonical.
    pub(crate) fn look(&mut self, path: &Path) -> Result<Found, LocateError> {
        if let Some(known) = self.known.get(path.as_os_str()) {
            return Ok(known.found.clone());
        }
        // Most of what lies in no directory that was looked in has none at all.
        if let Some((parent, _)) = split(path)
            && path.as_os_str().len() < NEAR
            && !self.known.contains_key(parent)
            && let Found::Missing | Found::File | Found::Other = self.look(Path::new(parent))?
        {
            return Ok(Found::Missing);
        }
        let parent =
            split(path).and_then(|(parent, name)| Some((self.known.get_mut(parent)?, name)));
        let found = match parent {
            Some((parent, name)) => match parent.look(path, name)? {
                // The listing says so again.
                Found::Missing if parent.listing.is_some() => return Ok(Found::Missing),
                found => found,
            },
            None => locate::look(path)?,
        };
        let known = Known { found: found.clone(), looked_up: 0, listing: None };
        self.known.insert(path.as_os_str().to_owned(), known);
        Ok(found)
    }
}

impl Known {
    /// What `name` in it is, with which it makes `path`.
    fn look(&mut self, path: &Path, name: &OsStr) -> Result<Found, LocateError> {
        if matches!(self.found, Found::Missing | Found::File | Found::Other) {
            return Ok(Found::Missing);
        }
        self.looked_up += 1;
        if self.looked_up == FEW {
            self.listing = path.parent().and_then(Listing::of).map(Box::new);
        }
        let listed = self.listing.as_ref().and_then(|listing| listing.find(name));
        listed.map_or_else(|| locate::look(path), Ok)
    }
}

/// A canonical path, taken apart at the last slash; of any other either part may be none that it has.
fn split(path: &Path) -> Option<(&OsStr, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|&byte| byte == b'/')?;
    let (parent, name) = (&bytes[..at.max(1)], &bytes[at + 1..]);
    (!name.is_empty()).then(|| (OsStr::from_bytes(parent), OsStr::from_bytes(name)))
}

/// Whether `path` is `directory` or lies beneath it: as [`Path::starts_with`], of canonical paths, which need not be taken
/// apart for that.
pub(super) fn is_in(path: &Path, directory: &Path) -> bool {
    path.as_os_str() == directory.as_os_str() || is_beneath(path, directory)
}

/// Whether `path` lies beneath `directory`; both are canonical.
pub(super) fn is_beneath(path: &Path, directory: &Path) -> bool {
    let rest = path.as_os_str().as_bytes().strip_prefix(directory.as_os_str().as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"/") || directory.parent().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::locate::{locate, look};
    use kernel::test_directory::TestDirectory;
    use std::os::unix::fs::symlink;

    #[test]
    fn many_names_in_a_directory_lead_where_each_by_itself_does() {
        let dir = TestDirectory::new();
        let mut names = Vec::new();
        for number in 0..20 {
            let name = format!("n{number}");
            match number % 5 {
                0 => drop(dir.file(&name, "")),
                1 => drop(dir.directory(&format!("{name}/in"))),
                2 => symlink("n1", dir.path(&name)).unwrap(),
                3 => symlink("gone", dir.path(&name)).unwrap(),
                _ => {}
            }
            names.extend([format!("{name}/in/x"), format!("{name}/.."), name.clone()]);
            names.push(name.to_uppercase());
        }
        let mut memory = Memory::default();
        for name in &names {
            let path = dir.path(name);
            assert_eq!(memory.locate(&path).unwrap(), locate(&path).unwrap(), "{name}");
            let mut located = Located::at(Path::new("/"));
            let is_whole = located.follow(&path, look).is_ok();
            assert_eq!(memory.locate_as_far(&path), (located, is_whole), "{name}");
        }
    }

    #[test]
    fn what_is_remembered_changes_nothing() {
        let dir = TestDirectory::new();
        dir.directory("a/b");
        dir.file("a/b/f", "");
        symlink("a/b", dir.path("l")).unwrap();
        symlink("../../l/f", dir.path("a/b/g")).unwrap();
        symlink(dir.path("a"), dir.path("abs")).unwrap();
        symlink("a/gone", dir.path("broken")).unwrap();
        let mut memory = Memory::default();
        for path in [
            "a/b/f",
            "l",
            "l/f",
            "l/..",
            "l/../b/./g",
            "abs/b/g",
            ".",
            "a/",
            "l/",
            "a/x/y",
            "l/x",
            "l/x/../y",
            "x/../a",
            "x/../l/z",
            "broken",
            "broken/x",
            "a/b/f/x",
        ] {
            let path = dir.path(path);
            assert_eq!(memory.locate(&path).unwrap(), locate(&path).unwrap(), "{}", path.display());
        }
    }
}
