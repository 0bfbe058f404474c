//! The filtering proxy as the broker sees it: its ports, its rules, its life.
//!
//! The command's environment names the ports; the program is started on the first connection, so that a
//! command without network does not pay for it. Threads
//! that answer notifications call in here, and the main thread; none of them waits for the proxy, nor for a connect
//! of another.

mod admission;
mod last_words;

use super::clients::Clients;
use super::ports::Port;
use super::setup;
use super::waiting::{self, Connection as AtProxy, Heard, Words};
use crate::report::denials::Denial;
use crate::report::failure::{Failure, warn};
use crate::report::permitted::{Permitted, Witness};
use crate::report::traps::Traps;
use common::asking::Outcome;
use common::passing;
use common::proxy::{Client, Unlisted};
use common::told::Told;
use kernel::threads::lock;
use kernel::{inherited, proc};
use routes::direct::Direct;
use routes::names::Names;
use routes::upstream::{self, Upstreams};
use rules::policy::{Needs, Network};
use rules::proxies::CallerProxies;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Access};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::Pid;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most messages that are taken at a time, so that the proxy cannot keep the broker busy.
const MESSAGES_MAX: usize = 256;
/// More than wait at the end, so that the proxy cannot keep the broker from ending.
const QUEUED_MAX: usize = 1 << 16;
/// How long the main thread leaves connections alone that it cannot accept, or may not look at.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(5);

/// The proxy of one sandbox, running or not.
#[derive(Debug)]
pub struct Proxy {
    program: PathBuf,
    ports: [Port; 2],
    setup: Vec<u8>,
    names: Names,
    callers: CallerProxies,
    /// What of those that do not ask it comes here too.
    unasked: Option<Direct>,
    /// Everything that there may be something to do about, as one descriptor.
    events: OwnedFd,
    /// What no rule names is permitted, and told here.
    witness: Option<Arc<dyn Witness>>,
    /// Somebody is asked about what no rule names.
    asks: bool,
    running: Mutex<Running>,
    /// The latest process that was started, if any was.
    process: AtomicI32,
}

#[derive(Debug, Default)]
struct Running {
    /// The control socket, while the proxy runs.
    control: Option<OwnedFd>,
    clients: Clients,
    words: Words,
}

impl Proxy {
    /// The proxy, if the policy calls for one; if there is a `witness`, who is told, one that lets all be reached that
    /// `network` does not deny.
    ///
    /// # Errors
    /// Returns [`Failure::Internal`] as [`upstream::choose`], and if a port cannot be bound.
    pub fn wanted(
        network: &Network,
        witness: Option<&Arc<dyn Witness>>,
    ) -> Result<Option<Self>, Failure> {
        let needs = Needs::of(network);
        if needs.hosts || needs.refusals && witness.is_some() {
            return Self::serving(network, witness).map(Some);
        }
        if needs.refusals {
            // Where nothing is permitted, nothing is asked of others.
            let ports = [Client::Http, Client::Socks].map(Port::promised);
            let (upstreams, names) = (Upstreams::default(), Names::default());
            return Self::at(ports, network, (&upstreams, names), None).map(Some);
        }
        Ok(None)
    }

    /// Binds the ports of one that reaches others.
    fn serving(network: &Network, witness: Option<&Arc<dyn Witness>>) -> Result<Self, Failure> {
        let [http, socks] = upstream::own_ports(network, &upstream::is_served);
        let http = Port::bind(Client::Http, http, "httpProxyPort")?;
        let socks = Port::bind(Client::Socks, socks, "socksProxyPort")?;
        let own = [Some(http.number), Some(socks.number)];
        let upstreams = upstream::choose(network, own, &upstream::is_served)
            .map_err(|reason| Failure::Internal("proxy", reason))?;
        Self::at([http, socks], network, (&upstreams, Names::read(&network.hosts)), witness)
    }

    fn at(
        ports: [Port; 2],
        network: &Network,
        (upstreams, names): (&Upstreams<'_>, Names),
        witness: Option<&Arc<dyn Witness>>,
    ) -> Result<Self, Failure> {
        let permits = witness.is_some();
        let has_hosts = Needs::of(network).hosts;
        let asks = !permits && network.asks && has_hosts;
        let unlisted = match (permits, asks) {
            (true, _) => Unlisted::Learned,
            (_, true) => Unlisted::Asked,
            _ => Unlisted::Refused,
        };
        let program =
            proc::own_program().map_err(|errno| Failure::system("/proc/self/exe", errno))?;
        Ok(Self {
            // Beside the broker, never through PATH or a working directory.
            program: proc::started_in_memory()
                .map_or_else(|| program.with_file_name("landstrip-proxy"), Path::to_owned),
            setup: setup::packet(network, upstreams, unlisted)?,
            names,
            ports,
            callers: network.callers.clone(),
            unasked: (permits || has_hosts).then(|| Direct::new(network, permits)),
            events: epoll::create(CreateFlags::CLOEXEC)
                .map_err(|errno| Failure::system("proxy", errno))?,
            witness: witness.cloned(),
            asks,
            running: Mutex::default(),
            process: AtomicI32::new(0),
        })
    }

    /// Where the command may connect to, for HTTP and for SOCKS.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        self.ports.each_ref().map(Port::address)
    }

