//! What a call names that Landlock decides, copied and held before it is let through: for what Landlock does not let be
//! opened though the rules do (`exceptions.rs`), and for reports, which somebody outside of the core makes of it.
//!
//! The arguments are copied before the call is let through and judged afterwards, while the target
//! runs on. A target that changes them meanwhile deceives the report and nothing else.

use super::entry::Entry;
use super::open::{self, Destination};
use super::path::{self, Base, NOTHING};
use super::view::View;
use super::walk;
use crate::call::decode::{FileCall, PathArg};
use crate::call::how::writes;
use crate::report::denials::Denial;
use common::trap::FileOperation;
use kernel::object::Object;
use kernel::ptrace_capability;
use kernel::target::{Target, TargetFd};
use rules::memory;
use rules::paths::Access;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, OFlags, RenameFlags, ResolveFlags};
use rustix::io;
use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Who reports what becomes of calls that are let through. Nothing is decided by it.
pub trait Observer: Debug + Send + Sync {
    /// Looks at what is about to be let through, and returns a note that is kept with it; none if there is nothing to
    /// report of it, as far as is known.
    fn note(&self, _: &Look, _: &View) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    /// What of the paths of one call the rules refuse although the file system would have permitted it.
    fn denials(&self, _: &[Look], _: &View) -> Vec<Denial> {
        Vec::new()
    }

    /// Whether the broker would have had to do one of these, which Landlock refuses.
    fn are_brokered(&self, _: &[Look], _: &View) -> bool {
        false
    }

    /// What paths lead to is about to be changed.
    fn forget(&self) {}
}

/// Nobody does.
impl Observer for () {}

/// A path argument as it was when the call was made, and what is done to what it names.
#[derive(Debug)]
pub struct Look {
    pub target: Target,
    /// When it was begun to be looked at.
    pub begun: Instant,
    /// What the observer has noted.
    pub note: Vec<u8>,
    /// The number of the directory that a relative path starts at, and that directory; of a path in proc(5),
    /// what it led to.
    pub directory: TargetFd,
    base: Option<Arc<OwnedFd>>,
    pub path: Vec<u8>,
    pub act: Act,
}

/// What is done to a path.
#[derive(Clone, Copy, Debug)]
pub enum Act {
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

/// Who knows what there is to report, by which rules, and whether anybody wants to hear of reads.
pub(crate) type Known<'a> = (&'a dyn Observer, &'a View, bool);

/// Copies what `call` names, but for what the observer knows of that there is nothing to report, if it may be asked. What
/// cannot be copied, the call itself will stumble over.
pub(crate) fn look(target: Target, call: &FileCall, known: Option<Known<'_>>) -> Vec<Look> {
    let acts = match *call {
        FileCall::Open(_, how) => [Some(Act::Open(how.flags)), None],
        FileCall::Truncate(..) => [Some(Act::Open(OFlags::WRONLY)), None],
        FileCall::Create(..) => [Some(Act::Create), None],
        FileCall::Remove(..) => [Some(Act::Remove), None],
        FileCall::Rename(.., flags) if flags.contains(RenameFlags::NOREPLACE) => {
            [Some(Act::Remove), Some(Act::Create)]
        }
        FileCall::Rename(..) => [Some(Act::Remove), Some(Act::Replace)],
        FileCall::Link(_, _, flags) => [Some(Act::Link(flags)), Some(Act::Create)],
    };
    let mut looks: Vec<Look> = Vec::new();
    for (arg, act) in call.path_args().zip(acts) {
        let Some(act) = act else { continue };
        // Both paths of a rename mostly start at one place, as the kernel looks for it once a call.
        let is_same = |first: &&Look| first.directory == arg.directory && !first.path.is_empty();
        let base = looks.last().filter(is_same).and_then(|first| first.base.clone());
        if let Ok(Some(look)) = copy(target, arg, act, base, known) {
            looks.push(look);
        }
    }
    looks
}

/// None if there is nothing to report.
fn copy(
    target: Target,
    arg: PathArg,
    act: Act,
    base: Option<Arc<OwnedFd>>,
    known: Option<Known<'_>>,
) -> io::Result<Option<Look>> {
    let begun = Instant::now();
    let (path, directory) = (target.read_path(arg.path)?, arg.directory);
    let mut look = Look { target, begun, note: Vec::new(), directory, base: None, path, act };
    // What a process has in proc(5) ends with it, perhaps before it is looked at.
    let ends = |prefix: &&[u8]| look.path.starts_with(prefix);
    if [&b"/proc/"[..], b"/dev/fd/", b"/dev/std"].iter().any(ends)
        && let Ok(object) = path::resolve_from(target, &Base::Root, &look.path, true, NOTHING)
    {
        return Ok(Some(Look { base: Some(Arc::new(object.into())), path: Vec::new(), ..look }));
    }
    let is_relative = !look.is_absolute();
    look.base = base.filter(|_| is_relative);
    let hold = || path::hold(target, directory).map(|held| Some(Arc::new(held)));
    if let Some((observer, view, wants_reads)) = known
        && !look.may_be_exception(view)
    {
        if !wants_reads && look.only_lists() {
            return Ok(None);
        }
        // A working directory is known by its path sooner than it is held.
        if is_relative && directory != TargetFd::CWD {
            look.base = hold()?;
        }
        match observer.note(&look, view) {
            Some(note) => look.note = note,
            None => return Ok(None),
        }
    }
    if is_relative && look.base.is_none() {
        look.base = hold()?;
    }
    Ok(Some(look))
}

impl Look {
    pub fn is_absolute(&self) -> bool {
        self.path.starts_with(b"/")
    }

