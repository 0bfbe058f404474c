//! The files that tie a linked work tree of git to its repository: `worktrees/NAME/commondir` in the repository leads
//! to the settings, and `.git` in the work tree to `worktrees/NAME` (gitrepository-layout(5)). What they say decides
//! what git runs, so presets deny them. Only what `git worktree add` and `git worktree remove` do with them is let
//! through, which can lead git nowhere else. Pure.

use super::paths::covers;
use super::pattern::Pattern;
use std::path::{Path, PathBuf};

/// What stands in `commondir`, whatever is written to it: the repository that it lies in.
pub const COMMON: &[u8] = b"../..\n";

/// What of these files may be made and removed though presets deny them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct GitLinks {
    /// The places of `commondir`. Without it git takes what is beside it for a repository of its own, the settings and
    /// hooks of which are denied too.
    pub common: Vec<Pattern>,
    /// The work trees that may be removed.
    pub trees: Vec<LinkedTree>,
    /// What policies of one's own deny, links to settings or not.
    pub denied: Vec<Pattern>,
}

/// A linked work tree and its repository, each with the file that names the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedTree {
    /// `.git` in the work tree.
    pub git: PathBuf,
    /// `worktrees/NAME/gitdir` in the repository, by which later runs know what to protect. It may go after the other.
    pub back: PathBuf,
}

impl GitLinks {
    /// Whether a file at `path` may be made, with [`COMMON`] in it.
    pub fn may_make(&self, path: &Path) -> bool {
        path.ends_with("commondir") && covers(&self.common, path) && !covers(&self.denied, path)
    }

    /// Whether the file at `path` may be removed, where `is_gone` says which are not there any more.
    pub fn may_remove(&self, path: &Path, is_gone: impl Fn(&Path) -> bool) -> bool {
        let is_of = |tree: &LinkedTree| path == tree.git || path == tree.back && is_gone(&tree.git);
        let is_of_tree = || self.trees.iter().any(is_of) && !covers(&self.denied, path);
        self.may_make(path) || is_of_tree()
    }
}
