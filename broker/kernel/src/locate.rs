//! Where a path leads: realpath(3), except that what is missing is not an error and every symbolic link on the way
//! is remembered. It reads the file system and changes nothing.

use super::long_paths::PATH_MAX;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The kernel follows as many links in one path (path_resolution(7)).
pub const LINKS_MAX: usize = 40;

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
            Self::TooLong => write!(
                f,
                "the path is longer than {} bytes, or a name in it longer than 255",
                PATH_MAX - 1
            ),
            Self::Unreadable { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
        }
    }
}

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
    if path.as_os_str().len() >= PATH_MAX {
        return Err(LocateError::TooLong);
    }
    let mut located = Located::at(directory);
    located.follow(path, look).map(|()| located)
}

impl Located {
    /// `directory`, a canonical path, by itself.
    pub fn at(directory: &Path) -> Self {
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

    /// Follows `path` from here on, however long it is, by what `look` says of the canonical paths on the way.
    ///
    /// # Errors
    /// As [`locate`]; this is where the name that cannot be followed is, then.
    pub fn follow(
        &mut self,
        path: &Path,
        mut look: impl FnMut(&Path) -> Result<Found, LocateError>,
    ) -> Result<(), LocateError> {
        // The next step is the last.
        let mut rest: Vec<_> = steps(path).collect();
        while let Some(step) = rest.pop() {
            if step == ".." {
                self.path.pop();
                continue;
            }
            // The root directory takes the place of what is before it.
            self.path.push(&step);
            if step == "/" {
                continue;
            }
            if self.path.as_os_str().len() >= PATH_MAX {
                return Err(LocateError::TooLong);
            }
            let Found::Link(target) = look(&self.path)? else { continue };
            self.of_process |= is_process_link(&self.path);
            self.links.push(Link { path: self.path.clone(), last: rest.is_empty() });
            if self.links.len() > LINKS_MAX {
                return Err(LocateError::LinkLoop(self.path.clone()));
            }
            self.path.pop();
            rest.extend(steps(&target));
        }
        Ok(())
    }
}

/// The components of a path from its end to its begin, which can be the root directory; `.` is none.
fn steps(path: &Path) -> impl Iterator<Item = OsString> {
    path.iter().rev().filter(|step| *step != ".").map(OsStr::to_owned)
}

/// What is at `path`, whose directory is canonical.
///
/// # Errors
/// Returns [`LocateError`] for an error of the file system.
pub fn look(path: &Path) -> Result<Found, LocateError> {
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
        for path in ["a/b/f", "l", "l/f", "l/..", "l/../b/./g", "abs/b/g", ".", "a/", "l/"] {
            let path = dir.path(path);
            let located = locate(&path).unwrap();
            assert_eq!(located.path, path.canonicalize().unwrap(), "{}", path.display());
            assert!(!located.of_process);
        }
        assert_eq!(locate(Path::new("/../..")).unwrap().path, Path::new("/"));
    }

    #[test]
    fn missing_parts_are_appended_to_what_exists() {
        let dir = TestDirectory::new();
        dir.directory("a");
        dir.file("f", "");
        symlink("a", dir.path("l")).unwrap();
        symlink("a/gone", dir.path("broken")).unwrap();
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
            let mut located = Located::at(Path::new("/"));
            assert!(located.follow(&dir.path(path), look).is_err());
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