    /// Where a relative path starts, or what an empty one stands for, if that is held.
    pub fn base(&self) -> Option<BorrowedFd<'_>> {
        self.base.as_ref().map(AsFd::as_fd)
    }

    /// The flags of an open.
    pub(super) fn opens(&self) -> Option<OFlags> {
        if let Act::Open(flags) = self.act { Some(flags) } else { None }
    }

    /// Whether it changes nothing.
    pub fn only_reads(&self) -> bool {
        matches!(self.act, Act::Open(flags) if !writes(flags))
    }

    /// Opens what the path names; what the call is made on itself is held already.
    pub fn follow(&self, follow: bool) -> Option<Object> {
        if self.path.is_empty() {
            return Object::of(self.base()?.try_clone_to_owned().ok()?).ok();
        }
        path::resolve_from(self.target, &self.base().into(), &self.path, follow, NOTHING).ok()
    }

    /// Holds what the kernel finds at `path`, from where this one starts.
    pub fn hold(&self, path: &[u8], follow: bool) -> Option<OwnedFd> {
        let barred = ResolveFlags::NO_MAGICLINKS;
        walk::hold_by_kernel(Base::from(self.base()).as_fd(), path, follow, barred).ok()
    }

    /// What an open with these flags leads to.
    pub fn opened(&self, flags: OFlags) -> Option<Destination> {
        let base = self.base().into();
        open::resolve_from(self.target, &base, &self.path, flags, NOTHING).ok()
    }

    /// The entry that the path names.
    pub fn entry(&self) -> Option<Entry> {
        Entry::resolve_from(self.target, &self.base().into(), &self.path, NOTHING).ok()
    }

    /// Whether it may be what the core has to look at itself.
    fn may_be_exception(&self, view: &View) -> bool {
        memory::name(&self.path).is_some() || self.only_reads() && self.may_name_exception(view)
    }

    /// Whether the last component is the name of such a directory or file, or there is none.
    pub(super) fn may_name_exception(&self, view: &View) -> bool {
        path::split(&self.path).is_none_or(|(_, name)| view.names_exception(name))
    }

    /// Whether the path starts in proc(5).
    pub(super) fn starts_on_proc(&self) -> bool {
        let kind = self.base().map(|base| fs::fstatfs(base).map(|found| found.f_type));
        kind == Some(Ok(fs::PROC_SUPER_MAGIC)) || self.path.starts_with(b"/proc")
    }

    /// Whether an open with these flags follows a symbolic link at the end: one of another name can lead there.
    pub(super) fn follows_link(&self, flags: OFlags) -> bool {
        // Slashes lead through it.
        let end = self.path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        if flags.contains(OFlags::NOFOLLOW) && end == self.path.len() {
            return false;
        }
        let start = match self.directory {
            _ if self.is_absolute() => String::new(),
            TargetFd::CWD => self.target.proc("cwd/"),
            number => self.target.proc(&format!("fd/{number}/")),
        };
        let path = [start.as_bytes(), &self.path[..end]].concat();
        let read = || fs::readlinkat_raw(fs::CWD, &path, &mut [MaybeUninit::uninit()]).map(drop);
        ptrace_capability::of(read).is_ok()
    }

    /// Whether it opens a directory that is no exception, nor leads to one.
    fn only_lists(&self) -> bool {
        let flags = self.opens().filter(|flags| flags.contains(OFlags::DIRECTORY));
        self.only_reads() && flags.is_some_and(|flags| !self.follows_link(flags))
    }

    /// Whether it changes something where what is in reserve waits, which Landlock would let root do.
    pub(super) fn is_reserved(&self, view: &View) -> bool {
        view.reserve.as_ref().is_some_and(|reserve| {
            self.entry().is_some_and(|entry| reserve.waits_at(entry.directory()))
        })
    }
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
        return Some(FileOperation::Write);
    }
    (denied.read && object.permits(fs::Access::READ_OK)).then_some(FileOperation::Read)
}
