//! The answers: each notification is judged, then performed, refused or let through.
//!
//! seccomp_unotify(2) explains the races that the order of steps here avoids: copy, hold what the copy
//! names, decide on that, check that the target still waits (so that the arguments were its own),
//! perform on what is held, answer.

use crate::answer::watch::Watch;
use crate::call::decode::{self, Call, MetadataCall};
use crate::domains::proxy::Proxy;
use crate::files::metadata;
use crate::files::observe::{self, Listing, Look};
use crate::files::view::View;
use crate::kernel::listener::{Backstop, Listener, Notification};
use crate::kernel::object::Object;
use crate::kernel::rights;
use crate::kernel::target::{Credentials, Status, Target};
use crate::report::denials::{Denial, Traps};
use crate::report::failure::Failure;
use crate::rules::address::AddressRules;
use crate::rules::paths::Access;
use crate::sockets::own_ports::LocalPorts;
use crate::sockets::stand_ins::StandIns;
use common::trap::{FileOperation, NetworkOperation};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Mode;
use rustix::io::{self, Errno};
use rustix::process;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// What notifications are judged by.
#[derive(Debug)]
pub(crate) struct Judges {
    /// Socket addresses.
    pub(crate) addresses: AddressRules,
    /// File rules, for metadata and reports.
    pub(crate) view: View,
    /// The command's Landlock domain, for what the broker does within it.
    pub(crate) ruleset: OwnedFd,
    /// What filters domains.
    pub(crate) proxy: Option<Proxy>,
}

/// Answers the notifications of one listener.
///
/// One thread at a time, the receiver, takes notifications. What can have to wait, for a peer or for
/// a lock of the target's making, it answers only after another thread has taken its place, so that
/// no call delays another. The other threads are parked: waiting for notifications too, all of them
/// would be woken for each.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) listener: Listener,
    pub(crate) judges: Arc<Judges>,
    pub(crate) traps: Arc<Traps>,
    /// The loopback ports that the sandbox listens on.
    pub(crate) ports: Mutex<LocalPorts>,
    /// The sockets that the broker has put in the place of the sandbox's.
    pub(crate) stand_ins: Arc<StandIns>,
    /// The broker's own credentials, read when first needed.
    credentials: OnceLock<Credentials>,
    /// Whether everything in the sandbox is known to have them: what it started with, and nobody has
    /// asked the kernel for others since.
    alike: AtomicBool,
    /// Whether somebody has.
    diverged: AtomicBool,
    /// The umask that everything in the sandbox has, unless somebody has set another.
    umask: Mode,
    umask_set: AtomicBool,
    crew: Mutex<Crew>,
    /// Wakes a parked thread when there is no receiver.
    vacancy: Condvar,
    /// Ends the turn of a receiver that has to wait unexpectedly.
    pub(crate) watch: Watch,
}

/// The threads of a [`Server`].
#[derive(Debug, Default)]
struct Crew {
    threads: usize,
    parked: usize,
    has_receiver: bool,
    /// The number of the latest turn.
    turn: u64,
}

/// A thread's turn as receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    server: &'a Arc<Server>,
    number: u64,
}

impl Turn<'_> {
    /// Has another thread receive, before this one does what can have to wait long, unless one does
    /// already. If there is none to be had, calls wait for this one.
    pub(crate) fn pass_on(self) {
        self.server.leave_vacancy(self.number);
    }

    /// Does what seldom has to wait: for the lock of an inode or a directory, which a long write or a
    /// slow file system holds, for the other end of a FIFO, or for a peer although the broker asked
    /// not to wait. If it does, another thread receives after a moment; to have one wake up each time
    /// would cost more than what is done.
    fn watched(self, work: impl FnOnce()) {
        let number = self.server.watch.begin(self.server, self.number);
        work();
        self.server.watch.end(number);
    }

    fn is_over(self) -> bool {
        let crew = self.server.crew();
        crew.turn != self.number || !crew.has_receiver
    }
}

/// Most threads; each can have to wait for a peer. More calls than that wait for a thread.
const THREADS_MAX: usize = 1024;
/// Threads that stay when there is nothing to do.
const PARKED_MAX: usize = 8;
/// Stack of a thread: paths and socket addresses are on the heap.
const STACK: usize = 256 * 1024;

