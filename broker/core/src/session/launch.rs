//! What the child is sent: the filter, then what to become.

use super::demands::Demands;
use super::launch_channel::LaunchChannel;
use super::surroundings::Surroundings;
use crate::answer::answers::Judges;
use crate::compile::{device_mounts, filter, plan};
use crate::domains::proxy::Proxy;
use crate::files::view::{Reads, View};
use crate::report::failure::Failure;
use crate::report::traps::Reports;
use common::wire;
use kernel::features::Features;
use kernel::{proc, target};
use landstrip_filter::Variant;
use routes::upstream;
use rules::address::UnixRules;
use rules::policy::{Needs, Network, Policy};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is to run: a word of landstrip's own arguments, with those that follow it.
#[derive(Debug)]
pub struct Tool<'a> {
    /// Its index in the argument vector.
    index: usize,
    name: &'a OsStr,
    /// With its own arguments.
    pub line: &'a [OsString],
    words: Words,
}

/// A variable of the command's to set or to remove.
pub type Change = (Cow<'static, OsStr>, Option<OsString>);

/// What programs are told of their sandbox, each in its own words: of the proxy and the temporary directory, if there
/// are any, and what the caller's variable of a name says, if the command gets that.
pub type Words = fn(Told<'_>, &dyn Fn(&str) -> Option<OsString>) -> Vec<Change>;

/// What they are told of.
#[derive(Debug)]
pub struct Told<'a> {
    pub network: &'a Network,
    pub proxy: Option<&'a Proxy>,
    pub temporary: Option<&'a Path>,
}

impl<'a> Tool<'a> {
    /// The tool that stands at `index` of `arguments`.
    pub fn of(arguments: &'a [OsString], index: usize, words: Words) -> Self {
        let name = arguments.get(index).map_or(OsStr::new(""), OsString::as_os_str);
        let line = arguments.get(index..).unwrap_or_default();
        Self { index, name, line, words }
    }

    /// This program itself, which finds in a variable what to do.
    pub fn this_program(words: Words) -> Result<Self, Failure> {
        let program =
            proc::own_program().map_err(|errno| Failure::system("/proc/self/exe", errno))?;
        // Its arguments do not matter.
        Ok(Self { index: 1, name: program.as_os_str(), line: &[], words })
    }

    /// As it was written.
    pub fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

/// What is notified though Landlock alone may decide about it.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    pub reads: bool,
    pub changes: bool,
}

impl Watched {
    /// By the reports that are wanted. What the rules came to on this machine, the view knows: where the broker has
    /// anything to do with reads, or with changes, all of those are notified. Without scopes, and where forks are
    /// counted, there is no filter that leaves changes alone.
    pub fn of(reports: Reports, judges: &Judges, features: Features) -> Self {
        let view = &judges.view;
        let leaves_files = matches!(reports, Reports::Network | Reports::Nothing);
        let counts_forks = judges.limits.as_ref().is_some_and(|limits| limits.counts_forks());
        let spares = leaves_files && features.contains(Features::SCOPES) && !counts_forks;
        Self {
            reads: reports == Reports::All || !view.leaves_reads(),
            changes: !(spares && view.leaves_changes()),
        }
    }
}

/// The filter that the policy needs.
#[derive(Debug)]
pub(super) struct Filter {
    variant: Variant,
    needs_broker: bool,
    /// Without a broker, calls are left to the sandbox around: `Some(true)` if those on sockets are as well.
    left: Option<bool>,
}

impl Filter {
    /// The one with which every denial can be reported.
    pub(super) fn of(policy: &Policy, demands: &Demands, surroundings: &Surroundings) -> Self {
        let Demands { unix, needs_broker, may_leave } = demands;
        let network = &policy.network;
        Self {
            variant: variant(policy, unix, surroundings),
            needs_broker: *needs_broker,
            left: may_leave.then(|| network.allow_network || Needs::of(network).sockets),
        }
    }

    /// The same without the notifications that serve unwanted reports alone.
    pub(super) fn quieter(&mut self, watched: Watched) {
        if !watched.reads && self.variant.contains(Variant::REPORT_READS) {
            self.variant.remove(Variant::REPORT_READS);
            self.variant.insert(Variant::LISTINGS);
        }
        if !watched.changes {
            self.variant.insert(Variant::CHANGES_LEFT);
        }
    }

    /// Leaves nothing to a sandbox around where Landlock lets more be read than the rules do. Returns what is left.
    pub(super) fn leave_less(&mut self, view: &View) -> Option<&'static str> {
        self.left = self.left.filter(|_| view.grants.reads != Reads::More);
        self.left.map(|sockets| match sockets {
            true => "modes, owners, times and attributes of files, writing to standard input, and Unix sockets",
            false => "modes, owners, times and attributes of files, and writing to standard input",
        })
    }

    /// Sends it.
    pub(super) fn send(&self, child: &LaunchChannel) -> Result<(), Failure> {
        let asking = filter::program(self.variant);
        let alone = match self.left {
            Some(sockets) => filter::leaving(self.variant, sockets),
            None if self.needs_broker => Vec::new(),
            None => filter::program(self.variant | Variant::ALONE),
        };
        // Then the program notifies sendmsg(2).
        let by_number = self.variant.contains(Variant::DATAGRAMS);
        let message = wire::Filter { by_number, program: &asking, alone: &alone };
        let mut packet = vec![0; wire::Filter::HEADER + asking.len() + alone.len()];
        let length = message.encode(&mut packet).map_err(|_| {
            Failure::Internal("filter", "the program exceeds the message size".to_owned())
        })?;
        packet.truncate(length);
        child.send(&packet, None).map_err(|errno| Failure::system("send the filter", errno))
    }
}

