//! Who decides about a file call, and what the broker does in its place.
//!
//! A call is judged (paths followed, objects and directories held, verdict on their names), and
//! performed only when the target is confirmed to wait still: by then it is certain that the arguments
//! were its own. Where a call is let through, and why that is safe, [`LandlockReason`] says.

use super::exceptions::Exception;
use super::learning::Learning;
use super::look::{self, Look, Observer};
use super::metadata::{self, Prepared};
use super::shared::Shared;
use super::task::{Done, Task};
use super::verdict::{FileVerdict, LandlockReason};
use super::view::View;
use super::walk::Lost;
use super::{changes, exceptions, moves, opens, questions, terminals};
use crate::call::decode::{FileCall, Question};
use crate::call::metadata::MetadataCall;
use crate::report::denials::Denial;
use crate::report::permitted::Permitted;
use crate::report::traps::Traps;
use common::trap::FileOperation;
use kernel::inherited::Inherited;
use kernel::object::Object;
use kernel::request::Request;
use kernel::rights::Rights;
use kernel::shortcuts::Shortcut;
use kernel::target::Target;
use kernel::umask::Umask;
use rules::paths::Access;
use rustix::fs::{Mode, OFlags};
use rustix::io::{self, Errno};
use std::path::PathBuf;
use std::sync::Arc;

/// How often a call is judged again because of what other threads do.
const RETRIES: usize = 16;

/// Judges the file calls of one sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    pub(crate) view: Arc<View>,
    /// Shared memory of the command's own, if it has a place.
    pub(crate) shared: Option<Arc<Shared>>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) umask: Arc<Umask>,
    pub(crate) traps: Arc<Traps>,
    /// The descriptors that the command was started with, and whether it can get others from outside.
    pub(crate) inherited: Arc<Inherited>,
    /// Who reports what is left to Landlock.
    pub(crate) observer: Arc<dyn Observer>,
    /// What the run learns, if it does.
    pub(crate) learning: Option<Arc<Learning>>,
}

impl Judge {
    /// Does the call, refuses it, or leaves it to Landlock; a run that permits tells what the policy lacks for it.
    pub(crate) fn judge(&self, request: &Request<'_>, call: &FileCall) -> FileVerdict {
        let Some(learning) = &self.learning else { return self.decide(request, call) };
        let lacks = learning.lacks(&*self.observer, request.target(), call);
        let verdict = self.decide(request, call);
        learning.note_call(request.target(), lacks, &verdict);
        verdict
    }

    fn decide(&self, request: &Request<'_>, call: &FileCall) -> FileVerdict {
        let view = &*self.view;
        if call.redirects_paths() {
            self.observer.forget();
        }
        if let Some(answer) = self.judge_elsewhere(request, call) {
            return FileVerdict::Answer(answer);
        }
        if opens::is_own(view, call) {
            return FileVerdict::Answer(self.judge_own(request, call));
        }
        let judged = match view.brokers_writes() {
            true => self.judge_change(request, call),
            false => Err(LandlockReason::Alone),
        };
        judged.map_or_else(|reason| self.leave(request, call, reason), FileVerdict::Answer)
    }

    /// Says whether something may be done: no where the rules deny it, else what the file system says.
    /// access(2) is answered like that, although Landlock does not know it, because programs act on it.
    pub(crate) fn answer(&self, request: &Request<'_>, question: &Question) -> FileVerdict {
        let target = request.target();
        let shared = self.shared.as_deref();
        let ask = || Ok(questions::ask(&self.view, shared, target, question, &self.traps));
        let leave = || FileVerdict::Continue(LandlockReason::Question, Vec::new());
        match self.rights.with_those_of(target, ask) {
            Ok(Ok(answer)) => FileVerdict::Answer(answer.map(|()| None)),
            // This is about the broker.
            Ok(Err(Lost::Errno(Errno::PERM | Errno::ACCESS))) if target.hides() => leave(),
            Ok(Err(Lost::ToLandlock(_))) | Err(_) => leave(),
            Ok(Err(lost)) => FileVerdict::Answer(Err(lost.into())),
        }
    }

