//! What to do where a tool cannot be executed.

use crate::explain::parts;
use common::wire::Step;
use kernel::features::{self, Features};
use landstrip_core::report::errno::strerror;
use landstrip_core::report::failure::Failure;
use landstrip_core::session::prepared::Prepared;
use policy::presets;
use rules::pattern::Pattern;
use rules::policy::{Needs, Network, Policy};
use rules::proxies::{CallerProxies, CallerProxy};
use rustix::io::Errno;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What to do about a tool that cannot be executed, or in words that a user can act on why a step before that failed.
pub fn about(failure: &Failure) -> Option<Cow<'static, str>> {
    match failure {
        Failure::Launch(tool, errno, _) => about_tool(tool, *errno).map(Cow::from),
        Failure::Step(step, errno) => Some(about_step(*step, *errno, None).into()),
        Failure::Lacking(missing) => {
            Some(format!("this kernel cannot confine the command: {}", parts::why(missing)).into())
        }
        // Which of the two is told depends on who comes first.
        Failure::Died | Failure::Internal(..) if has_children_elsewhere() => Some(
            ": start landstrip in the PID namespace of its children, as by unshare --fork".into(),
        ),
        _ => None,
    }
}

/// Whether what this process starts is in another PID namespace than itself (pid_namespaces(7)).
fn has_children_elsewhere() -> bool {
    let read = |name| fs::read_link(Path::new("/proc/self/ns").join(name)).ok();
    read("pid") != read("pid_for_children")
}

fn about_tool(tool: &[u8], errno: Errno) -> Option<&'static str> {
    let path = Path::new(OsStr::from_bytes(tool));
    match (errno, path.metadata()) {
        (Errno::NOENT, _) if !tool.contains(&b'/') => Some(about_name(tool)),
        (Errno::NOENT, Ok(_)) => {
            Some(": the file exists, but the interpreter of its '#!' line or its loader does not")
        }
        (Errno::NOENT, Err(_)) if tool.starts_with(b"~") || tool.starts_with(b"$") => {
            Some(": a shell expands '~' and '$', and neither in quotes")
        }
        (Errno::NOENT, Err(_)) if tool.iter().any(is_of_shell) => Some(FOR_SHELL),
        (Errno::ACCESS, Ok(found)) if found.is_dir() => Some(": it is a directory"),
        (Errno::ACCESS, Ok(found)) if found.mode() & 0o111 == 0 => {
            Some(": it is not executable; chmod +x, or put its interpreter before it")
        }
        (Errno::NOEXEC, _) => Some(
            ": it is no program; a script starts with '#!' and its interpreter, or is run as sh FILE",
        ),
        _ => None,
    }
}

const FOR_SHELL: &str =
    ": give the tool and each argument as a separate word, or write sh -c '...'";

/// What to write in the place of a name that is no program's.
fn about_name(tool: &[u8]) -> &'static str {
    const BUILT_IN: [&[u8]; 9] =
        [b"alias", b"cd", b"eval", b"exec", b"export", b"set", b"source", b"ulimit", b"umask"];
    const OPTIONS: [&[u8]; 6] = [b"check", b"doctor", b"explain", b"help", b"learn", b"version"];
    match tool {
        b"" => ": the tool is an empty word",
        b"run" => ": landstrip has no subcommands; the tool follows the options",
        _ if str::from_utf8(tool).is_ok_and(|name| presets::find(name).is_ok()) => {
            ": it is a preset, written after -p"
        }
        _ if OPTIONS.contains(&tool) => {
            ": it is an option, written with two dashes; see landstrip --help"
        }
        _ if BUILT_IN.contains(&tool) => ": it is a shell builtin; write sh -c '...'",
        _ if tool.iter().any(is_of_shell) => FOR_SHELL,
        _ if tool.contains(&b'=') => ": to set a variable, write env NAME=VALUE tool",
        _ if tool.starts_with(b"-") => ": options go before '--', and the tool after it",
        _ if Path::new(OsStr::from_bytes(tool)).exists() => {
            ": it is in the working directory, not in PATH; write ./ before it"
        }
        _ => ": it was not found in PATH",
    }
}

fn is_of_shell(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || b"|;&<>".contains(byte)
}

/// Whether signals are the broker's to judge.
fn lacks_scopes() -> bool {
    Features::probe().is_ok_and(|features| !features.contains(Features::SCOPES))
}

/// The step of the child in words that a user can act on; of another sandbox, by what the `policy` says, if it is known.
pub(crate) fn about_step(step: Step, errno: Errno, policy: Option<&Written<'_>>) -> String {
    let reason = match (step, errno) {
        (Step::Filter, Errno::BUSY) => {
            let reason = "a seccomp listener exists already (of another supervisor, or as on WSL2)";
            return format!("{reason}{}", inside_another(policy));
        }
        (Step::Filter, Errno::PERM) => {
            let reason = "landstrip is inside another sandbox already, such as another landstrip";
            return format!("{reason}{}", inside_another(policy));
        }
        (Step::Filter, Errno::INVAL | Errno::NOSYS) => match features::missing_of_notification() {
            Some(missing) => return format!("this kernel lacks {missing}"),
            None => "the filter could not be installed",
        },
        (Step::Filter, _) => "the filter could not be installed",
        (Step::Restrict, Errno::TOOBIG) => "too many Landlock domains are nested already",
        (Step::Restrict, _) => "the Landlock domain could not be entered",
        (Step::Plan, _) => "the plan did not arrive",
        (Step::Environment, _) => "there is no memory for the environment",
        (Step::Execute, _) => "the tool could not be executed",
    };
    format!("{reason}: {}", strerror(errno))
}

