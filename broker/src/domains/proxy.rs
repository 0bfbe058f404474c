//! The filtering proxy as the broker sees it: its ports, its rules, its life.
//!
//! The ports are bound at launch, so that the command's environment can name them; the program is
//! started on the first connection, so that a command without network does not pay for it. Every
//! connection of the sandbox is made by the broker, which tells the proxy its local address: the
//! proxy serves no other. Threads that answer notifications call in here, and the main thread, which never
//! waits for the proxy.

use super::upstream::{self, Upstreams};
use crate::compile::plan::Variable;
use crate::policy::callers::{CallerProxies, CallerProxy};
use crate::policy::resolve::Network;
use crate::report::denials::{Denial, Traps};
use crate::report::failure::Failure;
use crate::rules::address::{Endpoint, canonical};
use common::proxy::{Admit, Refused, SETUP_MAX, Setup};
use common::wire::WireError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno, IoSlice};
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, sockopt, sockopt::Timeout,
};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread may wait for a proxy that takes no admissions.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Most refusals that are taken at a time, so that the proxy cannot keep the broker busy.
const REFUSALS_MAX: usize = 256;

/// The proxy of one sandbox, running or not.
#[derive(Debug)]
pub(crate) struct Proxy {
    program: PathBuf,
    http: Port,
    socks: Port,
    setup: Vec<u8>,
    callers: CallerProxies,
    /// What the command reaches without the proxy.
    direct: Vec<&'static str>,
    link: Mutex<Link>,
}

#[derive(Debug)]
struct Port {
    listener: TcpListener,
    number: u16,
}

/// The control socket's two ends.
#[derive(Debug)]
struct Link {
    /// Made at launch, so that the main thread can poll it before there is a proxy.
    control: Arc<OwnedFd>,
    /// The proxy's end, until it is started.
    theirs: Option<OwnedFd>,
}

impl Link {
    fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (control, theirs) =
            net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        sockopt::set_socket_timeout(&control, Timeout::Send, Some(ADMISSION_TIMEOUT))?;
        Ok(Self { control: Arc::new(control), theirs: Some(theirs) })
    }
}

/// Whether the policy calls for the proxy.
pub(crate) fn is_wanted(network: &Network) -> bool {
    let domains = [&network.allowed_domains, &network.denied_domains];
    !network.allow_network && domains.iter().any(|list| !list.is_empty())
}

/// Checks what can be checked without binding ports; returns what is worth knowing.
///
/// # Errors
/// Returns [`Failure::Internal`] for what the proxy cannot do.
pub(crate) fn check(network: &Network) -> Result<Option<String>, Failure> {
    if !is_wanted(network) {
        return Ok(None);
    }
    let own = upstream::own_ports(network, &upstream::is_served);
    let upstreams = upstream::choose(network, own, &upstream::is_served)?;
    setup(network, &upstreams)?;
    let chosen = [upstreams.requests, upstreams.tunnels].into_iter().flatten();
    let mut names: Vec<_> = chosen.map(|caller| caller.variable).collect();
    names.dedup();
    Ok((!names.is_empty()).then(|| {
        let names = names.join(" and ");
        format!("permitted hosts are reached, and resolved, through the proxy that {names} names")
    }))
}

/// The proxy's first message.
fn setup(network: &Network, upstreams: &Upstreams<'_>) -> Result<Vec<u8>, Failure> {
    let url = |caller: Option<&CallerProxy>| caller.map(|caller| caller.url.clone());
    let lists = [
        network.allowed_domains.clone(),
        network.denied_domains.clone(),
        network.private_domains.clone(),
        Vec::from_iter(url(upstreams.requests)),
        Vec::from_iter(url(upstreams.tunnels)),
        Vec::from_iter(network.callers.direct.clone()),
    ];
    let mut packet = vec![0; SETUP_MAX];
    let lists = lists.each_ref().map(Vec::as_slice);
    let length = Setup::encode(&mut packet, lists).map_err(|error| {
        let message = match error {
            WireError::TooLarge => "there are too many domains: 64 KiB of them can be filtered",
            _ => "a domain cannot be passed on",
        };
        Failure::Internal("proxy", message.to_owned())
    })?;
    packet.truncate(length);
    Ok(packet)
}

