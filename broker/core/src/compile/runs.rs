//! Where the directories of runs lie: each in a directory of this user's alone, the *holder*, which no sandbox may write.
//! Runs beside one another are each other's attackers, and of one user, whom no mode keeps apart.
//!
//! Not in /tmp where there is another place: many a policy lets that be written, and to take one directory out of it
//! makes all else in it the broker's.

use crate::report::errno::strerror;
use kernel::locate::locate;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::path::{Path, PathBuf};

/// The directories for temporary files; what may be written comes first in policies.
const WRITTEN: &str = "/tmp";
const APART: &str = "/var/tmp";

/// Where temporary directories are made, a canonical path: TMPDIR, unless that is what everybody has, or not there, or
/// relative to the working directory, which most policies let be written.
pub(crate) fn temporary() -> Option<PathBuf> {
    let named = directory("TMPDIR").filter(|path| path != Path::new(WRITTEN));
    let is_usable = || fs::access(APART, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    let usual = || if is_usable() { APART } else { WRITTEN }.into();
    let canonical = |path: PathBuf| std::fs::canonicalize(path).ok();
    named.and_then(canonical).or_else(|| canonical(usual()))
}

/// Where the caller's programs have temporary files; an empty TMPDIR names nothing.
pub fn callers_temporary() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|named| !named.is_empty());
    named.map_or_else(|| WRITTEN.into(), PathBuf::from)
}

/// Where directories wait that the command makes later, and then where they do for runs that have no XDG_CACHE_HOME.
pub fn caches() -> impl Iterator<Item = PathBuf> {
    directory("XDG_CACHE_HOME").into_iter().chain(directory("HOME").map(|home| home.join(".cache")))
}

/// The absolute path that a variable of the caller's names.
fn directory(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The holder in a directory for temporary files, which others use too.
pub(crate) fn holder(place: &Path) -> PathBuf {
    place.join(format!("landstrip-{}", geteuid().as_raw()))
}

/// The holder in a directory of the user's.
pub fn holder_in_cache(cache: &Path) -> PathBuf {
    cache.join("landstrip")
}

/// The holder where the system has a directory for sockets of the user's (XDG_RUNTIME_DIR, which another run may have not).
pub fn holder_of_sockets() -> PathBuf {
    format!("/run/user/{}/landstrip", geteuid().as_raw()).into()
}

/// All holders that runs of this user have, as far as this one can tell: others may lack the variables that it has.
pub fn holders() -> impl Iterator<Item = PathBuf> {
    // It may be made later.
    let caches = caches().filter_map(|cache| Some(holder_in_cache(&locate(&cache).ok()?.path)));
    let usual = std::fs::canonicalize(APART).or_else(|_| std::fs::canonicalize(WRITTEN));
    let places = temporary().into_iter().chain(usual);
    places.map(|place| holder(&place)).chain(caches).chain([holder_of_sockets()])
}

/// Opens a holder, and makes it when it is first needed. What an earlier run, or another user, made in its place, as a
/// symbolic link to where the next run is to write, is not used.
///
/// # Errors
/// Says why it cannot be.
pub fn hold(holder: &Path) -> Result<OwnedFd, String> {
    let shared = || "it is not a directory of this user's alone: remove it".to_owned();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || fs::open(holder, flags, Mode::empty());
    let made = || match fs::mkdir(holder, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open(),
        Err(errno) => Err(errno),
    };
    let held = open().or_else(|errno| if errno == Errno::NOENT { made() } else { Err(errno) });
    let held = held.map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => shared(),
        errno => strerror(errno),
    })?;
    let stat = fs::fstat(&held).map_err(strerror)?;
    let rights = Mode::RWXU | Mode::RWXG | Mode::RWXO;
    let is_closed = Mode::from_raw_mode(stat.st_mode) & rights == Mode::RWXU;
    let is_own = stat.st_uid == geteuid().as_raw() && is_closed;
    is_own.then_some(held).ok_or_else(shared)
}
