//! Who decides about an address, and what it leads to; and what of the sandbox's sockets is known.

use super::dial::{Dial, Way};
use super::held_sockets::HeldSockets;
use super::own_paths::OwnPaths;
use super::own_ports::{HeldListener, OwnPorts};
use super::sendmsg_gate::SendmsgGate;
use super::socket::{Connecting, Socket};
use super::unix::{Peer, Place};
use crate::call::decode::AddressUse;
use crate::files::learning::Learning;
use crate::files::view::{Decider, View};
use crate::report::denials::Denial;
use crate::report::traps::Traps;
use common::trap::NetworkOperation;
use kernel::bound::{self, Bound};
use kernel::diag;
use kernel::fd_scan;
use kernel::request::Request;
use kernel::rights::Rights;
use kernel::target::{Target, TargetFd};
use kernel::threads::lock;
use rules::address::{self, AddressRules, AddressVerdict, Endpoint};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::SocketFlags;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How often it is looked who listens, while the sandbox's own begin and end.
const LOOKS_MAX: usize = 16;
/// How often it is looked whether a connect is begun.
const PAUSE: Duration = Duration::from_millis(1);

/// Judges the addresses of one sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    pub(crate) rules: Arc<AddressRules>,
    pub(crate) view: Arc<View>,
    /// The command's Landlock domain, for what the broker does within it.
    pub(crate) ruleset: Arc<OwnedFd>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) traps: Arc<Traps>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) own: Arc<Own>,
    /// Whether a message can be let through.
    pub(crate) sendmsg_gate: Arc<SendmsgGate>,
    /// What the run learns, if it does.
    pub(crate) learning: Option<Arc<Learning>>,
    /// What somebody who was asked has permitted to one call: the rules allow more for its sake.
    pub(crate) permitted: Option<Denial>,
}

/// What of the sandbox's own sockets is known.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// The loopback ports that it listens on.
    pub(super) ports: Mutex<OwnPorts>,
    /// The pathname sockets.
    pub(super) paths: OwnPaths,
    /// Those that the broker holds.
    pub(super) held: Arc<HeldSockets>,
    /// Whether a server was to share its port.
    pub(super) has_unshared: AtomicBool,
}

/// Who has to know of a connection before it is begun: landstrip's own proxies.
pub(crate) trait Admission: Debug + Send + Sync {
    /// Whether they take a connect to `to`, which no rule for addresses permits: then they judge it.
    fn leads(&self, to: SocketAddr) -> bool;