impl Proxy {
    /// The proxy, if the policy calls for one.
    ///
    /// # Errors
    /// As [`check`], and [`Failure::Internal`] if a port cannot be bound.
    pub(crate) fn wanted(network: &Network) -> Result<Option<Self>, Failure> {
        is_wanted(network).then(|| Self::prepare(network)).transpose()
    }

    /// Binds the ports.
    fn prepare(network: &Network) -> Result<Self, Failure> {
        let program = std::fs::read_link("/proc/self/exe")
            .map_err(|error| Failure::Internal("proxy", format!("/proc/self/exe: {error}")))?;
        let [http, socks] = upstream::own_ports(network, &upstream::is_served);
        let http = Port::bind(http, "httpProxyPort")?;
        let socks = Port::bind(socks, "socksProxyPort")?;
        let own = [Some(http.number), Some(socks.number)];
        let upstreams = upstream::choose(network, own, &upstream::is_served)?;
        Ok(Self {
            // Beside the broker, never through PATH or a working directory.
            program: program.with_file_name("landstrip-proxy"),
            setup: setup(network, &upstreams)?,
            http,
            socks,
            callers: network.callers.clone(),
            direct: direct(network),
            link: Mutex::new(Link::new().map_err(|errno| Failure::system("proxy", errno))?),
        })
    }

    /// Where the command may connect to.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        [&self.http, &self.socks].map(Port::address).to_vec()
    }

    /// Starts the proxy if it does not run, and tells it that `socket`, which was just connected to
    /// `endpoint`, is the sandbox's. Without effect for other endpoints.
    ///
    /// The connection waits in the listening socket's queue until the proxy takes it.
    ///
    /// # Errors
    /// Returns [`Errno::CONNREFUSED`] if the proxy cannot be started.
    pub(crate) fn admit(
        &self,
        endpoint: &Endpoint,
        socket: &impl AsFd,
        traps: &Traps,
    ) -> io::Result<()> {
        let Endpoint::Internet(peer) = endpoint else { return Ok(()) };
        if !self.addresses().contains(&canonical(*peer)) {
            return Ok(());
        }
        let local = net::getsockname(socket).and_then(SocketAddr::try_from).map(canonical);
        let Ok(SocketAddr::V4(local)) = local else { return Err(Errno::CONNREFUSED) };
        let control = {
            let mut link = self.link();
            if let Some(theirs) = link.theirs.take() {
                self.start(&link.control, theirs).map_err(|error| {
                    let program = self.program.display();
                    let message = format!("{program} cannot be started: {error}");
                    Failure::Internal("proxy", message).print();
                    Errno::CONNREFUSED
                })?;
            }
            Arc::clone(&link.control)
        };
        let packet = Admit(local).encode();
        let sent = io::retry_on_intr(|| net::send(&control, &packet, SendFlags::NOSIGNAL));
        sent.map(drop).map_err(|errno| {
            traps.log(&format!("the proxy takes no connection: {errno}"));
            Errno::CONNREFUSED
        })
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, control: &OwnedFd, theirs: OwnedFd) -> std::io::Result<()> {
        let sockets = [self.http.listener.as_fd(), self.socks.listener.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&sockets)) {
            return Err(Errno::MSGSIZE.into());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        net::sendmsg(control, &[IoSlice::new(&self.setup)], &mut ancillary, flags)?;
        // The standard library gives the child an empty signal mask. It is reaped with all others.
        Command::new(&self.program)
            .env_clear()
            .current_dir(Path::new("/"))
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map(drop)
    }

    /// What to poll for: the proxy's words, and its end.
    pub(crate) fn control(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.link().control)
    }

    /// Takes what the proxy says. If it has ended, the next connection starts another.
    ///
    /// # Errors
    /// Returns what socketpair(2) returns.
    pub(crate) fn attend(&self, traps: &Traps) -> io::Result<()> {
        let control = self.control();
        if receive(&control, traps).is_err() {
            traps.log("the proxy has ended");
            *self.link() = Link::new()?;
            // Those that it has not taken would wait for ever.
            for port in [&self.http, &self.socks] {
                while port.listener.accept().is_ok() {}
            }
        }
        Ok(())
    }

    /// The command's environment: the proxies in the words of the common tools, and no password of
    /// the caller's. Of the caller's own words only those are kept whose variable passes.
    pub(crate) fn environment(&self, passes: &dyn Fn(&OsStr) -> bool) -> Vec<Change> {
        let secret = upstream::variables_with_secrets(&self.callers, std::env::vars_os());
        let inherited = |name: &str| {
            let is_secret = secret.iter().any(|variable| variable == name);
            std::env::var_os(name).filter(|_| !is_secret && passes(OsStr::new(name)))
        };
        let ports = [self.http.number, self.socks.number];
        let set = environment(ports, &self.program, &self.direct, &inherited);
        // What is removed and set as well is set.
        let removed = secret.iter().map(|name| (name.clone().into(), None));
        removed.chain(set).collect()
    }
}

