//! The directories that are this user's alone and that no sandbox may write: where runs and `landstrip --watch` meet, and
//! where a policy is made that is to take another one's place.

use landstrip_core::compile::runs::{caches, hold, holder_in_cache, holder_of_sockets};
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// That in the user's cache.
pub(super) fn in_cache() -> Option<PathBuf> {
    caches().next().map(|cache| holder_in_cache(&cache))
}

/// Opens the one in the cache, and makes it when it is first needed.
///
/// # Errors
/// Returns why it cannot be used.
pub(super) fn open_in_cache() -> Result<OwnedFd, String> {
    let place = in_cache().ok_or("set HOME")?;
    // Whether it is there, opening it tells.
    let _ = place.parent().map(std::fs::create_dir_all);
    hold(&place).map_err(|why| format!("{}: {why}", place.display()))
}

/// Where runs are watched from: the user's directory for sockets where the caller says that there is one, and it is where
/// every run looks for it; else the cache.
///
/// # Errors
/// Returns why neither can be used.
pub(super) fn open_for_sockets() -> Result<OwnedFd, String> {
    let place = holder_of_sockets();
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let is_named = named.as_deref() == place.parent();
    let held = is_named.then(|| hold(&place).ok()).flatten();
    held.map_or_else(open_in_cache, Ok)
}

/// Where somebody may watch, as far as there is anything.
pub(super) fn of_watchers() -> impl Iterator<Item = PathBuf> {
    let places = [Some(holder_of_sockets()), in_cache()].into_iter().flatten();
    places.filter(|place| place.is_dir())
}

/// Opens one of those.
pub(super) fn open(place: &Path) -> Option<OwnedFd> {
    hold(place).ok()
}
