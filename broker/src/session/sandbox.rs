//! From the options to a running sandbox: load, protect, compile, launch, serve.

use super::control::Control;
use super::run;
use super::scratch::Scratch;
use super::supervise::{Family, Signals};
use crate::answer::answer::Judges;
use crate::cli;
use crate::compile::{datagrams, files, filter, plan, protect};
use crate::domains::proxy::{self, Proxy};
use crate::kernel::target;
use crate::policy::callers::Caller;
use crate::policy::remarks::Remarks;
use crate::policy::resolve::{Network, Policy};
use crate::report::denials::Traps;
use crate::report::errno::strerror;
use crate::report::failure::Failure;
use crate::report::stream::Stream;
use crate::rules::address::{AddressRules, UnixRules};
use landstrip_filter::Variant;
use rustix::fd::{AsFd, RawFd};
use rustix::io::Errno;
use rustix::process::{self, Resource, Rlimit};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A policy compiled for this kernel.
#[derive(Debug)]
pub(crate) struct Sandbox {
    judges: Arc<Judges>,
    traps: Arc<Traps>,
    remarks: Remarks,
    /// Removed when this is dropped, after everything in the sandbox has ended.
    scratch: Option<Scratch>,
}

impl Sandbox {
    /// Loads and compiles what `invocation` names. If the child is to run, the filter goes there as soon
    /// as it is known: installing it takes as long as compiling the rest.
    ///
    /// # Errors
    /// Returns the [`Failure`] of the first step that cannot be done: nothing has run then.
    pub(crate) fn compile(
        invocation: &cli::Invocation,
        child: &Control,
        runs: bool,
    ) -> Result<Self, Failure> {
        raise_descriptor_limit();
        let stream = invocation.trap_fd.map(take_over_stream).transpose()?;
        let caller = Caller::of_process()?;
        let (mut policy, mut remarks) = Policy::load(&invocation.policies, &caller)?;

        let proxy = match (proxy::is_wanted(&policy.network), runs) {
            (false, _) => None,
            (true, true) => Some(Proxy::prepare(&policy.network)?),
            (true, false) => {
                proxy::check(&policy.network)?.iter().for_each(|text| remarks.warn(text));
                None
            }
        };

        let traps = Arc::new(Traps::new(stream, invocation.debug));
        let unix = unix_rules(&policy, &mut remarks, child, &traps);
        let allow_network = policy.network.allow_network;
        if runs {
            let variant = variant(&policy, &unix);
            let alone = match needs_no_broker(&policy) {
                true => filter::program(variant | Variant::ALONE),
                false => &[],
            };
            let packet = plan::encode_filter(unix.datagrams, filter::program(variant), alone)
                .map_err(|_| Failure::Internal("filter", "it is too long".to_owned()))?;
            child
                .send_filter(&packet)
                .map_err(|errno| Failure::system("send the filter", errno))?;
        }

        let scratch = policy.built_in.then(|| make_scratch(&mut policy)).transpose()?;
        let policy = protect::protect(policy, &mut remarks, &caller)?;
        let (view, ruleset) = files::compile(&policy.files, !allow_network)?;
        let ports = [policy.network.http_proxy_port, policy.network.socks_proxy_port];
        Ok(Self {
            judges: Arc::new(Judges {
                addresses: AddressRules {
                    allow_network,
                    // With domains these ports are landstrip's own, on one address only.
                    loopback_ports: match proxy {
                        None => ports.into_iter().flatten().collect(),
                        Some(_) => Vec::new(),
                    },
                    proxies: proxy.as_ref().map(Proxy::addresses).unwrap_or_default(),
                    local_binding: policy.network.allow_local_binding,
                    unix,
                },
                proxy,
                view,
                ruleset,
            }),
            traps,
            remarks,
            scratch,
        })
    }

    /// What is worth knowing before a run, a line each.
    pub(crate) fn check(&self) -> String {
        let mut remarks = self.remarks.clone();
        for path in sorted(self.judges.view.grants.unlistable.keys()) {
            remarks.note(format!(
                "what is new in {path} cannot be read: something in it must not be read"
            ));
        }
        if self.judges.view.grants.brokers_reads {
            remarks.note(
                "the broker opens every file that is read: something may not be read inside what \
                 may be written",
            );
        }
        if self.judges.addresses.unix.datagrams {
            remarks.note(
                "the broker sends every message that can have an address: a datagram socket is \
                 listed in allowUnixSockets",
            );
        }
        let lines = remarks.lines().iter().map(String::as_str);
        lines.chain(["the policy can be enforced\n"]).collect::<Vec<_>>().join("\n")
    }

