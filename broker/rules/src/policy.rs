//! A resolved policy: all that a run is held to, as plain data. From text to this is the work of the policy's reader;
//! what is enforced follows from this alone.

use super::files::Files;
use super::proxies::CallerProxies;
use super::variables::Variables;
use std::path::PathBuf;

/// The policy in force, resolved against the file system and the environment as they were at launch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Policy {
    /// No policy file was found: the built-in default, which comes with a private TMPDIR.
    pub built_in: bool,
    pub files: Files,
    pub network: Network,
    /// What of the caller's environment the command gets.
    pub variables: Variables,
    pub limits: Limits,
    /// Nobody asks for reports of refused reads.
    pub unwatched_reads: bool,
    /// Where there is no listener, what only the broker could decide is left to the sandbox around.
    pub weaker_nested: bool,
    /// What is refused is kept for `--denials`.
    pub keeps_denials: bool,
    /// How long a question waits for its answer, if not as long as usual.
    pub ask_seconds: Option<u64>,
    /// What is refused without a report: words of it, by words of the command line.
    pub ignored: Vec<(String, Vec<String>)>,
    /// Nothing may not be read but what is kept for `--denials`.
    pub hides_denials_alone: bool,
    /// The canonical paths of the policy files in force, of those that another run would find, and of the symbolic
    /// links that lead to them: never writable.
    pub sources: Vec<PathBuf>,
}

/// What of the network may be used.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Network {
    pub allow_network: bool,
    pub allowed_domains: Vec<String>,
    pub denied_domains: Vec<String>,
    /// Names that may have private addresses.
    pub private_domains: Vec<String>,
    /// Lines as of /etc/hosts, for landstrip's proxies.
    pub hosts: Vec<String>,
    /// The policy's port, else that of a loopback HTTP_PROXY.
    pub http_proxy_port: Option<u16>,
    /// The policy's port, else that of a loopback SOCKS_PROXY.
    pub socks_proxy_port: Option<u16>,
    /// The proxies that the caller uses: landstrip's own may have to go through them.
    pub callers: CallerProxies,
    pub allow_local_binding: bool,
    /// Canonical paths of sockets, or of directories of sockets.
    pub allow_unix_sockets: Vec<PathBuf>,
    /// A datagram socket is among them, or in such a directory. It says whether the command can make some itself: the
    /// broker judges where each message goes.
    pub lists_datagrams: bool,
    pub allow_all_unix_sockets: bool,
    /// Somebody is asked about hosts that no rule names.
    pub asks: bool,
}

/// What the network's fields come to together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Hosts are named that are reached through landstrip's proxy, or somebody is asked about them.
    pub hosts: bool,
    /// A proxy is to refuse everything, because the command may reach no host. Most programs accept a
    /// proxy's refusal at once but retry name lookups for minutes, and only a proxy is told which host they
    /// want.
    pub refusals: bool,
    /// The command can come to have servers of its own.
    pub own_servers: bool,
    /// The policy has Unix sockets.
    pub sockets: bool,
    /// There are addresses that the command may use.
    pub addresses: bool,
}

impl Needs {
    /// Those of `network`.
    pub fn of(network: &Network) -> Self {
        let is_free = network.allow_network;
        // A proxy that the caller runs, unless hosts are named.
        let callers_port = network.http_proxy_port.is_some() || network.socks_proxy_port.is_some();
        let are_named = !(network.allowed_domains.is_empty() && network.denied_domains.is_empty());
        let hosts = !is_free && (are_named || network.asks && !callers_port);
        let reached = is_free || callers_port || hosts;
        let sockets = network.allow_all_unix_sockets || !network.allow_unix_sockets.is_empty();
        Self {
            hosts,
            refusals: !reached,
            own_servers: network.allow_local_binding || network.asks,
            sockets,
            addresses: reached || network.allow_local_binding || sockets,
        }
    }
}

/// What the command and all that it starts may use together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// In bytes.
    pub memory: Option<u64>,
    /// Processes and threads at a time.
    pub processes: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub wall_seconds: Option<u64>,
    /// Of each file, in bytes.
    pub file_size: Option<u64>,
}
