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

/// Denies the other places of what `files` deny.
pub(super) fn deny(files: &mut Files, mounts: &[Mount], notes: &mut Notes) {
    let pairs = pairs(mounts);
    if pairs.is_empty() {
        return;
    }
    let Files { allow_write, allow_read, deny_write, deny_read, .. } = files;
    let allowed = allow_write.iter().chain(&*allow_read);
    let is_meant = |place: &Path| allowed.clone().any(|one| one.starts_with(place));
    for (list, patterns) in
        [("filesystem.denyWrite", deny_write), ("filesystem.denyRead", deny_read)]
    {
        for pattern in patterns.clone() {
            let (prefix, rest) = split(&pattern);
            let places = pairs.iter().filter_map(|pair| place(&prefix, &rest, pair));
            for place in places.filter(|place| !is_meant(place)) {
                let other = Pattern::new(&place, rest.clone());
                notes.own_rule(list, &other, OTHER_PLACE);
                push_new(patterns, other);
            }
        }
    }
}

/// The paths at which the same is found, both ways.
fn pairs(mounts: &[Mount]) -> Vec<(PathBuf, PathBuf)> {
    // What is mounted last hides what was there.
    let is_on = |path: &Path, mount: &Mount| {
        let upper = mounts.iter().filter(|other| path.starts_with(&other.point));
        upper.max_by_key(|other| other.point.as_os_str().len()) == Some(mount)
    };
    let mut pairs = Vec::new();
    for (outer, inner) in mounts.iter().flat_map(|one| mounts.iter().map(move |other| (one, other)))
    {
        if outer.device != inner.device || outer == inner {
            continue;
        }
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
fn place(prefix: &Path, rest: &[Component], (one, other): &(PathBuf, PathBuf)) -> Option<PathBuf> {
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
        deny(&mut files, parts, &mut Notes::default());
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
        ] {
            assert_eq!(others(denied, allowed, &parts), expected, "{denied}");
        }
    }
}
