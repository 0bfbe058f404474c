//! Looks at file calls that Landlock decides, so that what it refuses can be reported. What would have
//! failed without the sandbox as well is not reported.
//!
//! The calls are judged when they have been let through; what becomes of them, this does not decide.

mod path_cache;
pub(crate) mod process;

use common::trap::FileOperation;
use kernel::object::Object;
use kernel::proc;
use kernel::self_proc::path_of;
use kernel::shortcuts::Shortcut;
use landstrip_core::files::entry::Entry;
use landstrip_core::files::look::{Act, Look, Observer, denied, worth_reporting};
use landstrip_core::files::open::Destination;
use landstrip_core::files::path::split;
use landstrip_core::files::view::{Decider, View};
use landstrip_core::report::denials::Denial;
use path_cache::{PathCache, Start};
use rules::memory;
use rules::paths::Access;
use rustix::fs::{self, AtFlags, FileType, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A refused operation, and the path of what it was refused on.
type Refused = (FileOperation, PathBuf);

/// Reports what the file rules refuse.
#[derive(Debug, Default)]
pub struct Reporter {
    cache: PathCache,
    /// To whom changes are told, if anybody gives advice.
    changes: Option<Arc<dyn Changes>>,
}

/// How an entry is changed, which the rules do not permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is made, or its content.
    Content,
    /// It is removed, moved away or given another name.
    Removal,
    /// Something that has another name takes its place, whether or not anything is there.
    Replacement,
}

/// Who is told of changes before they are made: for some, a rule for the path is not enough.
pub trait Changes: Debug + Send + Sync {
    fn note(&self, path: &Path, change: Change);
}

impl Observer for Reporter {
    fn note(&self, look: &Look, view: &View) -> Option<Vec<u8>> {
        let start = Start::of(look);
        let is_known = || {
            let (above, name) = split(&look.path)?;
            let directory = self.cache.find(start.as_ref()?, above)?;
            let may_change = |view: &View, directory: &Path, name: &OsStr| {
                view.named_cursor(directory, name).is_some()
            };
            permits_entry(look, view, &directory, name, may_change)
        };
        match is_known() {
            Some(true) => None,
            _ => Some(start.map(Start::into_note).unwrap_or_default()),
        }
    }

    fn denials(&self, looks: &[Look], view: &View) -> Vec<Denial> {
        let refused = looks.iter().filter_map(|look| Some((look, self.judge(look, view)?)));
        let refused: Vec<_> = refused.collect();
        if refused.is_empty() || is_futile(looks) {
            return Vec::new();
        }
        // The other end of such a call is no new entry.
        let is_move = looks.iter().any(|look| matches!(look.act, Act::Remove | Act::Link(_)));
        let denial = |(look, (operation, path)): (&Look, Refused)| {
            let change = match look.act {
                Act::Remove | Act::Link(_) => Change::Removal,
                Act::Create if is_move => Change::Replacement,
                Act::Replace => Change::Replacement,
                Act::Create | Act::Open(_) => Change::Content,
            };
            if let (Some(changes), FileOperation::Write) = (&self.changes, operation) {
                changes.note(&path, change);
            }
            Denial::file(operation, &as_written(look, path))
        };
        refused.into_iter().map(denial).collect()
    }

    fn are_brokered(&self, looks: &[Look], view: &View) -> bool {
        looks.iter().any(|look| is_brokered(look, view))
    }

    fn forget(&self) {
        self.cache.forget();
    }
}

impl Reporter {
    /// One that tells `changes` of them.
    pub fn of(changes: Arc<dyn Changes>) -> Self {
        Self { changes: Some(changes), ..Self::default() }
    }

