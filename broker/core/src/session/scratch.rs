//! The private TMPDIR of a command that may not write the caller's: made for the run, removed after it. So is what else
//! a run has of directories; [`crate::compile::runs`] says where they lie.
//!
//! While a run lasts it holds a lock (flock(2)) on its directory. The lock of a run that was killed
//! is gone, and by that a later run knows what to remove.

use super::removal;
use crate::compile::runs;
use crate::files::reserve::{KEPT_MAX, Reserve};
use crate::report::errno::strerror;
use crate::report::failure::{Failure, warn};
use crate::report::traps::Traps;
use kernel::identity::Fronts;
use kernel::long_paths::identity_of;
use kernel::threads::{SMALL_STACK, spawn};
use rules::files::Files;
use rules::memory;
use rules::paths::{Kind, Rules, covers};
use rules::policy::Policy;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::{self, Errno};
use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity, sched_yield};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

/// How directories of runs are called among those of others, before 16 hexadecimal digits.
const PREFIX: &str = "landstrip-";
/// Another run may take a directory for a stale one between its creation and its lock.
const ATTEMPTS: usize = 8;
/// What a run spends on the directories of killed runs at most: entries of the parent looked
/// at, directories tried, and entries removed, in all some tens of milliseconds.
const STALE_SEEN_MAX: usize = 1024;
const STALE_TRIED_MAX: usize = 4;
const STALE_REMOVED_MAX: usize = 10_000;

/// What is being made for directories that are granted before they have their place.
pub(super) type Waiting = JoinHandle<Option<(Scratch, Reserve)>>;

/// A directory that is removed with all it holds when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    held: RunDirectory,
    /// What the command may write of it.
    pub(super) path: PathBuf,
}

impl Scratch {
    /// Makes one, and lets it be written, unless `policy` lets the caller's own, if that is there, be written or says
    /// otherwise: by a TMPDIR that it sets, or a rule that denies what would be in it.
    ///
    /// # Errors
    /// Returns the [`Failure`] of making it under the built-in policy, which promises one. Under another
    /// the command goes without.
    pub(super) fn wanted(policy: &mut Policy, traps: &Traps) -> Result<Option<Self>, Failure> {
        if !Self::is_called_for(policy) {
            return Ok(None);
        }
        let temporary = runs::temporary().map(|place| runs::holder(&place));
        // Another user may have taken the name of the first.
        let cache = runs::caches().next().map(|cache| runs::holder_in_cache(&cache));
        let holders = temporary.into_iter().chain(cache);
        let mut holders = holders.filter(|holder| !denies(&policy.files, holder));
        let made = match holders.next().map(|holder| Self::beneath(&holder)) {
            Some(Err(reason)) => {
                holders.find_map(|holder| Self::beneath(&holder).ok()).ok_or(reason)
            }
            Some(made) => made,
            None => Err("the policy denies all places for it".to_owned()),
        };
        match made {
            Ok(scratch) => {
                policy.files.allow_write.push(scratch.path.clone());
                Ok(Some(scratch))
            }
            Err(reason) if policy.built_in => Err(Failure::Internal("TMPDIR", reason)),
            Err(reason) => {
                traps.log(&format!("no private TMPDIR: {reason}"));
                Ok(None)
            }
        }
    }

    /// Whether [`Scratch::wanted`] would make one: whether `policy` leaves the command without a temporary directory.
    pub(super) fn is_called_for(policy: &Policy) -> bool {
        let files = &policy.files;
        let is_left = |callers: PathBuf| {
            files.allow_write.iter().any(|root| callers.starts_with(root))
                || denies(files, &callers)
        };
        policy.built_in
            || policy.variables.value("TMPDIR").is_none()
                && !std::fs::canonicalize(runs::callers_temporary()).is_ok_and(is_left)
    }

    /// Makes one for shared memory of the command's own, unless `policy` says itself what may be done with
    /// that, and lets it be written. Where there can be none, there is no shared memory.
    pub(super) fn for_shared_memory(policy: &mut Policy) -> Option<Self> {
        let place = Path::new(memory::PLACE);
        let files = &mut policy.files;
        let is_named = |path: &PathBuf| path.starts_with(place);
        if files.allow_read.iter().any(is_named)
            || files.allow_write.iter().any(is_named)
            || memory::is_named_by(&files.allow_write)
            || FileType::from_raw_mode(fs::lstat(place).ok()?.st_mode) != FileType::Directory
        {
            return None;
        }
        let directory = fs::open(place, TO_LIST, Mode::empty()).ok()?;
        let mut scratch = Self::create(directory.as_fd(), place, PREFIX).ok()?;
        if rustix::process::geteuid().is_root() {
            // Processes of root's can become other users, who use it too; nobody outside gets here.
            scratch.path.push("objects");
            fs::mkdir(&scratch.path, Mode::from_raw_mode(0o1777)).ok()?;
        }
        files.allow_write.push(scratch.path.clone());
        files.allow_read.push(scratch.path.clone());
        Some(scratch)
    }

