//! Where a path leads: realpath(3), except that what is missing is not an error and every symbolic link on the way
//! is remembered. It reads the file system and changes nothing.

use super::listing::Listing;
use rules::quick::QuickMap;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The kernel follows as many links in one path (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// `PATH_MAX`, with the NUL.
const MAX_LENGTH: usize = 4096;

/// Where an absolute path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The canonical path. What does not exist is appended to its nearest existing ancestor.
    pub path: PathBuf,
    /// The links followed, in order.
    pub links: Vec<Link>,
    /// The path goes through `/proc/self`: it means another thing to each process that uses it.
    pub of_process: bool,
}

/// A symbolic link on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The canonical path of the link itself.
    pub path: PathBuf,
    /// It is what the path names, not a directory on the way to that.
    pub last: bool,
}

/// A path that leads nowhere.
#[derive(Debug)]
pub enum LocateError {
    /// More links than the kernel would follow.
    LinkLoop(PathBuf),
    /// Longer than the kernel takes.
    TooLong,
    /// A directory entry or a link cannot be read.
    Unreadable {
        /// The entry or link.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for LocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkLoop(path) => {
                let path = path.display();
                write!(f, "too many levels of symbolic links at {path}: remove or repair that link")
            }
            Self::TooLong => write!(f, "the path is longer than {} bytes", MAX_LENGTH - 1),
            Self::Unreadable { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
        }
    }
}

/// What was found on the way to the paths that were followed so far, so that nothing is looked at twice: the paths
/// of a policy share their beginnings, and beneath what is missing all is.
#[derive(Debug, Default)]
pub struct Memory {
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

/// So many names are looked up one by one before their directory is listed.
const FEW: usize = 6;

/// What an entry is, itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is not there, or hidden from this user and so from the command.
    Missing,
    /// A symbolic link to this.
    Link(PathBuf),
    Directory,
    File,
    /// A socket, a device or the like.
    Other,
}

impl Memory {
    /// As [`locate`].
    pub fn locate(&mut self, absolute: &Path) -> Result<Located, LocateError> {
        if absolute.as_os_str().len() >= MAX_LENGTH {
            return Err(LocateError::TooLong);
        }
        let (located, is_whole) = self.follow(absolute);
        is_whole.map(|()| located)
    }

    /// As [`locate_as_far`].
    pub fn locate_as_far(&mut self, absolute: &Path) -> (Located, bool) {
        let (located, is_whole) = self.follow(absolute);
        (located, is_whole.is_ok())
    }

    /// Follows from the longest front of `absolute` on that is known to lead to itself.
    fn follow(&mut self, absolute: &Path) -> (Located, Result<(), LocateError>) {
        // Mostly that is all but the name.
        if let Some((parent, name)) = split(absolute)
            && name != "."
            && name != ".."
            && absolute.as_os_str().len() < MAX_LENGTH
            && self.known.get(parent).is_some_and(|known| !matches!(known.found, Found::Link(_)))
            && let Ok(Found::Missing | Found::Directory | Found::File | Found::Other) =
                self.look(absolute)
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

    /// The beginning of `path`, a canonical one, that lies right in a directory. What is not a directory yet on the
    /// way to a path that a preset protects must not become a file: as `.git`, one would name another directory with
    /// settings.
    pub fn beneath_directory<'a>(&mut self, path: &'a Path) -> &'a Path {
        let mut is_directory = |part| self.look(part).is_ok_and(|found| found == Found::Directory);
        path.ancestors()
            .take_while(|part| *part == path || !is_directory(part))
            .last()
            .unwrap_or(path)
    }

    /// Whether `path`, whose directory is canonical, is known to be no file.
    pub fn is_no_file(&mut self, path: &Path) -> bool {
        !matches!(self.look(path), Ok(Found::File) | Err(_))
    }

    /// What is at `path`, whose directory is canonical.
    pub fn look(&mut self, path: &Path) -> Result<Found, LocateError> {
        if let Some(known) = self.known.get(path.as_os_str()) {
            return Ok(known.found.clone());
        }
        let parent =
            split(path).and_then(|(parent, name)| Some((self.known.get_mut(parent)?, name)));
        let found = match parent {
            Some((parent, name)) => parent.look(path, name)?,
            None => look(path)?,
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
        listed.map_or_else(|| look(path), Ok)
    }
}