/// Tells the child to enter the domain and to execute `tool`.
///
/// # Errors
/// Returns [`Failure::Launch`] if `tool` has no name, else that of sending it.
pub(super) fn send_plan(
    child: &mut LaunchChannel,
    tool: &Tool<'_>,
    policy: &Policy,
    judges: &Judges,
) -> Result<(), Failure> {
    // As env(1): a PATH that is set counts.
    let callers = std::env::var_os("PATH");
    let path = policy.variables.value("PATH").or(callers.as_deref());
    let candidates = plan::candidates(tool.name, path);
    if candidates.is_empty() {
        return Err(Failure::Launch(tool.name().to_vec(), Errno::NOENT, String::new()));
    }
    let (proxy, temporary) = (judges.proxy.as_deref(), judges.view.temporary.as_deref());
    let environment = environment(policy, proxy, temporary, tool.words);
    let packet = plan::encode(tool.index, &candidates, &environment)
        .map_err(|_| Failure::Internal("plan", "PATH or environment.set is too long".to_owned()))?;
    child
        .send_plan(packet, judges.ruleset.as_fd(), judges.addresses.unix.datagrams)
        .map_err(|errno| Failure::system("send the plan", errno))
}

/// What is different in the command's environment from the caller's. What the policy sets counts most, then what
/// landstrip has to set. No password of the caller's for a proxy is in it.
pub fn environment(
    policy: &Policy,
    proxy: Option<&Proxy>,
    temporary: Option<&Path>,
    words: Words,
) -> Vec<Change> {
    let variables = &policy.variables;
    // Copying all of it takes its time at every launch.
    let callers = (!variables.pass_all()).then(std::env::vars_os).into_iter().flatten();
    let mut changes: BTreeMap<_, _> = callers
        .filter(|(name, value)| !variables.passes(name, value))
        .map(|(name, _)| (Cow::from(name), None))
        .collect();
    let secrets = proxy.map_or_else(|| upstream::useless_secrets(&policy.network), Proxy::secrets);
    let inherited = |name: &str| {
        let is_secret = secrets.iter().any(|secret| secret == name);
        std::env::var_os(name)
            .filter(|value| !is_secret && variables.passes(OsStr::new(name), value))
    };
    let told = words(Told { network: &policy.network, proxy, temporary }, &inherited);
    // What is removed and set as well is set.
    changes.extend(secrets.into_iter().map(|name| (Cow::from(name), None)));
    changes.extend(told);
    if let Some(temporary) = temporary {
        changes.insert(OsStr::new("TMPDIR").into(), Some(temporary.into()));
    }
    let set = variables.set().map(|(name, value)| (name.to_owned().into(), Some(value.to_owned())));
    changes.extend(set);
    changes.into_iter().collect()
}

/// The filter that this policy needs.
fn variant(policy: &Policy, unix: &UnixRules, surroundings: &Surroundings) -> Variant {
    let Surroundings { mounts, features, .. } = surroundings;
    let (files, network) = (&policy.files, &policy.network);
    // Where devices lie beneath what may be written, the broker tells them from what is made there.
    let report_reads = !files.deny_read.is_empty()
        || files.hides_processes
        || device_mounts::lie_in(&files.allow_write, mounts);
    let notes_forks = policy.limits.processes.is_some() || !features.contains(Features::SCOPES);
    let needs = Needs::of(network);
    // Also to be refused by the proxy, which is no address that the policy gives.
    let connects = needs.addresses || needs.refusals;
    [
        (Variant::ALLOW_NETWORK, network.allow_network),
        (Variant::REPORT_READS, report_reads),
        (Variant::LOCAL_BINDING, needs.own_servers),
        // Then the broker sends, to every path.
        (Variant::ALL_UNIX_SOCKETS, unix.all && !unix.reach_abstract && !unix.datagrams),
        (Variant::DATAGRAMS, unix.datagrams),
        (Variant::MAKES_SOCKETS, connects && target::duplicates_are_refused()),
        (Variant::NO_SCOPES, notes_forks),
        (Variant::NO_DEVICES, !features.contains(Features::DEVICES)),
        (Variant::NO_TRUNCATION, !features.contains(Features::TRUNCATION)),
    ]
    .into_iter()
    .filter_map(|(flag, is_set)| is_set.then_some(flag))
    .collect()
}
