//! Directories and files that Landlock was told of before they have their name.
//!
//! Rules cannot be added later, and hold for an inode wherever it is moved: so a directory that the command
//! makes beside a denied path, where Landlock grants nothing, would be the broker's with all beneath for as
//! long as it lives. Some empty ones are made before the command starts, each with a rule, and one of them is
//! moved to where the command makes one. All beneath it is Landlock's then. Some are kept for where nothing could be
//! executed without, or read if reads are not watched: at allowed paths that were missing beside what may not be read.
//! For these there are some files as well, and directories that Landlock lets be read alone, for where something inside
//! may not be written.
//!
//! It is done only where nobody could tell the directory from one that mkdir(2) makes, but by the event that
//! inotify(7) tells; else, and when all are used, the directory is made in the ordinary way, or, where it could not be
//! read, not at all. None is used twice: somebody could hold one that was removed. They belong to one run, whose domain
//! alone has rules for them. Sources: mkdir(2), rename(2), acl(5), statx(2), ioctl_iflags(2).

use super::entry::{Entry, has_default_acl};
use super::trees::Trees;
use kernel::identity::{HELD, Identity, hold_followed, identity};
use kernel::long_paths::identity_of;
use kernel::request::Confirmed;
use kernel::self_proc::{own_link, path_of};
use kernel::shortcuts::Shortcut;
use kernel::threads::lock;
use rules::paths::Access;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    self, AtFlags, FileType, IFlags, Mode, OFlags, RawDir, RenameFlags, StatxAttributes,
    StatxFlags, Timespec, Timestamps, UTIME_NOW,
};
use rustix::io::{self, Errno};
use rustix::process::{getegid, geteuid};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

/// How many are made: each costs the launch some microseconds, and most commands make few directories
/// beside a denied path.
const COUNT: usize = 4;

/// How many more, at most, where something could not be executed: making and removing four takes 0.1 ms. Where it could
/// not be read either, and so is not made otherwise: what the tools of some languages make in an empty home.
const KEPT: usize = 2;
pub(crate) const KEPT_MAX: usize = 8;

/// How many files, where they could not be read.
const FILES: usize = 4;

/// Longest label that is compared.
const LABEL_MAX: usize = 256;

/// What mkdir(2) takes of a mode.
const MODE_MASK: u32 = 0o1777;

/// The directories and files of one run.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Where they wait, held, and what that is called.
    place: OwnedFd,
    path: PathBuf,
    user: u32,
    kin: Kin,
    waiting: Mutex<Vec<Waiting>>,
    /// Where they were put; which one it was shows whether it still is there, and its need what Landlock lets be done.
    placed: RwLock<Trees<(Identity, Need)>>,
    /// Whether what could not be read is made of these alone.
    pub(super) serves_reads: bool,
}

/// One that waits: its name is its number. Closed to all but root, so that nobody puts anything in it.
#[derive(Debug)]
struct Waiting {
    number: usize,
    object: OwnedFd,
    /// For what it is kept.
    need: Need,
}

/// What one is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// What is made in the directory is usable without, and the broker's.
    Speed,
    /// It could not be executed, or not be read.
    Execution,
    /// It could not be read, and some of it may not be written.
    Reading,
    /// The same of a file.
    File,
}

/// What a directory has of the one that it is made in, or of who makes it.
#[derive(Debug, PartialEq, Eq)]
struct Kin {
    mount: u64,
    group: u32,
    attributes: StatxAttributes,
    /// What a security module made of it.
    label: Option<Vec<u8>>,
}

impl Reserve {
    /// Makes the directories in `place`, an empty one that is this user's alone; the more, the more allowed
    /// paths are `missing`, in which nothing could be executed, and files if it could not be read. In the latter of
    /// `missing` some may not be written.
    ///
    /// # Errors
    /// Returns what mkdir(2) and open(2) return; [`Errno::OPNOTSUPP`] if what is made in `place` is not as
    /// elsewhere.
    pub(crate) fn fill(
        place: OwnedFd,
        (missing, partial): (usize, usize),
        for_reads: bool,
    ) -> io::Result<Self> {
        let (kept, read, files) =
            if for_reads { (KEPT_MAX, KEPT_MAX, FILES) } else { (KEPT, 0, 0) };
        let counts = [
            (Need::Speed, COUNT),
            (Need::Execution, missing.min(kept)),
            (Need::Reading, partial.min(read)),
            (Need::File, (missing + partial).min(files)),
        ];
        let needs = counts.into_iter().flat_map(|(need, count)| iter::repeat_n(need, count));
        let make = |(number, need): (usize, Need)| {
            let name = number.to_string();
            match need {
                Need::File => fs::mknodat(&place, &name, FileType::RegularFile, Mode::empty(), 0)?,
                _ => fs::mkdirat(&place, &name, Mode::empty())?,
            }
            let object = fs::openat(&place, &name, HELD, Mode::empty())?;
            Ok(Waiting { number, object, need })
        };
        let waiting = needs.enumerate().map(make).collect::<io::Result<Vec<_>>>()?;
        let first = &waiting.first().ok_or(Errno::OPNOTSUPP)?.object;
        let user = geteuid().as_raw();
        let (kin, mode) = Kin::of(first, &own_link(first))?;
        // Not even the bits that a parent gives.
        let given = has_default_acl(&own_link(&place)) || gives_flags(&own_link(&place))?;
        if !mode.is_empty() || given || kin.group != getegid().as_raw() {
            return Err(Errno::OPNOTSUPP);
        }
        let waiting = Mutex::new(waiting);
        let path = path_of(&place)?;
        let placed = RwLock::default();
        Ok(Self { place, path, user, kin, waiting, placed, serves_reads: false })
    }

