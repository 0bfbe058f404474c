//! From written paths to canonical ones and patterns, against the file system as it is at launch.

use super::beside::Places;
use super::callers::Caller;
use super::companions::is_all;
use super::error::{Origin, PolicyError};
use super::expand::{self, expand};
use super::keys::{Item, Written};
use super::linked_trees;
use super::moved::Moved;
use super::nearest::nearest_sibling;
use super::path_memory::Memory;
use super::remarks::Remarks;
use super::split::Split;
use super::trees::{self, InTrees, in_trees};
use super::{origins, presets, reach, reopened, unexpanded};
use kernel::locate::Located;
use rules::files::Files;
use rules::git_links::GitLinks;
use rules::memory::OF_RUNS;
use rules::pattern::{Component, Pattern};
use rules::quick::QuickSet;
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Resolves the lists of paths: the rules for files, and the sockets that may be used.
pub(crate) fn resolve(
    written: &Written,
    caller: &Caller,
    remarks: &mut Remarks,
) -> Result<(Files, Vec<PathBuf>), PolicyError> {
    let mut paths_of = Paths {
        caller,
        budget: expand::MAX_ENTRIES,
        memory: Memory::default(),
        git_links: GitLinks::default(),
        remarks,
    };
    let mut grants = Grants {
        write: paths_of.grants(&written.allow_write)?,
        inside: paths_of.grants(&written.allow_write_inside)?,
        read: paths_of.grants(&written.allow_read)?,
        sockets: paths_of.sockets(&written.allow_unix_sockets)?,
    };
    // Before the work tree is searched for what is protected in it.
    reach::refuse_directory(written, &allowed(&grants.write), caller)?;
    let denied = written.deny_write.iter().chain(&written.deny_read);
    let around = (&*grants.write, &trees::moved(denied, caller, &allowed(&grants.write)));
    let deny_write = paths_of.denials(&written.deny_write, Denial::Write, around)?;
    let deny_read = paths_of.denials(&written.deny_read, Denial::Read, around)?;
    paths_of.tell_of_names(&written.deny_write, &deny_write);
    paths_of.tell_of_names(&written.deny_read, &deny_read);
    paths_of.drop_planted(&mut grants, &deny_write, &deny_read)?;
    let git_links = paths_of.git_links;
    if remarks.are_wanted() {
        let [writes, sockets] = [&grants.write, &grants.sockets].map(|grants| allowed(grants));
        reach::warn_of_outside(written, &writes, &sockets, caller, remarks);
    }
    for (key, grants) in [
        ("filesystem.allowWrite", &grants.write),
        (INSIDE, &grants.inside),
        ("filesystem.allowRead", &grants.read),
        (origins::SOCKETS, &grants.sockets),
    ] {
        for grant in grants {
            remarks.rule(key, &Pattern::literal(&grant.path), &grant.origin);
        }
    }
    let files = Files {
        allow_write: paths(&grants.write),
        deny_write,
        allow_write_inside: paths(&grants.inside),
        deny_read,
        allow_read: paths(&grants.read),
        git_links,
        ..Files::default()
    };
    if remarks.are_wanted() {
        reopened::name(&files, &grants.inside, remarks);
    }
    Ok((files, paths(&grants.sockets)))
}

/// The key of what may be written again.
const INSIDE: &str = "filesystem.allowWriteInside";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denial {
    Read,
    Write,
}

impl Denial {
    fn key(self) -> &'static str {
        match self {
            Self::Read => "filesystem.denyRead",
            Self::Write => "filesystem.denyWrite",
        }
    }
}

/// A path that is allowed, and how it was reached.
pub(super) struct Grant {
    pub(super) path: PathBuf,
    /// The symbolic links followed.
    pub(super) links: Vec<PathBuf>,
    /// It is a match of a glob.
    pub(super) from_glob: bool,
    pub(super) origin: Origin,
}

