//! What presets protect in the trees of a policy, and wherever variables of the caller move what they deny. It reads the file system and changes nothing.

use super::callers::Caller;
use super::companions::is_all;
use super::error::PolicyError;
use super::keys::Item;
use super::linked_trees::{self, Linked};
use super::moved::{Moved, OTHERS};
use super::reach::Allowed;
use super::repositories::{self, Repositories, Searched};
use super::submodules::{INDEXES_MAX, Indexes, Submodule};
use super::{entered, git_settings, presets, submodules, subrepositories};
use kernel::locate::locate;
use rules::files::push_new;
use rules::git_links::LinkedTree;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A denied path, its text, and the directory that this is relative to.
pub(super) type InTree<'a> = (&'a Item, &'a str, Cow<'a, Path>);

/// The repository that a submodule does not have yet, as a pattern: the directory that it is in may come and go.
const NEW_REPOSITORY: &str = "[.]git";
/// Where it is not known which directories are submodules, each can be one.
const ANY_REPOSITORY: &str = "*/**/.git";
/// Most submodules with repositories of their own that are protected in all that presets name; the others are not written
/// at all.
const SUBMODULES_MAX: usize = 32;

/// Denied paths.
#[derive(Default)]
pub(super) struct InTrees<'a> {
    /// All of them.
    pub(super) items: Vec<InTree<'a>>,
    /// Names that must stay what they are, wherever they lead.
    pub(super) ways: Vec<(&'a Item, PathBuf)>,
    /// The linked work trees that may be removed.
    pub(super) removable: Vec<LinkedTree>,
}

/// The denied paths of `items`. What presets protect in the work tree they protect in each that the policy adds to it,
/// and what they protect in `.git`, wherever that is.
///
/// # Errors
/// Returns a [`PolicyError`] for what leads to more than is looked at. A command may have made it, so that something else
/// would not be found.
pub(super) fn in_trees<'a>(
    items: &'a [Item],
    caller: &'a Caller,
    writable: &[Allowed<'_>],
    moved: &Moved,
) -> Result<InTrees<'a>, PolicyError> {
    let cwd = caller.cwd.as_path();
    if !items.iter().any(is_in_trees) {
        let mut found = Vec::with_capacity(items.len());
        items.iter().for_each(|item| add_of_user(&mut found, item, cwd, moved));
        return Ok(InTrees { items: found, ..InTrees::default() });
    }
    let own = writable.iter().filter(|(_, origin)| !presets::is_file(&origin.file));
    let added = own.map(|(path, _)| *path).filter(|path| may_be_directory(path));
    let mut trees: Vec<PathBuf> = [cwd].into_iter().chain(added).map(Path::to_owned).collect();
    let may_change = |path: &PathBuf| {
        writable.iter().any(|(root, _)| path.starts_with(root) || root.starts_with(path))
    };
    let is_all = |path: &Path| is_all(path, writable.iter().map(|(root, _)| *root));
    // Each item at least once, and those in `.git` for each repository.
    let (mut found, mut names) = (Vec::with_capacity(2 * items.len()), Vec::new());
    let of_git = items.iter().find(|item| is_in_trees(item) && item.text == git_settings::ITEM);
    let mut searched = Searched::default();
    let mut repositories = repositories_of(&trees, &mut names, &mut searched);
    let mut linked = Linked::default();
    let mut inner = Vec::new();
    if let Some(item) = of_git {
        let tops = repositories::tops(trees.iter().map(PathBuf::as_path));
        let known: Vec<_> =
            tops.map(|top| top.join(".git")).chain(repositories.iter().cloned()).collect();
        let roots: Vec<&Path> = writable.iter().map(|(root, _)| *root).collect();
        linked = linked_trees::find(&known, &trees, &roots).map_err(too_much)?;
        let more = repositories_of(&linked.trees, &mut names, &mut searched);
        more.into_iter().for_each(|path| push_new(&mut repositories, path));
        trees.append(&mut linked.trees);
        names.append(&mut linked.names);
        found.extend(linked.denied.drain(..).map(|tree| (item, ".", tree.into())));
        let (own, denied) = submodules_of((&trees, &caller.indexes), &mut names, may_change);
        inner = own;
        let more = repositories_of(&inner, &mut names, &mut searched);
        more.into_iter().for_each(|path| push_new(&mut repositories, path));
        let denied = denied.into_iter().filter(|(text, top)| *text != "." || !is_all(top));
        found.extend(denied.map(|(text, top)| (item, text, top.into())));
        let home = (caller.home.as_deref(), moved);
        let led = git_settings::led_to(&trees, &repositories, home, may_change, is_all);
        let led = led.map_err(too_much)?;
        found.extend(led.into_iter().map(|(text, path)| (item, text, path.into())));
    }
    if let Some(item) = items.iter().find(|item| is_in_trees(item) && item.text == entered::ITEM) {
        let loaded = entered::loaded(&trees, caller.home.as_deref(), may_change);
        let loaded = loaded.map_err(too_much)?;
        let is_all = |path: &PathBuf| locate(path).is_ok_and(|at| is_all(&at.path));
        let loaded = loaded.into_iter().filter(|path| !is_all(path));
        found.extend(loaded.map(|path| (item, ".", path.into())));
    }
    if let Some(path) = searched.too_much {
        return Err(too_much(path));
    }
    names.retain(may_change);
    let ways = of_git.map(|item| names.into_iter().map(|name| (item, name)).collect());
    // The items name what is in the usual place of each tree.
    let usual: Vec<_> = trees.iter().chain(&inner).map(|tree| tree.join(".git")).collect();
    repositories.retain(|path| may_change(path) && !usual.contains(path));
    let nested = subrepositories::find(&trees).map_err(too_much)?;
    let places = (&*trees, &*repositories, &*inner, &*nested);
    items.iter().for_each(|item| add_item(&mut found, item, (cwd, moved), places));
    Ok(InTrees { items: found, ways: ways.unwrap_or_default(), removable: linked.removable })
}

