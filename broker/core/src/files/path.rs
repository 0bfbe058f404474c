//! From a path of a target to the object it names, held by a descriptor of the broker.
//!
//! The target's root directory is the broker's: the filter refuses chroot(2), pivot_root(2) and
//! mount namespaces, and the command starts with it. The kernel walks the path from the target's
//! own directory (openat2(2)). Where the path leads into proc(5), which answers according to who
//! asks, it is walked here (see `walk`).

use super::walk::{self, GRANTED, Lost};
use kernel::cwd_guard::CwdGuard;
use kernel::long_paths::PATH_MAX;
use kernel::object::Object;
use kernel::self_proc::path_of;
use kernel::shortcuts::Shortcut;
use kernel::target::{Target, TargetFd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether what the kernel finds, and the path that it writes of that, is such that nothing else need be asked: that is
/// [`GRANTED`].
pub(crate) type IsGranted<'a> = &'a dyn Fn(BorrowedFd<'_>, &Path) -> bool;

/// Nothing is: whatever it is, it has to be looked at.
pub(crate) const NOTHING: IsGranted<'static> = &|_, _| false;

/// Opens what `path` names for `target`, as the flags of calls such as fstatat(2) say, with O_PATH: without a right, and
/// without touching it.
///
/// # Errors
/// Returns what the kernel's path walk returns; [`Lost::ToLandlock`] for magic links of other processes.
pub(crate) fn resolve(
    target: Target,
    directory: TargetFd,
    path: &[u8],
    flags: AtFlags,
) -> Result<Object, Lost> {
    if path.is_empty() && flags.contains(AtFlags::EMPTY_PATH) {
        return Ok(Object::of(target.directory(directory)?)?);
    }
    let follow = !flags.contains(AtFlags::SYMLINK_NOFOLLOW);
    resolve_from(target, &Base::of(target, directory, path)?, path, follow, NOTHING)
}

/// The same from where the path starts, but for what is granted.
pub(crate) fn resolve_from(
    target: Target,
    base: &Base<'_>,
    path: &[u8],
    follow: bool,
    is_granted: IsGranted<'_>,
) -> Result<Object, Lost> {
    let is_granted =
        |found: BorrowedFd<'_>, path: &Path| Shortcut::GRANTED.is_open() && is_granted(found, path);
    // The path of a directory itself is known.
    let name = base.path_of(path);
    if let Some(name) = name.as_deref().filter(|_| path == b".")
        && is_granted(base.as_fd(), name)
    {
        return Err(GRANTED);
    }
    let followed = |barred| walk::hold_by_kernel(base.as_fd(), path, follow, barred);
    let is_of_proc = name.as_deref().is_none_or(|name| name.starts_with("/proc"));
    let found = match name {
        Some(name) => followed(ResolveFlags::NO_SYMLINKS).map(|found| (found, name)),
        None => Err(Errno::LOOP),
    };
    let object = match found {
        Ok((found, name)) if is_granted(found.as_fd(), &name) => return Err(GRANTED),
        Ok((found, name)) => Object::found_by(found, name),
        // There is no link on the way, and what is missing then the target does not find either.
        Err(Errno::NOENT) if !is_of_proc => return Err(Errno::NOENT.into()),
        Err(Errno::LOOP) => match followed(ResolveFlags::NO_MAGICLINKS) {
            Ok(found) => match path_of(&found) {
                Ok(path) if is_granted(found.as_fd(), &path) => return Err(GRANTED),
                Ok(path) => Object::called(found, path),
                Err(_) => Object::of(found),
            },
            Err(errno) => Err(errno),
        },
        Err(errno) => Err(errno),
    };
    match object {
        Ok(object) if !object.is_on_proc()? && !object.lacks_place() => Ok(object),
        // What the broker does not have, the target can: a descriptor of the same number, a right to
        // what is below its own process. And what is so deep that the kernel does not write its path
        // is known by the directory that it is in.
        Ok(_) | Err(Errno::LOOP | Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {
            walk::follow(target, base.hold()?, path, follow)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// What `path` begins with, if that means the target's own working directory or a directory that it holds, where the broker
/// would find its own, and what follows. Programs reach long socket paths this way.
pub(crate) fn start(target: Target, path: &[u8]) -> Option<(TargetFd, &[u8])> {
    let is_own = |who: &[u8]| {
        [&b"self"[..], b"thread-self"].contains(&who)
            || number(who).is_some_and(|id| target.has_thread(id))
    };
    let mut parts = path.strip_prefix(b"/")?.split(|&byte| byte == b'/');
    let mut next = || parts.next().unwrap_or_default();
    let (directory, taken) = match (next(), next(), next(), next()) {
        (b"proc", who, b"cwd", _) if is_own(who) => (TargetFd::CWD, 4),
        (b"proc", who, b"fd", held) if is_own(who) => (TargetFd::new(number(held)?), 5),
        (b"dev", b"fd", held, _) => (TargetFd::new(number(held)?), 4),
        _ => return None,
    };
    // Only directories go on, and only with something to go on to.
    let rest = path.splitn(taken + 1, |&byte| byte == b'/').nth(taken)?;
    let begin = rest.iter().position(|&byte| byte != b'/')?;
    Some((directory, &rest[begin..]))
}

fn number(text: &[u8]) -> Option<i32> {
    // As the kernel writes it.
    let is_number =
        text.iter().all(u8::is_ascii_digit) && (text == b"0" || !text.starts_with(b"0"));
    str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Splits off the last component: the directory part, which may be empty, and the name. `None` for
/// a path that ends in `.`, `..` or the root, which no call can create or remove.
pub fn split(path: &[u8]) -> Option<(&[u8], &OsStr)> {
    let end = path.iter().rposition(|&b| b != b'/')? + 1;
    let start = path[..end].iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    let name = &path[start..end];
    (name != b"." && name != b"..").then(|| (&path[..start], OsStr::from_bytes(name)))
}

/// Where a path starts.
#[derive(Debug)]
pub(crate) enum Base<'a> {
    /// At the root directory: it is absolute.
    Root,
    /// In a directory of the target's, where the broker stands for the moment.
    Guarded(CwdGuard),
    /// In one that is held.
    Held(OwnedFd),
    /// The same.
    Borrowed(BorrowedFd<'a>),
}

impl Base<'_> {
    /// The directory that a path argument starts from.
    ///
    /// # Errors
    /// Returns [`Errno::NOENT`] for an empty path, before anything else.
    pub(crate) fn of(target: Target, directory: TargetFd, path: &[u8]) -> io::Result<Self> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.starts_with(b"/") {
            return Ok(Self::Root);
        }
        if directory == TargetFd::CWD {
            return CwdGuard::of(target)
                .map(Self::Guarded)
                .or_else(|_| hold(target, directory).map(Self::Held));
        }
        let held = hold(target, directory)?;
        Ok(CwdGuard::at(&held).map_or(Self::Held(held), Self::Guarded))
    }

    /// What `path` is called if there is no symbolic link on it, as far as it is known where it starts.
    fn path_of(&self, path: &[u8]) -> Option<PathBuf> {
        let start = match self {
            Self::Root => Path::new("/"),
            Self::Guarded(guard) => guard.path(),
            Self::Held(_) | Self::Borrowed(_) => return None,
        };
        let names =
            path.strip_suffix(b".").filter(|above| above.is_empty() || above.ends_with(b"/"));
        let names = names.map_or(path, |above| above.strip_suffix(b"/").unwrap_or(above));
        let names = names.strip_prefix(b"/").unwrap_or(names);
        let is_plain = |name: &[u8]| !name.is_empty() && name != b"." && name != b"..";
        let is_plain = names.is_empty() || names.split(|&byte| byte == b'/').all(is_plain);
        let is_short = start.as_os_str().len() + 1 + names.len() < PATH_MAX;
        (is_plain && is_short).then(|| match names.is_empty() {
            true => start.to_owned(),
            false => start.join(OsStr::from_bytes(names)),
        })
    }

    /// The directory.
    fn hold(&self) -> io::Result<Object> {
        let name = if matches!(self, Self::Root) { "/" } else { "." };
        walk::hold(self.as_fd(), name.as_bytes(), OFlags::DIRECTORY)
    }
}

impl<'a> From<Option<BorrowedFd<'a>>> for Base<'a> {
    fn from(base: Option<BorrowedFd<'a>>) -> Self {
        base.map_or(Self::Root, Self::Borrowed)
    }
}

impl AsFd for Base<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root => fs::CWD,
            Self::Guarded(guard) => guard.as_fd(),
            Self::Held(held) => held.as_fd(),
            Self::Borrowed(held) => *held,
        }
    }
}

/// Holds the working directory, or what a descriptor is of. A duplicate serves as well as what its link leads to, and
/// is had in half the time: the kernel asks a directory for no rights of the descriptor.
pub(super) fn hold(target: Target, directory: TargetFd) -> io::Result<OwnedFd> {
    let duplicate = match directory {
        TargetFd::CWD => Err(Errno::PERM),
        number => target.duplicate(number),
    };
    duplicate.or_else(|_| target.directory(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_absolute_path_begins_with_what_a_process_holds() {
        type Case<'a> = (&'a [u8], Option<(TargetFd, &'a [u8])>);
        let held = TargetFd::new(3);
        let cases: [Case<'_>; 12] = [
            (b"/dev/fd/3/b", Some((held, b"b"))),
            (b"/proc/self/fd/3//b/c", Some((held, b"b/c"))),
            (b"/proc/self/cwd//b", Some((TargetFd::CWD, b"b"))),
            (b"a/dev/fd/3/b", None),
            (b"dev/fd/3/b", None),
            (b"//dev/fd/3/b", None),
            (b"/dev/fd/3", None),
            (b"/dev/fd/3/", None),
            (b"/dev/fd/+3/b", None),
            (b"/dev/fd/03/b", None),
            (b"/proc/1/cwd/b", None),
            (b"/proc/self/exe/b", None),
        ];
        let target = Target::new(rustix::process::getpid());
        for (path, expected) in cases {
            assert_eq!(start(target, path), expected, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn the_last_component_is_split_off() {
        type Case<'a> = (&'a [u8], Option<(&'a [u8], &'a str)>);
        let cases: [Case<'_>; 9] = [
            (b"a", Some((b"", "a"))),
            (b"a/b", Some((b"a/", "b"))),
            (b"/a", Some((b"/", "a"))),
            (b"a//b//", Some((b"a//", "b"))),
            (b"a/.", None),
            (b"a/../", None),
            (b"/", None),
            (b"", None),
            (b"...", Some((b"", "..."))),
        ];
        for (path, expected) in cases {
            let expected = expected.map(|(directory, name)| (directory, OsStr::new(name)));
            assert_eq!(split(path), expected);
        }
    }
}