/// What to do where another sandbox lets nothing inside of it watch system calls.
fn inside_another(policy: Option<&Written<'_>>) -> String {
    if lacks_scopes() {
        return ", and this kernel cannot confine signals by itself (Linux 6.12 can)".to_owned();
    }
    let Some(written) = policy else {
        return ": set enableWeakerNestedSandbox: true in the policy".to_owned();
    };
    match &*written.in_the_way_of_weaker() {
        // What is left is a pipe that the caller reads as well.
        [] if !written.needs_broker() => {
            ": start it with </dev/null, or set enableWeakerNestedSandbox: true in the policy"
                .to_owned()
        }
        [] => {
            let variables = written.variables_in_the_way();
            let instead = ": set enableWeakerNestedSandbox: true in the policy";
            match variables.is_empty() {
                true => instead.to_owned(),
                false => format!("{instead}, or unset {}", variables.join(", ")),
            }
        }
        names if written.policy.weaker_nested => {
            format!(": with enableWeakerNestedSandbox the policy cannot have {}", names.join(", "))
        }
        names => format!(
            ": set enableWeakerNestedSandbox: true in the policy, which then cannot have {}",
            names.join(", ")
        ),
    }
}

/// A policy without what landstrip adds to it.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) deny_read: &'a [Pattern],
    /// Whether it lets anything be written.
    pub(crate) writes: bool,
}

impl<'a> Written<'a> {
    /// The policy of `prepared`, without what was added.
    pub(crate) fn of(prepared: &'a Prepared, writes: bool) -> Self {
        let Prepared { policy, written, .. } = prepared;
        let deny_read = policy.files.deny_read.get(..written.1).unwrap_or_default();
        Self { policy, deny_read, writes }
    }

    /// Why no tool would run in the sandbox that this process is in, if it is in one.
    pub(crate) fn why_not_here(&self) -> Option<String> {
        let is_left = self.policy.weaker_nested && self.in_the_way_of_weaker().is_empty();
        let has_to_watch = lacks_scopes() || self.needs_broker() && !is_left;
        let errno = has_to_watch.then(features::try_listener)?.err()?;
        [Errno::BUSY, Errno::PERM]
            .contains(&errno)
            .then(|| about_step(Step::Filter, errno, Some(self)))
    }

    /// Whether it has something that needs a broker wherever it is enforced, except with `enableWeakerNestedSandbox`.
    fn needs_broker(&self) -> bool {
        self.needs_broker_with(&self.policy.network)
    }

    fn needs_broker_with(&self, network: &Network) -> bool {
        let reads_all = self.deny_read.is_empty() && !self.policy.files.hides_processes;
        self.writes || !reads_all || Needs::of(network).addresses
    }

    /// The caller's variables that alone are why it needs a broker: they open the ports of proxies, as landstrip's own.
    fn variables_in_the_way(&self) -> Vec<String> {
        let network = &self.policy.network;
        let without = Network { http_proxy_port: None, socks_proxy_port: None, ..network.clone() };
        if self.needs_broker_with(&without) {
            return Vec::new();
        }
        let CallerProxies { http, socks, .. } = &network.callers;
        let ports = [(http, network.http_proxy_port), (socks, network.socks_proxy_port)];
        let is_theirs = |(caller, port): &(&Option<CallerProxy>, Option<u16>)| {
            port.is_some() && caller.as_ref().and_then(CallerProxy::loopback_port) == *port
        };
        let theirs = ports.iter().filter(|port| is_theirs(port));
        let names = theirs.filter_map(|(caller, _)| Some(caller.as_ref()?.variable));
        // Without the one that counts the other would.
        let both = names.flat_map(|name| [name.to_uppercase(), name.to_lowercase()]);
        both.filter(|name| std::env::var_os(name).is_some()).collect()
    }

    /// What of it nobody would hold the command to, or would refuse it altogether, where no system calls are watched.
    fn in_the_way_of_weaker(&self) -> Vec<&'static str> {
        let Policy { files, network, limits, .. } = self.policy;
        let is_inside = |rule: &Pattern| {
            let path = rule.as_path();
            path.is_some_and(|path| files.allow_write.iter().any(|root| path.starts_with(root)))
        };
        let denies_inside = self.deny_read.iter().any(is_inside);
        let all = [
            ("network.allowedDomains", Needs::of(network).hosts),
            ("network.allowLocalBinding", network.allow_local_binding),
            ("limits.processes", limits.processes.is_some()),
            ("processes: own", files.hides_processes),
            ("--ask", network.asks),
            ("filesystem.denyRead inside filesystem.allowWrite", denies_inside),
        ];
        all.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
    }
}