    /// Makes one for what is granted before it has its place, and fills it, where `files`
    /// deny something inside of what they allow, or allow what is missing beside what may not be read: on the same
    /// mount, and not where the command may write. `for_reads`, if nobody else would let what is missing be read.
    /// Where there can be none, the command's directories are made as they are asked for. The matcher is `rules`.
    ///
    /// A thread does it meanwhile, where there can be one: on ext4 it is a sixth of what a launch takes.
    pub(super) fn for_reserve(files: &Files, rules: &Rules, for_reads: bool) -> Option<Waiting> {
        let places: Vec<_> = missing_beside_denied(files, rules).collect();
        // That compares all with all.
        let beside = || mount_of(Fronts::default().nearest(files.carved_root(rules)?)?);
        let mount = places.iter().find_map(|(parent, _)| mount_of(parent)).or_else(beside)?;
        let mut missing = (0, 0);
        // For no more are any made.
        for (parent, is_settled) in places {
            let count = if is_settled { &mut missing.0 } else { &mut missing.1 };
            if *count < KEPT_MAX && mount_of(parent) == Some(mount) {
                *count += 1;
            }
        }
        let fitting = |path: PathBuf| {
            let path = std::fs::canonicalize(path).ok()?;
            let is_apart = !files.allow_write.iter().any(|root| path.starts_with(root));
            (is_apart && mount_of(&path)? == mount).then_some(path)
        };
        let cache = runs::caches().next().and_then(fitting).map(|it| runs::holder_in_cache(&it));
        let temporary = [runs::temporary, || Some(runs::callers_temporary())];
        let temporary = temporary.into_iter().filter_map(|place| place()).filter_map(fitting);
        let temporary = temporary.map(|place| runs::holder(&place));
        let holders: Vec<_> = cache.into_iter().chain(temporary).collect();
        let processor = sched_getcpu();
        let make = move || {
            leave(processor);
            holders.iter().find_map(|holder| {
                let scratch = Self::beneath(holder).ok()?;
                let directory = scratch.held.directory.try_clone().ok()?;
                Some((scratch, Reserve::fill(directory, missing, for_reads).ok()?))
            })
        };
        let making = thread::Builder::new().stack_size(SMALL_STACK).spawn(make).ok();
        // It begins here, and goes on elsewhere.
        sched_yield();
        making
    }

    /// Makes the directory in `holder`, or says why not.
    fn beneath(holder: &Path) -> Result<Self, String> {
        let made = runs::hold(holder)
            .and_then(|held| Self::create(held.as_fd(), holder, "").map_err(strerror));
        made.map_err(|reason| format!("{}: {reason}", holder.display()))
    }

    /// Makes the directory in `directory`, which is at `parent`, for this user alone.
    fn create(directory: BorrowedFd<'_>, parent: &Path, prefix: &str) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let mut random = [0; 8];
            rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
            let name = format!("{prefix}{:016x}", u64::from_ne_bytes(random));
            // Fails if anything has that name, a symbolic link too.
            fs::mkdirat(directory, &name, Mode::RWXU)?;
            let path = parent.join(&name);
            let held = match RunDirectory::open(directory, &name, path.clone()) {
                Err(Errno::NOENT) => continue,
                held => held?,
            };
            // Where there are no locks, no other run gets one either.
            if held.lock() != Err(Errno::WOULDBLOCK) && held.is_in_place() {
                return Ok(Self { held, path });
            }
        }
        Err(Errno::AGAIN)
    }
}

/// Has a thread remove some of what killed runs of this user left beside these directories: a disk that has much to do takes
/// seconds for it, in which signals have to be passed on.
pub(crate) fn remove_stale_beside(scratches: &[Scratch]) {
    let parents = scratches.iter().filter_map(|scratch| scratch.held.path.parent());
    let parents: Vec<_> = parents.map(Path::to_owned).collect();
    let _ = spawn(SMALL_STACK, move || parents.iter().for_each(|parent| remove_stale(parent)));
}