    /// Accepts and hands over; whether there was no descriptor or memory left to accept all.
    fn serve(&self, running: &mut Running, traps: &Traps) -> bool {
        running.clients.end_unanswered();
        let is_exhausted = running.clients.accept(&self.ports);
        if let Err(errno) = self.tell(running) {
            // Its end is noticed by reading.
            traps.log(&format!("the proxy takes no connection: {errno}"));
        }
        is_exhausted
    }

    /// Tells the proxy what it takes without being waited for, and hands over connections: rules come before those.
    fn tell(&self, Running { control, clients, words }: &mut Running) -> io::Result<()> {
        let Some(control) = control else { return Ok(()) };
        let is_done = words.say(control)? && clients.hand_over(control)?;
        let more = if is_done { EventFlags::empty() } else { EventFlags::OUT };
        // It fails for nothing that is watched.
        let _ = epoll::modify(&self.events, control, NO_DATA, EventFlags::IN | more);
        Ok(())
    }

    fn ensure_start(&self, running: &mut Running) -> io::Result<()> {
        if running.control.is_none() {
            let control = self.start().map_err(|error| {
                let program = self.program.display();
                let message = format!("{program} cannot be started: {error}");
                warn("proxy", &message);
                Errno::CONNREFUSED
            })?;
            running.control = Some(control);
            running.words.begin();
        }
        Ok(())
    }

    fn start(&self) -> std::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let (control, theirs) =
            net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let names = self.names.as_file()?;
        passing::send(&control, &self.setup, &[names.as_fd()], SendFlags::DONTWAIT)?;
        for port in &self.ports {
            match epoll::add(&self.events, port.listener()?, NO_DATA, EventFlags::IN) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        epoll::add(&self.events, &control, NO_DATA, EventFlags::IN)?;
        inherited::keep_from_children()?;
        // A child that cannot execute it is waited for by the standard library, which panics if the main
        // thread was faster.
        fs::access(&self.program, Access::EXEC_OK)?;
        // The standard library gives the child an empty signal mask. It is reaped with all others.
        let process = Command::new(&self.program)
            .env_clear()
            .current_dir(Path::new("/"))
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        self.process.store(process.id().cast_signed(), Ordering::Relaxed);
        Ok(control)
    }

    /// What it is started from.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The process that it is now, if it was started.
    pub fn process(&self) -> Option<Pid> {
        Pid::from_raw(self.process.load(Ordering::Relaxed))
    }

    /// What to poll for: connections, the proxy's words, and its end.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Takes connections, and what the proxy says; returns what that is of connections that wait. If it has ended, the
    /// next connection starts another.
    pub(crate) fn attend(&self, traps: &Traps) -> Vec<Heard> {
        let mut running = lock(&self.running);
        let mut heard = Vec::new();
        if self.receive(&running, MESSAGES_MAX, traps, &mut heard).is_err() {
            traps.log("the proxy has ended");
            heard.push(Heard::Ended);
            // Those that it has not taken would wait for ever.
            running.clients.drop_accepted();
            running.control = None;
        }
        let is_exhausted = self.serve(&mut running, traps);
        drop(running);
        if is_exhausted {
            // What waits would be found again at once.
            std::thread::sleep(EXHAUSTED_PAUSE);
        }
        heard
    }

    /// Lets what `pattern` names be reached for the rest of the run, unless a rule denies it.
    ///
    /// # Errors
    /// Returns why it is not.
    pub(crate) fn grant(&self, pattern: &str) -> Result<(), String> {
        if !self.asks {
            return Err("the proxy of this run does not ask".to_owned());
        }
        let mut running = lock(&self.running);
        running.words.grant(pattern)?;
        // Its end is noticed by reading.
        let _ = self.tell(&mut running);
        Ok(())
    }

    /// Has a connection that waits go on, or refused.
    pub(crate) fn decide(&self, connection: AtProxy, outcome: Outcome) {
        let mut running = lock(&self.running);
        running.words.decide(connection, outcome);
        // The same.
        let _ = self.tell(&mut running);
    }

