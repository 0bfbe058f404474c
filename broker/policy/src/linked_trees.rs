//! Linked work trees of git, and what ties each to its repository: agents work side by side in them. Reads the file
//! system, changes nothing. Source: git-worktree(1), DETAILS; gitrepository-layout(5), worktrees.

use super::callers::Caller;
use super::repositories::{self, contents, is_repository, name_of};
use crate::harmless::is_too_wide;
use rules::files::push_new;
use rules::git_links::LinkedTree;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The item of a preset that lets the repository of a linked work tree be written.
pub(super) const ITEM: &str = ".git";
/// What presets call the files that lead from linked work trees to their repository.
pub(super) const COMMON: &str = "worktrees/*/commondir";
/// Most linked work trees that are protected as the one that the command starts in; the others are not written at all.
const TREES_MAX: usize = 32;
/// Most of a repository, there or not: each name takes a descriptor at launch, and a run can leave any number.
const NAMES_MAX: usize = 1024;
/// How much is read of a file that names one: a path (PATH_MAX) with what stands before it. A run can leave thousands.
const NAMED_MAX: u64 = 1 << 13;
/// What makes a directory a repository, or the top of a work tree.
const PRETENDED: [&str; 2] = [".git", repositories::HEAD];

/// The linked work trees of some repositories.
#[derive(Debug, Default)]
pub(super) struct Linked {
    /// Those that may be written, to be protected as any work tree.
    pub(super) trees: Vec<PathBuf>,
    /// The same of too many: they are denied as a whole.
    pub(super) denied: Vec<PathBuf>,
    /// What later runs know all of them by, and what would be taken for a repository where one was removed.
    pub(super) names: Vec<PathBuf>,
    /// Those that may be removed.
    pub(super) removable: Vec<LinkedTree>,
}

/// Finds the work trees that `repositories` know and that are not among `known`.
///
/// # Errors
/// Returns the directory in which there are too many.
pub(super) fn find(
    repositories: &[PathBuf],
    known: &[PathBuf],
    writable: &[&Path],
) -> Result<Linked, PathBuf> {
    let mut linked = Linked::default();
    let all: Result<Vec<_>, _> = repositories.iter().map(|it| linked_to(it)).collect();
    for (tree, back) in all?.into_iter().flatten() {
        linked.names.push(back.clone());
        let around = writable.iter().filter(|root| tree.starts_with(root));
        let Some(root) = around.max_by_key(|root| root.as_os_str().len()) else { continue };
        if known.contains(&tree) || linked.trees.contains(&tree) {
            continue;
        }
        if linked.trees.len() == TREES_MAX {
            push_new(&mut linked.denied, tree);
            continue;
        }
        // Without a repository of its own, git would take what is around it for one.
        let is_around = |directory: &&Path| {
            directory.starts_with(root) && !known.iter().any(|known| known == directory)
        };
        let around = tree.ancestors().skip(1).take_while(is_around);
        let names: Vec<_> =
            around.flat_map(|above| PRETENDED.map(|name| above.join(name))).collect();
        if names.iter().all(|name| name.symlink_metadata().is_err()) {
            linked.names.extend(names);
            linked.removable.push(LinkedTree { git: tree.join(".git"), back });
        }
        linked.trees.push(tree);
    }
    Ok(linked)
}

/// The work trees that are linked to `repository`, if they are there, each with the file that names it.
fn linked_to(repository: &Path) -> Result<Vec<(PathBuf, PathBuf)>, PathBuf> {
    let directory = repository.join("worktrees");
    let listed = directory.read_dir().into_iter().flatten().flatten();
    let all: Vec<_> = listed.take(NAMES_MAX + 1).collect();
    if all.len() > NAMES_MAX {
        return Err(directory);
    }
    let linked = all.into_iter().filter_map(|entry| {
        let name = entry.path().join("gitdir");
        let tree = named_in(&name, "")?.parent()?.canonicalize().ok()?;
        tree.is_dir().then_some((tree, name))
    });
    Ok(linked.collect())
}

/// Work trees that git may be asked in: the one that a repository in `directories` is the usual one of, and those that are
/// linked to it, if they are not too many.
pub(super) fn beside(directories: &[PathBuf]) -> Vec<PathBuf> {
    let linked = directories.iter().filter_map(|git| linked_to(git).ok()).flatten();
    let usual =
        directories.iter().filter(|git| git.ends_with(".git")).filter_map(|git| git.parent());
    usual.map(Path::to_owned).chain(linked.map(|(tree, _)| tree)).collect()
}

