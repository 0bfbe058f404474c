//! Where what is denied is mounted a second time. Rules go by path, and Landlock's by inode: what is granted at one place
//! is by the other one too, also by its denied name. So what is denied at one place is at all of them, but where
//! another rule of the policy names what is there, or something in it. The table of mounts says where to look, and what is
//! found there whether it is the same: a root directory that chroot(2) made has no line, and what was moved or covered lies
//! in another order. Source: mount(8), Bind mount operation.

use super::notes::Notes;
use kernel::mounts::Mount;
use rules::files::{Files, push_new};
use rules::pattern::{Component, Pattern};
use rules::quick::QuickMap;
use rustix::fs::{self, AtFlags, StatxFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const OTHER_PLACE: &str = "another place where a denied path is mounted";
/// Denied for what is on the way to it alone: nothing is called so.
const NOTHING: &str = ".landstrip-nothing";

/// Paths, each with others at which the same is found.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<PathBuf, Vec<PathBuf>>);

impl Places {
    /// Those of `mounts`.
    pub(super) fn among(mounts: &[Mount]) -> Self {
        Self::identified(mounts, identify)
    }

    fn identified<I: PartialEq>(mounts: &[Mount], identify: impl Fn(&Path) -> Option<I>) -> Self {
        let mut found = Self::default();
        let has_root = mounts.iter().any(|mount| mount.point == Path::new("/"));
        let mut times: QuickMap<&[u8], usize> = QuickMap::default();
        mounts.iter().for_each(|mount| *times.entry(&mount.device).or_default() += 1);
        // Of most file systems there is one mount.
        let is_met = |mount: &&Mount| !has_root || times[&*mount.device] > 1;
        let mut parts: QuickMap<(&[u8], &Path), Vec<&Mount>> = QuickMap::default();
        for mount in mounts.iter().filter(is_met) {
            parts.entry((&mount.device, &mount.root)).or_default().push(mount);
        }
        for inner in mounts.iter().filter(is_met) {
            for root in inner.root.ancestors() {
                let within = inner.root.strip_prefix(root).unwrap_or(root);
                let outer = parts.get(&(&*inner.device, root)).into_iter().flatten();
                let points = outer.map(|outer| &*outer.point);
                for point in points.chain((!has_root).then_some(Path::new("/"))) {
                    let place = point.join(within);
                    let is_it = |found| identify(&inner.point) == Some(found);
                    if place != inner.point && identify(&place).is_some_and(is_it) {
                        found.add(place, &inner.point);
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, place: PathBuf, point: &Path) {
        push_new(self.0.entry(place.clone()).or_default(), point.to_owned());
        push_new(self.0.entry(point.to_owned()).or_default(), place);
    }

    /// `path` and its other places.
    pub(super) fn all(&self, path: &Path) -> Vec<PathBuf> {
        self.of(path, &[]).chain([path.to_owned()]).collect()
    }

    /// Where `rest` matches, by another path, what it matches beneath `prefix`.
    fn of(&self, prefix: &Path, rest: &[Component]) -> impl Iterator<Item = PathBuf> {
        // A rule for all beneath does not end where something else is mounted.
        let is_for_all = rest.first().is_none_or(|first| *first == Component::AnyDepth);
        let found = self.0.iter().flat_map(move |(one, others)| {
            let within = prefix.strip_prefix(one).ok();
            let is_met = within.is_some() || is_for_all && one.starts_with(prefix);
            let others = others.iter().filter(move |_| is_met);
            others
                .map(move |other| within.map_or_else(|| other.clone(), |within| other.join(within)))
        });
        found.filter(move |place| !is_for_all || !place.starts_with(prefix))
    }

    /// What is mounted in a directory that has other places, as if it was there as well. Landlock lets all be used that is
    /// beneath what it grants, by whatever name: a directory that nothing is mounted in by one name can be above a mount by
    /// another.
    pub(super) fn hidden(&self, mounts: &[Mount]) -> Vec<Mount> {
        let mut hidden = Vec::new();
        for (one, others) in &self.0 {
            for mount in mounts.iter().filter(|mount| mount.point != *one) {
                let Ok(within) = mount.point.strip_prefix(one) else { continue };
                for other in others {
                    push_new(&mut hidden, Mount { point: other.join(within), ..mount.clone() });
                }
            }
        }
        hidden
    }
}

/// What is at `path`, if no link is on the way: nobody is asked who may not answer.
fn identify(path: &Path) -> Option<(u32, u32, u64)> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = fs::statx(fs::CWD, path, flags, StatxFlags::INO).ok()?;
    let is_canonical = std::fs::canonicalize(path).is_ok_and(|canonical| canonical == path);
    is_canonical.then_some((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}

/// Denies the other places of what `files` deny, and keeps what leads to a [`Places::hidden`] mount from being granted as a
/// whole.
pub(super) fn deny(files: &mut Files, mounts: &[Mount], places: &Places, notes: &mut Notes) {
    if places.0.is_empty() {
        return;
    }
    let Files { allow_write, allow_read, deny_write, deny_read, .. } = files;
    let is_meant = |at: &Path| allow_write.iter().chain(&*allow_read).any(|it| it.starts_with(at));
    for (list, patterns) in
        [("filesystem.denyWrite", &mut *deny_write), ("filesystem.denyRead", &mut *deny_read)]
    {
        for (prefix, rest) in patterns.clone().iter().map(Pattern::split) {
            let rest: Vec<_> = rest.cloned().collect();
            for place in places.of(&prefix, &rest).filter(|place| !is_meant(place)) {
                let other = Pattern::new(&place, rest.clone());
                notes.own_rule(list, &other, OTHER_PLACE);
                push_new(patterns, other);
            }
        }
    }
    for mount in places.hidden(mounts) {
        let nothing = Pattern::literal(&mount.point.join(NOTHING));
        deny_read.extend((!deny_read.is_empty()).then(|| nothing.clone()));
        deny_write.push(nothing);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn part(device: &str, root: &str, point: &str) -> Mount {
        let kind = "ext4".into();
        Mount { device: device.into(), root: root.into(), point: point.into(), kind }
    }

    /// Where the kernel would find the same, if each mount was made in the order of the table.
    fn places(parts: &[Mount]) -> Places {
        Places::identified(parts, |path| {
            let upper = parts.iter().filter(|part| path.starts_with(&part.point));
            let part = upper.max_by_key(|part| part.point.as_os_str().len())?;
            let inner = path.strip_prefix(&part.point).unwrap();
            Some((part.device.clone(), part.root.join(inner)))
        })
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
        deny(&mut files, parts, &places(parts), &mut Notes::default());
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
        let found = places(&mounts).all(Path::new("/home/u/.cache/landstrip"));
        let expected = ["/home/u/jail/.cache/landstrip", "/home/u/.cache/landstrip"];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn in_a_root_directory_that_is_no_mount_point_what_is_mounted_has_its_other_place() {
        let (inside, home) = (part("8:1", "/jail/data/home", "/home"), Path::new("/home/u"));
        // The root directory is /jail.
        let root = |path: &Path| match path.strip_prefix("/home") {
            Ok(inner) => Some(Path::new("/jail/data/home").join(inner)),
            Err(_) => Some(Path::new("/jail").join(path.strip_prefix("/").unwrap())),
        };
        let found = Places::identified(&[inside], root).all(home);
        assert_eq!(found, ["/data/home/u", "/home/u"].map(PathBuf::from));
    }
}