    /// Takes what the proxy says, if it runs, `most` messages at the most; an error says that it has ended, or has to.
    fn receive(
        &self,
        running: &Running,
        most: usize,
        traps: &Traps,
        heard: &mut Vec<Heard>,
    ) -> io::Result<()> {
        let Some(control) = &running.control else { return Ok(()) };
        for _ in 0..most {
            let mut packet = [0; Told::MAX + 1];
            match net::recv(control, &mut packet, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Errno::PIPE),
                Ok((length, _)) => {
                    let told = Told::decode(&packet[..length]).ok_or(Errno::BADMSG)?;
                    match running.words.heard(told) {
                        Some(one) if self.asks => heard.push(one),
                        _ => self.hear(told, traps)?,
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn hear(&self, told: Told<'_>, traps: &Traps) -> io::Result<()> {
        match told {
            Told::Refused { host, port } => {
                traps.report(Denial::Domain(waiting::target(host, port)), "domain rules");
            }
            Told::Unknown(name) => traps.report(Denial::unknown(name), "domain rules"),
            Told::Reached { host, port, is_private, client } => {
                // Only one that permits says so.
                let witness = self.witness.as_ref().ok_or(Errno::BADMSG)?;
                witness.note(Permitted::Host { host, port, is_private, client }, None);
            }
            Told::Asked { .. } | Told::Withdrawn(_) => return Err(Errno::BADMSG),
        }
        Ok(())
    }

    /// Whether what no rule denies is permitted.
    pub fn permits(&self) -> bool {
        self.witness.is_some()
    }

    /// Which of the caller's variables hold a password that is nothing for the command.
    pub(crate) fn secrets(&self) -> Vec<OsString> {
        upstream::variables_with_secrets(&self.callers, |_| false, std::env::vars_os)
    }
}

/// Nobody asks what is ready: everything is looked at.
const NO_DATA: EventData = EventData::new_u64(0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::judge::Admission;
    use crate::sockets::socket::Connecting;
    use rules::address::Endpoint;
    use std::sync::mpsc;
    use std::thread;

    /// One that runs, and what it is sent.
    fn proxy() -> (Proxy, OwnedFd) {
        let network = Network { allowed_domains: vec!["a.test".to_owned()], ..Network::default() };
        let proxy = Proxy::wanted(&network, None).unwrap().unwrap();
        let (flags, kind) = (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, SocketType::SEQPACKET);
        let (control, theirs) = net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        lock(&proxy.running).control = Some(control);
        (proxy, theirs)
    }

    fn socket() -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
    }

    fn connect(proxy: &Proxy, traps: &Traps, socket: &OwnedFd, before: &dyn Fn()) {
        let there = proxy.addresses()[0];
        let endpoint = Endpoint::Internet(there);
        let way = proxy.prepare(&endpoint, (socket.as_fd(), false)).unwrap();
        let started = match net::connect(socket, &there) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Connecting::Done),
            Err(errno) => Err(errno),
        };
        before();
        proxy.hand_over(way, started, traps).unwrap();
    }

    /// The command can clear O_NONBLOCK as a connect begins.
    #[test]
    fn nobody_waits_for_a_connect_that_is_made_to_wait_and_it_is_served() {
        let traps = Traps::of(Arc::new(()), false);
        let (proxy, theirs) = proxy();
        let is_served = || {
            let mut packet = [0; Client::SIZE];
            matches!(passing::receive(&theirs, &mut packet), Ok((Client::SIZE, Some(_))))
        };
        let (began, beginning) = mpsc::channel();
        let (goes_on, waiting) = mpsc::channel::<()>();
        let (served, serving) = mpsc::channel();
        let (proxy, traps) = (&proxy, &traps);
        thread::scope(|scope| {
            scope.spawn(move || {
                let waits = || {
                    began.send(()).unwrap();
                    waiting.recv().unwrap();
                };
                connect(proxy, traps, &socket(), &waits);
            });
            beginning.recv().unwrap();
            scope.spawn(move || {
                connect(proxy, traps, &socket(), &|| ());
                proxy.attend(traps);
                proxy.hear_out(false, traps);
                served.send(()).unwrap();
            });
            let in_time = serving.recv_timeout(Duration::from_secs(20));
            // Both are the sandbox's: neither is closed as a stranger's.
            let served = [is_served(), is_served(), is_served()];
            goes_on.send(()).unwrap();
            assert_eq!((in_time, served), (Ok(()), [true, true, false]));
        });
        let stranger = std::net::TcpStream::connect(proxy.addresses()[0]).unwrap();
        proxy.attend(traps);
        assert!(!is_served(), "{stranger:?}");
    }
}
