//! What a policy demands of this platform, and whether it gives that.

use super::launch_channel::LaunchChannel;
use super::surroundings::Surroundings;
use crate::compile::notes::Notes;
use crate::report::errno::strerror;
use crate::report::failure::Failure;
use crate::report::traps::Traps;
use kernel::features::Features;
use kernel::identity::{hold, identity};
use rules::address::UnixRules;
use rules::policy::{Needs, Network, Policy};
use std::sync::Arc;

/// What follows from the policy and the platform, before anything is compiled.
#[derive(Debug)]
pub(crate) struct Demands {
    /// What it says of Unix sockets.
    pub(super) unix: UnixRules,
    /// Whether nothing can be run without a broker.
    pub(super) needs_broker: bool,
    /// Without one, what only it could decide is left to the sandbox around, as far as that can be.
    pub(super) may_leave: bool,
}

impl Demands {
    /// Those of `policy`.
    ///
    /// # Errors
    /// Returns [`Failure::Internal`] if the platform does not let the broker do its part.
    pub(crate) fn of(
        policy: &Policy,
        (child, surroundings): (&LaunchChannel, &Surroundings),
        traps: &Traps,
        notes: &mut Notes,
    ) -> Result<Self, Failure> {
        // A caller that cannot be looked at is outside of the sandbox around, if there is one, which sees to that pipe.
        let shares = surroundings.shared_input.is_some() && child.shares_input == Some(true);
        // Without scopes every policy needs it, for signals.
        let has_scopes = surroundings.features.contains(Features::SCOPES);
        let needs_broker = !has_scopes || shares || needs_broker(policy);
        if needs_broker {
            child.must_be_readable()?;
        }
        let mut unix = unix_rules(&policy.network, notes, (child, surroundings), traps);
        if surroundings.streams_send {
            child.can_take_descriptors().map_err(|errno| {
                let message = "a standard stream is a datagram socket, and the platform does not let \
                               its messages be judged (pidfd_getfd";
                Failure::Internal("surroundings", format!("{message}: {})", strerror(errno)))
            })?;
            (unix.datagrams, unix.streams_send) = (true, true);
        }
        let kept = cannot_be_left(policy, surroundings).filter(|_| policy.weaker_nested);
        if let Some(what) = kept {
            notes.warn(format!(
                "enableWeakerNestedSandbox changes nothing: {what} cannot be left to another sandbox"
            ));
        }
        let may_leave = policy.weaker_nested && kept.is_none() && has_scopes;
        Ok(Self { unix, needs_broker, may_leave })
    }
}

/// Whether the policy gives the command something that Landlock, and a filter that refuses all that the broker
/// would have to judge, do not. What may be written may have its metadata changed, which Landlock does not know;
/// a directory on the way to what may not be read is listed by the broker; and it alone can tell one socket
/// address from another, and one process from another, and count them.
fn needs_broker(policy: &Policy) -> bool {
    let files = &policy.files;
    !files.allow_write.is_empty()
        || files.grow
        || !files.deny_read.is_empty()
        || files.hides_processes
        || policy.limits.processes.is_some()
        || Needs::of(&policy.network).addresses
}

/// What of the policy Landlock would refuse where the broker does not do it, or nobody would hold the command to.
fn cannot_be_left(policy: &Policy, surroundings: &Surroundings) -> Option<&'static str> {
    let (network, needs) = (&policy.network, Needs::of(&policy.network));
    let leads = surroundings.streams_lead && needs.sockets && !network.allow_network;
    [
        ("a socket as a standard stream", leads),
        ("a list of hosts", needs.hosts),
        ("network.allowLocalBinding", network.allow_local_binding),
        ("--ask", network.asks),
        ("limits.processes", policy.limits.processes.is_some()),
        ("processes: own", policy.files.hides_processes),
    ]
    .into_iter()
    .find_map(|(what, is_there)| is_there.then_some(what))
}

/// What the policy says of Unix sockets, and whether datagram sockets can be among them: the broker
/// sends their messages, for which it must be let at the command's descriptors.
///
/// Without Landlock's scope they reach abstract names too, so that the broker sends them in any case.
fn unix_rules(
    network: &Network,
    notes: &mut Notes,
    (child, surroundings): (&LaunchChannel, &Surroundings),
    traps: &Traps,
) -> UnixRules {
    let all = network.allow_all_unix_sockets;
    let paths = network.allow_unix_sockets.clone();
    let reach_abstract = !surroundings.features.contains(Features::SCOPES);
    let own = Needs::of(network).own_servers;
    let listed = if all { reach_abstract } else { network.lists_datagrams };
    let mut datagrams = own || listed;
    if datagrams && let Err(errno) = child.can_take_descriptors() {
        datagrams = false;
        let field = if listed { "allowUnixSockets" } else { "allowLocalBinding" };
        let warning = format!(
            "{field}: datagram sockets stay refused, because this platform lets no descriptor be \
             duplicated (pidfd_getfd: {})",
            strerror(errno)
        );
        traps.log(&warning);
        notes.warn(warning);
    }
    let known = paths.iter().filter_map(|path| hold(path).ok());
    let known = known.map(|(object, stat)| (identity(&stat), object)).collect();
    UnixRules { all, paths, known: Arc::new(known), datagrams, streams_send: false, reach_abstract }
}
