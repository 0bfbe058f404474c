//! What may not be allowed because a symbolic link leads there that the command could have made.

use super::callers::Caller;
use super::error::PolicyError;
use super::paths::{Grant, Grants, Paths, paths};
use super::{presets, reach, repositories};
use crate::harmless;
use rules::files::Files;
use rules::paths::{Rules, covers};
use rules::pattern::Pattern;
use rustix::process::geteuid;
use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

impl Paths<'_> {
    /// Refuses what would be allowed only through a symbolic link that lies where the command may write, or where one
    /// in this directory or its work tree could under a wider policy: an earlier run could have made it, to be let out by
    /// the next one; for what is written, also one in the home that leads to what is obeyed there. Under a preset, which
    /// knows what its paths are for, also one in the home that leads to no place for that. A literal entry is an error,
    /// since it can name the target instead; a match of a glob, and what a preset says, is left out.
    pub(super) fn drop_planted(
        &mut self,
        grants: &mut Grants,
        deny_write: &[Pattern],
        deny_read: &[Pattern],
    ) -> Result<(), PolicyError> {
        let Grants { write, inside, read, sockets } = grants;
        if [&write, &inside, &read, &sockets]
            .iter()
            .all(|list| list.iter().all(|grant| grant.links.is_empty()))
        {
            return Ok(());
        }
        let reach = paths(&grants.write);
        let rules_of = |write: Vec<PathBuf>, inside: Vec<PathBuf>, read: Vec<PathBuf>| {
            Rules::new(&Files {
                allow_write: write,
                allow_write_inside: inside,
                deny_write: deny_write.to_vec(),
                deny_read: deny_read.to_vec(),
                allow_read: read,
                ..Files::default()
            })
        };
        let all = rules_of(reach.clone(), paths(&grants.inside), paths(&grants.read));
        let caller = self.caller;
        let led_by = |grant: &Grant, is_written: bool| {
            // What is denied now was likely denied before.
            let was_free = |link: &Path| !covers(deny_write, link);
            let is_planted = |link: &&PathBuf| {
                all.access(link).write
                    || was_free(link) && leads_out(link, &grant.path, caller)
                    || presets::is_file(&grant.origin.file)
                        && leads_astray(link, &grant.path, caller)
                    || is_written && leads_to_settings(link, &grant.path, caller)
            };
            grant.links.iter().find(is_planted).cloned()
        };
        let planted = |grant: &Grant| led_by(grant, true);
        // What is read is often kept in a repository, and links are the way to sockets whose names change.
        let planted_unwritten = |grant: &Grant| led_by(grant, false);
        let sound = |list: &[Grant], planted: &dyn Fn(&Grant) -> Option<PathBuf>| {
            let sound = list.iter().filter(|grant| planted(grant).is_none());
            sound.map(|grant| grant.path.clone()).collect::<Vec<_>>()
        };
        // A rule that denies the link now said nothing of it where it was opened before.
        let planted_inside = |grant: &Grant| {
            let is_reached = |link: &&PathBuf| reach.iter().any(|root| link.starts_with(root));
            grant.links.iter().find(is_reached).cloned()
        };
        let inside = grants.inside.iter().filter(|grant| planted_inside(grant).is_none());
        let inside = inside.map(|grant| grant.path.clone()).collect();
        let read = sound(&grants.read, &planted_unwritten);
        let trusted = rules_of(sound(&grants.write, &planted), inside, read);
        let sockets = sound(&grants.sockets, &planted_unwritten);

        let widens_write = |path: &Path| all.access(path).write && !trusted.access(path).write;
        let widens_read = |path: &Path| all.access(path).read && !trusted.access(path).read;
        let widens_sockets = |path: &Path| !sockets.iter().any(|socket| path.starts_with(socket));
        self.keep_sound(&mut grants.write, &planted, &widens_write)?;
        self.keep_sound(&mut grants.inside, &planted_inside, &|_| true)?;
        self.keep_sound(&mut grants.read, &planted_unwritten, &widens_read)?;
        self.keep_sound(&mut grants.sockets, &planted_unwritten, &widens_sockets)
    }

    fn keep_sound(
        &mut self,
        grants: &mut Vec<Grant>,
        planted: &dyn Fn(&Grant) -> Option<PathBuf>,
        widens: &dyn Fn(&Path) -> bool,
    ) -> Result<(), PolicyError> {
        let mut kept = Vec::new();
        for grant in grants.drain(..) {
            let Some(link) = planted(&grant).filter(|_| widens(&grant.path)) else {
                kept.push(grant);
                continue;
            };
            let message = format!(
                "{} is a symbolic link where this command, or an earlier one, may write, so it could choose where \
                 it leads; {}",
                link.display(),
                self.instead_of_link(&grant.path)
            );
            match (grant.from_glob, presets::is_file(&grant.origin.file)) {
                (false, false) => return Err(grant.origin.error(message)),
                (_, true) => self.tell(&grant.origin, &format!("left out: {message}")),
                (true, false) => self.warn(&grant.origin, &format!("left out: {message}")),
            }
        }
        *grants = kept;
        Ok(())
    }

    /// What to do about a link to `target`, which the command may have chosen to have it named.
    fn instead_of_link(&self, target: &Path) -> String {
        let home = reach::home(self.caller);
        let settings = home.as_deref().map(reach::linked_settings).unwrap_or_default();
        let (home, shown) = (home.as_deref(), target.display());
        match harmless::is_too_wide(target, home) || harmless::is_obeyed(target, home, &settings) {
            true => format!(
                "remove it, unless you made it: programs outside may run or obey what is in {shown}"
            ),
            false => format!("name {shown} instead"),
        }
    }
}