    /// What the rules refuse although the file system would have permitted it.
    fn judge(&self, look: &Look, view: &View) -> Option<Refused> {
        if self.is_plainly_permitted(look, view).unwrap_or(false) {
            return None;
        }
        let change = |possible: fn(bool) -> bool| judge_entry(&look.entry()?, view, possible);
        match look.act {
            Act::Open(flags) if flags.contains(OFlags::PATH) => None,
            Act::Open(flags) => judge_open(look, flags, view),
            Act::Link(flags) => {
                let object = look.follow(flags.contains(AtFlags::SYMLINK_FOLLOW))?;
                judge_object(&object, Access::WRITE, view).or_else(|| judge_name(&object, view))
            }
            Act::Create => change(|exists| !exists),
            Act::Remove => change(|exists| exists),
            Act::Replace => change(|_| true),
        }
    }

    /// Whether the rules permit it, as far as the names say that the kernel finds: so it is with most calls,
    /// and what is there need not be looked at. Nothing is known of what is missing, of devices and proc(5).
    fn is_plainly_permitted(&self, look: &Look, view: &View) -> Option<bool> {
        if matches!(look.act, Act::Link(_)) || !Shortcut::NAMES.is_open() {
            return None;
        }
        let (above, name) = split(&look.path)?;
        let directory = match (above, look.base()) {
            (b"", Some(base)) => path_of(base),
            _ => path_of(&look.hold(above, true)?),
        };
        let directory = match directory {
            // What would be reported is not worth finding what the kernel does not write.
            Err(Errno::NAMETOOLONG) => return leads_to_permitted(look, view).or(Some(true)),
            directory => directory.ok()?,
        };
        if !is_plain(&directory) {
            return Some(false);
        }
        let is_permitted = permits_entry(look, view, &directory, name, View::may_change);
        // What is remembered is not asked again whether it lies where it was allowed.
        let is_rooted = || !view.rules.access(&directory).write || view.is_rooted(&directory);
        if let Some(start) = Start::noted(look)
            && is_rooted()
        {
            self.cache.learn(look.begun, &start, above, directory);
        }
        is_permitted.or_else(|| leads_to_permitted(look, view))
    }
}

/// The same of what an open leads to.
fn leads_to_permitted(look: &Look, view: &View) -> Option<bool> {
    let Act::Open(flags) = look.act else { return None };
    let follow = !flags.contains(OFlags::NOFOLLOW);
    let found = look.hold(&look.path, follow)?;
    let path = match path_of(&found) {
        Err(Errno::NAMETOOLONG) => return Some(true),
        path => path.ok()?,
    };
    Some(is_plain(&path) && view.rules.access(&path).covers(wanted(flags)))
}

/// The same of the entry `name` of `directory`, which `may_change` says of whether it may be made, removed or
/// replaced; none if it is a symbolic link, or not known.
fn permits_entry(
    look: &Look,
    view: &View,
    directory: &Path,
    name: &OsStr,
    may_change: impl Fn(&View, &Path, &OsStr) -> bool,
) -> Option<bool> {
    let Act::Open(flags) = look.act else {
        let is_link = matches!(look.act, Act::Link(_));
        return (!is_link).then(|| may_change(view, directory, name));
    };
    let creates = flags.contains(OFlags::CREATE);
    if creates && flags.contains(OFlags::EXCL) {
        return Some(may_change(view, directory, name));
    }
    let path = directory.join(name);
    match fs::readlinkat_raw(fs::CWD, &path, &mut [MaybeUninit::uninit()]) {
        // Slashes lead through a symbolic link.
        _ if look.path.ends_with(b"/") => None,
        Err(Errno::INVAL) => Some(view.rules.access(&path).covers(wanted(flags))),
        Err(Errno::NOENT) => Some(!creates || may_change(view, directory, name)),
        _ => None,
    }
}

/// Whether a call fails without a sandbox as well, for what is there: nothing to remove or to move, something where
/// nothing may be, or something in a directory that is to be removed.
fn is_futile(looks: &[Look]) -> bool {
    let found = |look: &Look| look.entry().and_then(|entry| entry.hold().ok());
    let is_filled = |object: &Object| {
        object.kind() == FileType::Directory
            && std::fs::read_dir(object.link()).is_ok_and(|mut names| names.next().is_some())
    };
    let is_alone = looks.len() == 1;
    looks.iter().any(|look| match look.act {
        Act::Remove => found(look).is_none_or(|object| is_alone && is_filled(&object)),
        Act::Create => found(look).is_some(),
        _ => false,
    })
}