    /// An open or a truncation where Landlock would let be read or written what is denied: the broker answers,
    /// whatever it finds.
    fn judge_own(&self, request: &Request<'_>, call: &FileCall) -> io::Result<Done> {
        let target = request.target();
        let judge = || match *call {
            FileCall::Open(arg, how) => {
                let is_inside = |process| self.is_inside(process);
                opens::judge_own_open(&self.view, target, is_inside, arg, how)
            }
            FileCall::Truncate(arg, length) => {
                opens::judge_truncate(&self.view, target, arg, length, true)
            }
            _ => Err(Errno::NOSYS.into()),
        };
        match self.rights.with_those_of(target, || Ok(self.perform(request, judge))) {
            Ok(done) => done.unwrap_or_else(|lost| Err(lost.into())),
            Err(errno) => {
                self.traps.log(&format!("cannot act with the target's rights: {errno}"));
                Err(Errno::ACCESS)
            }
        }
    }

    /// Whether a process is of the sandbox.
    fn is_inside(&self, process: i32) -> bool {
        self.rights.member(process).is_ok()
    }

    /// What names an entry of /dev/shm, or asks for a file that never gets a name: the broker does it where the command's
    /// own are. None if it does neither, or if the broker cannot act as the target.
    fn judge_elsewhere(&self, request: &Request<'_>, call: &FileCall) -> Option<io::Result<Done>> {
        let target = request.target();
        // Whoever looks at the call afterwards has the same copy of its paths.
        let shared = self.shared.as_ref().and_then(|it| Some((it, Shared::named(target, call)?)));
        if shared.is_none() && !opens::is_unnamed(call) {
            return None;
        }
        let judge = || match &shared {
            Some((shared, named)) => shared.judge(&self.view, call, named).map_err(Some),
            None => opens::judge_unnamed(&self.view, target, call),
        };
        let done = self.rights.with_those_of(target, || Ok(self.perform(request, judge)));
        done.ok()?.map_or_else(|errno| errno.map(Err), Some)
    }

    /// What changes files, where the rules let more be changed or read than Landlock was told: done or refused,
    /// or left to Landlock for a reason. An error is no reason: by the time that the kernel looks, what
    /// was missing may be there, for the broker alone to change.
    fn judge_change(
        &self,
        request: &Request<'_>,
        call: &FileCall,
    ) -> Result<io::Result<Done>, LandlockReason> {
        let target = request.target();
        // What has lost its name meanwhile is looked for again; what stays so was reached by a
        // descriptor, or is moved all the time. Of that Landlock was told nothing by this name, and
        // grants what it was told at launch.
        let looked = || {
            let again = || judge_change(&self.view, target, call);
            (1..RETRIES).fold(again(), |judged, _| match judged {
                Err(Lost::Changed) => again(),
                judged => judged,
            })
        };
        let judge = || match looked() {
            Ok(task) => Ok(task),
            Err(Lost::ToLandlock(reason)) => Err(reason),
            Err(Lost::Changed) => Err(LandlockReason::DeniedAnyway),
            // This is about the broker.
            Err(Lost::Errno(Errno::PERM | Errno::ACCESS)) if target.hides() => {
                Err(LandlockReason::OutOfSight)
            }
            Err(Lost::Errno(errno)) => Ok(Task::Refuse(errno, None)),
        };
        let done = self.rights.with_those_of(target, || Ok(self.perform(request, judge)));
        done.unwrap_or_else(|errno| {
            self.traps.log(&format!("cannot act with the target's rights: {errno}"));
            Err(LandlockReason::OutOfSight)
        })
    }

