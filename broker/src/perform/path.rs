//! From a path of a target to the object it names, held by a descriptor of the broker.
//!
//! The target's root directory is the broker's: the filter refuses chroot(2), pivot_root(2) and
//! mount namespaces, and the command starts with it. The kernel walks the path from the target's
//! own directory (openat2(2)); magic links, which would mean the broker's descriptors instead of
//! the target's, are refused by it, but for the spellings of a descriptor that C libraries use.

use crate::notify::target::{AT_FDCWD, Target};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Opens what `path` names for `target`, with O_PATH: without a right, and without touching it.
///
/// # Errors
/// Returns what the kernel's path walk returns; [`Errno::ACCESS`] for other magic links.
pub(crate) fn resolve(
    target: Target,
    directory: RawFd,
    path: &[u8],
    follow: bool,
    empty: bool,
) -> io::Result<OwnedFd> {
    if path.is_empty() {
        return if empty { target.directory(directory) } else { Err(Errno::NOENT) };
    }
    if let Some(number) = descriptor_of(target, path).filter(|_| follow) {
        return target.descriptor(number);
    }
    let (base, path) = match start(target, path)? {
        (None, path) if !path.starts_with(b"/") => (Some(target.directory(directory)?), path),
        start => start,
    };
    walk(base.as_ref(), path, follow)
}

/// Takes off the front of `path` what means the target's own working directory or a directory that
/// it holds: the broker would find its own there. Programs reach long socket paths this way.
///
/// # Errors
/// Returns [`Errno::BADF`] if the target has no such descriptor.
pub(crate) fn start(target: Target, path: &[u8]) -> io::Result<(Option<OwnedFd>, &[u8])> {
    let own = |rest: &'_ [u8]| -> bool {
        match rest {
            b"self" | b"thread-self" => true,
            number => str::from_utf8(number)
                .ok()
                .and_then(|number| number.parse().ok())
                .is_some_and(|id| target.has_thread(id)),
        }
    };
    let mut parts = path.splitn(6, |&byte| byte == b'/').skip(1);
    let mut next = || parts.next().unwrap_or_default();
    let (base, taken) = match (next(), next(), next(), next()) {
        (b"proc", who, b"cwd", _) if own(who) => (target.directory(AT_FDCWD)?, 4),
        (b"proc", who, b"fd", number) if own(who) => match descriptor_number(number) {
            Some(number) => (target.descriptor(number)?, 5),
            None => return Ok((None, path)),
        },
        (b"dev", b"fd", number, _) => match descriptor_number(number) {
            Some(number) => (target.descriptor(number)?, 4),
            None => return Ok((None, path)),
        },
        _ => return Ok((None, path)),
    };
    // Only directories go on, and only with something to go on to.
    let rest = path.splitn(taken + 1, |&byte| byte == b'/').nth(taken).unwrap_or_default();
    let rest = rest.iter().position(|&byte| byte != b'/').map_or(&b""[..], |at| &rest[at..]);
    Ok(if rest.is_empty() { (None, path) } else { (Some(base), rest) })
}

fn descriptor_number(text: &[u8]) -> Option<RawFd> {
    let text = str::from_utf8(text).ok()?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Opens `path` relative to `base`, or absolute without one.
///
/// # Errors
/// As [`resolve`].
pub(crate) fn walk(base: Option<&OwnedFd>, path: &[u8], follow: bool) -> io::Result<OwnedFd> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | nofollow;
    let base = base.map_or(fs::CWD, AsFd::as_fd);
    fs::openat2(base, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
        .map_err(|errno| if errno == Errno::LOOP { Errno::ACCESS } else { errno })
}

/// The descriptor that `path` spells, as glibc and musl do where the kernel had no call on O_PATH
/// descriptors, and shells do for standard streams.
fn descriptor_of(target: Target, path: &[u8]) -> Option<RawFd> {
    let path = str::from_utf8(path).ok()?;
    match path {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let thread = format!("/proc/{}/fd/", target.thread().as_raw_nonzero());
    ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/", &thread]
        .iter()
        .find_map(|prefix| path.strip_prefix(prefix))
        .and_then(|number| descriptor_number(number.as_bytes()))
}

/// The path of an object as the kernel knows it, if it has one: not so for pipes and sockets. A
/// removed file has the path it had, with ` (deleted)` after it.
///
/// # Errors
/// Returns what readlink(2) returns.
pub(crate) fn name_of(object: &OwnedFd) -> io::Result<PathBuf> {
    let name = fs::readlink(own_link(object), Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(name.into_bytes())))
}

/// The magic link by which the broker names an object that it holds.
pub(crate) fn own_link(object: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", object.as_raw_fd())
}

/// Splits off the last component: the directory part, which may be empty, and the name. `None` for
/// a path that ends in `.`, `..` or the root, which no call can create or remove.
pub(crate) fn split(path: &[u8]) -> Option<(&[u8], &OsStr)> {
    let end = path.iter().rposition(|&b| b != b'/')? + 1;
    let start = path[..end].iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    let name = &path[start..end];
    (name != b"." && name != b"..").then(|| (&path[..start], OsStr::from_bytes(name)))
}

/// The directory that a path argument starts from; none for an absolute path.
///
/// # Errors
/// As [`Target::directory`].
pub(crate) fn base(target: Target, directory: RawFd, path: &[u8]) -> io::Result<Option<OwnedFd>> {
    if path.starts_with(b"/") { Ok(None) } else { target.directory(directory).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
