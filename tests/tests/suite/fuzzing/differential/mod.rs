//! The same calls inside and outside: the same results, the same files, except where the policy
//! says otherwise.
//!
//! A generated script runs in a sandbox, then outside in another tree that was made alike. There the
//! probe leaves out what the sandbox refused and, by a model of its own, may refuse. All results
//! and all files must then be equal, and what is denied as it was. `LANDSTRIP_SEEDS=1000-2000`
//! tries others than the seeds below; a difference is reported with the shortest script that shows it.

mod generate;

use crate::reserve::without_reserve;
use generate::{Names, script};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tests::{Sandbox, Snapshot, User, for_each_user};

/// Lines of a script.
const LENGTH: usize = 250;
/// Attempts at making a failing script shorter.
const ATTEMPTS: usize = 400;

/// What of what is denied is there at first.
const PRESENT: [&str; 4] = ["secret/.env", ".git/hooks", "key.pem", "a/b/cert.pem"];

/// The tree that scripts start in.
const TREE: &str = "set -e; mkdir a a/b c d secret secret/sub .git .git/refs .git/hooks keys z; \
    echo content > f; echo deep > a/b/f; echo inner > a/f; echo r > r; echo u > unread; chmod 444 r; echo g > g; \
    chmod 600 g; echo z > z/f; chmod 000 z; ln -s a l; ln -s f lf; ln -s a/none dangling; \
    ln -s loop loop; ln -s \"$PWD\" abs; ln -s .. up; mkfifo p; echo Secret > secret/.env; \
    echo x > secret/x; echo config > .git/config; echo hook > .git/hooks/pre; ln -s secret/.env to-env; \
    echo key > keys/key.pem";

fn sandbox(user: User, names: Names) -> Sandbox {
    let sandbox = match names {
        Names::Reopened => {
            Sandbox::of(user).allow_write("..").deny_write("..").allow_write_inside(".")
        }
        _ => Sandbox::of(user).allow_write("."),
    };
    let mut tree = TREE.to_owned();
    if names == Names::Denied {
        // Only here: that a directory with these stays where it is, is no business of the others.
        tree += "; echo key > key.pem; echo cert > a/b/cert.pem; ln secret/.env hard";
    }
    sandbox.sh_outside(&tree).succeeds();
    sandbox.file("outside/file", "outside");
    let sandbox = match names {
        // That it is there makes the broker open all that is read.
        Names::Read => sandbox.deny_read("unread"),
        Names::Unprepared => without_reserve(sandbox),
        _ => sandbox,
    };
    let denied = names.denied().iter();
    denied.fold(sandbox, |sandbox, rule| sandbox.deny_write(rule.replace("*.", "**/*.")))
}

/// What is unlike, of one script.
#[derive(Debug)]
struct Difference {
    what: String,
    /// The line that it shows at.
    line: Option<usize>,
}

/// Runs the script inside and outside.
fn compare(user: User, names: Names, lines: &[String], in_thread: bool) -> Option<Difference> {
    let (inner, outer) = (sandbox(user, names), sandbox(user, names));
    let text = lines.join("\n");
    let denied = || -> Vec<_> {
        let present = PRESENT.iter().filter(|_| !names.denied().is_empty());
        present.map(|name| (name, content(&inner.path("work").join(name)))).collect()
    };
    let before = denied();
    let outside = Snapshot::of(inner.path("outside"));

    let (script, copy) = (inner.file("script", &text), outer.file("script", &text));
    let op = if in_thread { "calls-thread" } else { "calls" };
    let inside = inner.probe(format!("{op} {}", script.display()));
    inside.succeeds();
    let results = outer.file("results", &inside.stdout);
    let rules = names.denied().join(" ");
    let mirror = format!("calls-mirror {} {} {rules}", copy.display(), results.display());
    let mirrored = outer.probe_outside(mirror);
    mirrored.succeeds();

    let now = denied();
    let is_changed = |(before, now): (&(_, Option<String>), &(_, Option<String>))| {
        before.1 != now.1 && now.1.is_some()
    };
    if before.iter().zip(&now).any(is_changed) {
        let what = format!("the denied\n    {before:?}\n    became\n    {now:?}");
        return Some(Difference { what, line: None });
    }
    if let Some(what) = outside.change() {
        return Some(Difference { what, line: None });
    }
    if names == Names::Denied && lines.len() == LENGTH {
        let left_out: usize = mirrored.result("left-out").parse().unwrap();
        assert!(left_out > 0, "the script tried nothing that is denied");
    }
    for (number, line) in lines.iter().enumerate() {
        let name = number.to_string();
        let (found, wanted) = (inside.result(&name), mirrored.result(&name));
        if found != wanted {
            let what = format!("{line}\n    inside:  {found}\n    outside: {wanted}");
            return Some(Difference { what, line: Some(number) });
        }
    }
    let (found, wanted) = (shape(&inner.path("work")), shape(&outer.path("work")));
    let names = found.keys().chain(wanted.keys());
    names.into_iter().find(|name| found.get(*name) != wanted.get(*name)).map(|name| {
        let (found, wanted) = (found.get(name), wanted.get(name));
        let what = format!("file {name}\n    inside:  {found:?}\n    outside: {wanted:?}");
        Difference { what, line: None }
    })
}

