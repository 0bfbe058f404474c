//! What follows from a policy and could surprise: notes of `--check`.

use super::parts::PARTS;
use kernel::bound;
use kernel::features::Features;
use landstrip_core::answer::answers::Judges;
use landstrip_core::files::view::Reads;
use landstrip_core::report::traps::Reports;
use landstrip_core::session::launch::Watched;
use rules::policy::{Limits, Policy};
use std::path::PathBuf;

/// What follows from these rules and could surprise.
pub fn notes(judges: &Judges, policy: &Policy, reports: Reports, watched: Watched) -> Vec<String> {
    let mut notes = unlistable(judges);
    notes.extend(opened(judges.view.grants.reads).map(str::to_owned));
    let addresses = &judges.addresses;
    if addresses.unix.datagrams && !addresses.local_binding && !addresses.unix.paths.is_empty() {
        let text = "the broker sends every message that can have an address once there is a \
                    datagram socket: one is listed in allowUnixSockets";
        notes.push(text.to_owned());
    }
    let unix = &addresses.unix;
    let follows = !unix.all && (addresses.local_binding || !unix.paths.is_empty());
    if follows && !bound::is_told() {
        let text = "the kernel does not tell to which file a Unix socket is bound (CONFIG_UNIX_DIAG): those that \
                    the command binds itself are not reached";
        notes.push(text.to_owned());
    }
    notes.extend(unwatched(reports, watched));
    let held_limits = judges.limits.as_ref().map(|limits| limits.held_by_group());
    notes.extend(held(held_limits.unwrap_or_default(), &policy.limits));
    notes.extend(policy.limits.cpu_seconds.map(|_| {
        "limits.cpuSeconds is watched: the time of processes that ended without being waited for does not count"
            .to_owned()
    }));
    notes.extend(policy.ask_seconds.map(|seconds| {
        format!("ask.timeoutSeconds counts with --ask: what nobody answers within {seconds} s is refused")
    }));
    notes
}

/// Who holds the command to the limits that a control group can hold.
fn held((memory, processes): (bool, bool), limits: &Limits) -> impl Iterator<Item = String> {
    const BY_GROUP: &str = "is held by a control group of the run's own (cgroups(7)):";
    let memory = limits.memory.map(|_| match memory {
        true => format!(
            "limits.memory {BY_GROUP} files in a tmpfs and memory of the kernel count, and nothing is swapped out"
        ),
        false => "limits.memory is watched: the memory of processes counts, but not files in a tmpfs and memory of the \
             kernel, which a control group would count (cgroups(7)); none can be created here, and what is in use \
             for less than 0.1 s can go unnoticed"
            .to_owned(),
    });
    let processes = limits.processes.map(|_| match processes {
        true => format!("limits.processes {BY_GROUP} there are never more"),
        false => "limits.processes is watched, since no control group can be created here (cgroups(7)): forks at the \
             same time can exceed it before the run ends"
            .to_owned(),
    });
    memory.into_iter().chain(processes)
}

/// What comes of directories on the way to what may not be read: a line for those of a kind.
fn unlistable(judges: &Judges) -> Vec<String> {
    const SHOWN_MAX: usize = 3;
    let paths = sorted(judges.view.grants.unlistable.keys());
    let (writable, others): (Vec<_>, Vec<_>) =
        paths.partition(|path| judges.view.is_writable(path));
    let kinds = [
        (writable, "can be read, but not executed: an executable beneath must not be read"),
        (others, "cannot be read: something beneath must not be read"),
    ];
    let line = |(paths, what): (Vec<&PathBuf>, _)| {
        let named: Vec<_> =
            paths.iter().take(SHOWN_MAX).map(|path| path.display().to_string()).collect();
        let rest = match paths.len().saturating_sub(SHOWN_MAX) {
            0 => String::new(),
            rest => format!(" and {rest} more"),
        };
        (!named.is_empty()).then(|| format!("what is new in {}{rest} {what}", named.join(", ")))
    };
    kinds.into_iter().filter_map(line).collect()
}

/// What the broker opens where files are read.
fn opened(reads: Reads) -> Option<&'static str> {
    match reads {
        Reads::Exact => None,
        Reads::Less => Some(
            "the broker looks at every file that is read, and opens what is new at an allowed path that \
             is missing, or beside an executable that may not be read",
        ),
        Reads::More => Some(
            "the broker opens every file that is read: reading is denied inside what may be written, or \
             of processes outside",
        ),
    }
}

/// What is not reported, and whether that spares notifications.
fn unwatched(reports: Reports, watched: Watched) -> Option<String> {
    let what = match reports {
        Reports::All => return None,
        Reports::Changes => "refused reads",
        Reports::Network => "refusals on files",
        Reports::Nothing => "refusals",
    };
    let who = match (reports, watched) {
        (Reports::Changes, Watched { reads: false, .. }) | (_, Watched { changes: false, .. }) => {
            "Landlock alone decides about them, unwatched"
        }
        (Reports::Network | Reports::Nothing, Watched { reads: false, .. }) => {
            "the broker has to watch changes all the same"
        }
        _ => "the broker has to watch them all the same",
    };
    Some(format!("{what} are not reported; {who}"))
}

fn sorted<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> impl Iterator<Item = &'a PathBuf> {
    let mut paths: Vec<_> = paths.into_iter().collect();
    paths.sort();
    paths.into_iter()
}

/// Who takes the place of a part of Landlock.
const SUBSTITUTES: [(Features, &str); 4] = [
    (Features::TRUNCATION, "the broker truncates files"),
    (Features::TCP, "the broker alone judges connections"),
    (Features::DEVICES, "the filter lets none but terminals be controlled"),
    (Features::SCOPES, "the broker sends the command's signals, and lets it fork"),
];

/// What Landlock lacks here, and who takes its place, a line each.
pub fn substitutes(features: Features) -> impl Iterator<Item = String> {
    let lacking = PARTS.iter().filter(move |(part, ..)| !features.contains(*part));
    lacking.filter_map(|(feature, name, since)| {
        let (_, instead) = SUBSTITUTES.iter().find(|(of, _)| of == feature)?;
        Some(format!("Landlock lacks {name} here (Linux {since}): {instead}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_the_place_of_what_is_missing_is_told() {
        assert_eq!(substitutes(Features::all()).count(), 0);
        let lines: Vec<_> = substitutes(Features::FILES | Features::MOVES).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[3],
            "Landlock lacks scopes for signals and abstract sockets here (Linux 6.12): the broker \
             sends the command's signals, and lets it fork"
        );
    }
}
