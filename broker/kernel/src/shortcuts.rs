//! What spares the broker calls, where a longer way gives the same: so that tests can show that it does, a debug
//! build goes the longer way wherever the variable `LANDSTRIP_WITHOUT` names one of these. A release looks at none.

use std::sync::LazyLock;

/// One that can be left out, and what calls take without it: the best of seven loops of a thousand, of a command that does
/// nothing else, where such a call takes 0.6 to 2 µs outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortcut {
    /// A descriptor that is open for writing was judged when it was opened.
    Descriptor,
    /// Of what Landlock grants, no more is looked at than the path that the kernel writes. Without: a file made and removed
    /// beside a denied one takes 23.7 µs in the place of 19.9.
    Granted,
    /// The broker stands in a directory to ask for its path. Without: chmod takes 9.6 µs in the place of 7.7, two renames
    /// beside a denied path 36.8 for 31.2, opens where a glob denies reads 11.5 for 9.9.
    CwdGuard,
    /// Where a path led a moment ago, of those that are looked at for a report. Without: an open takes 10.0 µs in the place
    /// of 6.2, a file made and removed 28.7 for 16.5.
    PathCache,
    /// Such a path is judged by names first. Without: an open takes 9.2 µs, a file made and removed 28.1.
    Names,
    /// Messages are let through before there is a socket that heeds an address.
    SendmsgGate,
    /// Directories that are granted before they have their place.
    Reserve,
}

/// Their names.
const ALL: [(&str, Shortcut); 7] = [
    ("descriptor", Shortcut::Descriptor),
    ("granted", Shortcut::Granted),
    ("cwd_guard", Shortcut::CwdGuard),
    ("path_cache", Shortcut::PathCache),
    ("names", Shortcut::Names),
    ("sendmsg_gate", Shortcut::SendmsgGate),
    ("reserve", Shortcut::Reserve),
];

static LEFT_OUT: LazyLock<Option<Shortcut>> = LazyLock::new(|| {
    let name = std::env::var("LANDSTRIP_WITHOUT").ok()?;
    ALL.iter().find(|(known, _)| *known == name).map(|&(_, shortcut)| shortcut)
});

impl Shortcut {
    /// Whether it may be taken.
    pub fn is_open(self) -> bool {
        !cfg!(debug_assertions) || *LEFT_OUT != Some(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_is_left_out_in_the_long_tier() {
        let runs = include_str!("../../../.ci/run");
        let names: Vec<_> = ALL.iter().map(|(name, _)| *name).collect();
        assert!(runs.contains(&format!("for without in {}; do", names.join(" "))));
    }
}