/// Which file stands at `path`, and what is in it; `None` if its owner may not look. Not how many names
/// it has: one that no rule denies may be removed, and reading it changes its times.
fn content(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path);
    let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    if found.as_ref().is_err_and(is_closed) {
        return None;
    }
    let found = found.map(|found| (found.ino(), found.mode(), found.uid()));
    Some(format!("{:?} {:?}", found.ok(), fs::read(path).ok()))
}

/// All files below `root`, with what two trees made alike have in common.
fn shape(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let content = if metadata.is_file() {
            fs::read(&path).map(|content| String::from_utf8_lossy(&content).into_owned())
        } else if metadata.is_symlink() {
            fs::read_link(&path).map(|target| target.to_string_lossy().into_owned())
        } else if metadata.is_dir() {
            fs::read_dir(&path).map(|entries| {
                open.extend(entries.flatten().map(|entry| entry.path()));
                String::new()
            })
        } else {
            Ok(String::new())
        };
        // Not root's tests: what its owner closed stays closed in both trees.
        let content = content.unwrap_or_else(|error| error.kind().to_string());
        let root = root.to_string_lossy();
        let (mode, links) = (metadata.mode(), metadata.nlink());
        let owner = format!("{}:{}", metadata.uid(), metadata.gid());
        let line = format!("{mode:o} {links} {owner} {}", content.replace(&*root, "@"));
        found.insert(path.to_string_lossy().replace(&*root, "@"), line);
    }
    found
}

/// The shortest script that the search finds with a difference.
fn shorten(user: User, names: Names, mut lines: Vec<String>, in_thread: bool) -> Vec<String> {
    let mut attempts = ATTEMPTS;
    let mut chunk = lines.len().div_ceil(2);
    while chunk > 0 && attempts > 0 {
        let mut end = lines.len();
        while end > 0 && attempts > 0 {
            let start = end.saturating_sub(chunk);
            let fewer = [&lines[..start], &lines[end..]].concat();
            attempts -= 1;
            match compare(user, names, &fewer, in_thread) {
                Some(Difference { line, .. }) => {
                    lines = fewer;
                    lines.truncate(line.map_or(lines.len(), |line| line + 1));
                    end = start.min(lines.len());
                }
                None => end = start,
            }
        }
        chunk = if chunk == 1 { 0 } else { chunk / 2 };
    }
    lines
}

/// The seeds to try.
fn seeds(default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("LANDSTRIP_SEEDS") else { return default };
    let (start, end) = asked.split_once('-').expect("LANDSTRIP_SEEDS=FROM-TO");
    start.parse().expect("a number")..end.parse().expect("a number")
}

fn same(names: Names, default: std::ops::Range<u64>) {
    let found = RefCell::new(Vec::new());
    for_each_user(|user| {
        for seed in seeds(default.clone()) {
            let mut lines = script(seed, names, LENGTH);
            let in_thread = seed % 3 == 1;
            let Some(Difference { line, what }) = compare(user, names, &lines, in_thread) else {
                continue;
            };
            lines.truncate(line.map_or(lines.len(), |line| line + 1));
            let lines = shorten(user, names, lines, in_thread);
            let again = compare(user, names, &lines, in_thread).map(|difference| difference.what);
            let what = again.unwrap_or_else(|| format!("once, and not again:\n  {what}"));
            let (lines, thread) = (lines.join("\n"), if in_thread { ", in a thread" } else { "" });
            let head = format!("seed {seed}, {names:?}, {user:?}{thread}");
            found.borrow_mut().push(format!("{head}\n{lines}\n  {what}\n"));
        }
    });
    let found = found.into_inner();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn calls_in_an_allowed_tree_do_what_they_do_outside() {
    same(Names::Plain, 0..4);
}

#[test]
fn calls_in_a_tree_that_is_opened_inside_a_denied_one_do_what_they_do_outside() {
    same(Names::Reopened, 400..404);
}

#[test]
fn calls_beside_denied_files_do_what_they_do_outside() {
    same(Names::Beside, 100..104);
}

#[test]
fn calls_where_no_directories_can_be_prepared_do_what_they_do_outside() {
    same(Names::Unprepared, 100..102);
}

#[test]
fn calls_where_the_broker_opens_what_is_read_do_what_they_do_outside() {
    same(Names::Read, 300..304);
}

#[test]
fn calls_for_denied_files_are_refused_and_change_nothing_else() {
    same(Names::Denied, 200..204);
}