/// A canonical path, taken apart at the last slash; of any other either part may be none that it has.
fn split(path: &Path) -> Option<(&OsStr, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|&byte| byte == b'/')?;
    let (parent, name) = (&bytes[..at.max(1)], &bytes[at + 1..]);
    (!name.is_empty()).then(|| (OsStr::from_bytes(parent), OsStr::from_bytes(name)))
}

/// Follows `absolute` component by component. An unsearchable directory hides what is in it from the command
/// too, so what lies inside counts as missing.
///
/// # Errors
/// Returns [`LocateError`] for a loop of links, a path too long, or an error of the file system.
pub fn locate(absolute: &Path) -> Result<Located, LocateError> {
    locate_in(Path::new("/"), absolute)
}

/// As [`locate`], for what `path` names in `directory`: a canonical path, which is not followed again.
pub fn locate_in(directory: &Path, path: &Path) -> Result<Located, LocateError> {
    if path.as_os_str().len() >= MAX_LENGTH {
        return Err(LocateError::TooLong);
    }
    let mut located = Located::at(directory);
    located.follow(path, look).map(|()| located)
}

/// As [`locate`], but as far as `absolute` leads, however long it is: if that is nowhere, to the name that cannot be
/// followed, and false.
pub fn locate_as_far(absolute: &Path) -> (Located, bool) {
    let mut located = Located::at(Path::new("/"));
    let is_whole = located.follow(absolute, look).is_ok();
    (located, is_whole)
}

impl Located {
    fn at(directory: &Path) -> Self {
        Self { path: directory.to_owned(), links: Vec::new(), of_process: false }
    }

    /// What decides what is found there: the symbolic links that were followed, and where they lead.
    pub fn trail(self) -> Vec<PathBuf> {
        let mut trail: Vec<_> = self.links.into_iter().map(|link| link.path).collect();
        trail.push(self.path);
        // The links behind `/dev/stdin` and `/dev/fd` are nobody's who uses them.
        let of_system =
            |path: &Path| path.starts_with("/proc") || path.parent() == Some(Path::new("/dev"));
        trail.retain(|path| !of_system(path));
        trail
    }

    fn follow(
        &mut self,
        path: &Path,
        mut look: impl FnMut(&Path) -> Result<Found, LocateError>,
    ) -> Result<(), LocateError> {
        let mut rest = steps(path);
        while let Some(step) = rest.pop_front() {
            let name = match step {
                Step::Root => {
                    self.path = PathBuf::from("/");
                    continue;
                }
                Step::Up => {
                    self.path.pop();
                    continue;
                }
                Step::Into(name) => name,
            };
            self.path.push(name);
            if self.path.as_os_str().len() >= MAX_LENGTH {
                return Err(LocateError::TooLong);
            }
            let Found::Link(target) = look(&self.path)? else { continue };
            self.of_process |= is_process_link(&self.path);
            self.links.push(Link { path: self.path.clone(), last: rest.is_empty() });
            if self.links.len() > MAX_LINKS {
                return Err(LocateError::LinkLoop(self.path.clone()));
            }
            self.path.pop();
            for step in steps(&target).into_iter().rev() {
                rest.push_front(step);
            }
        }
        Ok(())
    }
}

enum Step {
    Root,
    Up,
    Into(OsString),
}

fn steps(path: &Path) -> VecDeque<Step> {
    let step = |component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

fn look(path: &Path) -> Result<Found, LocateError> {
    let unreadable = |source: io::Error| LocateError::Unreadable { path: path.to_owned(), source };
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => {
            path.read_link().map(Found::Link).map_err(unreadable)
        }
        Ok(metadata) if metadata.is_dir() => Ok(Found::Directory),
        Ok(metadata) if metadata.is_file() => Ok(Found::File),
        Ok(_) => Ok(Found::Other),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied => Ok(Found::Missing),
            io::ErrorKind::InvalidFilename => Err(LocateError::TooLong),
            _ => Err(unreadable(error)),
        },
    }
}

