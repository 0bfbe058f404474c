//! Where git keeps what `.git` stands for, if not in a directory of that name at the top of a work tree: linked work
//! trees and submodules have a file there, and a bare repository is one by itself. Reads the file system, changes
//! nothing. Source: gitrepository-layout(5).

use kernel::locate::{Located, locate, look};
use rules::quick::QuickSet;
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What presets call the directory of a repository.
pub(super) const GIT: &str = ".git/";
/// With it a directory is a repository by itself.
pub(super) const HEAD: &str = "HEAD";

/// Most entries of `modules` and `worktrees` that are looked at in all: in git's own there is a dozen for each submodule.
const ENTRIES_MAX: usize = 500_000;
/// Most links among them: git makes none.
const LINKS_MAX: usize = 1024;

/// A file that leads elsewhere is shorter: git's own limit for `.git`.
pub(super) const LENGTH_MAX: u64 = 1 << 20;

/// Where the repositories of a tree are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Repositories {
    /// The directories that hold them, but for those called `.git`.
    pub(super) directories: Vec<PathBuf>,
    /// What leads there, or to where nobody can tell: links and files, which must stay what they are.
    pub(super) ways: Vec<PathBuf>,
}

/// What was looked through for links, however many trees have it as their repository.
#[derive(Debug, Default)]
pub(super) struct Searched {
    directories: QuickSet<PathBuf>,
    entries: usize,
    links: usize,
    /// Where there was more than is looked at: a command may have made it.
    pub(super) too_much: Option<PathBuf>,
}

/// Finds the repository of `tree`, and those around it.
pub(super) fn find(tree: &Path, searched: &mut Searched) -> Repositories {
    let mut all = Repositories::default();
    for directory in tree.ancestors() {
        all.follow(directory, ".git", "gitdir: ");
        if is_repository(directory) {
            all.directories.push(directory.to_owned());
        }
    }
    let called_so = tops([tree]).map(|directory| directory.join(".git"));
    let known: Vec<_> = all.directories.iter().cloned().chain(called_so).collect();
    known.iter().for_each(|directory| all.follow(directory, "commondir", ""));
    known.iter().for_each(|directory| searched.follow_links(directory, &mut all.directories));
    all
}

/// The path in the text of a file, as git reads it: up to the first NUL, without the ends of lines after it.
pub(super) fn name_of(text: &[u8]) -> Option<&[u8]> {
    let named = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let last = named.iter().rposition(|byte| !b"\r\n".contains(byte))?;
    Some(&named[..=last])
}

/// The directories that hold the repository of the work tree whose top is `top`.
pub fn of(top: &Path) -> Vec<PathBuf> {
    let mut all = Repositories::default();
    all.directories.push(top.join(".git"));
    all.follow(top, ".git", "gitdir: ");
    let own = all.directories.clone();
    own.iter().for_each(|directory| all.follow(directory, "commondir", ""));
    all.directories
}

/// The tops of the work trees that `trees` may lie in, each once, of one tree the nearest first. A policy names dozens in a
/// home: what is around several is looked at once.
pub fn tops<'a>(trees: impl IntoIterator<Item = &'a Path>) -> impl Iterator<Item = PathBuf> {
    let mut looked_at = QuickSet::default();
    let around = trees.into_iter().flat_map(Path::ancestors);
    let has_git = |directory: &&Path| directory.join(".git").symlink_metadata().is_ok();
    let new = around.filter(move |directory| looked_at.insert(directory.as_os_str()));
    new.filter(has_git).map(Path::to_owned)
}

impl Searched {
    /// Adds to `found` where symbolic links lead that stand in the place of a repository of a submodule or of a linked
    /// work tree, or of something in one, which patterns do not follow. Without a link one listing each.
    fn follow_links(&mut self, repository: &Path, found: &mut Vec<PathBuf>) {
        let mut pending = vec![repository.join("modules"), repository.join("worktrees")];
        while let Some(directory) = pending.pop() {
            if self.too_much.is_some() || !self.directories.insert(directory.clone()) {
                continue;
            }
            let Ok(listed) = directory.read_dir() else { continue };
            let entries: Vec<_> = listed.flatten().take(ENTRIES_MAX).collect();
            let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
            self.entries += entries.len();
            self.links += entries.iter().filter(|entry| is_link(entry)).count();
            if self.entries >= ENTRIES_MAX || self.links > LINKS_MAX {
                self.too_much = Some(repository.to_owned());
                return;
            }
            let is_repository = entries.iter().any(|entry| entry.file_name() == HEAD);
            if is_repository && entries.iter().any(is_link) && !found.contains(&directory) {
                found.push(directory.clone());
            }
            let leads_on = |entry: &DirEntry| !is_repository || entry.file_name() == "modules";
            for entry in entries.iter().filter(|entry| leads_on(entry)) {
                if !is_link(entry) {
                    pending.push(entry.path());
                } else if let Ok(located) = locate(&entry.path())
                    && !found.contains(&located.path)
                {
                    found.push(located.path.clone());
                    pending.push(located.path);
                }
            }
        }
    }
}