/// Whether it is relative to each work tree.
fn is_in_trees(item: &Item) -> bool {
    presets::is_file(&item.origin.file) && !item.text.starts_with(['/', '~'])
}

/// Adds an item for each of `trees`, of the `repositories` that lie elsewhere, and of submodules and subrepositories with
/// their own.
fn add_item<'a>(
    found: &mut Vec<InTree<'a>>,
    item: &'a Item,
    (cwd, moved): (&'a Path, &Moved),
    (trees, repositories, inner, nested): (&[PathBuf], &[PathBuf], &[PathBuf], &[PathBuf]),
) {
    let held = |tree: &PathBuf| match tree.as_os_str() == cwd.as_os_str() {
        true => Cow::Borrowed(cwd),
        false => tree.clone().into(),
    };
    let text = &*item.text;
    if !is_in_trees(item) {
        return add_of_user(found, item, cwd, moved);
    }
    let pretended =
        |tree: &&PathBuf| text != repositories::HEAD || !repositories::is_repository(tree);
    found.extend(trees.iter().filter(pretended).map(|tree| (item, text, held(tree))));
    let inside = subrepositories::denied(text, nested).into_iter();
    found.extend(inside.map(|(text, top)| (item, text, top.into())));
    if let Some(text) = text.strip_prefix(repositories::GIT) {
        found.extend(repositories.iter().map(|tree| (item, text, tree.clone().into())));
        found.extend(inner.iter().map(|top| (item, &*item.text, top.clone().into())));
    }
}

/// What is wrong with a file or directory that leads to more than is looked at.
fn too_much(path: PathBuf) -> PolicyError {
    let message = "this, or what leads here, is more than is looked through for what has to be protected, so that some \
                   of it would not be; an earlier command may have left it";
    PolicyError::in_file(&path, message)
}

/// Whether `path` is a directory, or missing, and so can become one.
fn may_be_directory(path: &Path) -> bool {
    path.is_dir() || path.symlink_metadata().is_err()
}

