//! The answers: each call is judged by the room of its subject, and answered here, nowhere else.
//!
//! seccomp_unotify(2) explains the races that the order of steps avoids: copy, hold what the copy
//! names, decide on that, confirm that the target still waits (so that the arguments were its own),
//! perform on what is held, answer.

use super::again::{self, Round};
use crate::ask::Asking;
use crate::call::decode::{CONTINUE, Call, RegisterCall, RegisterVerdict};
use crate::call::metadata::MetadataCall;
use crate::domains::proxy::Proxy;
use crate::files::look::Observer;
use crate::files::shared::Shared;
use crate::files::verdict::{FileVerdict, LandlockReason};
use crate::files::view::View;
use crate::files::{self, learning::Learning};
use crate::ipc::{self, Objects};
use crate::jobs;
use crate::report::denials::Denial;
use crate::report::traps::Traps;
use crate::signals;
use crate::sockets;
use crate::sockets::calls::SocketVerdict;
use crate::sockets::judge::Admission;
use crate::sockets::sendmsg_gate::SendmsgGate;
use common::trap::FileOperation;
use kernel::identity::identity;
use kernel::inherited::Inherited;
use kernel::kill;
use kernel::kill_on_exit::KillOnExit;
use kernel::processes::ProcessChange;
use kernel::request::{Request, Wait};
use kernel::rights::Rights;
use kernel::terminal::Lent;
use kernel::umask::Umask;
use rules::address::AddressRules;
use run_limits::Watch;
use rustix::fd::OwnedFd;
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::process::{self, Pid};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, RwLock};
use sysv::NOBODYS;

/// In the place of what a process asks for that hides its memory from the broker.
const HIDDEN: &[u8] = b"unknown (the process hides its memory)";
/// In the place of what one asks for with whose rights the broker cannot act.
const APART: &[u8] = b"unknown (the process has a sandbox, user or label of its own)";

/// What notifications are judged by.
#[derive(Clone, Debug)]
pub struct Judges {
    /// Socket addresses.
    pub addresses: Arc<AddressRules>,
    /// File rules, for metadata and reports.
    pub view: Arc<View>,
    /// The command's Landlock domain, for what the broker does within it.
    pub(crate) ruleset: Arc<OwnedFd>,
    /// What filters domains.
    pub proxy: Option<Arc<Proxy>>,
    /// Landlock scopes signals.
    pub(crate) is_scoped: bool,
    /// System V objects of the command's own.
    pub(crate) objects: Arc<Objects>,
    /// Its own objects in /dev/shm.
    pub(crate) shared: Option<Arc<Shared>>,
    /// Who reports what is left to Landlock.
    pub observer: Arc<dyn Observer>,
    /// What the run learns, if it does.
    pub(crate) learning: Option<Arc<Learning>>,
    /// What counts the command and all that it starts, if the policy limits that.
    pub limits: Option<Arc<Watch>>,
    /// Who is asked before something is refused, if anybody is.
    pub asking: Option<Arc<Asking>>,
    /// What a sandbox around this one decides if there is no listener.
    pub(crate) left: Option<&'static str>,
}

impl Judges {
    /// Whether the command has shared memory of its own.
    pub fn have_shared_memory(&self) -> bool {
        self.shared.is_some()
    }
}

/// Answers the calls of one sandbox.
#[derive(Debug)]
pub(crate) struct Answerer {
    /// Of the rules of now.
    pub(super) files: RwLock<Arc<files::judge::Judge>>,
    pub(super) sockets: RwLock<Arc<sockets::judge::Judge>>,
    pub(super) judges: Judges,
    pub(super) rights: Arc<Rights>,
    signals: signals::Judge,
    jobs: jobs::Judge,
    pub(super) traps: Arc<Traps>,
    /// How many threads are about to close a file that they give a target.
    pub(super) handing_over: AtomicUsize,
}