/// The repository of the working directory, if that is a linked work tree; none that holds the work tree or the home.
/// Each says so of the other: nobody who can write to one of them alone has named the other.
pub(super) fn repository_of(caller: &Caller) -> Option<PathBuf> {
    let tree = caller.cwd.canonicalize().ok()?;
    let home = caller.home.as_ref().and_then(|home| home.canonicalize().ok());
    let own = named_in(&tree.join(".git"), "gitdir: ")?.canonicalize().ok()?;
    let holds = own.parent().filter(|above| above.ends_with("worktrees"))?;
    let repository = holds.parent()?;
    let leads_to = |name: &str, path: &Path| {
        let named = named_in(&own.join(name), "").and_then(|named| named.canonicalize().ok());
        named.as_deref() == Some(path)
    };
    let is_linked = leads_to("gitdir", &tree.join(".git")) && leads_to("commondir", repository);
    let is_meant = is_linked && is_repository(repository) && !tree.starts_with(repository);
    (is_meant && !is_too_wide(repository, home.as_deref())).then(|| repository.to_owned())
}

/// The path that the text of a file names after `before`, beneath its directory if it is relative.
fn named_in(file: &Path, before: &str) -> Option<PathBuf> {
    let text = contents(file, NAMED_MAX);
    let named = name_of(text.strip_prefix(before.as_bytes())?)?;
    Some(file.parent()?.join(OsStr::from_bytes(named)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::test_directory::TestDirectory;

    #[test]
    fn a_repository_and_its_linked_work_trees_name_each_other() {
        let dir = TestDirectory::new();
        dir.directory("main/.git/refs");
        dir.file("main/.git/HEAD", "ref: refs/heads/main\n");
        dir.file("main/.git/worktrees/t/commondir", "../..\n");
        let caller = |tree: &str| Caller::new(dir.path(tree), []);
        let gitdir = "gitdir: ../main/.git/worktrees/t\n";
        for (tree, back, expected) in [
            ("tree", "../../../../tree/.git\n", Some("main/.git")),
            ("tree", "../../../../other/.git\n", None),
            ("main/.git/tree", "../../tree/.git", None),
        ] {
            dir.file("main/.git/worktrees/t/gitdir", back);
            let up = if tree == "tree" { gitdir } else { "gitdir: ../worktrees/t" };
            dir.file(&format!("{tree}/.git"), up);
            let expected = expected.map(|path| dir.path(path));
            assert_eq!(repository_of(&caller(tree)), expected, "{tree} {back}");
        }
        // Not where the settings are others.
        dir.file("main/.git/worktrees/t/gitdir", "../../../../tree/.git");
        dir.file("main/.git/worktrees/t/commondir", "../../../evil");
        assert_eq!(repository_of(&caller("tree")), None);
    }

    #[test]
    fn work_trees_are_found_where_they_may_be_written() {
        let dir = TestDirectory::new();
        for (name, tree) in [("in", "main/trees/in"), ("out", "out"), ("gone", "main/gone")] {
            // However much follows of what git leaves out.
            let back = format!("{}/.git{}", dir.path(tree).display(), "\n".repeat(10_000));
            dir.file(&format!("main/.git/worktrees/{name}/gitdir"), &back);
        }
        dir.directory("main/trees/in");
        dir.directory("out");
        let main = dir.path("main");
        let known = [main.clone()];
        let linked = || find(&[dir.path("main/.git")], &known, &[&main]).unwrap();
        assert_eq!(linked().trees, [dir.path("main/trees/in")]);
        let back = |name: &str| dir.path(format!("main/.git/worktrees/{name}/gitdir"));
        let mut names = linked().names;
        names.sort();
        let around = ["main/trees/.git", "main/trees/HEAD"].map(|name| dir.path(name));
        let mut expected = [&[back("in"), back("out")], &around[..]].concat();
        expected.sort();
        assert_eq!(names, expected);
        let git = dir.path("main/trees/in/.git");
        assert_eq!(linked().removable, [LinkedTree { git, back: back("in") }]);
        // What is there could be taken for a repository, were the other removed.
        dir.directory("main/trees/.git");
        assert_eq!(linked().removable, []);
        assert_eq!(linked().trees.len(), 1);
    }

    #[test]
    fn too_many_names_are_an_error() {
        let dir = TestDirectory::new();
        let worktrees = dir.directory("main/.git/worktrees");
        let git = [dir.path("main/.git")];
        for number in 0..NAMES_MAX {
            std::fs::create_dir(worktrees.join(number.to_string())).unwrap();
        }
        assert!(find(&git, &[], &[]).is_ok());
        std::fs::create_dir(worktrees.join("one more")).unwrap();
        assert_eq!(find(&git, &[], &[]).unwrap_err(), worktrees);
    }
}