/// The submodules of `trees` that have a repository of their own beside the usual ones, and what is denied because of the
/// others, a text and what it is relative to. The file that leads to a repository is added to `ways`.
fn submodules_of(
    (trees, indexes): (&[PathBuf], &Indexes),
    ways: &mut Vec<PathBuf>,
    may_change: impl Fn(&PathBuf) -> bool,
) -> (Vec<PathBuf>, Vec<(&'static str, PathBuf)>) {
    let (mut own, mut denied) = (Vec::new(), Vec::new());
    // That of the working directory first: it is read, whatever the others have in theirs.
    let mut left = INDEXES_MAX;
    for tree in repositories::tops(trees.iter().map(PathBuf::as_path)) {
        let found = submodules::find(&tree, indexes, &mut left);
        let others = submodules::registered(&tree, found.as_deref().unwrap_or_default());
        if found.is_none() || others.is_none() {
            // The end of the run tells why.
            denied.push((ANY_REPOSITORY, tree));
        }
        let all = [found, others].into_iter().flatten().flatten();
        for Submodule { top, directories, is_usual } in all.filter(|it| may_change(&it.top)) {
            let name = top.join(".git");
            let kind = name.symlink_metadata().map(|found| found.file_type());
            if kind.as_ref().is_ok_and(|kind| !kind.is_dir()) {
                ways.push(name);
            }
            match kind {
                Err(_) => denied.push((NEW_REPOSITORY, top)),
                Ok(_) if is_usual => {}
                Ok(_) if own.len() == SUBMODULES_MAX => {
                    denied.extend(directories.into_iter().chain([top]).map(|it| (".", it)));
                }
                Ok(_) => own.push(top),
            }
        }
    }
    (own, denied)
}

/// The repositories of `trees`, each once; what leads there is added to `ways`.
fn repositories_of(
    trees: &[PathBuf],
    ways: &mut Vec<PathBuf>,
    searched: &mut Searched,
) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for tree in trees {
        let Repositories { directories, ways: some } = repositories::find(tree, searched);
        directories.into_iter().for_each(|path| push_new(&mut all, path));
        ways.extend(some);
    }
    all
}

/// Where else lies what presets deny in the home. What the policy itself lets be written, without the home as a whole,
/// is the command's: the directory of an agent that runs inside.
pub(super) fn moved<'a>(
    mut items: impl Iterator<Item = &'a Item>,
    caller: &Caller,
    writable: &[Allowed<'_>],
) -> Moved {
    if !items.any(|item| presets::is_file(&item.origin.file)) {
        return Moved::default();
    }
    let holds_home = |path: &Path| caller.home.as_ref().is_some_and(|home| home.starts_with(path));
    let own = writable.iter().filter(|(_, origin)| !presets::is_file(&origin.file));
    let own: Vec<&Path> = own.map(|(path, _)| *path).filter(|path| !holds_home(path)).collect();
    let is_meant = |path: &Path| own.iter().any(|own| path.starts_with(own));
    let used = writable.iter().map(|(path, _)| path.to_path_buf()).chain([caller.cwd.clone()]);
    Moved::of(caller, is_meant).with_homes(caller, &used.collect::<Vec<_>>())
}

/// Adds the paths of an item that is relative to no work tree, or of no preset.
fn add_of_user<'a>(found: &mut Vec<InTree<'a>>, item: &'a Item, cwd: &'a Path, moved: &Moved) {
    let text = &*item.text;
    let is_of_preset = presets::is_file(&item.origin.file);
    if is_of_preset && text == OTHERS {
        found.extend(moved.others.iter().map(|home| (item, ".", home.clone().into())));
        return;
    }
    found.push((item, text, cwd.into()));
    if is_of_preset && text.starts_with('~') {
        let elsewhere = moved.of_item(text);
        found.extend(elsewhere.into_iter().map(|(text, path)| (item, text, path.into())));
    }
}