impl Answerer {
    pub(crate) fn new(
        judges: &Judges,
        command: Pid,
        held: (&Arc<KillOnExit>, &Arc<Lent>),
        umask: Umask,
        traps: &Arc<Traps>,
    ) -> Self {
        let admission = judges.proxy.clone().map(|proxy| proxy as Arc<dyn Admission>);
        let proxy = judges.proxy.as_ref().and_then(|proxy| fs::stat(proxy.program()).ok());
        let rights = Arc::new(Rights::beside(proxy.as_ref().map(identity)));
        let meets_others = judges.addresses.any_path() || judges.asking.is_some();
        let files = files::judge::Judge {
            view: Arc::clone(&judges.view),
            shared: judges.shared.clone(),
            rights: Arc::clone(&rights),
            umask: Arc::new(umask),
            traps: Arc::clone(traps),
            inherited: Arc::new(Inherited::look(meets_others)),
            observer: Arc::clone(&judges.observer),
            learning: judges.learning.clone(),
        };
        // To learn, it has to see each message.
        let sends = judges.addresses.unix.streams_send || judges.learning.is_some();
        let sockets = sockets::judge::Judge {
            rules: Arc::clone(&judges.addresses),
            view: Arc::clone(&judges.view),
            ruleset: Arc::clone(&judges.ruleset),
            rights: Arc::clone(&rights),
            traps: Arc::clone(traps),
            admission,
            own: Arc::default(),
            sendmsg_gate: Arc::new(SendmsgGate::new(sends)),
            learning: judges.learning.clone(),
            permitted: None,
        };
        Self {
            jobs: jobs::Judge::new(command, held, &rights, traps),
            signals: signals::Judge {
                rights: Arc::clone(&rights),
                traps: Arc::clone(traps),
                is_scoped: judges.is_scoped,
            },
            files: RwLock::new(Arc::new(files)),
            sockets: RwLock::new(Arc::new(sockets)),
            judges: judges.clone(),
            rights,
            traps: Arc::clone(traps),
            handing_over: AtomicUsize::new(0),
        }
    }

    /// Judges a call, and answers it, or has it wait for an answer of somebody's; none is one that the filter should
    /// not have notified.
    pub(crate) fn answer(&self, request: Request<'_>, call: Option<Call>, round: Round<'_>) {
        if !call.is_some_and(|call| call.leaves_paths()) {
            self.traps.sink().catch_up();
        }
        let Err(request) = request.repeat(call.is_some_and(|call| call.counts())) else { return };
        match call {
            Some(Call::Registers(call)) => match self.by_registers(&request, call).transpose() {
                // CONTINUE: nothing can change the registers of a thread that waits.
                None => drop(request.let_through()),
                Some(result) => request.complete(result),
            },
            Some(Call::Socket(call)) => {
                let pass_on = request.turn();
                let sockets = self.latest_sockets();
                let Some(verdict) = self.perform_or_park(&request, &call, round, &sockets) else {
                    return;
                };
                match verdict {
                    SocketVerdict::Return(result) => {
                        let denial = |text| Denial::Network(again::operation(&call), text);
                        self.report_unserved(&request, result.err(), denial);
                        request.complete(result);
                    }
                    // CONTINUE: no socket in the sandbox that is judged heeds an address, whichever the descriptor
                    // is by then, and whatever memory holds.
                    SocketVerdict::Passes(_no_named_receivers) => {
                        request.let_through();
                    }
                    SocketVerdict::GoesOn(errno, under_way) => {
                        request.complete(Err(errno));
                        pass_on(Wait::Bounded);
                        under_way.look_after(&sockets);
                    }
                }
            }
            Some(Call::Metadata(call)) => {
                self.change_metadata(request, &call, round);
            }
            Some(Call::File(call)) => {
                let files = self.files(round);
                let Some(verdict) = self.judge_or_park(&request, &call, round, &files) else {
                    return;
                };
                if let FileVerdict::Answer(Err(errno)) = &verdict {
                    let denial = |text| Denial::File(call.operation(), text);
                    self.report_unserved(&request, Some(*errno), denial);
                }
                self.carry_out(request, verdict);
            }
            Some(Call::Question(question)) => {
                let verdict = self.latest_files().answer(&request, &question);
                self.carry_out(request, verdict);
            }
            Some(Call::Ipc(call)) => match self.judges.objects.answer(&request, &self.rights, call)
            {
                // CONTINUE: the id is in a register, and that of no other segment until the thread is past.
                Ok(ipc::Answer::LetThrough) => drop(request.let_through()),
                Ok(ipc::Answer::Value(value)) => request.complete(Ok(value)),
                Err(errno) => {
                    if errno == NOBODYS {
                        self.traps.log("refused: no System V object of the sandbox's");
                    }
                    request.complete(Err(errno));
                }
            },
            None => {
                self.traps.log("refused: a system call that the broker does not know");
                request.complete(Err(Errno::NOSYS));
            }
        }
    }

