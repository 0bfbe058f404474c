//! Follows a path, by the kernel or component by component as the kernel would for the target
//! (path_resolution(7)).
//!
//! The kernel does it faster, but in proc(5) it would take the broker for the one who asks: `self` and
//! the magic links, such as `/proc/self/cwd`, mean the target's own there. So the paths that lead
//! there are followed here. Each component is held before it is looked at.

use super::verdict::LandlockReason;
use kernel::locate::LINKS_MAX;
use kernel::object::Object;
use kernel::proc;
use kernel::target::Target;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The root directory of every proc(5) (fs/proc/root.c).
const PROC_ROOT_INODE: u64 = 1;

/// Why the broker has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The kernel says so: the target would get this error.
    Errno(Errno),
    /// What a path led to has lost that name since, and has others.
    Changed,
    /// Landlock decides. Out of sight is what a path leads to through what another process holds, or what answers
    /// according to who asks: the broker would see other things there than the target.
    ToLandlock(LandlockReason),
}

/// A path ends in what no call can make, move or remove: `.`, `..`, or the root.
pub(super) const NO_ENTRY: Lost = Lost::ToLandlock(LandlockReason::Futile);
/// A path leads to where Landlock grants what is asked: nothing more need be looked at.
pub(super) const GRANTED: Lost = Lost::ToLandlock(LandlockReason::Granted);

impl From<Errno> for Lost {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Lost> for Errno {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Errno(errno) => errno,
            // Only changes that `judge_change` judges, and questions, are left to Landlock. Anyone else would get the
            // refusal, not the object.
            Lost::ToLandlock(_) => Self::ACCESS,
            Lost::Changed => Self::AGAIN,
        }
    }
}

/// Holds what `path` names from `base` as the kernel follows it for the broker, through no such links as are `barred`.
///
/// # Errors
/// Returns what openat2(2) returns; [`Errno::LOOP`] for these links.
pub(super) fn hold_by_kernel(
    base: BorrowedFd<'_>,
    path: &[u8],
    follow: bool,
    barred: ResolveFlags,
) -> io::Result<OwnedFd> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | nofollow;
    fs::openat2(base, path, flags, Mode::empty(), barred)
}

