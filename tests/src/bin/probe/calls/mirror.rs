//! The same script outside: what a sandbox refused is left out here if it may refuse it.
//!
//! The rules are computed again, by simpler means than the sandbox has: nothing else touches this
//! tree, so that paths can be looked up before the call. Nothing here trusts the sandbox's results:
//! a refusal without a rule is not followed, and shows as a difference.

use super::{Calls, Kind, Line, number};
use crate::sys::{self, addr, call};
use crate::tell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a sandbox may answer to a call that it refuses.
const REFUSALS: [&str; 4] = ["EACCES", "EPERM", "EXDEV", "EROFS"];
const HOPS: usize = 40;

/// Runs `script` after a sandbox whose results stand in `results`.
///
/// `denied` are paths below the tree, or `*.SUFFIX` for names anywhere in it. All that lies outside
/// of the tree is denied too.
pub(super) fn run(script: &str, results: &str, denied: &[&str]) {
    let results = super::read(results);
    let results: Vec<&str> =
        results.lines().map(|line| line.split_once('=').map_or("", |(_, result)| result)).collect();
    let mut rules = None;
    let mut left_out = 0;
    super::each(script, |calls, line| {
        let rules = rules.get_or_insert_with(|| Rules::new(&calls.root, denied));
        let theirs = results.get(line.number).copied().unwrap_or_default();
        let errno = theirs.split(' ').next().unwrap_or_default();
        let judged = rules.judge(calls, line);
        if judged.is_some() && REFUSALS.contains(&errno) {
            left_out += 1;
            calls.prepare(line);
            return format!("{errno}{}", calls.states(line));
        }
        if judged == Some("outside") && !rules.is_tried_outside(calls, line) {
            // Not in the directories of others. The errno is not compared, success is a fault.
            calls.prepare(line);
            let result = if errno == "OK" { "not to be done outside of the tree" } else { errno };
            return format!("{result}{}", calls.states(line));
        }
        let result = calls.make(line);
        match rules.broken() {
            Some(path) => format!("{result}; it changed the denied {}", path.display()),
            None => result,
        }
    });
    tell("left-out", &left_out.to_string());
}

struct Rules {
    root: PathBuf,
    literal: Vec<PathBuf>,
    suffixes: Vec<String>,
    /// The denied objects as they were at first.
    objects: BTreeMap<PathBuf, String>,
    identities: BTreeSet<(u64, u64)>,
}

impl Rules {
    fn new(root: &Path, denied: &[&str]) -> Self {
        let suffixes = denied.iter().filter_map(|rule| rule.strip_prefix('*'));
        let literal = denied.iter().filter(|rule| !rule.starts_with('*'));
        let mut rules = Self {
            root: root.to_owned(),
            literal: literal.map(|rule| root.join(rule)).collect(),
            suffixes: suffixes.map(str::to_owned).collect(),
            objects: BTreeMap::new(),
            identities: BTreeSet::new(),
        };
        rules.objects = rules.find();
        let metadata = rules.objects.keys().filter_map(|path| fs::symlink_metadata(path).ok());
        rules.identities = metadata.map(|found| (found.dev(), found.ino())).collect();
        rules
    }

    /// Why the call may be refused.
    fn judge(&self, calls: &Calls, line: &Line<'_>) -> Option<&'static str> {
        let writes =
            libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE;
        let is_change = match line.open_flags() {
            Some(flags) => flags & libc::O_PATH == 0 && flags & (writes & !libc::O_DIRECTORY) != 0,
            // Both times are to stay: the kernel does not even look.
            None => line.call.changes && !line.words.contains(&"omit") || line.asks_to_write(),
        };
        if !is_change {
            return None;
        }
        let names = names(calls, line);
        // The entry that names the tree lies outside of it. A pipe lies nowhere.
        let is_of_entry = line.call.removes || line.call.name.starts_with("link");
        let is_outside = |name: &PathBuf| {
            name.is_absolute() && !name.starts_with(&self.root)
                || (is_of_entry && *name == self.root)
        };
        if names.iter().any(is_outside) {
            return Some("outside");
        }
        // By its path from the root directory the allowed tree can no longer be told from another.
        let is_closed = fs::symlink_metadata(self.root.join("."))
            .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
        if is_closed && !(self.literal.is_empty() && self.suffixes.is_empty()) {
            return Some("closed");
        }
        let is_denied = |name: &PathBuf| self.is_denied(name, line.call.removes);
        names.iter().any(is_denied).then_some("denied")
    }

    /// Whether a change outside of the tree may be tried here: an open in this test's world, which
    /// reads if what it is to make exists.
    fn is_tried_outside(&self, calls: &Calls, line: &Line<'_>) -> bool {
        let world = self.root.parent().unwrap_or(&self.root);
        line.open_flags().is_some() && names(calls, line).iter().all(|name| name.starts_with(world))
    }

    fn is_denied(&self, name: &Path, removes: bool) -> bool {
        let has_identity = fs::symlink_metadata(name)
            .is_ok_and(|found| self.identities.contains(&(found.dev(), found.ino())));
        let leads = self.literal.iter().any(|rule| rule.starts_with(name))
            || self.objects.keys().any(|object| object.starts_with(name));
        has_identity || self.matches(name) || (removes && (leads || self.contains(name)))
    }

    /// Whether a rule names it or something that it lies in.
    fn matches(&self, name: &Path) -> bool {
        let below = name.strip_prefix(&self.root).unwrap_or(name);
        self.literal.iter().any(|rule| name.starts_with(rule))
            || below.components().any(|part| {
                let part = part.as_os_str().to_string_lossy();
                self.suffixes.iter().any(|suffix| part.ends_with(suffix))
            })
    }

    /// Whether a name that a rule matches stands below the directory, or could: its owner may close it.
    fn contains(&self, directory: &Path) -> bool {
        let is_directory = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
        if !is_directory || self.literal.is_empty() && self.suffixes.is_empty() {
            return false;
        }
        let Ok(mut entries) = fs::read_dir(directory) else { return true };
        entries.any(|entry| {
            entry.map_or(true, |entry| {
                let path = entry.path();
                self.matches(&path) || self.contains(&path)
            })
        })
    }

    /// All objects that rules match, with what must not change.
    fn find(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        if self.literal.is_empty() && self.suffixes.is_empty() {
            return found;
        }
        let mut open = vec![self.root.clone()];
        while let Some(path) = open.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if self.matches(&path) {
                let (mode, size, inode) = (metadata.mode(), metadata.size(), metadata.ino());
                let time = (metadata.mtime(), metadata.mtime_nsec());
                found.insert(path.clone(), format!("{inode} {mode:o} {size} {time:?}"));
            }
            if metadata.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                open.extend(entries.map(|entry| entry.path()));
            }
        }
        found
    }

    /// A denied object that is not what it was: what a sandbox let happen in its tree.
    fn broken(&self) -> Option<PathBuf> {
        let now = self.find();
        // One that cannot be looked at any more, since a directory above was closed, is as it was.
        let is_hidden = |path: &Path| {
            let found = fs::symlink_metadata(path);
            found.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
        };
        let is_other =
            |path: &&PathBuf| now.get(*path) != self.objects.get(*path) && !is_hidden(path);
        now.keys().chain(self.objects.keys()).find(is_other).cloned()
    }
}