    fn change_metadata(&self, request: Request<'_>, call: &MetadataCall, round: Round<'_>) {
        let files = self.files(round);
        let (changed, held) =
            self.traps.holding(|| files.change_metadata(&request, call).map(|()| 0));
        if self.park(&request, round, held, &[]) {
            return;
        }
        // A domain of its own is no reason: Landlock is not asked about metadata.
        let has_rights = || self.rights.with_credentials_of(request.target(), || Ok(())).is_ok();
        if changed != Err(Errno::ACCESS) || !has_rights() {
            let denial = |text| Denial::File(FileOperation::Write, text);
            self.report_unserved(&request, changed.err(), denial);
        }
        self.wait_for_hand_over();
        request.complete(changed);
    }

    /// Reports what is refused for what the process is, whatever it asks for.
    fn report_unserved(
        &self,
        request: &Request<'_>,
        errno: Option<Errno>,
        denial: impl FnOnce(Vec<u8>) -> Denial,
    ) {
        let target = request.target();
        let why = match errno {
            Some(Errno::PERM) if target.hides() => HIDDEN,
            Some(Errno::ACCESS) if !self.rights.can_be_those_of(target) => APART,
            _ => return,
        };
        self.traps.report(denial(why.to_vec()), "the process cannot be served");
    }

    /// A change of another process, which the kernel permits for any of the user's: made if that is of
    /// the sandbox. The kernel goes by its number, which can become another's, so that the call is not let
    /// through.
    fn change_process(
        &self,
        request: &Request<'_>,
        process: i32,
        change: ProcessChange,
    ) -> io::Result<i32> {
        let target = request.target();
        let prepared = change.prepare(target)?;
        let member = self.rights.member(process).inspect_err(|errno| {
            if *errno == Errno::PERM {
                self.traps.log("refused: limits or scheduling of a process outside");
            }
        })?;
        self.rights.must_be_of(target, &member.status()?)?;
        let by = request.confirm()?;
        self.rights.with_credentials_of(target, || member.change(by, &prepared))
    }

    fn carry_out(&self, request: Request<'_>, verdict: FileVerdict) {
        match verdict {
            FileVerdict::Continue(reason, looks) => {
                if reason == LandlockReason::OutOfSight {
                    self.traps.log("left to Landlock: the broker cannot look as the target would");
                }
                // The command may have ended before these are judged.
                self.traps.sink().begin_look();
                // CONTINUE: Landlock decides, which grants no more than the rules do, or nobody, of a call that only
                // asks; for what it is relied on, the verdict says. A path that changes after the copy changes the
                // report at most. If the answer is taken, the target waited until now: what was copied was its own.
                let (target, files) = (request.target(), self.latest_files());
                if request.let_through() {
                    files.report(&looks);
                    if reason == LandlockReason::OutOfSight
                        && files.observer.are_brokered(&looks, &files.view)
                        && !self.rights.can_be_those_of(target)
                    {
                        let denial = Denial::File(FileOperation::Write, APART.to_vec());
                        self.traps.report(denial, "the process cannot be served");
                    }
                }
                self.traps.sink().end_look();
            }
            FileVerdict::Answer(Ok(Some(opened))) => self.hand_over(request, opened),
            FileVerdict::Answer(Ok(None)) => request.complete(Ok(0)),
            FileVerdict::Answer(Err(errno)) => request.complete(Err(errno)),
        }
    }

