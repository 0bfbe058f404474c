//! Looks at file calls that Landlock decides, so that what it refuses can be reported.
//!
//! The arguments are copied before the call is let through and judged afterwards, while the target
//! runs on. A target that changes them meanwhile deceives the report and nothing else. What would have
//! failed without the sandbox as well is not reported.

use super::entry::Entry;
use super::open::{self, Destination};
use super::path::{self, Base};
use super::path_cache::{PathCache, Start};
use super::view::{Decider, View};
use super::walk::{self, Lost};
use crate::call::decode::{FileCall, PathArg};
use crate::call::how::writes;
use crate::report::denials::Denial;
use crate::report::traps::Traps;
use common::trap::FileOperation;
use kernel::object::Object;
use kernel::proc;
use kernel::self_proc::path_of;
use kernel::shortcuts::Shortcut;
use kernel::target::{Target, TargetFd};
use rules::memory;
use rules::paths::Access;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, OFlags, ResolveFlags};
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A refused operation, and the path of what it was refused on.
type Refused = (FileOperation, PathBuf);

/// A path argument as it was when the call was made, and what is done to what it names.
#[derive(Debug)]
pub struct Look {
    target: Target,
    /// When it was begun to be looked at.
    begun: Instant,
    /// Where the path starts, if what it leads to may be remembered.
    start: Option<Start>,
    /// The number of the directory that a relative path starts at, and that directory; of a path in proc(5),
    /// what it led to.
    directory: TargetFd,
    base: Option<Arc<OwnedFd>>,
    path: Vec<u8>,
    act: Act,
}

/// What is done to a path.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Opened with these flags.
    Open(OFlags),
    /// Linked to from elsewhere, with these flags of linkat(2), which gives it a second name.
    Link(AtFlags),
    /// An entry is made where none is.
    Create,
    /// An entry is removed or replaced.
    Remove,
    /// An entry is put in place, over another if there is one.
    Replace,
}

/// Copies what `call` names, but for what is permitted as far as is remembered, if `memory` may be asked. What
/// cannot be copied, the call itself will stumble over.
pub(crate) fn look(
    target: Target,
    call: &FileCall,
    memory: Option<(&View, &PathCache)>,
) -> Vec<Look> {
    let acts = match *call {
        FileCall::Open(_, how) => [Some(Act::Open(how.flags)), None],
        FileCall::Truncate(..) => [Some(Act::Open(OFlags::WRONLY)), None],
        FileCall::Create(..) => [Some(Act::Create), None],
        FileCall::Remove(..) => [Some(Act::Remove), None],
        FileCall::Rename(..) => [Some(Act::Remove), Some(Act::Replace)],
        FileCall::Link(_, _, flags) => [Some(Act::Link(flags)), Some(Act::Create)],
    };
    let mut looks: Vec<Look> = Vec::new();
    for (arg, act) in call.path_args().zip(acts) {
        let Some(act) = act else { continue };
        // Both paths of a rename mostly start at one place, as the kernel looks for it once a call.
        let base = looks.last().and_then(|first| first.base_of(arg));
        if let Ok(Some(look)) = copy(target, arg, act, base, memory) {
            looks.push(look);
        }
    }
    looks
}

/// None if what the call does is permitted, as far as is remembered.
fn copy(
    target: Target,
    arg: PathArg,
    act: Act,
    base: Option<Arc<OwnedFd>>,
    memory: Option<(&View, &PathCache)>,
) -> io::Result<Option<Look>> {
    let begun = Instant::now();
    let (path, directory) = (target.read_path(arg.path)?, arg.directory);
    let mut look = Look { target, begun, start: None, directory, base: None, path, act };
    // What a process has in proc(5) ends with it, perhaps before it is looked at.
    let ends = |prefix: &&[u8]| look.path.starts_with(prefix);
    if [&b"/proc/"[..], b"/dev/fd/", b"/dev/std"].iter().any(ends)
        && let Ok(object) = path::resolve_from(target, &Base::Root, &look.path, true)
    {
        return Ok(Some(Look { base: Some(Arc::new(object.into())), path: Vec::new(), ..look }));
    }
    let is_absolute = look.path.starts_with(b"/");
    look.base = base.filter(|_| !is_absolute);
    if let Some((view, path_cache)) = memory {
        look.start = match directory {
            _ if is_absolute => Some(Start::Root),
            TargetFd::CWD => target.working_directory().ok().map(Start::Working),
            number => {
                look.base = path::base(target, number, &look.path)?.map(Arc::new);
                look.base.as_ref().and_then(|base| Start::at(base).ok())
            }
        };
        if look.is_known_to_be_permitted(view, path_cache) {
            return Ok(None);
        }
    }
    if look.base.is_none() {
        look.base = path::base(target, directory, &look.path)?.map(Arc::new);
    }
    Ok(Some(look))
}

