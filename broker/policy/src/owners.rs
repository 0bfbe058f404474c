//! Whether somebody else can change a policy: whose the file is, and every directory and link on the way to it, and who
//! may write them. Root can do all, and is nobody else. Sources: path_resolution(7), acl(5), user_namespaces(7).

use rustix::fs::{self, FileType, Mode, Stat};
use rustix::process::geteuid;
use std::fs::{File, read_to_string};
use std::path::{Path, PathBuf};

/// Who stands for all that a user namespace does not know (/proc/sys/kernel/overflowuid).
const OVERFLOW: u32 = 65534;
/// What a user namespace maps that knows every user.
const ALL: [&str; 3] = ["0", "0", "4294967295"];

/// Why the policy in `file` is not this user's alone to change: its path is the last of `trail`, before which are the
/// links that led to it. None if it is.
pub fn others(file: &File, trail: &[PathBuf]) -> Option<String> {
    let path = trail.last()?;
    let Ok(stat) = fs::fstat(file) else { return Some("it cannot be looked at".to_owned()) };
    let of_file = fault(path, &stat);
    // In the order of the way.
    let mut ways: Vec<&Path> = Vec::new();
    for step in trail {
        let above: Vec<_> = step.ancestors().skip(1).filter(|path| !ways.contains(path)).collect();
        ways.extend(above.into_iter().rev());
        ways.extend((step != path).then_some(step.as_path()));
    }
    let of_way = || {
        ways.into_iter().find_map(|path| match fs::lstat(path) {
            Ok(stat) => fault(path, &stat),
            Err(_) => Some(format!("{} cannot be looked at", path.display())),
        })
    };
    of_file.or_else(of_way)
}

/// What lets others change what `path` is.
fn fault(path: &Path, stat: &Stat) -> Option<String> {
    let shown = path.display();
    let owner = stat.st_uid;
    if owner != geteuid().as_raw() && owner != 0 && !(owner == OVERFLOW && knows_few_users()) {
        return Some(format!("{shown} belongs to another user ({owner})"));
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    let is = |kind| FileType::from_raw_mode(stat.st_mode) == kind;
    // A link has no mode. In a sticky directory each entry is its owner's, who is looked at as well.
    if is(FileType::Symlink) || is(FileType::Directory) && mode.contains(Mode::SVTX) {
        return None;
    }
    let by_all = mode.contains(Mode::WOTH);
    let by_group = mode.contains(Mode::WGRP) && !is_own_group(path, stat);
    (by_all || by_group).then(|| {
        let mode = stat.st_mode & 0o7777;
        let whom = if by_all { "everybody" } else { "a group" };
        format!("{shown} may be written by {whom} (mode {mode:04o})")
    })
}

/// Whether the group is root's, or one that the user alone is in, as far as can be told: those of that kind have the
/// user's number. With an access control list, what looks like the group's right is that of anybody.
fn is_own_group(path: &Path, stat: &Stat) -> bool {
    let group = stat.st_gid;
    let is_own = [0, geteuid().as_raw()].contains(&group);
    let mut size_only = [0u8; 0];
    is_own && fs::lgetxattr(path, "system.posix_acl_access", &mut size_only).is_err()
}

/// Whether there are owners whom this user namespace has no number for.
fn knows_few_users() -> bool {
    let map = read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().ne(ALL)
}
