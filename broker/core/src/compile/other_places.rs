//! Where what is denied is mounted a second time. Rules go by path, and Landlock's by inode: what is granted at one place
//! is by the other one too, also by its denied name. So what is denied at one place is at all of them, but where
//! another rule of the policy names what is there, or something in it. Pure. Source: mount(8), Bind mount operation.

use super::notes::Notes;
use kernel::mounts::Mount;
use rules::files::{Files, push_new};
use rules::pattern::{Component, Pattern};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const OTHER_PLACE: &str = "another place where a denied path is mounted";
/// Denied for what is on the way to it alone: nothing is called so.
const NOTHING: &str = ".landstrip-nothing";

/// Denies the other places of what `files` deny, and keeps what leads to a [`hidden`] mount from being granted as a whole.
pub(super) fn deny(files: &mut Files, mounts: &[Mount], pairs: &[Pair], notes: &mut Notes) {
    if pairs.is_empty() {
        return;
    }
    let Files { allow_write, allow_read, deny_write, deny_read, .. } = files;
    let is_meant = |at: &Path| allow_write.iter().chain(&*allow_read).any(|it| it.starts_with(at));
    for (list, patterns) in
        [("filesystem.denyWrite", &mut *deny_write), ("filesystem.denyRead", &mut *deny_read)]
    {
        for (prefix, rest) in patterns.clone().iter().map(split) {
            let places = pairs.iter().filter_map(|pair| place(&prefix, &rest, pair));
            for place in places.filter(|place| !is_meant(place)) {
                let other = Pattern::new(&place, rest.clone());
                notes.own_rule(list, &other, OTHER_PLACE);
                push_new(patterns, other);
            }
        }
    }
    for mount in hidden(mounts, pairs) {
        let nothing = Pattern::literal(&mount.point.join(NOTHING));
        deny_read.extend((!deny_read.is_empty()).then(|| nothing.clone()));
        deny_write.push(nothing);
    }
}

/// `path` and its other places.
pub(super) fn all(path: &Path, pairs: &[Pair]) -> Vec<PathBuf> {
    let others = pairs.iter().filter_map(|pair| place(path, &[], pair));
    others.chain([path.to_owned()]).collect()
}

/// What is mounted in a directory that has other places, as if it was there as well. Landlock lets all be used that is
/// beneath what it grants, by whatever name: a directory that nothing is mounted in by one name can be above a mount by
/// another.
pub(super) fn hidden(mounts: &[Mount], pairs: &[Pair]) -> Vec<Mount> {
    let mut hidden = Vec::new();
    for (one, other) in pairs {
        for mount in mounts.iter().filter(|mount| mount.point != *one) {
            let Ok(within) = mount.point.strip_prefix(one) else { continue };
            push_new(&mut hidden, Mount { point: other.join(within), ..mount.clone() });
        }
    }
    hidden
}

/// Two paths at which the same is found.
pub(super) type Pair = (PathBuf, PathBuf);

/// All pairs, both ways.
pub(super) fn pairs(mounts: &[Mount]) -> Vec<Pair> {
    // What is mounted last hides what was there.
    let is_on = |path: &Path, mount: &Mount| {
        let upper = mounts.iter().filter(|other| path.starts_with(&other.point));
        upper.max_by_key(|other| other.point.as_os_str().len()) == Some(mount)
    };
    let mut pairs = Vec::new();
    let both = mounts.iter().flat_map(|one| mounts.iter().map(move |other| (one, other)));
    for (outer, inner) in both.filter(|(outer, inner)| outer.device == inner.device) {
        let Ok(within) = inner.root.strip_prefix(&outer.root) else { continue };
        let place = outer.point.join(within);
        if place != inner.point && is_on(&place, outer) && is_on(&inner.point, inner) {
            pairs.push((place.clone(), inner.point.clone()));
            pairs.push((inner.point.clone(), place));
        }
    }
    pairs
}

/// The names that `pattern` begins with, and what follows from the first glob in it.
fn split(pattern: &Pattern) -> (PathBuf, Vec<Component>) {
    let mut prefix = PathBuf::from("/");
    let mut components = (0..pattern.length()).filter_map(|at| pattern.component(at)).peekable();
    while let Some(Component::Literal(name)) = components.peek() {
        prefix.push(OsStr::from_bytes(name));
        components.next();
    }
    (prefix, components.cloned().collect())
}