/// All that the call is about.
fn names(calls: &Calls, line: &Line<'_>) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for (at, path) in line.paths() {
        // A slash leads through a symbolic link, but for what takes a name away.
        let follows = follows(line) || !line.call.removes && path.ends_with('/');
        names.extend(objects(calls, at, path, follows));
    }
    for (kind, word) in line.arguments() {
        if kind == Kind::Descriptor {
            names.extend(link_of(calls.descriptor(word)));
        }
    }
    names
}

/// Whether the call acts on what a symbolic link leads to.
fn follows(line: &Line<'_>) -> bool {
    match line.call.name {
        "access" => true,
        "faccessat2" => line.words.last().is_some_and(|flags| number(flags) & 0x100 == 0),
        "linkat" => line.words.last().is_some_and(|flags| number(flags) & 0x400 != 0),
        "fchmodat2" | "utimensat" | "fchownat" => {
            line.words.last().is_none_or(|flags| number(flags) & 0x100 == 0)
        }
        "truncate" | "chmod" | "fchmodat" | "utimes-now" | "chown" | "setxattr" | "removexattr" => {
            true
        }
        _ => line.open_flags().is_some_and(|flags| {
            let exclusive = libc::O_CREAT | libc::O_EXCL;
            flags & libc::O_NOFOLLOW == 0 && flags & exclusive != exclusive
        }),
    }
}

/// What a path is the name of: the entry, or what symbolic links there lead to.
fn objects(calls: &Calls, at: &str, word: &str, follows: bool) -> Vec<PathBuf> {
    let path = match word {
        "''" | "!null" | "!bad" => String::new(),
        _ if word.starts_with("!torn:") => String::new(),
        _ => calls.expand(word.strip_prefix("!edge:").unwrap_or(word)),
    };
    let start = calls.descriptor(at);
    if path.is_empty() {
        return link_of(start).into_iter().collect();
    }
    let mut entry = entry_of(start, &path);
    if !follows {
        return entry.into_iter().collect();
    }
    let text = sys::cstr(&path);
    let opath = (libc::O_PATH | libc::O_CLOEXEC) as usize;
    if let Ok(fd) = call(libc::SYS_openat, &[start, addr(text.as_c_str()), opath]) {
        let name = link_of(fd);
        let _ = call(libc::SYS_close, &[fd]);
        return name.into_iter().collect();
    }
    // What does not exist may be made where the last link leads.
    for _ in 0..HOPS {
        let next = entry.as_ref().and_then(|name| Some((name, fs::read_link(name).ok()?)));
        let Some((name, target)) = next else { break };
        let target = name.parent().unwrap_or(name).join(target);
        entry = entry_of(super::AT, &target.to_string_lossy());
    }
    entry.into_iter().collect()
}

/// The canonical name of the entry, which need not exist in its directory, which must.
fn entry_of(start: usize, path: &str) -> Option<PathBuf> {
    let trimmed = path.trim_end_matches('/');
    let (parent, last) = match trimmed.rsplit_once('/') {
        Some(("", last)) => ("/", last),
        Some(split) => split,
        None => (".", trimmed),
    };
    let is_whole = matches!(last, "" | "." | "..");
    let text = sys::cstr(if is_whole { path } else { parent });
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as usize;
    let fd = call(libc::SYS_openat, &[start, addr(text.as_c_str()), flags]).ok()?;
    let name = link_of(fd);
    let _ = call(libc::SYS_close, &[fd]);
    if is_whole { name } else { name.map(|name| name.join(last)) }
}

/// What the kernel says a descriptor is open on.
pub(super) fn link_of(fd: usize) -> Option<PathBuf> {
    if fd == super::AT {
        return std::env::current_dir().ok();
    }
    fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}