    /// Has the child execute the tool, `arguments[tool]`, and serves it until it has ended.
    ///
    /// # Errors
    /// Returns the [`Failure`] because of which the tool did not run or had to be ended.
    pub(crate) fn run(
        &self,
        arguments: &[OsString],
        tool: usize,
        mut control: Control,
        signals: &Signals,
        family: &mut Family,
    ) -> Result<i32, Failure> {
        let name = arguments.get(tool).cloned().unwrap_or_default();
        let candidates = plan::candidates(&name, std::env::var_os("PATH").as_deref());
        if candidates.is_empty() {
            return Err(Failure::Launch(name.as_bytes().to_vec(), Errno::NOENT));
        }
        let temporary = self.scratch.as_ref().map(|scratch| scratch.path().as_os_str());
        let proxies = self.judges.proxy.as_ref().map(Proxy::environment).unwrap_or_default();
        let mut environment = proxy::borrow(&proxies);
        environment.extend(temporary.map(|path| (OsStr::new("TMPDIR"), Some(path))));
        let packet = plan::encode(tool, &candidates, &environment)
            .map_err(|_| Failure::Internal("plan", "PATH is too long".to_owned()))?;
        control
            .send_plan(packet, self.judges.ruleset.as_fd(), self.judges.addresses.unix.datagrams)
            .map_err(|errno| Failure::system("send the plan", errno))?;
        let chore = self.scratch.as_ref().map(|scratch| || scratch.remove_stale_ones());
        let tool = name.as_bytes();
        run::until_end(control, signals, family, &self.judges, &self.traps, tool, chore)
    }

    /// Prints the collected denials of a command that ended with `status`.
    pub(crate) fn report(&self, status: i32) {
        self.traps.print(status != 0);
    }
}

fn take_over_stream(number: RawFd) -> Result<Stream, Failure> {
    Stream::take_over(number)
        .map_err(|_| Failure::Usage(format!("--trap-fd {number} is not open for writing")))
}

/// Each call under way takes descriptors, and so does what is held. The command was forked before and
/// keeps its limit.
fn raise_descriptor_limit() {
    let limit = process::getrlimit(Resource::Nofile);
    // Without it fewer calls can be under way at once.
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Whether Landlock, and a filter that refuses all that the broker would have to judge, give the
/// command everything that the policy does. What may be written may have its metadata changed, which
/// Landlock does not know; a directory on the way to what may not be read is listed by the broker;
/// and it alone can tell one socket address from another.
fn needs_no_broker(policy: &Policy) -> bool {
    let files = &policy.files;
    files.allow_write.is_empty() && files.deny_read.is_empty() && !uses_network(&policy.network)
}

/// Whether there are addresses that the command may use.
fn uses_network(network: &Network) -> bool {
    let ports = [network.http_proxy_port, network.socks_proxy_port];
    network.allow_network
        || network.allow_local_binding
        || network.allow_all_unix_sockets
        || !network.allow_unix_sockets.is_empty()
        || ports.iter().any(Option::is_some)
        || proxy::is_wanted(network)
}

/// The filter that this policy needs.
fn variant(policy: &Policy, unix: &UnixRules) -> Variant {
    let network = &policy.network;
    let makes_sockets = uses_network(network) && target::duplicates_are_refused();
    [
        (Variant::ALLOW_NETWORK, network.allow_network),
        (Variant::REPORT_READS, !policy.files.deny_read.is_empty()),
        (Variant::LOCAL_BINDING, network.allow_local_binding),
        (Variant::ALL_UNIX_SOCKETS, unix.all),
        (Variant::UNIX_DATAGRAMS, unix.datagrams),
        (Variant::MAKES_SOCKETS, makes_sockets),
    ]
    .into_iter()
    .filter_map(|(flag, is_set)| is_set.then_some(flag))
    .collect()
}

/// What the policy says of Unix sockets, and whether datagram sockets can be among them: the broker
/// sends their messages, for which it must be let at the command's descriptors.
fn unix_rules(policy: &Policy, remarks: &mut Remarks, child: &Control, traps: &Traps) -> UnixRules {
    let all = policy.network.allow_all_unix_sockets;
    let paths = policy.network.allow_unix_sockets.clone();
    let mut datagrams = !all && datagrams::any_listens(&paths);
    if datagrams && let Err(errno) = child.can_take_descriptors() {
        datagrams = false;
        let warning = format!(
            "allowUnixSockets: datagram sockets stay refused, because this platform lets no \
             descriptor be duplicated (pidfd_getfd: {})",
            strerror(errno)
        );
        traps.log(&warning);
        remarks.warn(warning);
    }
    UnixRules { all, paths, datagrams }
}

fn make_scratch(policy: &mut Policy) -> Result<Scratch, Failure> {
    let parent = std::env::temp_dir();
    // Landlock rules and reports go by canonical paths.
    let parent = std::fs::canonicalize(&parent)
        .map_err(|error| Failure::Internal("TMPDIR", format!("{}: {error}", parent.display())))?;
    let scratch = Scratch::create(&parent)
        .map_err(|errno| Failure::Internal("TMPDIR", format!("{}: {errno}", parent.display())))?;
    policy.files.allow_write.push(scratch.path().to_owned());
    Ok(scratch)
}

fn sorted<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> impl Iterator<Item = std::path::Display<'a>> {
    let mut paths: Vec<_> = paths.into_iter().collect();
    paths.sort();
    paths.into_iter().map(|path| path.display())
}