/// Whether `link` is the user's own, in the working directory or in a work tree of git, and leads out of that to
/// `target`.
fn leads_out(link: &Path, target: &Path, caller: &Caller) -> bool {
    let Some(mut trees) = trees_around(link, caller) else { return true };
    trees.any(|tree| !target.starts_with(tree)) && is_own(link)
}

/// The working directory and the work trees of git that `link` is in; none if that is not known. At a home everything is
/// the user's, and so are links that were made there once and for all.
fn trees_around(link: &Path, caller: &Caller) -> Option<impl Iterator<Item = PathBuf>> {
    let cwd = caller.cwd.canonicalize().ok()?;
    let home = reach::home(caller);
    let is_around = move |tree: &PathBuf| {
        link.starts_with(tree) && home.as_ref().is_none_or(|home| !home.starts_with(tree))
    };
    Some(repositories::tops([link]).chain([cwd]).filter(is_around))
}

/// Whether `link` is the user's own, in the home, and leads to what is not known to be no more than a place for
/// caches.
fn leads_astray(link: &Path, target: &Path, caller: &Caller) -> bool {
    let Some(home) = reach::home(caller).filter(|home| link.starts_with(home)) else {
        return false;
    };
    let is_project = |top: PathBuf| !home.starts_with(top);
    let may_be_meant = harmless::may_hold_caches(target, &home);
    (!may_be_meant || repositories::tops([target]).any(is_project)) && is_own(link)
}

/// Whether `link` is the user's own, in the home, and leads to what is obeyed there, but not within a tree around it: no
/// policy means that.
fn leads_to_settings(link: &Path, target: &Path, caller: &Caller) -> bool {
    let are_in = |home: &Cow<'_, Path>| link.starts_with(home) && target.starts_with(home);
    let Some(home) = reach::home(caller).filter(are_in) else { return false };
    let mut trees = trees_around(link, caller).into_iter().flatten();
    !harmless::may_hold_caches(target, &home)
        && !trees.any(|tree| target.starts_with(tree))
        && is_own(link)
}

fn is_own(link: &Path) -> bool {
    link.symlink_metadata().is_ok_and(|found| found.uid() == geteuid().as_raw())
}
