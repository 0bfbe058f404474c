//! Repositories further down that git enters by itself: what an index names as submodules is asked about by `git status` at
//! the top, and runs what settings of its own name. Those that are there at launch are protected. Nothing keeps a command
//! from adding one, so it is told. It changes nothing.

use super::suggest::{list, quote};
use policy::callers::Caller;
use policy::submodules;
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
    let trees = files.allow_write.iter().map(|tree| tree.as_path()).filter(|tree| *tree != work);
    let is_kept = |tree: &&Path| covers(&files.deny_write, &tree.join(".git/config"));
    let (mut names, mut left) = (Vec::new(), submodules::INDEXES_MAX);
    for tree in [work].into_iter().chain(trees) {
        let all = submodules::find(tree, &caller.indexes, &mut left);
        // To compare paths with all rules takes longer than to look whether there is a repository.
        if all.as_ref().is_some_and(Vec::is_empty) || !is_kept(&tree) {
            continue;
        }
        let Some(all) = all else {
            let shown = quote(&tree.to_string_lossy());
            return Some(format!(
                "the index of git in {shown}, or of a submodule there, cannot be read: see what \"git ls-files --stage\" \
                 shows with mode 160000 before other commands of git"
            ));
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
    (!names.is_empty()).then(|| {
        format!(
            "git status outside obeys the settings of repositories that the index names as submodules and the command \
             may have written: {} (look at .git/config there, or git rm --cached them)",
            list(&names)
        )
    })
}