/// Where `rest` matches, by the second path of a pair, what it matches beneath `prefix` by the first.
fn place(prefix: &Path, rest: &[Component], (one, other): &Pair) -> Option<PathBuf> {
    // A rule for all beneath does not end where something else is mounted.
    let is_for_all = rest.first().is_none_or(|first| *first == Component::AnyDepth);
    let place = match prefix.strip_prefix(one) {
        Ok(within) => other.join(within),
        Err(_) if is_for_all && one.starts_with(prefix) => other.clone(),
        Err(_) => return None,
    };
    (!is_for_all || !place.starts_with(prefix)).then_some(place)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn part(device: &str, root: &str, point: &str) -> Mount {
        let kind = "ext4".into();
        Mount { device: device.into(), root: root.into(), point: point.into(), kind }
    }

    /// What is denied once `denied` is, with these mounts, beside it.
    fn others(denied: &str, allowed: &str, parts: &[Mount]) -> Vec<String> {
        let parts_of = denied.split('/').filter(|name| !name.is_empty());
        let components: Vec<_> =
            parts_of.map(|name| Component::parse(name.as_bytes()).unwrap()).collect();
        let pattern = Pattern::new(Path::new("/"), components);
        let mut files = Files {
            deny_read: vec![pattern.clone()],
            allow_write: vec![allowed.into()],
            ..Files::default()
        };
        deny(&mut files, parts, &pairs(parts), &mut Notes::default());
        files.deny_read.iter().skip(1).map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_denied_is_denied_wherever_it_is_mounted() {
        let system = || part("8:1", "/", "/");
        let home = || part("8:1", "/data/home", "/home");
        for (parts, denied, allowed, expected) in [
            (vec![system()], "/home/u/.ssh", "/w", vec![]),
            (vec![system(), home()], "/home/u/.ssh", "/w", vec!["/data/home/u/.ssh"]),
            (vec![system(), home()], "/data/home/u/.ssh", "/w", vec!["/home/u/.ssh"]),
            // A part of it, and what it is a part of.
            (vec![system(), home()], "/data", "/w", vec!["/home"]),
            (vec![system(), part("8:1", "/dw", "/w/dw")], "/dw", "/w", vec!["/w/dw"]),
            // Somebody names it.
            (vec![system(), home()], "/data", "/home/u/work", vec![]),
            (vec![system(), part("8:2", "/data", "/home")], "/data", "/w", vec![]),
            (
                vec![system(), part("8:2", "/", "/x"), part("8:2", "/", "/a/x")],
                "/a",
                "/w",
                vec!["/x"],
            ),
            // Hidden by what was mounted later.
            (vec![system(), home(), part("8:2", "/", "/home")], "/home/u", "/w", vec![]),
            (vec![system(), home()], "/home/*/.ssh", "/w", vec!["/data/home/*/.ssh"]),
            (vec![system(), home()], "/data/**/key", "/w", vec!["/home/**/key"]),
            (vec![system(), home()], "/data/*/key", "/w", vec![]),
            // A mount lies in directories that have other places.
            (
                vec![system(), part("8:1", "/", "/mnt/x")],
                "/u/.ssh",
                "/w",
                vec!["/mnt/x/u/.ssh", "/mnt/x/mnt/x/.landstrip-nothing"],
            ),
            (
                vec![system(), part("8:1", "/w/b", "/w/c"), part("8:1", "/u", "/w/b/u")],
                "/u/.ssh",
                "/w",
                vec!["/w/b/u/.ssh", "/w/c/u/.landstrip-nothing"],
            ),
        ] {
            assert_eq!(others(denied, allowed, &parts), expected, "{denied}");
        }
    }

    #[test]
    fn directories_of_runs_have_their_other_places() {
        let mounts = [part("8:1", "/", "/"), part("8:1", "/home/u", "/home/u/jail")];
        let found = all(Path::new("/home/u/.cache/landstrip"), &pairs(&mounts));
        let expected = ["/home/u/jail/.cache/landstrip", "/home/u/.cache/landstrip"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