/// Whether git takes `directory` for a repository, whatever it is called.
pub(super) fn is_repository(directory: &Path) -> bool {
    let has = |name: &str| directory.join(name).symlink_metadata().is_ok();
    has(HEAD) && (has("refs") || has("commondir"))
}

impl Repositories {
    /// Adds where the file `name` in `directory` leads to, if it is there. What leads nowhere now could later.
    fn follow(&mut self, directory: &Path, name: &str, before: &str) {
        let path = directory.join(name);
        let text = contents(&path, LENGTH_MAX);
        if text.len() as u64 == LENGTH_MAX {
            return self.ways.push(path);
        }
        let Some(named) = text.strip_prefix(before.as_bytes()) else { return };
        let Some(named) = name_of(named) else { return };
        // Without the parts that lead nowhere: git follows the others one by one, however long all are.
        let named: PathBuf = Path::new(OsStr::from_bytes(named)).components().collect();
        let mut located = Located::at(Path::new("/"));
        let _ = located.follow(&directory.join(named), look);
        self.ways.push(path);
        self.ways.extend(located.links.into_iter().map(|link| link.path));
        self.directories.push(located.path);
    }
}

/// The first `limit` bytes of a regular file; nothing of what git could not read either, or of what is none.
pub fn contents(path: &Path, limit: u64) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(file) = regular(path) {
        // At once, where it grows not meanwhile: else the first reads are of 32 bytes.
        let size = file.metadata().map_or(0, |found| found.len());
        text.reserve(usize::try_from(size.min(limit)).unwrap_or(0) + 1);
        let _ = file.take(limit).read_to_end(&mut text);
    }
    text
}

/// A regular file: who opens a FIFO waits, and one may take the place of a file meanwhile.
pub(super) fn regular(path: &Path) -> Option<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::test_directory::TestDirectory;
    use std::os::unix::fs::symlink;

    #[test]
    fn linked_work_trees_submodules_and_bare_repositories_are_found() {
        let dir = TestDirectory::new();
        dir.file("main/.git/HEAD", "ref: refs/heads/main\n");
        dir.directory("main/.git/refs");
        dir.file("main/.git/worktrees/tree/HEAD", "ref: refs/heads/tree\n");
        dir.file("main/.git/worktrees/tree/commondir", "../..\n");
        dir.file("tree/.git", "gitdir: ../main/.git/worktrees/tree\n");
        dir.file("bare/HEAD", "ref: refs/heads/main\n");
        dir.directory("bare/refs");
        dir.file("other/HEAD", "a text");
        dir.file("other/.git", "a text");
        let find = |tree: &str| find(&dir.path(tree), &mut Searched::default());
        let found = |tree: &str| find(tree).directories;
        let paths = |names: &[&str]| names.iter().map(|name| dir.path(name)).collect::<Vec<_>>();
        assert_eq!(found("main"), paths(&[]));
        assert_eq!(found("main/.git/refs"), paths(&["main/.git"]));
        assert_eq!(found("tree"), paths(&["main/.git/worktrees/tree", "main/.git"]));
        assert_eq!(found("bare"), paths(&["bare"]));
        assert_eq!(found("other"), paths(&[]));
        assert_eq!(found("missing"), paths(&[]));
        assert_eq!(of(&dir.path("main")), paths(&["main/.git"]));
        let of_linked = paths(&["tree/.git", "main/.git/worktrees/tree", "main/.git"]);
        assert_eq!(of(&dir.path("tree")), of_linked);
        // Where links lead from which patterns start, and what is found there.
        dir.file("super/.git/modules/a/b/HEAD", "ref: refs/heads/main\n");
        dir.directory("super/evil/modules");
        dir.directory("super/other");
        symlink("../../../evil", dir.path("super/.git/modules/a/c")).unwrap();
        symlink("../../other", dir.path("super/evil/modules/d")).unwrap();
        assert_eq!(found("super"), paths(&["super/evil", "super/other"]));
        dir.directory("super/.git/worktrees");
        symlink("../modules/a/b", dir.path("super/.git/worktrees/e")).unwrap();
        assert_eq!(found("super"), paths(&["super/.git/modules/a/b", "super/evil", "super/other"]));
        // Also as an attacker writes it.
        dir.file("tree/.git", "gitdir: ../main/.git\0more\n");
        assert_eq!(found("tree/sub"), paths(&["main/.git"]));
        dir.file("main/.git/commondir", &format!("{}../../bare\r\n", "./".repeat(3000)));
        assert_eq!(found("main"), paths(&["bare"]));
        // However long it is, git follows the parts one by one.
        dir.file("main/.git/commondir", &format!("{}bare", "../main/".repeat(1000)));
        assert_eq!(found("main"), paths(&["main/main/bare"]));
        dir.file("main/.git/commondir", &"./".repeat(1 << 19));
        assert_eq!(find("main").ways, paths(&["main/.git/commondir"]));
        // What leads nowhere now, or by a link, could lead elsewhere later.
        symlink("loop", dir.path("loop")).unwrap();
        dir.file("tree/.git", "gitdir: ../loop/repository\n");
        let Repositories { directories, ways } = find("tree");
        assert_eq!(directories, paths(&["loop"]));
        assert!(paths(&["tree/.git", "loop"]).iter().all(|path| ways.contains(path)), "{ways:?}");
    }
}
