//! What spares the broker calls, where a longer way gives the same: so that tests can show that it does, a debug
//! build goes the longer way wherever the variable `LANDSTRIP_WITHOUT` names one of these. A release looks at none.

use std::sync::LazyLock;

/// One that can be left out, and what calls take without it: the best of seven loops of a thousand, of a command that does
/// nothing else, where such a call takes 0.6 to 2 µs outside.
#[derive(Clone, Copy, Debug)]
pub struct Shortcut(&'static str);

impl Shortcut {
    /// A descriptor that is open for writing was judged when it was opened.
    pub const DESCRIPTOR: Self = Self("descriptor");
    /// Of what Landlock grants, no more is looked at than the path that the kernel writes. Without: a file made and removed
    /// beside a denied one takes 23.7 µs in the place of 19.9.
    pub const GRANTED: Self = Self("granted");
    /// The broker stands in a directory to ask for its path. Without: chmod takes 9.6 µs in the place of 7.7, two renames
    /// beside a denied path 36.8 for 31.2, opens where a glob denies reads 11.5 for 9.9.
    pub const CWD_GUARD: Self = Self("cwd_guard");
    /// Where a path led a moment ago, of those that are looked at for a report. Without: an open takes 10.0 µs in the place
    /// of 6.2, a file made and removed 28.7 for 16.5.
    pub const PATH_CACHE: Self = Self("path_cache");
    /// Such a path is judged by names first. Without: an open takes 9.2 µs, a file made and removed 28.1.
    pub const NAMES: Self = Self("names");
    /// Messages are let through before there is a socket that heeds an address.
    pub const SENDMSG_GATE: Self = Self("sendmsg_gate");
    /// Directories that are granted before they have their place.
    pub const RESERVE: Self = Self("reserve");

    /// Whether it may be taken.
    pub fn is_open(self) -> bool {
        static LEFT_OUT: LazyLock<Option<String>> =
            LazyLock::new(|| std::env::var("LANDSTRIP_WITHOUT").ok());
        !cfg!(debug_assertions) || LEFT_OUT.as_deref() != Some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_left_out_in_the_long_tier() {
        let all = [
            Shortcut::DESCRIPTOR,
            Shortcut::GRANTED,
            Shortcut::CWD_GUARD,
            Shortcut::PATH_CACHE,
            Shortcut::NAMES,
            Shortcut::SENDMSG_GATE,
            Shortcut::RESERVE,
        ];
        let runs = include_str!("../../../.ci/run");
        let names = all.map(|Shortcut(name)| name);
        assert!(runs.contains(&format!("for without in {}; do", names.join(" "))));
    }
}
