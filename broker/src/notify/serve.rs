//! The answers: each notification is judged, then performed, refused or let through.
//!
//! seccomp_unotify(2) explains the races that the order of steps here avoids: copy, check that the
//! target still waits, decide on the copy, perform on the copy, answer.

use super::connecting::Connecting;
use super::listener::{Backstop, Listener, Notification};
use super::observe::{self, Listing, Look, View};
use super::target::{AT_FDCWD, Credentials, Target};
use crate::decide::address::{AddressRules, Endpoint};
use crate::decide::call::{self, AddressUse, Call, MetadataCall};
use crate::perform::metadata;
use crate::perform::path;
use crate::perform::socket::{Address, Socket};
use crate::proxy::Proxy;
use crate::report::{Denial, Traps};
use crate::run::Judges;
use common::trap::{FileOperation, NetworkOperation};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs;
use rustix::io::{self, Errno};
use std::cell::OnceCell;
use std::os::fd::RawFd;
use std::path::Path;

/// Answers the notifications of one listener.
#[derive(Debug)]
pub(crate) struct Server<'a> {
    listener: Listener,
    addresses: &'a AddressRules,
    view: &'a View,
    proxy: Option<&'a Proxy>,
    connecting: Connecting,
    /// The broker's own credentials, read when first needed.
    credentials: OnceCell<Credentials>,
}

/// How a call that the broker judged by memory ends: there is no way to let it through.
enum Ending {
    /// Now, with this result.
    Now(io::Result<()>),
    /// When the connect is decided.
    Later,
}

impl<'a> Server<'a> {
    /// Serves `listener` by these rules.
    pub(crate) fn new(listener: OwnedFd, judges: &Judges<'a>) -> Self {
        Self {
            listener: Listener::new(listener),
            addresses: judges.addresses,
            view: judges.view,
            proxy: judges.proxy,
            connecting: Connecting::default(),
            credentials: OnceCell::new(),
        }
    }

    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The connects that are under way.
    pub(crate) fn connecting(&self) -> &Connecting {
        &self.connecting
    }

    /// Answers the connects that are decided.
    pub(crate) fn sweep(&mut self) {
        if !self.connecting.is_empty() {
            self.connecting.sweep(&self.listener);
        }
    }

    /// Receives and answers one notification.
    ///
    /// # Errors
    /// Returns what receiving it returns: without the listener nothing can be served.
    pub(crate) fn serve(&mut self, traps: &mut Traps) -> io::Result<()> {
        let Some(notification) = self.listener.receive()? else { return Ok(()) };
        let target = Target::new(notification.thread);
        let id = notification.id;
        match Call::decode(&notification) {
            Call::File(call) => {
                let looks = observe::look(target, &call);
                match looks.iter().find_map(|look| look.listing(self.view)) {
                    Some(listing) => self.list(id, target, &listing),
                    None => self.observe(id, &looks, traps),
                }
            }
            // The argument is a register, and the id of a thread of the caller's own process cannot
            // become another's while the caller waits: its process lives, and a thread id is only
            // reused after all others were.
            Call::Process(process) if process == 0 || target.has_thread(process) => {
                self.listener.let_through(id, Backstop::Registers);
            }
            other => {
                if let Ending::Now(result) = self.perform(&notification, target, &other, traps) {
                    self.listener.complete(id, result);
                }
            }
        }
        Ok(())
    }

