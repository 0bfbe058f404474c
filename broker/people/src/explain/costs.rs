//! What a policy costs while the command runs, and why: a line of `--check`.

use landstrip_core::files::view::{Reads, View};
use landstrip_core::session::launch::Watched;
use rules::files::Files;
use rules::pattern::{Component, Pattern};

/// The line; none where nothing is denied but what Landlock denies by itself.
pub fn line(view: &View, files: &Files, watched: Watched) -> Option<String> {
    let reads = match view.grants.reads {
        Reads::Exact if files.deny_read.is_empty() || !watched.reads => "native",
        Reads::Exact => "watched for reports",
        Reads::Less => "watched",
        Reads::More => "brokered",
    };
    let denied = || files.deny_write.iter().chain(&files.deny_read);
    let at_any_depth: Vec<_> = denied().filter(|pattern| !pattern.has_fixed_depth()).collect();
    let changes = match view.brokers_writes() {
        false if !watched.changes => "native",
        false => "watched for reports",
        true if at_any_depth.is_empty() => {
            "brokered beside what is denied, else watched for reports"
        }
        true => "brokered",
    };
    if reads == "native" && !view.brokers_writes() {
        return None;
    }
    let why = match at_any_depth.iter().find(|pattern| !goes_by_identity(pattern)) {
        Some(pattern) => format!("{pattern} can match at any depth"),
        None if !at_any_depth.is_empty() => {
            "a denied file has several names (hard links), and not all are known".to_owned()
        }
        None if view.brokers_writes() => {
            "something is denied inside what may be written".to_owned()
        }
        None if files.deny_read.is_empty() => "nothing is read of processes outside".to_owned(),
        None => "something may not be read".to_owned(),
    };
    Some(format!("what files cost: reads {reads}; changes {changes}: {why}"))
}

/// Whether a rule leaves a tree to the broker, to know files by what they are: no name holds a slash.
fn goes_by_identity(pattern: &Pattern) -> bool {
    let last = pattern.length().checked_sub(1).and_then(|last| pattern.component(last));
    matches!(last, Some(Component::Literal(name)) if name.contains(&b'/'))
}