pub(super) struct Grants {
    pub(super) write: Vec<Grant>,
    /// Inside what is denied.
    pub(super) inside: Vec<Grant>,
    pub(super) read: Vec<Grant>,
    pub(super) sockets: Vec<Grant>,
}

pub(super) fn paths(grants: &[Grant]) -> Vec<PathBuf> {
    let mut known = HashSet::new();
    grants
        .iter()
        .map(|grant| grant.path.clone())
        .filter(|path| known.insert(path.clone()))
        .collect()
}

fn allowed(grants: &[Grant]) -> Vec<reach::Allowed<'_>> {
    grants.iter().map(|grant| (&*grant.path, &grant.origin)).collect()
}

pub(super) struct Paths<'a> {
    pub(super) caller: &'a Caller,
    /// What the allow globs may still look at.
    budget: usize,
    pub(super) memory: Memory,
    git_links: GitLinks,
    remarks: &'a mut Remarks,
}

impl Paths<'_> {
    pub(super) fn warn(&mut self, origin: &Origin, message: &str) {
        self.remarks.warn(origin.error(message).to_string());
    }

    pub(super) fn tell(&mut self, origin: &Origin, message: &str) {
        self.remarks.tell(&origin.error(message).to_string());
    }

    fn locate(&mut self, origin: &Origin, path: &Path) -> Result<Located, PolicyError> {
        self.memory.locate(path).map_err(|error| origin.error(error.to_string()))
    }

    /// Says that a variable was likely meant where only a name is.
    fn name_unexpanded(&mut self, item: &Item, path: &Path) {
        let text = &item.text;
        if let Some(variable) = unexpanded::later_variable(text)
            && path.symlink_metadata().is_err()
        {
            let message = format!("nothing expands {variable} in '{text}': it is a name");
            self.warn(&item.origin, &message);
        }
    }

    fn denials(
        &mut self,
        items: &[Item],
        denial: Denial,
        (writable, moved): (&[Grant], &Moved),
    ) -> Result<Vec<Pattern>, PolicyError> {
        let found = in_trees(items, self.caller, &allowed(writable), moved)?;
        let InTrees { items, ways, removable } = found;
        let mut patterns = Vec::with_capacity(items.len());
        let mut known = QuickSet::with_capacity_and_hasher(items.len(), Default::default());
        let mut deny = |remarks: &mut Remarks, pattern: Pattern, item: &Item| {
            remarks.rule(denial.key(), &pattern, &item.origin);
            if known.insert(pattern.clone()) {
                patterns.push(pattern);
            }
        };
        self.git_links.trees.extend(removable);
        for (item, way) in ways {
            deny(self.remarks, Pattern::literal(&way), item);
        }
        let mut last: Option<Pattern> = None;
        let mut places = Places::default();
        for (item, text, tree) in items {
            // Those of a preset are for whoever has them.
            let is_own = !presets::is_file(&item.origin.file);
            if !is_own && let Some(missing) = places.missing(text, &tree, &self.memory) {
                deny(self.remarks, missing, item);
                continue;
            }
            let Split { prefix, rest } = Split::of(item, text, &tree, self.caller)?;
            let (located, is_whole) = match is_own {
                true => (self.locate(&item.origin, &prefix)?, true),
                false => self.memory.locate_as_far(&prefix),
            };
            let is_elsewhere = located.of_process
                || denial == Denial::Write && leads_to_all(text, &located, &rest, writable);
            if !is_own && (!is_whole || is_elsewhere) {
                // Somebody made it lead nowhere: it stays what it is.
                let names = located.links.iter().map(|link| link.path.as_path());
                let end = nearest_name(&located.path).filter(|_| !is_elsewhere);
                let names = names.chain(end).map(Pattern::literal);
                names.for_each(|name| deny(self.remarks, name, item));
                continue;
            }
            if located.of_process {
                return Err(item.origin.error(
                    "a path through /proc/self means another one to each process; it cannot be denied",
                ));
            }
            let names_a_link = rest.is_empty();
            if is_own && self.remarks.are_wanted() {
                self.name_mistakes(item, &located.path, rest.is_empty());
            }
            if !is_own && denial == Denial::Write {
                let place = (located.path.as_path(), &*tree);
                let also = self.also_denied(place, (&rest, text), last.as_ref(), writable);
                also.into_iter().for_each(|pattern| deny(self.remarks, pattern, item));
            }
            let pattern = Pattern::beside(last.as_ref(), &located.path, rest);
            last = Some(pattern.clone());
            if !is_own && names_a_link && located.links.is_empty() {
                places.add((text, tree), &located.path, &pattern, &mut self.memory);
            }
            let pattern = pattern.naming_no_file(self.memory.is_no_file(&located.path));
            if is_own {
                self.git_links.denied.push(pattern.clone());
            } else if denial == Denial::Write && text.ends_with(linked_trees::COMMON) {
                self.git_links.common.push(pattern.clone());
            }
            deny(self.remarks, pattern, item);
            for link in located.links {
                // A link that could be replaced would lead what was denied elsewhere. Reading through it is
                // settled by where it leads, except that a denied link itself is denied by its name too.
                if denial == Denial::Write || (link.last && names_a_link) {
                    deny(self.remarks, Pattern::literal(&link.path), item);
                }
            }
        }
        Ok(patterns)
    }

    /// Says what of a denied path its author will not have meant.
    fn name_mistakes(&mut self, item: &Item, path: &Path, is_literal: bool) {
        self.name_unexpanded(item, path);
        if is_literal {
            self.name_missing(item, path);
        }
    }

    /// Says that a denied path is not there, which a mistyped one never is.
    fn name_missing(&mut self, item: &Item, path: &Path) {
        // What is missing is the first component that is not there; the rest is beneath it.
        let missing = path.ancestors().take_while(|path| path.symlink_metadata().is_err());
        let missing: Vec<&Path> = missing.collect();
        let Some(first) = missing.last() else { return };
        let text = item.text.trim_end_matches('/');
        let mut message = format!("'{text}' does not exist");
        let written: Vec<&str> = text.split('/').collect();
        let above = written.len().checked_sub(missing.len()).map(|end| &written[..end]);
        if let (Some(above), Some(sibling)) = (above, nearest_sibling(first)) {
            let sibling = [above, &[sibling.as_str()]].concat().join("/");
            message.push_str(&format!("; did you mean '{sibling}'?"));
        }
        self.warn(&item.origin, &message);
    }

    fn sockets(&mut self, items: &[Item]) -> Result<Vec<Grant>, PolicyError> {
        if let Some(item) = items.iter().find(|item| item.text.starts_with('@')) {
            let name = &item.text;
            return Err(item.origin.error(format!(
                "'{name}' is an abstract socket, which no policy allows; \
                 write './{name}' for a path of that name"
            )));
        }
        self.grants(items)
    }

    fn grants(&mut self, items: &[Item]) -> Result<Vec<Grant>, PolicyError> {
        let mut grants = Vec::new();
        for item in items {
            if presets::is_file(&item.origin.file) && item.text == linked_trees::ITEM {
                let linked = linked_trees::repository_of(self.caller).into_iter();
                grants.extend(linked.map(|path| Grant {
                    path,
                    links: Vec::new(),
                    from_glob: false,
                    origin: item.origin.clone(),
                }));
                continue;
            }
            let Split { prefix, rest } =
                Split::of(item, &item.text, &self.caller.cwd, self.caller)?;
            let located = match self.locate(&item.origin, &prefix) {
                // Somebody made it lead nowhere, where nothing is to be allowed.
                Err(error) if presets::is_file(&item.origin.file) => {
                    self.remarks.warn(format!("left out: {error}"));
                    continue;
                }
                located => located?,
            };
            if self.remarks.are_wanted() {
                self.name_unexpanded(item, &located.path);
            }
            if located.of_process {
                self.warn(&item.origin, "ignored: what the command holds open is usable anyway");
            } else if rest.is_empty() {
                grants.push(Grant::new(located, &[], false, item));
            } else {
                self.expand(item, &located, rest, &mut grants)?;
            }
        }
        Ok(grants)
    }

    fn expand(
        &mut self,
        item: &Item,
        prefix: &Located,
        rest: Vec<Component>,
        grants: &mut Vec<Grant>,
    ) -> Result<(), PolicyError> {
        if let Some(directory) = item.text.strip_suffix('*').filter(|_| rest.len() == 1)
            && (directory.is_empty() || directory.ends_with('/'))
        {
            let all = Some(directory.trim_end_matches('/')).filter(|text| !text.is_empty());
            let all = all.unwrap_or(if directory.is_empty() { "." } else { "/" });
            let message = format!("stands for what is there at launch; '{all}' is all of it");
            self.warn(&item.origin, &message);
            if item.origin.key == "filesystem.allowWrite" {
                self.remarks.star(prefix.path.clone());
            }
        }
        let found = expand(&prefix.path, rest, &mut self.budget)
            .map_err(|error| item.origin.error(error.to_string()))?;
        if found.matches.is_empty() {
            self.warn(&item.origin, &format!("'{}' matches nothing", item.text));
        }
        for directory in &found.unreadable {
            let message = format!("{} cannot be read to find matches", directory.display());
            self.warn(&item.origin, &message);
        }
        for path in found.matches {
            match self.memory.locate(&path) {
                Ok(located) if located.of_process => {}
                Ok(located) if is_of_run(&prefix.path, &located.path) => {
                    let message = format!(
                        "{} is left out, for other runs of landstrip have such directories; a path without a \
                         pattern allows it",
                        path.display()
                    );
                    self.warn(&item.origin, &message);
                }
                Ok(located) => {
                    let before: Vec<PathBuf> =
                        prefix.links.iter().map(|link| link.path.clone()).collect();
                    grants.push(Grant::new(located, &before, true, item));
                }
                Err(error) => self.warn(&item.origin, &format!("{}: {error}", path.display())),
            }
        }
        Ok(())
    }
}