    /// Prepares for a connect of `socket` to `endpoint`. One that is to lead on from them has to be waited for, if the
    /// socket, as the flag says, waits.
    ///
    /// # Errors
    /// Returns what the target is to get.
    fn prepare(&self, endpoint: &Endpoint, socket: (BorrowedFd<'_>, bool)) -> io::Result<Way>;

    /// Hands a connect over that was prepared, and has `started` like this. Returns where its outcome is told, if it is
    /// not that of the connect itself.
    ///
    /// # Errors
    /// Returns [`Errno::CONNREFUSED`] if they do not run.
    fn hand_over(
        &self,
        way: Way,
        started: io::Result<Connecting>,
        traps: &Traps,
    ) -> io::Result<Option<Dial>>;

    /// A socket in which names can be looked up, a message each, if they answer that.
    fn lookups(&self, mode: SocketFlags, traps: &Traps) -> io::Result<Option<OwnedFd>>;
}

/// What a permitted address leads to.
pub(crate) enum Reach {
    /// Whoever has the address.
    Address,
    /// The proxy, which judges where it leads: never this address itself.
    Led,
    /// A loopback address in the place of the unspecified one.
    Narrowed,
    /// This socket, which the sandbox listens on.
    Own(HeldListener),
    /// This pathname socket.
    Peer(Peer),
    /// A new pathname socket, and who decides about it.
    Place(Place, Decider),
}

impl Judge {
    /// Judges the address, and follows it to what it names where that is what decides.
    ///
    /// # Errors
    /// Returns what the call is refused with.
    pub(crate) fn judge(
        &self,
        request: &Request<'_>,
        kind: AddressUse,
        endpoint: &Endpoint,
    ) -> io::Result<Reach> {
        let target = request.target();
        let (operation, verdict) = match kind {
            AddressUse::Connect => (NetworkOperation::Connect, self.rules.connect(endpoint)),
            AddressUse::Bind => (NetworkOperation::Bind, self.rules.bind(endpoint)),
        };
        if kind == AddressUse::Connect && self.is_denied_host(endpoint) {
            request.confirm()?;
            self.traps.report(Denial::Domain(endpoint.describe()), "domain rules");
            return Err(Errno::ACCESS);
        }
        let mut name = endpoint.describe();
        let mut reason = "address rules";
        match (verdict, endpoint) {
            (AddressVerdict::Perform, _) => {
                let own = self.own_server_at_proxy(endpoint);
                return Ok(own.map_or(Reach::Address, Reach::Own));
            }
            (AddressVerdict::Narrow, _) => return Ok(Reach::Narrowed),
            (AddressVerdict::OwnPort(address), _) => match self.own_port(address) {
                Ok(held) => return Ok(Reach::Own(held)),
                // Nobody listens there: a client that waits for its server tries again.
                Err(_) if self.is_led(address) => return Ok(Reach::Led),
                Err(Errno::CONNREFUSED) => return Err(Errno::CONNREFUSED),
                Err(_) => reason = "another program listens there",
            },
            (AddressVerdict::Refuse, Endpoint::Internet(to))
                if kind == AddressUse::Connect && self.is_led(*to) =>
            {
                return Ok(Reach::Led);
            }
            (AddressVerdict::ByPath | AddressVerdict::Refuse, Endpoint::UnixPath(path))
                if kind == AddressUse::Connect =>
            {
                // Where nobody listens, looking for a name service daemon is not worth a report.
                let peer = Peer::resolve(target, path)?;
                match self.why_not_reached(&peer, verdict)? {
                    Some(why) => reason = why,
                    None => {
                        let name = || peer.name().as_os_str().as_bytes().to_vec();
                        self.must_be_permitted(operation, name)?;
                        return Ok(Reach::Peer(peer));
                    }
                }
                name = peer.name().as_os_str().as_bytes().to_vec();
            }
            (AddressVerdict::ByPath | AddressVerdict::Refuse, Endpoint::UnixPath(path)) => {
                let place = Place::resolve(target, path)?;
                let listed = verdict == AddressVerdict::ByPath
                    && (self.rules.local_binding || self.rules.unix.permit(&place.name()));
                let entry = &place.entry;
                match (listed, self.view.entry(entry.directory(), entry.name())) {
                    (true, Some((_, decider))) => {
                        self.must_be_permitted(operation, || {
                            place.name().into_os_string().into_vec()
                        })?;
                        return Ok(Reach::Place(place, decider));
                    }
                    (true, None) => reason = "the path may not be written",
                    (false, _) => {}
                }
                name = place.name().into_os_string().into_vec();
            }
            (AddressVerdict::ByPath | AddressVerdict::Refuse, _) => {}
        }
        request.confirm()?;
        self.traps.report(Denial::Network(operation, name), reason);
        Err(Errno::ACCESS)
    }

    /// Why `peer` is not to be reached; none if it is.
    fn why_not_reached(
        &self,
        peer: &Peer,
        verdict: AddressVerdict,
    ) -> io::Result<Option<&'static str>> {
        let is_own = || self.own.paths.has(peer.identity());
        if is_own() {
            return Ok(None);
        }
        let mut why = "address rules";
        if verdict == AddressVerdict::ByPath && self.rules.unix.permit(peer.name()) {
            why = match self.is_in_its_place(peer) {
                Ok(true) => return Ok(None),
                Ok(false) => "the socket was bound to another path",
                Err(Errno::OPNOTSUPP) => {
                    "the kernel does not tell what it was bound to (CONFIG_UNIX_DIAG)"
                }
                Err(errno) => return Err(errno),
            };
        }
        drop(self.own.held.wait_for_binding());
        Ok((!is_own()).then_some(why))
    }

    /// The sandbox's own server at the address of landstrip's proxy, which nobody has bound where all hosts
    /// are refused.
    fn own_server_at_proxy(&self, endpoint: &Endpoint) -> Option<HeldListener> {
        let Endpoint::Internet(address) = endpoint else { return None };
        let address = address::canonical(*address);
        let may_serve = self.rules.local_binding && self.rules.proxies.contains(&address);
        may_serve.then(|| self.own.hold(address)).flatten()
    }

    pub(super) fn is_led(&self, to: SocketAddr) -> bool {
        self.admission.as_ref().is_some_and(|proxies| proxies.leads(to))
    }

    /// Whether a run that learns is to stay away from `endpoint`: nothing else keeps it from what the policy
    /// denies past the proxy.
    fn is_denied_host(&self, endpoint: &Endpoint) -> bool {
        match (&self.learning, endpoint) {
            (Some(learning), Endpoint::Internet(to)) => {
                !self.rules.proxies.contains(&address::canonical(*to))
                    && learning.witness.denies(*to)
            }
            _ => false,
        }
    }

    /// Whether a socket has its path by right: not so where the command may change entries, and may have
    /// moved or linked somebody's socket there. It was there at launch, or the sandbox has it, or it was
    /// bound to a path that is permitted. A file to which nothing is bound leads nowhere, or to a socket of
    /// another network namespace.
    ///
    /// # Errors
    /// Returns [`Errno::CONNREFUSED`] if nothing is bound to it here, or what sock_diag(7) returns.
    fn is_in_its_place(&self, peer: &Peer) -> io::Result<bool> {
        let unix = &self.rules.unix;
        let (Some(directory), Some(name)) = (peer.name().parent(), peer.name().file_name()) else {
            return Ok(true);
        };
        let may_be_moved = || self.view.may_change(directory, name);
        if unix.all || unix.known.contains_key(&peer.identity()) || !may_be_moved() {
            return Ok(true);
        }
        // As it is written: where it leads by now the command may have changed.
        let by_name = |name: &[u8]| {
            let path = Path::new(OsStr::from_bytes(name));
            let is_plain = !path.components().any(|part| part == Component::ParentDir);
            path.is_absolute() && is_plain && unix.permit(path)
        };
        let mut is_bound = false;
        let found = fd_scan::search(|| {
            let bound = match bound::to_inode(peer.identity().1) {
                Ok(bound) if bound.is_empty() => return None,
                Ok(bound) => bound,
                Err(errno) => return Some(Err(errno)),
            };
            is_bound = true;
            if bound.iter().all(|bound| by_name(&bound.name)) {
                return Some(Ok(true));
            }
            let mut own = HashSet::new();
            fd_scan::each_socket(|_, _, number| {
                own.insert(number);
                ControlFlow::Continue(())
            });
            let is_right = |bound: &Bound| own.contains(&bound.number) || by_name(&bound.name);
            bound.iter().all(is_right).then_some(Ok(true))
        });
        found.unwrap_or(if is_bound { Ok(false) } else { Err(Errno::CONNREFUSED) })
    }

    /// Checks that no other program listens on the other address that `localhost` can mean: its clients
    /// outside would talk to the sandbox. One that begins to listen there later finds the sandbox's
    /// server beside it.
    ///
    /// # Errors
    /// Returns [`Errno::ADDRINUSE`] if one does.
    pub(crate) fn must_be_alone(&self, address: SocketAddr) -> io::Result<()> {
        let address = match address.ip().to_canonical().is_unspecified() {
            // What it is narrowed to.
            true => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
            false => address,
        };
        let Some(other) = address::counterpart(address).filter(|other| other.port() != 0) else {
            return Ok(());
        };
        match self.own_port(other) {
            Err(Errno::ACCESS) => Err(Errno::ADDRINUSE),
            _ => Ok(()),
        }
    }

    /// The socket of the sandbox that listens on `address`.
    fn own_port(&self, address: SocketAddr) -> io::Result<HeldListener> {
        for _ in 0..LOOKS_MAX {
            let before = self.ports().changes;
            if let Some(held) = self.own.hold(address) {
                return Ok(held);
            }
            // What the sandbox has closed just now is nobody else's. If nothing changes until the end, none was known
            // here since before, so that none came to be held after this.
            if self.ports().is_held(address) {
                return Err(Errno::CONNREFUSED);
            }
            let anybody_listens = || diag::anybody_listens(address);
            let somebody_does = anybody_listens() && {
                self.own.held.release_closed();
                anybody_listens()
            };
            if !somebody_does {
                return Err(Errno::CONNREFUSED);
            }
            if self.ports().changes == before {
                break;
            }
        }
        Err(Errno::ACCESS)
    }

    /// The target's socket, of which `duplicate` was taken, or one in its place where the platform refuses
    /// that. `name` is what a report says of it.
    ///
    /// # Errors
    /// Returns what the call would; [`Errno::ACCESS`] for a kind of socket that the command cannot have.
    pub(crate) fn take(
        &self,
        (target, number): (Target, TargetFd),
        duplicate: io::Result<OwnedFd>,
        operation: NetworkOperation,
        name: impl Fn() -> Vec<u8>,
    ) -> io::Result<Socket> {
        let rules = &*self.rules;
        match duplicate {
            Ok(socket) => Socket::of(socket, rules),
            Err(Errno::PERM) if self.own.held.is_left(target, number) => Err(match operation {
                NetworkOperation::Connect => Errno::ISCONN,
                NetworkOperation::Bind => Errno::INVAL,
            }),
            Err(Errno::PERM) => Socket::replace(target, number, rules).inspect_err(|errno| {
                if *errno == Errno::ACCESS {
                    let denial = Denial::Network(operation, name());
                    self.traps.report(denial, "the platform refuses to duplicate such a socket");
                }
            }),
            Err(errno) => Err(errno),
        }
    }

    /// The ports of the sandbox's own. Nothing is done with them that the command can make wait.
    pub(crate) fn ports(&self) -> MutexGuard<'_, OwnPorts> {
        // What it knows is compared with the kernel's truth whenever it is used.
        lock(&self.own.ports)
    }

    /// The same once no connect of `socket`, or to it, is being begun. The command can have made that wait, so that
    /// nobody but the target waits for it.
    ///
    /// # Errors
    /// As [`Request::look_after`].
    pub(crate) fn ports_once_free(
        &self,
        request: &Request<'_>,
        socket: impl AsFd,
    ) -> io::Result<MutexGuard<'_, OwnPorts>> {
        loop {
            let ports = self.ports();
            if !ports.is_being_connected(&socket) {
                return Ok(ports);
            }
            drop(ports);
            request.look_after()?;
            std::thread::sleep(PAUSE);
        }
    }
}
