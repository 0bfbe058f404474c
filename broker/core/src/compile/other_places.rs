//! Where what is denied is mounted a second time. Rules go by path, and Landlock's by inode: what is granted at one place
//! is by the other one too, also by its denied name. So what is denied at one place is at all of them, but where
//! another rule of the policy names what is there, or something in it. Pure. Source: mount(8), Bind mount operation.

use super::notes::Notes;
use kernel::mounts::Part;
use rules::files::{Files, push_new};
use rules::pattern::{Component, Pattern};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const OTHER_PLACE: &str = "another place where a denied path is mounted";

/// Denies the other places of what `files` deny.
pub(super) fn deny(files: &mut Files, parts: &[Part], notes: &mut Notes) {
    if !parts
        .iter()
        .enumerate()
        .any(|(at, part)| parts[..at].iter().any(|other| overlap(part, other)))
    {
        return;
    }
    let Files { allow_write, allow_read, deny_write, deny_read, .. } = files;
    let is_meant =
        |path: &Path| allow_write.iter().chain(&*allow_read).any(|one| one.starts_with(path));
    for (list, patterns) in
        [("filesystem.denyWrite", deny_write), ("filesystem.denyRead", deny_read)]
    {
        for pattern in patterns.clone() {
            let (prefix, rest) = split(&pattern);
            for place in places(&prefix, &rest, parts).into_iter().filter(|place| !is_meant(place))
            {
                let other = Pattern::new(&place, rest.clone());
                notes.own_rule(list, &other, OTHER_PLACE);
                push_new(patterns, other);
            }
        }
    }
}

/// Whether one has something that the other has.
fn overlap(one: &Part, other: &Part) -> bool {
    one.device == other.device
        && (one.root.starts_with(&other.root) || other.root.starts_with(&one.root))
}

/// The names that `pattern` begins with, and what follows the first glob in it.
fn split(pattern: &Pattern) -> (PathBuf, Vec<Component>) {
    let mut prefix = PathBuf::from("/");
    let mut components = (0..pattern.length()).filter_map(|at| pattern.component(at)).peekable();
    while let Some(Component::Literal(name)) = components.peek() {
        prefix.push(OsStr::from_bytes(name));
        components.next();
    }
    (prefix, components.cloned().collect())
}

/// Where else `rest` can match what it matches beneath `prefix`.
fn places(prefix: &Path, rest: &[Component], parts: &[Part]) -> Vec<PathBuf> {
    // What is mounted last hides what was there.
    let upper = parts.iter().enumerate().filter(|(_, part)| prefix.starts_with(&part.point));
    let upper = upper.max_by_key(|(_, part)| part.point.as_os_str().len());
    let held = upper
        .and_then(|(at, part)| Some((at, part.root.join(prefix.strip_prefix(&part.point).ok()?))));
    // Nor does a rule for all beneath end where something else is mounted.
    let is_for_all = rest.first().is_none_or(|first| *first == Component::AnyDepth);
    let beneath = parts
        .iter()
        .enumerate()
        .filter(|(_, part)| is_for_all && part.point.starts_with(prefix) && part.point != prefix);
    let mut found = Vec::new();
    for (at, inner) in held.into_iter().chain(beneath.map(|(at, part)| (at, part.root.clone()))) {
        for (_, other) in parts.iter().enumerate().filter(|(number, _)| *number != at) {
            if other.device != parts[at].device {
                continue;
            }
            let place = match inner.strip_prefix(&other.root) {
                Ok(within) => Some(other.point.join(within)),
                Err(_) if is_for_all && other.root.starts_with(&inner) => Some(other.point.clone()),
                Err(_) => None,
            };
            found.extend(place.filter(|place| !is_for_all || !place.starts_with(prefix)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn part(device: &str, root: &str, point: &str) -> Part {
        Part { device: device.into(), root: root.into(), point: point.into() }
    }

    /// What is denied once `denied` is, with these mounts, beside it.
    fn others(denied: &str, allowed: &str, parts: &[Part]) -> Vec<String> {
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