impl Look {
    /// Where another relative path of the same call starts, if that is where this one does.
    fn base_of(&self, arg: PathArg) -> Option<Arc<OwnedFd>> {
        let is_same = self.directory == arg.directory && !self.path.is_empty();
        self.base.clone().filter(|_| is_same)
    }

    /// The path as the call has it.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whose call it is.
    pub(super) fn target(&self) -> Target {
        self.target
    }

    /// The flags of an open.
    pub(super) fn opens(&self) -> Option<OFlags> {
        if let Act::Open(flags) = self.act { Some(flags) } else { None }
    }

    /// Whether somebody wants to know what would come of it.
    pub(super) fn is_worth_it(&self, traps: &Traps) -> bool {
        match self.act {
            Act::Open(flags) if !writes(flags) => traps.wants(FileOperation::Read),
            _ => traps.wants(FileOperation::Write),
        }
    }

    /// Opens what the path names; what the call is made on itself is held already.
    pub(super) fn follow(&self, follow: bool) -> Result<Object, Lost> {
        if self.path.is_empty() {
            let base = self.base.as_ref().ok_or(Errno::NOENT)?;
            return Ok(Object::of(base.try_clone().map_err(|_| Errno::MFILE)?)?);
        }
        path::resolve_from(self.target, &self.base(), &self.path, follow)
    }

    fn hold(&self, path: &[u8], follow: bool) -> Option<OwnedFd> {
        let barred = ResolveFlags::NO_MAGICLINKS;
        walk::hold_by_kernel(self.base().as_fd(), path, follow, barred).ok()
    }

    fn opened(&self, flags: OFlags) -> Result<Destination, Lost> {
        open::resolve_from(self.target, &self.base(), &self.path, flags, |_| false)
    }

    fn entry(&self) -> Result<Entry, Lost> {
        Entry::resolve_from(self.target, &self.base(), &self.path)
    }