    fn by_registers(&self, request: &Request<'_>, call: RegisterCall) -> RegisterVerdict {
        let target = request.target();
        let refuse = |why: &str| {
            self.traps.log(&format!("refused: {why}"));
            Err(Errno::PERM)
        };
        match call {
            RegisterCall::Socket(kind, flags) => {
                sockets::calls::make_socket(&self.latest_sockets(), request, kind, flags)
            }
            RegisterCall::Pair(kind) => sockets::calls::refuse(&self.latest_sockets(), kind),
            RegisterCall::Tune(level, option) => {
                sockets::calls::pass_over(&self.latest_sockets(), level, option)
            }
            // CONTINUE: these are the caller's for as long as it can be on its way. Another thread of its process can
            // end meanwhile, and its id become another's.
            RegisterCall::Process(id, _) if target.keeps(id) => CONTINUE,
            RegisterCall::Process(process, change) => {
                self.change_process(request, process, change).map(Some)
            }
            RegisterCall::ProcessGroup => refuse("priority of a process group or a user"),
            // CONTINUE: it gives the caller nothing. From now on the umask of each target is read.
            RegisterCall::Umask => {
                self.latest_files().umask.note_set();
                CONTINUE
            }
            // CONTINUE: the kernel decides on it, whatever memory holds, and no_new_privs is set. From now on
            // credentials are compared each time.
            RegisterCall::Credentials => {
                request.forget_earlier();
                self.rights.diverge();
                CONTINUE
            }
            // CONTINUE: the kernel decides on it, and it can only restrict the caller. If another thread puts another
            // ruleset there meanwhile, the broker may do for it what that forbids.
            RegisterCall::Domain(ruleset) => {
                request.forget_earlier();
                self.rights.domains.note(request, ruleset)?;
                CONTINUE
            }
            RegisterCall::Signal(call) => self.signals.judge(request, &call),
            RegisterCall::Owner(number, call) => self.signals.judge_owner(request, number, call),
            RegisterCall::Lock(number, how) => self.latest_files().lock(request, number, how),
            RegisterCall::JoinGroup(process, group) => self.jobs.join(request, process, group),
            RegisterCall::LeaveSession => self.jobs.leave_session(request),
            RegisterCall::Terminal(number, call) => self.jobs.control(request, number, call),
            RegisterCall::Attach(id) => self.signals.judge_tracing(id),
            RegisterCall::Refused(call) => {
                self.traps.sink().note_refused(call.name());
                Err(Errno::PERM)
            }
            RegisterCall::Fork => {
                let is_one_too_many =
                    || self.judges.limits.as_ref().is_some_and(|limits| !limits.admits_fork());
                match kill::has_begun() || is_one_too_many() {
                    true => Err(Errno::AGAIN),
                    // CONTINUE: what is forked is in the sandbox.
                    false => CONTINUE,
                }
            }
            // CONTINUE unless the broker is the parent, which must not become a tracer: its tracee stops at every
            // signal until it is continued. A target that gets the broker as its parent only after this look stops
            // nobody but itself, and SIGKILL ends it like all others; the command cannot, whose
            // parent the broker always was.
            RegisterCall::TraceMe => {
                let parent = target.status().and_then(|status| status.parent());
                match parent.is_ok_and(|parent| parent != process::getpid()) {
                    true => CONTINUE,
                    false => refuse("the broker traces nobody"),
                }
            }
        }
    }
}