fn is_process_link(path: &Path) -> bool {
    path == Path::new("/proc/self") || path == Path::new("/proc/thread-self")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::test_directory::TestDirectory;

    #[test]
    fn existing_paths_lead_where_the_kernel_says() {
        let dir = TestDirectory::new();
        dir.directory("a/b");
        dir.file("a/b/f", "");
        symlink("a/b", dir.path("l")).unwrap();
        symlink("../../l/f", dir.path("a/b/g")).unwrap();
        symlink(dir.path("a"), dir.path("abs")).unwrap();
        let mut memory = Memory::default();
        for path in ["a/b/f", "l", "l/f", "l/..", "l/../b/./g", "abs/b/g", ".", "a/", "l/"] {
            let path = dir.path(path);
            let located = locate(&path).unwrap();
            assert_eq!(memory.locate(&path).unwrap(), located, "{}", path.display());
            assert_eq!(located.path, path.canonicalize().unwrap(), "{}", path.display());
            assert!(!located.of_process);
        }
        assert_eq!(locate(Path::new("/../..")).unwrap().path, Path::new("/"));
    }

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
            assert_eq!(memory.locate_as_far(&path), locate_as_far(&path), "{name}");
        }
    }

    #[test]
    fn missing_parts_are_appended_to_what_exists() {
        let dir = TestDirectory::new();
        dir.directory("a");
        dir.file("f", "");
        symlink("a", dir.path("l")).unwrap();
        symlink("a/gone", dir.path("broken")).unwrap();
        let mut memory = Memory::default();
        for (path, expected) in [
            ("a/x/y", "a/x/y"),
            ("l/x", "a/x"),
            ("l/x/../y", "a/y"),
            ("x/../a", "a"),
            ("x/../l/z", "a/z"),
            ("broken", "a/gone"),
            ("broken/x", "a/gone/x"),
            ("f/x", "f/x"),
        ] {
            assert_eq!(locate(&dir.path(path)).unwrap().path, dir.path(expected), "{path}");
            assert_eq!(memory.locate(&dir.path(path)).unwrap().path, dir.path(expected), "{path}");
        }
    }

    #[test]
    fn links_on_the_way_are_told_from_the_last_ones() {
        let dir = TestDirectory::new();
        dir.directory("real");
        dir.file("real/f", "");
        symlink("real", dir.path("way")).unwrap();
        symlink("second", dir.path("first")).unwrap();
        symlink("way/f", dir.path("second")).unwrap();
        let links = |path: &str| {
            let located = locate(&dir.path(path)).unwrap();
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            let links = located.links.iter().map(|link| (name(&link.path), link.last));
            links.collect::<Vec<_>>()
        };
        assert_eq!(links("real/f"), []);
        assert_eq!(links("way/f"), [("way".to_owned(), false)]);
        assert_eq!(links("way"), [("way".to_owned(), true)]);
        assert_eq!(
            links("first"),
            [("first".to_owned(), true), ("second".to_owned(), true), ("way".to_owned(), false)]
        );
    }

    #[test]
    fn loops_and_endless_paths_are_errors() {
        let dir = TestDirectory::new();
        symlink("two", dir.path("one")).unwrap();
        symlink("one", dir.path("two")).unwrap();
        symlink("self/self", dir.path("self")).unwrap();
        for path in ["one", "one/x", "self"] {
            let error = locate(&dir.path(path)).unwrap_err();
            assert!(matches!(error, LocateError::LinkLoop(_)), "{path}: {error}");
            let (located, is_whole) = locate_as_far(&dir.path(path));
            assert!(!is_whole);
            assert!(dir.path(path).starts_with(&located.path) || path == "one", "{located:?}");
            assert!(located.links.iter().any(|link| dir.path(path).starts_with(&link.path)));
        }
        for path in
            [format!("/{}", "x".repeat(4095)), "/x".repeat(2048), format!("/{}", "x".repeat(300))]
        {
            let error = locate(Path::new(&path)).unwrap_err();
            assert!(matches!(error, LocateError::TooLong), "{error}");
        }
    }

    #[test]
    fn paths_of_the_process_are_recognised() {
        for path in ["/proc/self/environ", "/proc/thread-self", "/dev/fd/0", "/dev/stdin"] {
            assert!(locate(Path::new(path)).unwrap().of_process, "{path}");
        }
        assert!(!locate(Path::new("/proc/1/environ")).unwrap().of_process);
    }
}