    /// Whether these can be all that is made in `directories`, where it could not be read, for all of `needs`; then
    /// nothing else is.
    pub(crate) fn serve_reads_in<'a>(
        &mut self,
        mut directories: impl Iterator<Item = &'a Path>,
        mut needs: impl Iterator<Item = Need>,
    ) -> bool {
        let is_kin = |path| {
            let directory = hold_followed(path)?;
            self.is_kin_of(&directory, &own_link(&directory))
        };
        self.serves_reads = Shortcut::RESERVE.is_open()
            && needs.all(|need| lock(&self.waiting).iter().any(|waits| waits.fits(need)))
            && directories.all(|path| is_kin(path) == Ok(true));
        self.serves_reads
    }

    /// Has each that waits be granted, before the command starts.
    pub(crate) fn grant<E>(
        &self,
        mut grant: impl FnMut(BorrowedFd<'_>, Need) -> Result<(), E>,
    ) -> Result<(), E> {
        let waiting = lock(&self.waiting);
        let mut all = waiting.iter();
        all.try_for_each(|waiting| grant(waiting.object.as_fd(), waiting.need))
    }

    /// Removes those that still wait.
    pub(crate) fn clear(&self) {
        let mut waiting = lock(&self.waiting);
        for Waiting { number, need, .. } in waiting.drain(..) {
            let flags = if need == Need::File { AtFlags::empty() } else { AtFlags::REMOVEDIR };
            // What is left is removed with the place.
            let _ = fs::unlinkat(&self.place, number.to_string(), flags);
        }
    }

    /// Whether it has a say where a directory is made: used up, it has none but where it is all there is.
    pub(super) fn is_of_use(&self) -> bool {
        self.serves_reads || !lock(&self.waiting).is_empty()
    }

    /// Whether a directory is made of these alone, which is wanted for `need`.
    pub(super) fn is_all_for(&self, need: Need) -> bool {
        self.serves_reads && need != Need::Speed
    }

    /// Whether one is left for what is made at `entry`.
    pub(super) fn can_make(&self, entry: &Entry, need: Need) -> bool {
        lock(&self.waiting).iter().any(|waits| waits.fits(need)) && self.fits_at(entry) == Ok(true)
    }

    /// Puts one where mkdir(2) would make a directory with this mode, which the umask has been taken from, or open(2) a
    /// file, and opens it with these flags. None if it has to be made; the kernel then says what is wrong, if anything
    /// is.
    pub(super) fn make(
        &self,
        _: Confirmed<'_>,
        entry: &Entry,
        (mode, flags): (Mode, OFlags),
        need: Need,
    ) -> Option<OwnedFd> {
        let find = |waiting: &Vec<Waiting>| waiting.iter().rposition(|waits| waits.fits(need));
        // Used up, it costs nothing more: to look at the place takes as long as to make a directory.
        find(&lock(&self.waiting)).filter(|_| Shortcut::RESERVE.is_open())?;
        if !self.fits_at(entry).ok()? {
            return None;
        }
        let mut all = lock(&self.waiting);
        let waiting = find(&all).map(|at| all.remove(at))?;
        drop(all);
        let name = waiting.number.to_string();
        let put = || {
            let mode = Mode::from_raw_mode(mode.as_raw_mode() & MODE_MASK);
            let (opened, identity) = self.open(&waiting, flags)?;
            // Who moves a directory must be able to write to it.
            fs::fchmod(&opened, mode | Mode::WUSR)?;
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            fs::futimens(&opened, &Timestamps { last_access: now, last_modification: now })?;
            let flags = RenameFlags::NOREPLACE;
            fs::renameat_with(&self.place, &name, entry.parent(), entry.name(), flags)?;
            if !mode.contains(Mode::WUSR) {
                fs::fchmod(&opened, mode)?;
            }
            Ok((opened, identity))
        };
        match put() {
            Ok((opened, identity)) => {
                let mut placed = self.placed.write().unwrap_or_else(PoisonError::into_inner);
                placed.insert(entry.path(), (identity, need));
                Some(opened)
            }
            Err(errno) => {
                let _ = fs::chmodat(&self.place, &name, Mode::empty(), AtFlags::empty());
                // What somebody found and filled is used no more.
                if ![Errno::NOTEMPTY, Errno::STALE].contains(&errno) {
                    lock(&self.waiting).push(waiting);
                }
                None
            }
        }
    }

    /// Opens one that waits, and makes sure that it is the one, and empty.
    fn open(&self, waiting: &Waiting, flags: OFlags) -> io::Result<(OwnedFd, Identity)> {
        let name = waiting.number.to_string();
        fs::chmodat(&self.place, &name, Mode::RWXU, AtFlags::empty())?;
        let opened = fs::openat(&self.place, &name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = fs::fstat(&opened)?;
        let found = identity(&stat);
        if identity(&fs::fstat(&waiting.object)?) != found {
            return Err(Errno::STALE);
        }
        if waiting.need == Need::File {
            let is_new = stat.st_size == 0 && stat.st_blocks == 0 && stat.st_nlink == 1;
            return is_new.then_some((opened, found)).ok_or(Errno::NOTEMPTY);
        }
        let mut buffer = Vec::with_capacity(256);
        let mut entries = RawDir::new(&opened, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            if ![c".", c".."].contains(&entry?.file_name()) {
                return Err(Errno::NOTEMPTY);
            }
        }
        Ok((opened, found))
    }

    /// Whether what is made at `entry` would be as one of these. Where something is, there is nothing to make.
    fn fits_at(&self, entry: &Entry) -> io::Result<bool> {
        let parent = entry.parent();
        match fs::statat(parent, entry.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => self.is_kin_of(parent, &parent.link()),
            _ => Ok(false),
        }
    }

    /// Whether what is made in a directory, to which `link` leads, would be as one of these: by the same user, on the
    /// same mount, with nothing that it gets from the directory that it is made in.
    fn is_kin_of(&self, directory: impl AsFd, link: &str) -> io::Result<bool> {
        let (kin, mode) = Kin::of(directory, link)?;
        Ok(kin == self.kin
            && !mode.contains(Mode::SGID)
            && [geteuid().as_raw(), getegid().as_raw()] == [self.user, self.kin.group]
            && !has_default_acl(link)
            && !gives_flags(link)?)
    }

    /// Notes that the broker has moved what was at `old`.
    pub(super) fn follow(&self, old: &Path, new: &Path) {
        let mut placed = self.placed.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = placed.remove(old) {
            placed.insert(new.to_owned(), known);
        }
    }

    /// Whether `path` is where they wait, or lies there: no rule lets that be changed, and Landlock does where
    /// root gets in.
    pub(super) fn waits_at(&self, path: &Path) -> bool {
        path.starts_with(&self.path)
    }

    /// What Landlock lets be done with `path`, if it is one of those that were put in place, or lies in one. The number of
    /// one that was removed is not another's: Landlock holds it.
    pub(super) fn grants(&self, path: &Path) -> Access {
        let placed = self.placed.read().unwrap_or_else(PoisonError::into_inner);
        let is_there = |tree: &Path, object: Identity| identity_of(tree) == Some(object);
        let known = |tree| placed.get(tree).filter(|(object, _)| is_there(tree, *object));
        path.ancestors().filter_map(known).fold(Access::NONE, |granted, (_, need)| Access {
            read: true,
            write: granted.write || *need != Need::Reading,
        })
    }
}

impl Waiting {
    /// Whether it is for what one is wanted for.
    fn fits(&self, need: Need) -> bool {
        match need {
            Need::Speed | Need::Execution => self.need <= need,
            Need::Reading | Need::File => self.need == need,
        }
    }
}

impl Kin {
    /// Of a directory that `link` leads to, with its mode.
    fn of(directory: impl AsFd, link: &str) -> io::Result<(Self, Mode)> {
        let wanted = StatxFlags::MODE | StatxFlags::GID | StatxFlags::MNT_ID;
        let found = fs::statx(directory, c"", AtFlags::EMPTY_PATH, wanted)?;
        if !StatxFlags::from_bits_retain(found.stx_mask).contains(wanted) {
            return Err(Errno::OPNOTSUPP);
        }
        let kin = Self {
            mount: found.stx_mnt_id,
            group: found.stx_gid,
            attributes: found.stx_attributes - StatxAttributes::MOUNT_ROOT,
            label: label(link)?,
        };
        Ok((kin, Mode::from_raw_mode(found.stx_mode.into())))
    }
}

/// Whether the directory that `link` leads to gives what is made in it flags of which statx(2) does not tell
/// (ioctl_iflags(2)).
fn gives_flags(link: &str) -> io::Result<bool> {
    const GIVEN: IFlags = IFlags::SYNC
        .union(IFlags::DIRSYNC)
        .union(IFlags::NOATIME)
        .union(IFlags::NOCOW)
        .union(IFlags::JOURNALING)
        .union(IFlags::NOTAIL)
        .union(IFlags::PROJECT_INHERIT)
        .union(IFlags::SECURE_REMOVAL)
        .union(IFlags::UNRM);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match fs::ioctl_getflags(fs::open(link, flags, Mode::empty())?) {
        Ok(found) => Ok(found.intersects(GIVEN)),
        // The file system has none.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What a security module says of an object, if there is one (selinux(8)).
fn label(link: &str) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; LABEL_MAX];
    match fs::getxattr(link, c"security.selinux", &mut value[..]) {
        Ok(size) => {
            value.truncate(size);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}