    /// Performs the task that `judge` finds, if it finds one, and has it judge again where another
    /// thread has made meanwhile what was to be made.
    fn perform<V>(
        &self,
        request: &Request<'_>,
        judge: impl Fn() -> Result<Task, V>,
    ) -> Result<io::Result<Done>, V> {
        for _ in 0..RETRIES {
            let task = judge()?;
            let creates = matches!(&task, Task::CreateFile(_, how, _) | Task::MakeGitLink(_, how)
                if !how.flags.contains(OFlags::EXCL));
            let done = self.perform_task(request, task);
            if !(creates && matches!(done, Err(Errno::EXIST))) {
                return Ok(done);
            }
        }
        Ok(Err(Errno::AGAIN))
    }

    fn perform_task(&self, request: &Request<'_>, task: Task) -> io::Result<Done> {
        let target = request.target();
        let umask = if task.creates() { self.umask.of(target)? } else { Mode::empty() };
        let confirmed = request.confirm()?;
        if let Task::Refuse(errno, Some(denial)) = &task {
            self.traps.sink().catch_up();
            match *errno {
                // Programs copy then: it is told if they fail.
                Errno::XDEV => self.traps.sink().note_question(denial.clone()),
                _ => self.traps.report(denial.clone(), "file rules"),
            }
        }
        let moved = match (&self.view.reserve, &task) {
            (Some(reserve), Task::Rename(old, new, _)) => Some((reserve, old.path(), new.path())),
            _ => None,
        };
        let done = task.perform(confirmed, umask)?;
        if let Some((reserve, old, new)) = moved {
            reserve.follow(&old, &new);
        }
        Ok(done)
    }

    /// Leaves a call to Landlock. Only what Landlock does not let be opened, though the rules do, is opened for the
    /// target (`exceptions`).
    fn leave(&self, request: &Request<'_>, call: &FileCall, reason: LandlockReason) -> FileVerdict {
        // Of what is let through whatever is there; before a change of what paths lead to, nothing is remembered.
        let may_ask = reason == LandlockReason::Alone && !call.redirects_paths();
        let wants_reads = self.traps.wants(FileOperation::Read);
        let known = may_ask.then_some((&*self.observer, &*self.view, wants_reads));
        // What is granted is no denial.
        let looks = match reason {
            LandlockReason::Granted | LandlockReason::Futile => Vec::new(),
            _ => look::look(request.target(), call, known),
        };
        if reason == LandlockReason::DeniedAnyway
            && looks.iter().any(|look| look.is_reserved(&self.view))
        {
            self.report(&looks);
            return FileVerdict::Answer(Err(Errno::ACCESS));
        }
        let exception = |look| exceptions::of(look, &self.view, |process| self.is_inside(process));
        let Some(Exception { task, is_of_processes }) = looks.iter().find_map(exception) else {
            let wants_writes = self.traps.wants(FileOperation::Write);
            let wanted = looks
                .into_iter()
                .filter(|look| if look.only_reads() { wants_reads } else { wants_writes });
            return FileVerdict::Continue(reason, wanted.collect());
        };
        let open = || self.perform_task(request, task);
        FileVerdict::Answer(match self.rights.are_those_of(request.target()) {
            Ok(true) => open(),
            Ok(false) if is_of_processes => self.rights.with_those_of(request.target(), open),
            Ok(false) => Err(Errno::ACCESS),
            Err(errno) => Err(errno),
        })
    }

    /// What Landlock refuses, or has refused, of a call that is let through.
    pub(crate) fn denials(&self, looks: &[Look]) -> Vec<Denial> {
        self.observer.denials(looks, &self.view)
    }

    /// Reports that of one that was.
    pub(crate) fn report(&self, looks: &[Look]) {
        for denial in self.denials(looks) {
            self.traps.report(denial, "file rules");
        }
    }

    /// The same judge of other rules.
    pub(crate) fn with_view(&self, view: View) -> Self {
        Self { view: Arc::new(view), ..self.clone() }
    }

