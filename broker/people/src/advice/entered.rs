//! Repositories further down that git enters by itself: what an index names as submodules is asked about by `git status` at
//! the top, and runs what settings of its own name. Those that are there at launch are protected. Nothing keeps a command
//! from adding one, so it is told. It changes nothing.

use super::suggest::{list, quote};
use policy::callers::Caller;
use policy::{repositories, submodules};
use rules::paths::{Rules, covers};
use rules::policy::Policy;
use std::path::{Path, PathBuf};

/// What git obeys in a repository, or what leads to that.
const OBEYED: [&str; 4] = ["commondir", "config", "config.worktree", "hooks"];

/// What to say at the end of a run of `caller`, if a policy protects the settings of the repository there or in another tree,
/// and git would enter others outside whose settings it does not protect.
pub fn entered(policy: &Policy, caller: &Caller) -> Option<String> {
    let work = &*caller.cwd;
    let files = &policy.files;
    let is_kept = |tree: &Path| {
        let mut own = repositories::of(tree).into_iter();
        own.any(|git| covers(&files.deny_write, &git.join("config")))
    };
    let (mut names, mut unread) = (Vec::new(), Vec::new());
    let mut left = submodules::INDEXES_MAX;
    for tree in submodules::tops(caller, &files.allow_write) {
        let all = submodules::find(&tree, &caller.indexes, &mut left);
        // To compare paths with all rules takes longer than to look whether there is a repository.
        if all.as_ref().is_some_and(Vec::is_empty) || !is_kept(&tree) {
            continue;
        }
        let Some(all) = all else {
            unread.push(quote(&tree.to_string_lossy()));
            continue;
        };
        let rules = Rules::new(files);
        for submodule in all {
            // Other settings can stand beside `config`, or take its place.
            let is_open =
                |git: &PathBuf| OBEYED.iter().any(|name| rules.access(&git.join(name)).write);
            if submodule.directories.iter().any(is_open) {
                let name = submodule.top.strip_prefix(work).unwrap_or(&submodule.top);
                names.push(quote(&name.to_string_lossy()));
            }
        }
    }
    let unread = (!unread.is_empty()).then(|| {
        format!(
            "the index of git in {}, or of a submodule there, cannot be read: see what \"git ls-files --stage\" shows \
             with mode 160000 before other commands of git",
            list(&unread)
        )
    });
    let named = (!names.is_empty()).then(|| {
        format!(
            "git status outside obeys the settings of repositories that the index names as submodules and the command \
             may have written: {} (look at .git/config there, or git rm --cached them)",
            list(&names)
        )
    });
    let said: Vec<_> = unread.into_iter().chain(named).collect();
    (!said.is_empty()).then(|| said.join("; "))
}
