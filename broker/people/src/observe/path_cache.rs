//! Where paths led a moment ago: for reports alone.
//!
//! Most calls that are let through and looked at for a report alone are permitted, and name an entry of a
//! directory where others have just named one. The path of that directory is remembered for a moment, and
//! not looked for again. It can be out of date when others move directories meanwhile. What comes of that is a
//! report too few, never a right: such a call is let through in any case, and Landlock decides on it. Nothing is
//! reported by what is remembered: what is not permitted by it is looked at.
//!
//! In the sandbox, what a path leads to is changed by calls that are notified: rename(2), symlink(2), link(2). They take
//! effect after they were let through, so that nothing is remembered until a moment later. The working
//! directory is changed by one that is not (chdir(2)), and read each time.

use super::process;
use kernel::shortcuts::Shortcut;
use kernel::target::TargetFd;
use kernel::threads::lock;
use landstrip_core::files::look::Look;
use rustix::fs::{self, AtFlags, StatxFlags};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long what was found is taken to be so still.
const MOMENT: Duration = Duration::from_millis(1);
/// Most directories that are remembered: as many as are busy in a moment.
const KNOWN_MAX: usize = 16;

/// Where a path starts: at the root, in a working directory by its path, or in one that the target holds, by mount,
/// device and inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start(Vec<u8>);

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct PathCache(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The latest first.
    places: VecDeque<Place>,
    /// When what paths lead to was changed last.
    changed: Option<Instant>,
}

#[derive(Debug)]
struct Place {
    seen: Instant,
    start: Start,
    /// What the path has before its last component.
    above: Vec<u8>,
    directory: Arc<Path>,
}

impl Start {
    /// That of `look`, whose target waits.
    pub(super) fn of(look: &Look) -> Option<Self> {
        if look.is_absolute() {
            return Some(Self(b"/".to_vec()));
        }
        if look.directory == TargetFd::CWD {
            let path = process::working_directory(look.target).ok()?;
            return Some(Self([b"in ", &path[..]].concat()));
        }
        let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
        let found = fs::statx(look.base()?, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
        // Before Linux 5.8 it does not tell of mounts.
        if !StatxFlags::from_bits_retain(found.stx_mask).contains(wanted) {
            return None;
        }
        let device = [found.stx_dev_major, found.stx_dev_minor].map(u64::from);
        let numbers = [found.stx_mnt_id, device[0], device[1], found.stx_ino];
        Some(Self(
            b"at ".iter().copied().chain(numbers.into_iter().flat_map(u64::to_ne_bytes)).collect(),
        ))
    }

    /// As it is noted with a look.
    pub(super) fn into_note(self) -> Vec<u8> {
        self.0
    }

    /// What was noted.
    pub(super) fn noted(look: &Look) -> Option<Self> {
        (!look.note.is_empty()).then(|| Self(look.note.clone()))
    }
}

impl PathCache {
    /// The directory that `above` led to from `start` a moment ago.
    pub(super) fn find(&self, start: &Start, above: &[u8]) -> Option<Arc<Path>> {
        let known = lock(&self.0);
        let mut places = known.places.iter().filter(|_| Shortcut::PATH_CACHE.is_open());
        let place = places.find(|place| place.start == *start && place.above == above)?;
        (place.seen.elapsed() < MOMENT).then(|| Arc::clone(&place.directory))
    }

    /// Notes that `above` leads to `directory` from `start`, which was looked for since `seen`.
    pub(super) fn learn(&self, seen: Instant, start: &Start, above: &[u8], directory: PathBuf) {
        let mut known = lock(&self.0);
        if known.changed.is_some_and(|changed| seen < changed + MOMENT) {
            return;
        }
        known.places.retain(|place| place.start != *start || place.above != above);
        known.places.truncate(KNOWN_MAX - 1);
        let (start, above, directory) = (start.clone(), above.to_owned(), directory.into());
        known.places.push_front(Place { seen, start, above, directory });
    }

    /// Notes that what paths lead to is about to change.
    pub(super) fn forget(&self) {
        let mut known = lock(&self.0);
        known.places.clear();
        known.changed = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Start {
        Start(b"/".to_vec())
    }

    #[test]
    fn nothing_is_remembered_for_longer_than_a_moment_nor_across_a_change() {
        let path_cache = PathCache::default();
        let find = || path_cache.find(&root(), b"/a/");
        let learn = |seen| path_cache.learn(seen, &root(), b"/a/", "/b".into());
        let start = Instant::now();
        learn(start + Duration::from_secs(60));
        assert_eq!(find().as_deref(), Some(Path::new("/b")));
        assert_eq!(path_cache.find(&root(), b"/a/c/"), None);
        assert_eq!(path_cache.find(&Start(b"in /".to_vec()), b"/a/"), None);
        std::thread::sleep(2 * MOMENT);
        learn(start);
        assert_eq!(find(), None);
        learn(start + Duration::from_secs(60));
        path_cache.forget();
        assert_eq!(find(), None);
        // Looked for before it took effect.
        let changed = lock(&path_cache.0).changed.unwrap();
        learn(changed);
        assert_eq!(find(), None);
        learn(changed + MOMENT - Duration::from_nanos(1));
        assert_eq!(find(), None);
        learn(changed + Duration::from_secs(60));
        assert_eq!(find().as_deref(), Some(Path::new("/b")));
    }

    #[test]
    fn the_latest_are_remembered() {
        let path_cache = PathCache::default();
        let later = Instant::now() + Duration::from_secs(60);
        for number in 0..=KNOWN_MAX {
            path_cache.learn(later, &root(), number.to_string().as_bytes(), "/".into());
        }
        assert_eq!(path_cache.find(&root(), b"0"), None);
        assert!(path_cache.find(&root(), b"1").is_some());
    }
}