    /// A change of metadata, which Landlock does not know: performed or refused.
    ///
    /// # Errors
    /// Returns what the call would; [`Errno::ACCESS`] for what may not be written.
    pub(crate) fn change_metadata(
        &self,
        request: &Request<'_>,
        call: &MetadataCall,
    ) -> io::Result<()> {
        let target = request.target();
        self.rights.with_credentials_of(target, || {
            let Some(prepared) = metadata::prepare(target, call)? else { return Ok(()) };
            let confirmed = request.confirm()?;
            if !self.was_judged(&prepared)
                && let Some(name) = metadata_refused(&self.view, &prepared.object)?
                && !self.is_own_terminal(target, &prepared.object)
            {
                self.traps.report(Denial::file(FileOperation::Write, &name), "metadata");
                return Err(Errno::ACCESS);
            }
            // Another user of this host could execute it, with the rights of the caller.
            if prepared.lends_rights() {
                let denial = Denial::file(FileOperation::Write, prepared.object.name()?.as_path());
                self.traps.report(denial, "what lends rights to other users");
                return Err(Errno::PERM);
            }
            let lacks = self.learning.as_ref().and_then(|learning| {
                let name = metadata_refused(&learning.view, &prepared.object).ok()??;
                Some((learning, name))
            });
            prepared.perform(confirmed)?;
            if let Some((learning, name)) = lacks {
                learning.note(Permitted::Write(name), target);
            }
            Ok(())
        })
    }

    /// Whether it is a terminal that the command made, whose owner and mode multiplexers set. Should another have its
    /// number by now, what is held is one that is closed.
    fn is_own_terminal(&self, target: Target, object: &Object) -> bool {
        !self.view.denies_object(object.identity(), Access::WRITE)
            && terminals::is_of_sandbox(target, object)
    }

    /// Whether the rules have let the object be written when it was opened, so that its name need not be
    /// looked at: who can write to it can change what is said of it.
    ///
    /// A regular file that something in the sandbox opened for writing was judged then, by Landlock or by the
    /// broker, and cannot have been moved to where it may not be written but by others. It is another
    /// matter with a descriptor from outside. What a rule names stays as it is, by whatever descriptor.
    fn was_judged(&self, prepared: &Prepared) -> bool {
        let object = prepared.object.identity();
        Shortcut::DESCRIPTOR.is_open()
            && prepared.is_open_for_writing()
            && !self.inherited.may_hold(object)
            && !self.view.denies_object(object, Access::WRITE)
    }
}

/// The path of `object` if the rules do not let it be changed.
///
/// The object is held, so that its identity cannot change any more. Its name can: by then it was
/// in a place that the command may write, and is only moved to another such place, because
/// Landlock does not let it be moved out.
pub(super) fn metadata_refused(view: &View, object: &Object) -> io::Result<Option<PathBuf>> {
    let name = object.name()?;
    // What never had a path belongs to those who hold it.
    if name.is_of_its_holders() {
        return Ok(None);
    }
    let denied = view.denies_object(object.identity(), Access::WRITE);
    let writable = !denied && name.candidates().all(|path| view.is_writable(path));
    Ok((!writable).then(|| name.as_path().to_owned()))
}

/// Follows the paths of a call that changes files, and decides.
fn judge_change(view: &View, target: Target, call: &FileCall) -> Result<Task, Lost> {
    match *call {
        FileCall::Open(arg, how) => opens::judge_open(view, target, arg, how),
        FileCall::Truncate(arg, length) => opens::judge_truncate(view, target, arg, length, false),
        FileCall::Create(arg, creation) => changes::judge_creation(view, target, arg, creation),
        FileCall::Remove(arg, flags) => changes::judge_removal(view, target, arg, flags),
        FileCall::Rename(old, new, flags) => moves::judge_rename(view, target, (old, new), flags),
        FileCall::Link(old, new, flags) => moves::judge_link(view, target, (old, new), flags),
    }
}