impl Grant {
    fn new(located: Located, links_before: &[PathBuf], from_glob: bool, item: &Item) -> Grant {
        let links = located.links.into_iter().map(|link| link.path);
        Grant {
            path: located.path,
            links: links_before.iter().cloned().chain(links).collect(),
            from_glob,
            origin: item.origin.clone(),
        }
    }
}

/// Whether `path`, which a glob beneath `prefix` matches, is or lies in what runs have to themselves: a directory that is
/// this user's alone, and called as theirs are. No glob means that, and the next run has another one.
fn is_of_run(prefix: &Path, path: &Path) -> bool {
    let is_called = |name: &[u8]| name == b"landstrip" || name.starts_with(OF_RUNS);
    let is_own = |path: &Path| {
        let own = rustix::process::geteuid().as_raw();
        path.symlink_metadata().is_ok_and(|found| {
            found.is_dir() && found.uid() == own && found.mode() & 0o777 == 0o700
        })
    };
    let inside = path.ancestors().take_while(|above| *above != prefix);
    let mut named =
        inside.filter(|path| path.file_name().is_some_and(|name| is_called(name.as_bytes())));
    named.any(is_own)
}

/// Whether a link leads above all that is `writable`, as a command can leave one in another work tree, where `text` is in that.
fn leads_to_all(text: &str, to: &Located, rest: &[Component], writable: &[Grant]) -> bool {
    let is_link = !to.links.is_empty() && rest.is_empty() && !text.starts_with('~');
    is_link && is_all(&to.path, writable.iter().map(|it| &*it.path))
}

/// What of `path` a path can name (PATH_MAX). None if no entry can have its name (NAME_MAX).
fn nearest_name(path: &Path) -> Option<&Path> {
    let can_be = path.file_name().is_none_or(|name| name.len() <= 255);
    path.ancestors().filter(|_| can_be).find(|path| path.as_os_str().len() < 4096)
}