    fn base(&self) -> Base<'_> {
        self.base.as_ref().map(AsFd::as_fd).into()
    }

    /// Whether the last component is the name of such a directory or file, or there is none.
    pub(super) fn may_name_exception(&self, view: &View) -> bool {
        path::split(&self.path).is_none_or(|(_, name)| view.names_exception(name))
    }

    /// Whether the last component is a symbolic link: one of another name can lead there.
    pub(super) fn names_link(&self) -> bool {
        // Slashes would lead through it.
        let end = self.path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        fs::readlinkat_raw(self.base(), &self.path[..end], &mut [MaybeUninit::uninit()]).is_ok()
    }

    /// Whether the rules refuse it although the file system would have permitted it.
    fn judge(&self, view: &View, path_cache: Option<&PathCache>) -> Option<Denial> {
        let (operation, path) = self.judge_act(view, path_cache)?;
        Some(Denial::file(operation, &self.as_written(path)))
    }

    /// Whether there is no entry to remove or to move.
    fn lacks_entry(&self) -> bool {
        matches!(self.act, Act::Remove) && !self.entry().is_ok_and(|entry| entry.hold().is_ok())
    }

    fn judge_act(&self, view: &View, path_cache: Option<&PathCache>) -> Option<Refused> {
        if self.is_plainly_permitted(view, path_cache).unwrap_or(false) {
            return None;
        }
        match self.act {
            Act::Open(flags) if flags.contains(OFlags::PATH) => None,
            Act::Open(flags) => self.judge_open(flags, view),
            Act::Link(flags) => {
                let follow = flags.contains(AtFlags::SYMLINK_FOLLOW);
                let object = self.follow(follow).ok()?;
                judge_object(&object, Access::WRITE, view)
            }
            Act::Create => self.judge_change(view, |exists| !exists),
            Act::Remove => self.judge_change(view, |exists| exists),
            Act::Replace => self.judge_change(view, |_| true),
        }
    }

    /// Whether it changes something where what is in reserve waits, which Landlock would let root do.
    pub(super) fn is_reserved(&self, view: &View) -> bool {
        view.reserve.as_ref().is_some_and(|reserve| {
            self.entry().is_ok_and(|entry| reserve.waits_at(entry.directory()))
        })
    }

    /// Whether it changes what the rules let be changed, and Landlock does not.
    pub(super) fn is_brokered(&self, view: &View) -> bool {
        let broker = |decider| decider == Some(Decider::Broker);
        let of_entry = |entry: &Entry| {
            broker(view.entry(entry.directory(), entry.name()).map(|(_, decider)| decider))
        };
        let destination = match self.act {
            Act::Open(flags) if !writes(flags) => return false,
            Act::Open(flags) => self.opened(flags),
            _ => self.entry().map(Destination::New),
        };
        match destination {
            Ok(Destination::New(entry)) => of_entry(&entry),
            Ok(Destination::Object(object)) => {
                object.name().is_ok_and(|name| broker(view.content(name.as_path())))
            }
            Err(_) => false,
        }
    }

    /// Whether it is permitted, by what is remembered of where its path leads, and Landlock grants it.
    fn is_known_to_be_permitted(&self, view: &View, path_cache: &PathCache) -> bool {
        let is_exception = || {
            let reads = matches!(self.act, Act::Open(flags) if !writes(flags));
            memory::name(&self.path).is_some() || reads && self.may_name_exception(view)
        };
        let is_known = || {
            let (above, name) = path::split(&self.path)?;
            let directory = path_cache.find(self.start.as_ref()?, above)?;
            self.permits_entry(view, &directory, name, View::may_change_by_name)
        };
        is_known().unwrap_or(false) && !is_exception()
    }

    /// Whether the rules permit it, as far as the names say that the kernel finds: so it is with most calls,
    /// and what is there need not be looked at. Nothing is known of what is missing, of devices and proc(5).
    fn is_plainly_permitted(&self, view: &View, path_cache: Option<&PathCache>) -> Option<bool> {
        if matches!(self.act, Act::Link(_)) || !Shortcut::Names.is_open() {
            return None;
        }
        let (above, name) = path::split(&self.path)?;
        let directory = match (above, &self.base) {
            (b"", Some(base)) => path_of(&**base),
            _ => path_of(&self.hold(above, true)?),
        };
        let directory = match directory {
            // What would be reported is not worth finding what the kernel does not write.
            Err(Errno::NAMETOOLONG) => return self.leads_to_permitted(view).or(Some(true)),
            directory => directory.ok()?,
        };
        if !is_plain(&directory) {
            return Some(false);
        }
        let is_permitted = self.permits_entry(view, &directory, name, View::may_change);
        // What is remembered is not asked again whether it lies where it was allowed.
        let is_rooted = || !view.rules.access(&directory).write || view.is_rooted(&directory);
        if let (Some(path_cache), Some(start)) = (path_cache, &self.start)
            && is_rooted()
        {
            path_cache.learn(self.begun, start, above, directory);
        }
        is_permitted.or_else(|| self.leads_to_permitted(view))
    }

    /// The same of what an open leads to.
    fn leads_to_permitted(&self, view: &View) -> Option<bool> {
        let Act::Open(flags) = self.act else { return None };
        let follow = !flags.contains(OFlags::NOFOLLOW);
        let found = self.hold(&self.path, follow)?;
        let path = match path_of(&found) {
            Err(Errno::NAMETOOLONG) => return Some(true),
            path => path.ok()?,
        };
        Some(is_plain(&path) && view.rules.access(&path).covers(wanted(flags)))
    }

    /// The same of the entry `name` of `directory`, which `may_change` says of whether it may be made, removed or
    /// replaced; none if it is a symbolic link, or not known.
    fn permits_entry(
        &self,
        view: &View,
        directory: &Path,
        name: &OsStr,
        may_change: impl Fn(&View, &Path, &OsStr) -> bool,
    ) -> Option<bool> {
        let Act::Open(flags) = self.act else {
            let is_link = matches!(self.act, Act::Link(_));
            return (!is_link).then(|| may_change(view, directory, name));
        };
        let creates = flags.contains(OFlags::CREATE);
        if creates && flags.contains(OFlags::EXCL) {
            return Some(may_change(view, directory, name));
        }
        let path = directory.join(name);
        match fs::readlinkat_raw(fs::CWD, &path, &mut [MaybeUninit::uninit()]) {
            // Slashes lead through a symbolic link.
            _ if self.path.ends_with(b"/") => None,
            Err(Errno::INVAL) => Some(view.rules.access(&path).covers(wanted(flags))),
            Err(Errno::NOENT) => Some(!creates || may_change(view, directory, name)),
            _ => None,
        }
    }

    /// What is the target's own in proc(5) has a path that holds for every process.
    fn as_written(&self, path: PathBuf) -> PathBuf {
        match proc::owner(&path) {
            Some(owner) if self.target.has_thread(owner) => {
                Path::new("/proc/self").join(path.iter().skip(3).collect::<PathBuf>())
            }
            _ => path,
        }
    }

    fn judge_open(&self, flags: OFlags, view: &View) -> Option<Refused> {
        let wanted = wanted(flags);
        if self.path.is_empty() {
            return judge_object(&self.follow(true).ok()?, wanted, view);
        }
        match self.opened(flags).ok()? {
            Destination::Object(_) if flags.contains(OFlags::CREATE | OFlags::EXCL) => None,
            Destination::Object(object) => judge_object(&object, wanted, view),
            Destination::New(entry) => judge_entry(&entry, view, |exists| !exists),
        }
    }

    fn judge_change(&self, view: &View, possible: impl Fn(bool) -> bool) -> Option<Refused> {
        let entry = self.entry().ok()?;
        judge_entry(&entry, view, possible)
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

/// What of the path arguments of one call the rules refuse although the file system would have permitted
/// it. Of a rename of what is not there, nothing was.
pub(crate) fn judge(looks: &[Look], view: &View, path_cache: Option<&PathCache>) -> Vec<Denial> {
    let refused: Vec<_> = looks.iter().filter_map(|look| look.judge(view, path_cache)).collect();
    if !refused.is_empty() && looks.iter().any(Look::lacks_entry) { Vec::new() } else { refused }
}

/// Judges a change of a directory entry; `possible` says whether the call could succeed with
/// an entry that exists or not.
fn judge_entry(entry: &Entry, view: &View, possible: impl Fn(bool) -> bool) -> Option<Refused> {
    if view.may_change(entry.directory(), entry.name()) {
        return None;
    }
    let exists = entry.hold().is_ok();
    (possible(exists) && entry.parent().permits(fs::Access::WRITE_OK | fs::Access::EXEC_OK))
        .then(|| (FileOperation::Write, entry.path()))
}

fn judge_object(object: &Object, wanted: Access, view: &View) -> Option<Refused> {
    let (denied, name) = denied(object, wanted, view)?;
    let is_directory = object.kind() == FileType::Directory;
    let denied = Access { write: denied.write && !is_directory, ..denied };
    worth_reporting(object, denied).map(|operation| (operation, name))
}

/// What of `wanted` the rules deny on an object, if anything, and its path. What has none is a pipe or a
/// socket.
pub fn denied(object: &Object, wanted: Access, view: &View) -> Option<(Access, PathBuf)> {
    let name = object.path().ok()?;
    let is_device = matches!(object.kind(), FileType::CharacterDevice | FileType::BlockDevice);
    let allowed = match is_device && name.starts_with("/dev") {
        true if !view.is_named_device(name, Access::NONE) => Access::NONE,
        _ => view.rules.access(name),
    };
    let denied = wanted.without(allowed);
    // Most calls are permitted, and end here.
    let is_denied = denied != Access::NONE
        && name.is_absolute()
        && !view.is_always_usable(object.identity(), denied);
    is_denied.then(|| (denied, name.to_owned()))
}

/// Which of what is `denied` is to be reported: what the file system refuses to the broker as well,
/// which has the target's credentials, is not.
pub fn worth_reporting(object: &Object, denied: Access) -> Option<FileOperation> {
    if denied.write && object.permits(fs::Access::WRITE_OK) {
        Some(FileOperation::Write)
    } else if denied.read && object.permits(fs::Access::READ_OK) {
        Some(FileOperation::Read)
    } else {
        None
    }
}