/// Opens what `path` names for `target`, with O_PATH, from `here`, which is the root directory if it is absolute.
///
/// # Errors
/// Returns what the kernel's path walk returns; [`Lost::ToLandlock`] for magic links of other processes.
pub(crate) fn follow(
    target: Target,
    mut here: Object,
    path: &[u8],
    follow: bool,
) -> Result<Object, Lost> {
    let mut links = 0;
    let mut rest = Vec::new();
    push(&mut rest, path);
    while let Some(name) = rest.pop() {
        if name.is_empty() {
            if here.kind() != FileType::Directory {
                return Err(Errno::NOTDIR.into());
            }
            continue;
        }
        if name == b"." || name == b".." {
            here = hold(here.as_fd(), &name, OFlags::DIRECTORY)?;
            continue;
        }
        let found = hold(here.as_fd(), &name, OFlags::NOFOLLOW)?;
        if found.kind() != FileType::Symlink || (rest.is_empty() && !follow) {
            here = found.found_in(here.into(), OsStr::from_bytes(&name));
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        here = follow_link(target, here, &found, &name, &mut rest)?;
    }
    Ok(here)
}

/// Puts the components of `path` on top of `rest`. After a slash at the end an empty one follows: what
/// is before it must be a directory, which need not be searchable.
fn push(rest: &mut Vec<Vec<u8>>, path: &[u8]) {
    if path.ends_with(b"/") {
        rest.push(Vec::new());
    }
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    rest.extend(names.rev().map(<[u8]>::to_vec));
}

fn root() -> io::Result<Object> {
    hold(fs::CWD, b"/", OFlags::DIRECTORY)
}

/// Holds what is called `name` there.
pub(super) fn hold(from: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> io::Result<Object> {
    fs::openat(from, name, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())
        .and_then(Object::of)
}

/// Follows the link `found`, the entry `name` of `here`, as the target would. Returns where `rest` goes on, on top of which
/// the link's own components are put.
fn follow_link(
    target: Target,
    here: Object,
    found: &Object,
    name: &[u8],
    rest: &mut Vec<Vec<u8>>,
) -> Result<Object, Lost> {
    let is_on_proc = found.is_on_proc()?;
    let is_at_top = is_on_proc && here.identity().1 == PROC_ROOT_INODE;
    let text = match name {
        b"self" if is_at_top => target.process()?.to_string().into_bytes(),
        b"thread-self" if is_at_top => {
            let thread = target.thread().as_raw_nonzero();
            format!("{}/task/{thread}", target.process()?).into_bytes()
        }
        _ => {
            // The links beneath a process lead straight to an object.
            if is_on_proc
                && !is_at_top
                && let Some(process) = proc::owner(here.path()?)
            {
                return match target.has_thread(process) {
                    true => Ok(hold(here.as_fd(), name, OFlags::empty())?),
                    false => Err(Lost::ToLandlock(LandlockReason::OutOfSight)),
                };
            }
            fs::readlinkat(found, c"", Vec::new())?.into_bytes()
        }
    };
    if text.is_empty() {
        return Err(Errno::NOENT.into());
    }
    push(rest, &text);
    Ok(if text.starts_with(b"/") { root()? } else { here })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::cwd_guard::CwdGuard;
    use kernel::test_directory::TestDirectory;
    use rustix::process::getpid;
    use std::os::unix::fs::symlink;

    fn identity(object: Result<Object, impl Into<Errno>>) -> Result<(u64, u64), Errno> {
        object.map(|object| object.identity()).map_err(Into::into)
    }

    /// A small generator (xorshift), so that a failure can be repeated.
    fn next(state: &mut u64, below: usize) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        usize::try_from(*state % below as u64).unwrap()
    }

    fn by_kernel(base: BorrowedFd<'_>, path: &[u8], follow: bool) -> io::Result<Object> {
        hold_by_kernel(base, path, follow, ResolveFlags::NO_MAGICLINKS).and_then(Object::of)
    }

    #[test]
    fn it_leads_where_the_kernel_leads() {
        let dir = TestDirectory::new();
        dir.directory("a/b/c");
        dir.file("a/file", "");
        for (text, name) in [
            ("b", "a/down"),
            ("../a/./b/", "a/around"),
            ("loop", "a/loop"),
            ("file", "a/to-file"),
            ("file/", "a/to-file-as-directory"),
            ("nowhere", "a/dangling"),
            ("../../..", "a/b/up"),
        ] {
            symlink(text, dir.path(name)).unwrap();
        }
        symlink(dir.path("a"), dir.path("a/b/absolute")).unwrap();
        let target = Target::new(getpid());
        let base = hold(fs::CWD, dir.path("a").as_os_str().as_bytes(), OFlags::empty()).unwrap();
        let parts = [
            "b",
            "c",
            "..",
            ".",
            "",
            "file",
            "down",
            "around",
            "loop",
            "to-file",
            "up",
            "absolute",
            "to-file-as-directory",
            "dangling",
            "gone",
        ];
        let mut state = 0x1234_5678_9abc_def1;
        for _ in 0..20_000 {
            let count = 1 + next(&mut state, 5);
            let text: Vec<_> = (0..count).map(|_| parts[next(&mut state, parts.len())]).collect();
            let text = text.join("/");
            if text.is_empty() || text.starts_with('/') {
                continue;
            }
            for follows in [false, true] {
                let ours = identity(follow(
                    target,
                    Object::of(base.as_fd().try_clone_to_owned().unwrap()).unwrap(),
                    text.as_bytes(),
                    follows,
                ));
                let kernel = identity(by_kernel(base.as_fd(), text.as_bytes(), follows));
                assert_eq!(ours, kernel, "{text} {follows}");
            }
        }
    }

    #[test]
    fn self_is_the_target() {
        let target = Target::new(getpid());
        let own = std::process::id();
        let named = |path: &str| {
            let found = follow(target, root().unwrap(), path.as_bytes(), true).unwrap();
            found.path().unwrap().to_owned()
        };
        let task = format!("/proc/{own}/task/{own}");
        assert_eq!(
            named("/proc/self/status"),
            std::path::PathBuf::from(format!("/proc/{own}/status"))
        );
        assert_eq!(named("/proc/thread-self"), std::path::Path::new(&task));
        let here = CwdGuard::waiting(root().unwrap()).unwrap();
        assert_eq!(named("/proc/self/cwd"), here.path());
        drop(here);
        assert_eq!(named("/proc/self/root/etc/.."), std::path::Path::new("/"));
        assert_eq!(named("/proc/self/exe"), std::env::current_exe().unwrap());
        let init = follow(target, root().unwrap(), b"/proc/1/root", true);
        assert_eq!(init.unwrap_err(), Lost::ToLandlock(LandlockReason::OutOfSight));
    }
}
