//! From a path of a target to the object it names, held by a descriptor of the broker.
//!
//! The target's root directory is the broker's: the filter refuses chroot(2), pivot_root(2) and
//! mount namespaces, and the command starts with it. The kernel walks the path from the target's
//! own directory (openat2(2)). Where the path leads into proc(5), which answers according to who
//! asks, it is walked here (see `walk`).

use super::walk::{self, Lost};
use crate::kernel::object::Object;
use crate::kernel::target::{Target, TargetFd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Opens what `path` names for `target`, with O_PATH: without a right, and without touching it.
///
/// # Errors
/// Returns what the kernel's path walk returns; [`Lost::Foreign`] for magic links of other processes.
pub(crate) fn resolve(
    target: Target,
    directory: TargetFd,
    path: &[u8],
    follow: bool,
    empty: bool,
) -> Result<Object, Lost> {
    if path.is_empty() {
        let base =
            if empty { target.directory(directory)? } else { return Err(Errno::NOENT.into()) };
        return Ok(Object::of(base)?);
    }
    let base = base(target, directory, path)?;
    resolve_from(target, base.as_ref().map(AsFd::as_fd), path, follow)
}

/// The same from a directory that is held already; none is needed for an absolute path.
pub(crate) fn resolve_from(
    target: Target,
    base: Option<BorrowedFd<'_>>,
    path: &[u8],
    follow: bool,
) -> Result<Object, Lost> {
    match walk::by_kernel(base, path, follow) {
        Ok(object) if !object.is_on_proc()? && !object.lacks_place() => Ok(object),
        // What the broker does not have, the target can: a descriptor of the same number, a right to
        // what is below its own process. And what is so deep that the kernel does not write its path
        // is known by the directory that it is in.
        Ok(_) | Err(Errno::LOOP | Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {
            walk::follow(target, base, path, follow)
        }
        Err(errno) => Err(errno.into()),
    }
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
        (b"proc", who, b"cwd", _) if own(who) => (target.directory(TargetFd::CWD)?, 4),
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

fn descriptor_number(text: &[u8]) -> Option<TargetFd> {
    let text = str::from_utf8(text).ok()?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok().map(TargetFd::new)
    } else {
        None
    }
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
pub(crate) fn base(
    target: Target,
    directory: TargetFd,
    path: &[u8],
) -> io::Result<Option<OwnedFd>> {
    if path.starts_with(b"/") {
        return Ok(None);
    }
    // A duplicate serves as well as what its link leads to, and is had in half the time: the kernel
    // asks a directory for no rights of the descriptor.
    let duplicate = match directory {
        TargetFd::CWD => Err(Errno::PERM),
        number => target.duplicate(number),
    };
    duplicate.or_else(|_| target.directory(directory)).map(Some)
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