impl Server {
    /// Serves `listener` by these rules, once [`Server::start`] was called. `umask` is what the command
    /// started with; the broker's own is empty.
    pub(crate) fn new(
        listener: OwnedFd,
        judges: Arc<Judges>,
        traps: Arc<Traps>,
        umask: Mode,
    ) -> Arc<Self> {
        Arc::new(Self {
            listener: Listener::new(listener),
            judges,
            traps,
            ports: Mutex::default(),
            stand_ins: Arc::default(),
            credentials: OnceLock::new(),
            alike: AtomicBool::new(false),
            diverged: AtomicBool::new(false),
            umask,
            umask_set: AtomicBool::new(false),
            crew: Mutex::default(),
            vacancy: Condvar::new(),
            watch: Watch::default(),
        })
    }

    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Starts the first thread.
    ///
    /// # Errors
    /// Returns [`Errno::AGAIN`] if the system has no more.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        self.add_thread(&mut self.crew())
    }

    fn add_thread(self: &Arc<Self>, crew: &mut Crew) -> io::Result<()> {
        if crew.threads >= THREADS_MAX {
            return Err(Errno::AGAIN);
        }
        let server = Arc::clone(self);
        let builder = std::thread::Builder::new().stack_size(STACK);
        builder.spawn(move || server.work()).map_err(|_| Errno::AGAIN)?;
        crew.threads += 1;
        Ok(())
    }

    /// The life of a thread: parked, receiver, busy with a call that can wait, parked again.
    fn work(self: Arc<Self>) {
        while let Some(number) = self.take_vacancy() {
            let turn = Turn { server: &self, number };
            while !turn.is_over() {
                match self.listener.receive() {
                    Ok(Some(notification)) => {
                        let call = Call::decode(&notification);
                        if call.can_wait() {
                            turn.pass_on();
                            self.answer(turn, &notification, &call);
                        } else {
                            turn.watched(|| self.answer(turn, &notification, &call));
                        }
                    }
                    Ok(None) if self.listener.is_orphaned() => return,
                    Ok(None) => {}
                    Err(errno) => {
                        // Nothing can be served any more: the command ends with the broker.
                        Failure::system("notification", errno).print();
                        std::process::exit(common::exit::FAILED);
                    }
                }
            }
        }
    }

    /// Parks until there is no receiver, to become it. Returns the number of the turn; none if enough
    /// threads are parked.
    fn take_vacancy(&self) -> Option<u64> {
        let mut crew = self.crew();
        if crew.has_receiver && crew.parked >= PARKED_MAX {
            crew.threads -= 1;
            return None;
        }
        crew.parked += 1;
        while crew.has_receiver {
            crew = self.vacancy.wait(crew).unwrap_or_else(PoisonError::into_inner);
        }
        crew.parked -= 1;
        crew.has_receiver = true;
        crew.turn += 1;
        Some(crew.turn)
    }

    /// Ends turn `number`, unless that is over already.
    pub(crate) fn leave_vacancy(self: &Arc<Self>, number: u64) {
        let mut crew = self.crew();
        if !crew.has_receiver || crew.turn != number {
            return;
        }
        crew.has_receiver = false;
        if crew.parked > 0 {
            self.vacancy.notify_one();
        } else {
            let _ = self.add_thread(&mut crew);
        }
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        // Its numbers are whole whenever the lock is free.
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, turn: Turn<'_>, notification: &Notification, call: &Call) {
        let target = Target::new(notification.thread);
        let id = notification.id;
        match call {
            Call::File(call) if self.broker(id, target, call) => {}
            Call::File(call) => {
                let looks = observe::look(target, call);
                match looks.iter().find_map(|look| look.listing(&self.judges.view)) {
                    Some(listing) => self.list(id, target, &listing),
                    None => self.observe(id, &looks),
                }
            }
            // The argument is a register, and the id of a thread of the caller's own process cannot
            // become another's while the caller waits: its process lives, and a thread id is only
            // reused after all others were.
            &Call::Process(process) if process == 0 || target.has_thread(process) => {
                self.listener.let_through(id, Backstop::Registers);
            }
            Call::Umask => {
                self.umask_set.store(true, Ordering::SeqCst);
                self.listener.let_through(id, Backstop::Registers);
            }
            Call::Credentials => {
                // From now on they are compared each time. The kernel decides on the call, and what
                // memory holds does not matter here.
                self.diverged.store(true, Ordering::SeqCst);
                self.listener.let_through(id, Backstop::Registers);
            }
            // The broker must not become a tracer: its tracee stops at every signal until it is
            // continued. A target that gets the broker as its parent only after this look stops
            // nobody but itself, and SIGKILL ends it like all others; the command cannot, whose
            // parent the broker always was.
            Call::TraceMe if target.parent().is_ok_and(|parent| parent != process::getpid()) => {
                self.listener.let_through(id, Backstop::Registers);
            }
            &Call::Socket(kind, flags) if kind.is_permitted(&self.judges.addresses) => {
                self.make(id, target, kind, flags);
            }
            &Call::Send(socket, flags, messages) => {
                let sent = self.send(turn, id, target, (socket, flags, messages));
                self.listener.complete_with(id, sent);
            }
            other => {
                self.listener.complete(id, self.perform(turn, notification, other));
            }
        }
    }

    /// Lets a file call through to Landlock, then looks what became of it.
    fn observe(&self, id: u64, looks: &[Look]) {
        // The command may have ended before this has.
        let _undecided = self.traps.undecided();
        // Landlock decides: a path that changes after the copy changes the report at most. If the
        // answer is taken, the target waited until now, so that what was copied was its own.
        if self.listener.let_through(id, Backstop::Landlock) {
            for denial in looks.iter().filter_map(|look| look.judge(&self.judges.view)) {
                self.traps.report(denial, "file rules");
            }
        }
    }

    /// Opens a directory for the target, which gets the descriptor.
    fn list(&self, id: u64, target: Target, listing: &Listing) {
        let opened = self.same_credentials_as(target).and_then(|same| {
            // Only now is it certain that the path was the target's.
            if same && self.listener.is_waiting(id) { listing.open() } else { Err(Errno::ACCESS) }
        });
        let result = opened.and_then(|directory| {
            self.listener.hand_over(id, directory.as_fd(), listing.close_on_exec())
        });
        if result.is_err() {
            self.listener.complete(id, result);
        }
    }

    /// Performs or refuses a call that was judged by memory: there is no way to let it through.
    fn perform(&self, turn: Turn<'_>, notification: &Notification, call: &Call) -> io::Result<()> {
        let target = Target::new(notification.thread);
        let id = notification.id;
        match *call {
            Call::Address(kind, socket, address, length) => {
                self.address(turn, id, target, kind, (socket, address, length))
            }
            Call::Listen(socket, backlog) => self.listen(id, target, (socket, backlog)),
            Call::Shutdown(socket, how) => self.shutdown(id, target, (socket, how)),
            Call::DatagramPair(kind, numbers) => self.pair(id, target, (kind, numbers)),
            Call::Socket(kind, _) | Call::Pair(kind) => {
                let name = decode::describe_socket(kind);
                self.traps
                    .report(Denial::Network(NetworkOperation::Connect, name), "socket family");
                Err(decode::refused_socket(kind.family))
            }
            Call::Metadata(call) => {
                self.with_rights_of(target, || self.metadata(id, target, &call))
            }
            Call::Process(_) | Call::ProcessGroup => {
                self.traps.log("refused: limits or scheduling of another process");
                Err(Errno::PERM)
            }
            Call::TraceMe => {
                self.traps.log("refused: the broker traces nobody");
                Err(Errno::PERM)
            }
            Call::File(_) | Call::Send(..) | Call::Credentials | Call::Umask | Call::Unknown => {
                self.traps.log(&format!("refused: unexpected system call {}", notification.number));
                Err(Errno::NOSYS)
            }
        }
    }

    fn metadata(&self, id: u64, target: Target, call: &MetadataCall) -> io::Result<()> {
        let Some(prepared) = metadata::prepare(target, call)? else { return Ok(()) };
        // Only now is it certain that all this was the target's.
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        if let Some(name) = self.metadata_refused(&prepared.object)? {
            self.traps.report(Denial::file(FileOperation::Write, &name), "metadata");
            return Err(Errno::ACCESS);
        }
        prepared.perform()
    }

    /// The path of `object` if the rules do not let it be changed.
    ///
    /// The object is held, so that its identity cannot change any more. Its name can: by then it was
    /// in a place that the command may write, and is only moved to another such place, because
    /// Landlock does not let it be moved out.
    fn metadata_refused(&self, object: &Object) -> io::Result<Option<PathBuf>> {
        let view = &self.judges.view;
        let name = object.name()?;
        // What never had a path belongs to those who hold it.
        if name.is_of_its_holders() {
            return Ok(None);
        }
        let denied = view.denies_object(object.identity(), Access::WRITE);
        let writable = !denied && name.candidates().all(|path| view.is_writable(path));
        Ok((!writable).then(|| name.as_path().to_owned()))
    }

    /// The permission bits left out of what the target makes (umask(2)).
    ///
    /// # Errors
    /// Returns what reading proc(5) returns.
    pub(crate) fn umask_of(&self, target: Target) -> io::Result<Mode> {
        // Processes have it from their parents, and set it by a call that is notified.
        match self.umask_set.load(Ordering::SeqCst) {
            true => Ok(target.status()?.umask),
            false => Ok(self.umask),
        }
    }

    /// Does `work` with exactly the target's rights.
    ///
    /// # Errors
    /// Returns what `work` returns; [`Errno::ACCESS`] if the rights cannot be had.
    pub(crate) fn with_rights_of<R: Send>(
        &self,
        target: Target,
        work: impl FnOnce() -> io::Result<R> + Send,
    ) -> io::Result<R> {
        if self.same_credentials_as(target)? {
            return work();
        }
        rights::with(&target.status()?.credentials, work)
    }

    /// Whether the target has exactly the broker's rights, so that acting for it gives it no more.
    ///
    /// With no_new_privs set and no user namespaces, credentials and the number of filters change by
    /// the calls that are notified for it alone. So they are compared until they were found alike
    /// once, which is how the command starts, and again once somebody made such a call.
    pub(crate) fn same_credentials_as(&self, target: Target) -> io::Result<bool> {
        if self.alike.load(Ordering::SeqCst) && !self.diverged.load(Ordering::SeqCst) {
            return Ok(true);
        }
        let alike = target.status()?.credentials == *self.own_credentials()?;
        if alike {
            self.alike.store(true, Ordering::SeqCst);
        }
        Ok(alike)
    }

    /// The broker's own credentials, with the filter that the command has.
    pub(crate) fn own_credentials(&self) -> io::Result<&Credentials> {
        if let Some(own) = self.credentials.get() {
            return Ok(own);
        }
        let own = Status::own()?.credentials;
        Ok(self.credentials.get_or_init(|| own))
    }
}