/// Whether it changes what the rules let be changed, and Landlock does not.
fn is_brokered(look: &Look, view: &View) -> bool {
    let broker = |decider| decider == Some(Decider::Broker);
    let destination = match look.act {
        Act::Open(_) if look.only_reads() => return false,
        Act::Open(flags) => look.opened(flags),
        _ => look.entry().map(Destination::New),
    };
    match destination {
        Some(Destination::New(entry)) => {
            broker(view.entry(entry.directory(), entry.name()).map(|(_, decider)| decider))
        }
        Some(Destination::Object(object)) => {
            object.name().is_ok_and(|name| broker(view.content(name.as_path())))
        }
        None => false,
    }
}

/// What is the target's own in proc(5) has a path that holds for every process.
fn as_written(look: &Look, path: PathBuf) -> PathBuf {
    match proc::owner(&path) {
        Some(owner) if look.target.has_thread(owner) => {
            Path::new("/proc/self").join(path.iter().skip(3).collect::<PathBuf>())
        }
        _ => path,
    }
}

fn judge_open(look: &Look, flags: OFlags, view: &View) -> Option<Refused> {
    let wanted = wanted(flags);
    if look.path.is_empty() {
        return judge_object(&look.follow(true)?, wanted, view);
    }
    match look.opened(flags)? {
        Destination::Object(_) if flags.contains(OFlags::CREATE | OFlags::EXCL) => None,
        Destination::Object(object) => judge_object(&object, wanted, view),
        Destination::New(entry) => judge_entry(&entry, view, |exists| !exists),
    }
}

/// Whether what is there is the same for all who ask, as in directories that others have made in /dev/shm.
fn is_plain(path: &Path) -> bool {
    let is_special = ["/proc", "/dev"].iter().any(|place| path.starts_with(place));
    let is_in_memory = || path.starts_with(memory::PLACE) && path != Path::new(memory::PLACE);
    path.is_absolute() && (!is_special || is_in_memory())
}

/// What an open with these flags asks of what is there already, which O_CREAT does not change.
fn wanted(flags: OFlags) -> Access {
    let mode = flags & OFlags::RWMODE;
    let write = mode != OFlags::RDONLY || flags.contains(OFlags::TRUNC);
    Access { read: mode != OFlags::WRONLY, write }
}

/// Judges a change of a directory entry; `possible` says whether the call could succeed with
/// an entry that exists or not.
fn judge_entry(entry: &Entry, view: &View, possible: impl Fn(bool) -> bool) -> Option<Refused> {
    if view.may_change(entry.directory(), entry.name()) {
        return None;
    }
    let found = entry.hold();
    if matches!(found, Err(Errno::NAMETOOLONG)) {
        return None;
    }
    (possible(found.is_ok()) && entry.parent().permits(fs::Access::WRITE_OK | fs::Access::EXEC_OK))
        .then(|| (FileOperation::Write, entry.path()))
}

/// Who gives a file another name must be allowed to change the directory of the one that it has, too.
fn judge_name(object: &Object, view: &View) -> Option<Refused> {
    let path = object.path().ok()?;
    let is_closed = !view.may_change(path.parent()?, path.file_name()?);
    (is_closed && object.permits(fs::Access::WRITE_OK))
        .then(|| (FileOperation::Write, path.to_owned()))
}

fn judge_object(object: &Object, wanted: Access, view: &View) -> Option<Refused> {
    let (denied, name) = denied(object, wanted, view)?;
    let is_directory = object.kind() == FileType::Directory;
    let denied = Access { write: denied.write && !is_directory, ..denied };
    worth_reporting(object, denied).map(|operation| (operation, name))
}
