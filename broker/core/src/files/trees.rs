//! Trees of the file system, each by its path and the object that it was when it was noted.

use kernel::identity::Identity;
use kernel::long_paths::identity_of;
use rules::quick::QuickMap;
use std::path::{Path, PathBuf};

/// By canonical paths: hundreds are looked up at a launch, and some for each call.
pub(crate) type Trees<T> = QuickMap<PathBuf, T>;

/// Whether one of the trees is still there and `path` lies in it.
pub(super) fn covers(trees: &Trees<Identity>, path: &Path) -> bool {
    let is_there = |tree: &Path, object: &Identity| identity_of(tree) == Some(*object);
    path.ancestors().any(|tree| trees.get(tree).is_some_and(|object| is_there(tree, object)))
}