impl Port {
    fn bind(number: Option<u16>, field: &str) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number.unwrap_or(0)));
        let bound = listener.and_then(|listener| {
            // For the proxy, which has the same open file description.
            listener.set_nonblocking(true)?;
            let number = listener.local_addr()?.port();
            Ok(Self { listener, number })
        });
        bound.map_err(|error| {
            let port = number.map_or("a free port".to_owned(), |number| {
                format!("port {number}, as network.{field} or the environment says,")
            });
            Failure::Internal("proxy", format!("{port} cannot be bound on 127.0.0.1: {error}"))
        })
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// Reports what the proxy refused; an error says that it has ended, or has to.
fn receive(control: &OwnedFd, traps: &Traps) -> io::Result<()> {
    for _ in 0..REFUSALS_MAX {
        let mut packet = [0; Refused::MAX + 1];
        match net::recv(control, &mut packet, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(Errno::PIPE),
            Ok((length, _)) => {
                let refused = Refused::decode(&packet[..length]).map_err(|_| Errno::BADMSG)?;
                let port = format!(":{}", refused.port);
                let target = [refused.host, port.as_bytes()].concat();
                traps.report(Denial::Domain(target), "domain rules");
            }
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The hosts that the command reaches itself, where it may run servers: there the proxy refuses what
/// no rule names. What a rule names is reached through the proxy.
fn direct(network: &Network) -> Vec<&'static str> {
    let is_named = |host: &str| {
        network.allowed_domains.iter().any(|rule| {
            let (named, _) = common::domain::split_port(rule);
            named.trim_matches(['[', ']']).eq_ignore_ascii_case(host)
        })
    };
    let hosts = ["localhost", "127.0.0.1", "::1"].into_iter();
    hosts.filter(|host| network.allow_local_binding && !is_named(host)).collect()
}

/// A variable to set or to remove.
pub(crate) type Change = (Cow<'static, OsStr>, Option<OsString>);

/// Borrows an environment for the plan.
pub(crate) fn borrow(changes: &[Change]) -> Vec<Variable<'_>> {
    changes.iter().map(|(name, value)| (&**name, value.as_deref())).collect()
}

/// The variables to set and to remove.
///
/// ALL_PROXY names the HTTP proxy: CONNECT carries every protocol over TCP as well, and clients
/// that know no SOCKS fail over such a URL instead of ignoring it (Python's httpx, for one).
fn environment(
    [http, socks]: [u16; 2],
    program: &Path,
    direct: &[&str],
    inherited: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<Change> {
    const HTTP: [&str; 12] = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
        "npm_config_proxy",
        "npm_config_https_proxy",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
        "PIP_PROXY",
        "CARGO_HTTP_PROXY",
    ];
    const SOCKS: [&str; 2] = ["SOCKS_PROXY", "socks_proxy"];
    const DIRECT: [&str; 3] = ["NO_PROXY", "no_proxy", "npm_config_noproxy"];

    let http_url = OsString::from(format!("http://127.0.0.1:{http}"));
    let socks_url = OsString::from(format!("socks5h://127.0.0.1:{socks}"));
    let mut changes: Vec<(&'static str, Option<OsString>)> = Vec::new();
    changes.extend(HTTP.map(|name| (name, Some(http_url.clone()))));
    changes.extend(SOCKS.map(|name| (name, Some(socks_url.clone()))));
    let list = (!direct.is_empty()).then(|| OsString::from(direct.join(",")));
    changes.extend(DIRECT.map(|name| (name, list.clone())));
    changes.push(("NODE_USE_ENV_PROXY", Some("1".into())));

    let mut ssh = inherited("GIT_SSH_COMMAND").unwrap_or_else(|| "ssh".into());
    ssh.push(" -o ");
    ssh.push(ssh_option(program, socks));
    changes.push(("GIT_SSH_COMMAND", Some(ssh)));

    let mut java = inherited("JAVA_TOOL_OPTIONS").unwrap_or_default();
    if !java.is_empty() {
        java.push(" ");
    }
    java.push(format!(
        "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={http} -Dhttps.proxyHost=127.0.0.1 \
         -Dhttps.proxyPort={http} -Dhttp.nonProxyHosts={}",
        direct.join("|").replace("::1", "[::1]")
    ));
    changes.push(("JAVA_TOOL_OPTIONS", Some(java)));
    changes.into_iter().map(|(name, value)| (OsStr::new(name).into(), value)).collect()
}

/// `ProxyCommand=...` in quotes for the shell that git starts; inside, ssh replaces `%` words and
/// starts a shell of its own (ssh_config(5)).
fn ssh_option(program: &Path, socks: u16) -> OsString {
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let program = program.to_string_lossy().replace('%', "%%");
    quote(&format!("ProxyCommand={} --connect {socks} %h %p", quote(&program))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(direct: &[&str], inherited: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        let find = |name: &str| {
            inherited.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        environment([3128, 1080], Path::new("/opt/it's/landstrip-proxy"), direct, &find)
            .into_iter()
            .map(|(name, value)| (name.into_owned(), value))
            .map(|(name, value)| {
                (name.into_string().unwrap(), value.map(|v| v.into_string().unwrap()))
            })
            .collect()
    }

    #[test]
    fn every_tool_is_told_in_its_own_words() {
        let variables =
            variables(&[], &[("JAVA_TOOL_OPTIONS", "-Xmx1g"), ("GIT_SSH_COMMAND", "ssh -v")]);
        let value = |name: &str| {
            let found = variables.iter().find(|(key, _)| key == name);
            found.unwrap_or_else(|| panic!("{name} is not changed")).1.clone()
        };
        for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "PIP_PROXY", "CARGO_HTTP_PROXY"] {
            assert_eq!(value(name).as_deref(), Some("http://127.0.0.1:3128"), "{name}");
        }
        assert_eq!(value("socks_proxy").as_deref(), Some("socks5h://127.0.0.1:1080"));
        assert_eq!(value("NO_PROXY"), None);
        assert!(value("JAVA_TOOL_OPTIONS").unwrap().starts_with("-Xmx1g -Dhttp.proxyHost="));
        assert!(value("GIT_SSH_COMMAND").unwrap().starts_with("ssh -v -o 'ProxyCommand="));
    }

    #[test]
    fn servers_of_the_command_are_reached_directly_unless_a_rule_names_them() {
        let of = |allow_local_binding, rules: &[&str]| {
            let allowed_domains = rules.iter().map(|rule| (*rule).to_owned()).collect();
            direct(&Network { allow_local_binding, allowed_domains, ..Network::default() })
        };
        assert_eq!(of(false, &["a.test"]), [""; 0]);
        assert_eq!(of(true, &["a.test"]), ["localhost", "127.0.0.1", "::1"]);
        assert_eq!(of(true, &["LocalHost:80", "[::1]:80"]), ["127.0.0.1"]);
        let variables = variables(&["localhost", "::1"], &[]);
        let value = |name: &str| {
            variables.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.clone())
        };
        assert_eq!(value("no_proxy").as_deref(), Some("localhost,::1"));
        let java = value("JAVA_TOOL_OPTIONS").unwrap();
        assert!(java.ends_with(" -Dhttp.nonProxyHosts=localhost|[::1]"), "{java}");
    }

    #[test]
    fn the_proxy_command_survives_two_shells() {
        let option = ssh_option(Path::new("/opt/it's 100%/landstrip-proxy"), 1080);
        let script = format!("printf %s {}", option.to_str().unwrap());
        let shell = |script: &str| {
            let output = Command::new("sh").args(["-c", script]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let first = shell(&script);
        let command = first.strip_prefix("ProxyCommand=").unwrap();
        let second = shell(&format!("printf '<%s>' {}", command.replace("%%", "%")));
        assert_eq!(second, "</opt/it's 100%/landstrip-proxy><--connect><1080><%h><%p>");
    }
}