/// Of each allowed path that is missing the directory that it lies in, as far as there is one, if something in that
/// may not be read: what is made there later nobody could execute; with whether all that is made in it may be written.
fn missing_beside_denied<'a>(
    files: &'a Files,
    rules: &'a Rules,
) -> impl Iterator<Item = (&'a Path, bool)> {
    let all = if files.deny_read.is_empty() { &[][..] } else { &files.allow_write };
    let mut fronts = Fronts::default();
    let above = all.iter().filter_map(move |root| {
        let above = fronts.nearest(root)?;
        (above != root).then_some((above, root))
    });
    let is_beside =
        |(above, _): &(&Path, _)| rules.cursor(above).is_some_and(|it| !it.is_settled(Kind::Read));
    above.filter(is_beside).map(|(above, root)| {
        (above, rules.cursor(root).is_some_and(|cursor| cursor.is_settled(Kind::Write)))
    })
}

/// Has this thread run on another processor than this one, if it may: the scheduler would have it wait for what it was
/// started beside.
fn leave(processor: usize) {
    let Ok(mut others) = sched_getaffinity(None) else { return };
    others.unset(processor);
    if sched_getcpu() == processor && others.count() > 0 {
        let _ = sched_setaffinity(None, &others);
    }
}

/// The mount that `path` is on.
fn mount_of(path: &Path) -> Option<u64> {
    let found = fs::statx(fs::CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
    is_known.then_some(found.stx_mnt_id)
}

/// Whether nothing in `place` can be of use to the command.
fn denies(files: &Files, place: &Path) -> bool {
    [&files.deny_write, &files.deny_read].iter().any(|rules| covers(rules, place))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing of the command runs any more. What it moved elsewhere is not ours to remove.
        let mut no_limit = usize::MAX;
        if self.path != self.held.path {
            // Else it goes with the rest.
            let _ = fs::rmdir(&self.path);
        }
        if let Err(errno) = self.held.remove(&mut no_limit) {
            let path = self.path.display();
            let message = format!("cannot remove all of {path}: {}", strerror(errno));
            warn("TMPDIR", &message);
        }
    }
}

/// A directory of a run, held open. The command was cloned before and does not get the descriptor.
#[derive(Debug)]
struct RunDirectory {
    path: PathBuf,
    directory: OwnedFd,
}

/// What it is not is a symbolic link.
const TO_LIST: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl RunDirectory {
    /// The one that is called `name` in `parent`, which makes it `path`.
    fn open(parent: BorrowedFd<'_>, name: &str, path: PathBuf) -> io::Result<Self> {
        let directory = fs::openat(parent, name, TO_LIST, Mode::empty())?;
        Ok(Self { path, directory })
    }

    /// Takes the lock, for as long as this lives.
    fn lock(&self) -> io::Result<()> {
        fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive)
    }

    fn is_in_place(&self) -> bool {
        removal::identity(&self.directory).is_ok_and(|own| identity_of(&self.path) == Some(own))
    }

    fn remove(&self, left: &mut usize) -> io::Result<()> {
        if !self.is_in_place() {
            return Ok(());
        }
        // Most runs leave nothing in it.
        if fs::rmdir(&self.path).is_ok() {
            return Ok(());
        }
        removal::empty(self.directory.as_fd(), left)?;
        fs::rmdir(&self.path)
    }
}

/// Removes some of the directories that killed runs of this user left in `parent`.
fn remove_stale(parent: &Path) {
    let Ok(directory) = fs::open(parent, TO_LIST, Mode::empty()) else { return };
    let entries = Dir::read_from(&directory);
    let names = entries.into_iter().flatten().take(STALE_SEEN_MAX).flatten();
    let names = names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let open = |name: String| RunDirectory::open(directory.as_fd(), &name, parent.join(&name)).ok();
    let own = |held: &RunDirectory| {
        let owner = fs::fstat(&held.directory).map(|stat| stat.st_uid);
        owner == Ok(rustix::process::geteuid().as_raw())
    };
    // Those of runs that go on cost a failed lock each, and do not count.
    let stale = names
        .filter(|name| is_of_run(name))
        .filter_map(open)
        .filter(|held| own(held) && held.lock().is_ok());
    let mut left = STALE_REMOVED_MAX;
    for held in stale.take(STALE_TRIED_MAX) {
        // What is too much for one run, the next ones go on with.
        let _ = held.remove(&mut left);
    }
}

fn is_of_run(name: &str) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let hex = name.strip_prefix(PREFIX).unwrap_or(name);
    hex.len() == 16 && hex.bytes().all(digit)
}
