//! In which directories the broker makes the changes that the rules allow: those on the way to what a rule
//! singles out. Which they are, the view says.

use landstrip_core::files::view::{Decider, View};
use rules::pattern::{Component, Pattern};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directories beneath `root`, itself included, in which the broker makes changes because of `patterns`;
/// all beneath them is brokered too where a pattern can apply at any depth.
pub(super) fn brokered<'a>(
    view: &View,
    root: &Path,
    patterns: impl Iterator<Item = &'a Pattern>,
) -> BTreeSet<PathBuf> {
    let above = patterns.flat_map(|pattern| {
        let prefix = prefix(pattern);
        let whole = pattern.as_path().is_some();
        // A literal pattern stands for what it names; the way to it ends above.
        let ancestors: Vec<PathBuf> =
            prefix.ancestors().skip(usize::from(whole)).map(Path::to_owned).collect();
        ancestors
    });
    above
        .filter(|directory| directory.starts_with(root) && directory.is_dir())
        .filter(|directory| view.content(directory) == Some(Decider::Broker))
        .collect()
}

/// The names before the first glob.
fn prefix(pattern: &Pattern) -> PathBuf {
    let mut prefix = PathBuf::from("/");
    let components = (0..).map_while(|position| pattern.component(position));
    let literals = components.map_while(|component| match component {
        Component::Literal(name) => Some(OsStr::from_bytes(name)),
        _ => None,
    });
    prefix.extend(literals);
    prefix
}