    /// Lets a file call through to Landlock, then looks what became of it.
    fn observe(&self, id: u64, looks: &[Look], traps: &mut Traps) {
        // Landlock decides: a path that changes after the copy changes the report at most. If the
        // answer is taken, the target waited until now, so that what was copied was its own.
        if self.listener.let_through(id, Backstop::Landlock) {
            for denial in looks.iter().filter_map(|look| look.judge(self.view)) {
                traps.report(Denial::file(denial.operation, &denial.path), "file rules");
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

    fn perform(
        &mut self,
        notification: &Notification,
        target: Target,
        call: &Call,
        traps: &mut Traps,
    ) -> Ending {
        let id = notification.id;
        match *call {
            Call::Address(kind, socket, address, length) => {
                match self.address(id, target, kind, (socket, address, length), traps) {
                    Ok(ending) => ending,
                    Err(errno) => Ending::Now(Err(errno)),
                }
            }
            Call::Listen(socket) => {
                let name = local_name(target, socket);
                traps.report(Denial::Network(NetworkOperation::Bind, name), "listen");
                Ending::Now(Err(Errno::ACCESS))
            }
            Call::Socket(family, kind, protocol) => {
                let name = call::describe_socket(family, kind, protocol);
                traps.report(Denial::Network(NetworkOperation::Connect, name), "socket family");
                Ending::Now(Err(call::refused_socket(family)))
            }
            Call::Metadata(call) => Ending::Now(self.metadata(id, target, &call, traps)),
            Call::Process(_) | Call::ProcessGroup => {
                traps.log("refused: limits or scheduling of another process");
                Ending::Now(Err(Errno::PERM))
            }
            Call::File(_) | Call::Unknown => {
                traps.log(&format!("refused: unexpected system call {}", notification.number));
                Ending::Now(Err(Errno::NOSYS))
            }
        }
    }

    fn address(
        &mut self,
        id: u64,
        target: Target,
        kind: AddressUse,
        (socket, address, length): (RawFd, u64, u32),
        traps: &mut Traps,
    ) -> io::Result<Ending> {
        let address = Address::copy(target, address, length)?;
        let endpoint = address.endpoint()?;
        let (operation, verdict) = match kind {
            AddressUse::Connect => (NetworkOperation::Connect, self.addresses.connect(&endpoint)),
            AddressUse::Bind => (NetworkOperation::Bind, self.addresses.bind(&endpoint)),
        };
        if let Err(errno) = verdict {
            if let (AddressUse::Connect, Endpoint::UnixPath(name)) = (kind, &endpoint) {
                // Nobody listens there: looking for a name service daemon is not worth a report.
                path::resolve(target, AT_FDCWD, name, true, false)?;
            }
            if self.listener.is_waiting(id) {
                traps.report(Denial::Network(operation, endpoint.describe()), "address rules");
            }
            return Err(errno);
        }
        let socket =
            Socket::take(target, socket, self.addresses.allow_network).or_else(|errno| {
                traps.log(&format!("cannot duplicate the socket for {endpoint:?}: {errno}"));
                match (errno, kind) {
                    (Errno::PERM, AddressUse::Connect) => Socket::replace(target, socket),
                    _ => Err(errno),
                }
            })?;
        // Only now is it certain that memory and socket were those of the target.
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        match kind {
            // Binding a low port is a right: it must be the target's own.
            AddressUse::Bind if !self.same_credentials_as(target)? => Err(Errno::ACCESS),
            AddressUse::Bind => Ok(Ending::Now(socket.bind(&address))),
            AddressUse::Connect => match self.connect(&socket, &address, &endpoint, traps) {
                Ok(false) => self.connecting.add(id, socket).map(|()| Ending::Later),
                // In the target's own hands from now on, connected or not.
                result @ (Ok(true) | Err(Errno::INPROGRESS)) => {
                    socket.put_in_place(&self.listener, id)?;
                    Ok(Ending::Now(result.map(drop)))
                }
                Err(errno) => Err(errno),
            },
        }
    }

    /// Connects without waiting, and tells the proxy of what comes to it.
    fn connect(
        &self,
        socket: &Socket,
        address: &Address,
        endpoint: &Endpoint,
        traps: &Traps,
    ) -> io::Result<bool> {
        let result = socket.connect(address);
        match (result, self.proxy) {
            (Ok(_) | Err(Errno::INPROGRESS), Some(proxy)) => {
                proxy.admit(endpoint, socket, traps)?;
                result
            }
            (result, _) => result,
        }
    }

    fn metadata(
        &self,
        id: u64,
        target: Target,
        call: &MetadataCall,
        traps: &mut Traps,
    ) -> io::Result<()> {
        let prepared = metadata::prepare(target, call)?;
        // Only now is it certain that memory and object were those of the target.
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        let Some(name) = self.metadata_refused(&prepared.object)? else {
            if !self.same_credentials_as(target)? {
                traps.log("refused: metadata for a target with other credentials");
                return Err(Errno::PERM);
            }
            return prepared.perform();
        };
        traps.report(Denial::file(FileOperation::Write, &name), "metadata");
        Err(Errno::ACCESS)
    }

    /// The path of `object` if the rules do not let it be changed.
    ///
    /// The object is held, so that its identity cannot change any more. Its name can: by then it was
    /// in a place that the command may write, and is only moved to another such place, because
    /// Landlock does not let it be moved out.
    fn metadata_refused(&self, object: &OwnedFd) -> io::Result<Option<std::path::PathBuf>> {
        let name = path::name_of(object)?;
        let Ok(text) = std::str::from_utf8(name.as_os_str().as_encoded_bytes()) else {
            return Ok((!self.view.rules.access(&name).write).then_some(name));
        };
        // What never had a path belongs to those who hold it.
        let nameless = ["pipe:[", "socket:[", "anon_inode:"];
        if nameless.iter().any(|prefix| text.starts_with(prefix)) {
            return Ok(None);
        }
        if fs::fstat(object)?.st_nlink == 0 {
            if text.starts_with("/memfd:") {
                return Ok(None);
            }
            let former = Path::new(text.strip_suffix(" (deleted)").unwrap_or(text));
            return Ok((!self.view.rules.access(former).write).then_some(name));
        }
        Ok((!name.is_absolute() || !self.view.rules.access(&name).write).then_some(name))
    }

    /// Whether the target has exactly the broker's rights, so that acting for it gives it no more.
    fn same_credentials_as(&self, target: Target) -> io::Result<bool> {
        let own = match self.credentials.get() {
            Some(own) => own,
            None => {
                let own = Credentials::own()?;
                self.credentials.get_or_init(|| own)
            }
        };
        Ok(target.credentials()? == *own)
    }
}

/// The local address of a socket, for the report of a refused listen.
fn local_name(target: Target, socket: RawFd) -> Vec<u8> {
    let address = target
        .duplicate(socket)
        .and_then(|socket| rustix::net::getsockname(&socket))
        .and_then(std::net::SocketAddr::try_from);
    address.map_or_else(|_| b"socket".to_vec(), |address| address.to_string().into_bytes())
}
