//! The one matcher for files: what the traversal that builds Landlock rules asks, and what a verdict on a
//! single path asks. Pure: it sees names, never the file system.
//!
//! Going down component by component, reads start open: `denyRead` closes a path with all beneath, `allowRead`
//! opens it again, and on the same path allow wins. Writes start closed: `allowWrite` opens a path with all
//! beneath, but for the kernel's own controls, and `denyWrite` closes it, for good but for what `allowWriteInside`
//! opens again further inside; on the same path deny wins. What may not be read may not be written either: who can
//! shift the content of a file, or put a header in front of it, and execute it, has read it.
//!
//! What reads are ruled by must also keep its name: a file that is renamed away from a `denyRead` path can be
//! read by the next run. So what is denied for reading, and what is allowed again inside, counts for writes too: the
//! entries there may not change, and what leads to them is not settled.
//!
//! The states that are live in a directory, with the verdict, are its *zone*: they alone decide about all that
//! is beneath. What moves between directories of one zone keeps its verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use super::access::{Access, Kind, Names};
use super::files::Files;
pub use super::pattern::covers;
use super::pattern::{Pattern, names};
pub use super::tree::{Basis, List};
use super::tree::{Effects, Places, Tree};
use super::verdict::Verdict;

/// The file rules of a policy.
#[derive(Debug, Clone)]
pub struct Rules {
    root: Cursor,
}

/// What is known at one path: the verdicts, and the rules that may still change them further inside.
#[derive(Debug, Clone)]
pub struct Cursor {
    tree: Arc<Tree>,
    /// Where in the tree rules go on that may still count.
    places: Places,
    read: Progress,
    write: Progress,
    /// The rule that ends here and wants the entry to stay as it is.
    kept: Option<usize>,
    /// A rule that singles out something beneath names this entry, or counts it among those that its `**`
    /// stands for and begins inside of what may be written.
    leads_on: bool,
}

/// What is known of one kind of access.
#[derive(Debug, Clone, Copy)]
struct Progress {
    verdict: Verdict,
    /// What rules further inside can still do to the verdict; nothing once none can change it.
    live: Effects,
}

impl Rules {
    /// The rules of a resolved policy.
    pub fn new(files: &Files) -> Rules {
        use List::*;
        let of = |list, paths: &[PathBuf], effects: &dyn Fn(&Path) -> Effects| {
            let rules = paths.iter().map(|path| (list, effects(path), Pattern::literal(path)));
            rules.collect::<Vec<_>>()
        };
        // Where nothing is closed, opening it means nothing.
        let open_read =
            of(AllowRead, &files.allow_read, &|path| match covers(&files.deny_read, path) {
                true => Effects::OPEN_READ | Effects::KEEP,
                false => Effects::OPEN_READ,
            });
        let deny_read = files.deny_read.iter();
        let deny_read = deny_read
            .map(|pattern| (DenyRead, Effects::DENY_READ | Effects::KEEP, pattern.clone()));
        let allow = of(AllowWrite, &files.allow_write, &|_| Effects::ALLOW);
        let deny = files.deny_write.iter().map(|pattern| {
            let effects = match pattern.begins_inside(&files.allow_write) {
                true => Effects::DENY | Effects::BEGINS_INSIDE,
                false => Effects::DENY,
            };
            (DenyWrite, effects, pattern.clone())
        });
        let reopen = of(AllowWriteInside, &files.allow_write_inside, &|path| {
            if covers(&files.deny_write, path) { Effects::REOPEN } else { Effects::empty() }
        });
        let controls = of(Controls, &files.controls, &|_| Effects::CLOSE);
        let rules = open_read.into_iter().chain(deny_read).chain(allow).chain(deny);
        let tree = Arc::new(Tree::new(rules.chain(reopen).chain(controls)));
        let of_reads = Effects::OPEN_READ | Effects::DENY_READ;
        let at_first =
            |open, live| Progress { verdict: Verdict { open, by: None, denied_by: None }, live };
        let at_first = (at_first(true, of_reads), at_first(false, of_reads.complement()));
        let root = Cursor::judge(&tree, at_first, tree.start());
        Rules { root }
    }

    /// The cursor at `/`.
    pub fn root(&self) -> Cursor {
        self.root.clone()
    }

    /// The verdict on a canonical absolute path. One that is relative or holds `..` is not canonical, so that
    /// nothing is known of it: it gets no access.
    pub fn access(&self, absolute: &Path) -> Access {
        self.cursor(absolute).map_or(Access::NONE, |cursor| cursor.access())
    }

    /// The cursor at a canonical absolute path; none where nothing is known.
    pub fn cursor(&self, absolute: &Path) -> Option<Cursor> {
        let mut cursor = self.root();
        for name in names(absolute) {
            cursor = cursor.enter(name?);
        }
        Some(cursor)
    }
}

impl Cursor {
    /// Applies the rules that end at `places` to the verdicts that hold further out.
    fn judge(tree: &Arc<Tree>, (read, write): (Progress, Progress), mut places: Places) -> Cursor {
        let ends = |effect: Effects, live: Effects| {
            live.intersects(effect).then(|| tree.first(&places, effect)).flatten()
        };
        let further = places.iter().map(|place| tree.beneath(*place)).collect();
        let kept = ends(Effects::KEEP, write.live);
        let read = read.apply_to_reads(|effect| ends(effect, read.live), further);
        let write = write.apply_to_writes(|effect| ends(effect, write.live), further);
        places.retain(|place| tree.beneath(*place).intersects(read.live | write.live));
        Cursor { tree: Arc::clone(tree), places, read, write, kept, leads_on: false }
    }

    /// The cursor at the entry `name` of the directory that this one stands at.
    pub fn enter(&self, name: &[u8]) -> Cursor {
        let (places, lead_on) = self.tree.enter(&self.places, name);
        let inside = Cursor::judge(&self.tree, (self.read, self.write), places);
        let singles_out = Effects::DENY | Effects::CLOSE | Effects::KEEP | Effects::BEGINS_INSIDE;
        let leads_on = (lead_on & self.write.live).intersects(singles_out);
        Cursor { leads_on, ..inside }
    }

    /// The verdict on the path the cursor stands at.
    pub fn access(&self) -> Access {
        Access { read: self.permits(Kind::Read), write: self.permits(Kind::Write) }
    }

    /// The same of one kind.
    pub fn permits(&self, kind: Kind) -> bool {
        self.progress(kind).verdict.permits()
    }

    /// The rule that the verdict rests on; none if no rule concerns it.
    pub fn basis(&self, kind: Kind) -> Option<Basis<'_>> {
        self.progress(kind).verdict.basis().map(|rule| self.tree.basis(rule))
    }

    /// The rule that wants the entry to stay as it is.
    pub fn kept_by(&self) -> Option<Basis<'_>> {
        self.kept.map(|rule| self.tree.basis(rule))
    }

    /// Whether no rule further inside can change the verdict.
    pub fn is_settled(&self, kind: Kind) -> bool {
        self.progress(kind).live.is_empty()
    }

    /// Whether the entry may be made, removed or replaced, as far as its own name goes.
    pub fn entry_may_change(&self) -> bool {
        self.access().write && self.kept.is_none()
    }

    /// Whether a rule names this entry on the way to what it keeps from being changed beneath. A `**` names none,
    /// where it stands for all that may be written around it: a link in there leads to where the rule holds too.
    pub fn leads_on(&self) -> bool {
        self.leads_on
    }

    /// Whether all beneath is judged alike at both places, so that what moves from one to the other
    /// keeps its verdict. The rules for writes hold those for reads, but for what is open anyway.
    pub fn same_zone(&self, other: &Cursor) -> bool {
        self.read.verdict.is_alike(other.read.verdict)
            && self.write.verdict.is_alike(other.write.verdict)
            && self.holds_writes_of(other)
            && other.holds_writes_of(self)
    }

    fn holds_writes_of(&self, other: &Cursor) -> bool {
        let live = |cursor: &Cursor, place| cursor.tree.beneath(place) & cursor.write.live;
        let mut places = other.places.iter().filter(|place| !live(other, **place).is_empty());
        places.all(|place| self.places.contains(place) && live(self, *place) == live(other, *place))
    }

    /// Whether a rule may single out something at any depth, so that looking through the tree would
    /// not end before the tree does.
    pub fn any_depth(&self) -> bool {
        let changes = self.read.changes() | self.write.changes();
        let mut places = self.places.iter();
        places.any(|place| {
            self.tree.is_any_depth(*place) && self.tree.beneath(*place).intersects(changes)
        })
    }

    /// The names inside that could lead to another verdict.
    pub fn names(&self, kind: Kind) -> Names {
        Names::of(self.tree.next(&self.places, self.progress(kind).changes(), false))
    }

    /// The names inside that lead to another verdict on reads by rules the depth of which is known: what
    /// they single out is found without looking through the tree. None if there is no such rule.
    pub fn fixed_read_names(&self) -> Option<Names> {
        let mut names = self.tree.next(&self.places, self.read.changes(), true).peekable();
        names.peek()?;
        Some(Names::of(names))
    }

    /// What has to change for the verdict to do so: where only reads are closed, for writes as well that on reads.
    fn progress(&self, kind: Kind) -> &Progress {
        let only_reads_are_closed = self.write.verdict.permits() && !self.read.verdict.permits();
        match kind {
            Kind::Write if !only_reads_are_closed => &self.write,
            _ => &self.read,
        }
    }
}

impl Progress {
    /// Reads are open at first, the innermost rule counts, and what opens wins on the same path. `ends` knows the
    /// rules that end here, and `further` are the effects of those that go on.
    fn apply_to_reads(self, ends: impl Fn(Effects) -> Option<usize>, further: Effects) -> Progress {
        let to = |open| move |by| Verdict { open, by: Some(by), denied_by: None };
        let opened = ends(Effects::OPEN_READ).map(to(true));
        let verdict = opened.or_else(|| ends(Effects::DENY_READ).map(to(false)));
        Progress { verdict: verdict.unwrap_or(self.verdict), live: self.live & further }.settle()
    }

    /// Writes are closed at first, denied wins over open, and what closes or denies wins on the same path.
    fn apply_to_writes(
        self,
        ends: impl Fn(Effects) -> Option<usize>,
        further: Effects,
    ) -> Progress {
        let to = |open| move |by| Verdict { open, by: Some(by), denied_by: None };
        let closed = ends(Effects::CLOSE).map(to(false));
        let own = closed.or_else(|| ends(Effects::ALLOW).map(to(true))).unwrap_or(self.verdict);
        let reopened = ends(Effects::REOPEN);
        let outside = self.verdict.denied_by.filter(|_| reopened.is_none());
        let denied_by = ends(Effects::DENY).or(outside);
        let by = reopened.filter(|_| own.open).or(own.by);
        let mut live = self.live & further;
        if denied_by.is_some() && !live.intersects(Effects::REOPEN) {
            live = Effects::empty();
        }
        let inside = Progress { verdict: Verdict { by, denied_by, ..own }, live }.settle();
        // Inside what is open for writing, opening it again means nothing, unless it is closed before.
        let is_open = inside.verdict.permits() && !inside.live.intersects(Effects::CLOSE);
        let live = if is_open { inside.live.difference(Effects::ALLOW) } else { inside.live };
        Progress { live, ..inside }
    }

    /// Nothing is live where no rule can change the verdict.
    fn settle(self) -> Progress {
        let live = if self.changes().is_empty() { Effects::empty() } else { self.live };
        Progress { live, ..self }
    }

    /// What of the live effects matters here: it can turn the verdict, or keep a path that could otherwise be
    /// changed.
    fn changes(self) -> Effects {
        let opens = Effects::OPEN_READ | Effects::ALLOW | Effects::REOPEN;
        let closes = Effects::DENY_READ | Effects::DENY | Effects::CLOSE | Effects::KEEP;
        self.live & if self.verdict.permits() { closes } else { opens }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::pattern::Component;
    use super::*;

    fn rules(write: &[&str], deny_write: &[&str], deny_read: &[&str], read: &[&str]) -> Rules {
        Rules::new(&Files {
            allow_write: write.iter().map(PathBuf::from).collect(),
            deny_write: deny_write.iter().map(|text| Pattern::of_globs(text)).collect(),
            deny_read: deny_read.iter().map(|text| Pattern::of_globs(text)).collect(),
            allow_read: read.iter().map(PathBuf::from).collect(),
            ..Files::default()
        })
    }

    fn cursor(rules: &Rules, path: &str) -> Cursor {
        path.split('/')
            .filter(|name| !name.is_empty())
            .fold(rules.root(), |cursor, name| cursor.enter(name.as_bytes()))
    }

    fn exactly(names: &[&str]) -> Names {
        Names::Exactly(names.iter().map(|name| name.as_bytes().to_vec()).collect())
    }

    #[test]
    fn reads_follow_the_innermost_rule_and_allow_wins_on_the_same_path() {
        let rules = rules(
            &[],
            &[],
            &["/h", "/h/a/b", "/h/same", "/e/*.key"],
            &["/h/a", "/h/same", "/e/ok.key"],
        );
        for (path, readable) in [
            ("/", true),
            ("/hh", true),
            ("/h", false),
            ("/h/x/y", false),
            ("/h/a", true),
            ("/h/a/x", true),
            ("/h/a/b", false),
            ("/h/a/b/c", false),
            ("/h/same", true),
            ("/h/same/x", true),
            ("/e/x.key", false),
            ("/e/.key", false),
            ("/e/ok.key", true),
            ("/e/x.key/y", false),
            ("/e/d/x.key", true),
        ] {
            assert_eq!(rules.access(Path::new(path)).read, readable, "{path}");
            assert_eq!(cursor(&rules, path).access().read, readable, "{path}");
        }
    }

    #[test]
    fn writes_are_closed_until_allowed_and_denials_are_final() {
        let rules = rules(&["/r", "/r/no/yes", "/t/x"], &["/r/no", "/r/**/.env", "/t"], &[], &[]);
        for (path, writable) in [
            ("/", false),
            ("/r", true),
            ("/r/a/b", true),
            ("/rr", false),
            ("/r/no", false),
            ("/r/no/yes", false),
            ("/r/.env", false),
            ("/r/a/b/.env", false),
            ("/r/a/.env/x", false),
            ("/r/a/.envx", true),
            ("/t", false),
            ("/t/x", false),
        ] {
            assert_eq!(rules.access(Path::new(path)).write, writable, "{path}");
        }
    }

    fn reopening(write: &[&str], deny_write: &[&str], inside: &[&str]) -> Rules {
        Rules::new(&Files {
            allow_write: write.iter().map(PathBuf::from).collect(),
            deny_write: deny_write.iter().map(|text| Pattern::of_globs(text)).collect(),
            allow_write_inside: inside.iter().map(PathBuf::from).collect(),
            ..Files::default()
        })
    }

    #[test]
    fn what_is_denied_is_opened_again_where_that_is_said_and_nowhere_else() {
        let rules = reopening(
            &["/r", "/t/a/b/c", "/w", "/g"],
            &["/r/a", "/r/a/b/c", "/r/same", "/t/a", "/w", "/g/**/no", "/r/deep/x"],
            &[
                "/r/a/b",
                "/r/a/b/c/d",
                "/r/same",
                "/r/z",
                "/t/a/b",
                "/w/x",
                "/o/x",
                "/g/no/yes",
                "/r/deep",
            ],
        );
        for (path, writable, settled) in [
            ("/", false, false),
            ("/r", true, false),
            ("/r/x", true, true),
            ("/r/z", true, true),
            ("/r/a", false, false),
            ("/r/a/x", false, true),
            ("/r/a/bb", false, true),
            ("/r/a/b", true, false),
            ("/r/a/b/x/y", true, true),
            ("/r/a/b/c", false, false),
            ("/r/a/b/c/x", false, true),
            ("/r/a/b/c/d", true, true),
            ("/r/same", false, true),
            ("/r/same/x", false, true),
            ("/r/deep", true, false),
            ("/r/deep/x", false, true),
            ("/t/a", false, false),
            ("/t/a/b", false, false),
            ("/t/a/b/x", false, true),
            ("/t/a/b/c", true, true),
            ("/w", false, false),
            ("/w/x", true, true),
            ("/w/y", false, true),
            ("/o", false, true),
            ("/o/x", false, true),
            ("/g/x/no", false, true),
            ("/g/no", false, false),
            ("/g/no/yes", true, false),
            ("/g/no/yes/no", false, true),
            ("/g/x/no/yes", false, true),
        ] {
            let cursor = rules.cursor(Path::new(path)).unwrap();
            assert_eq!(cursor.access().write, writable, "{path}");
            assert_eq!(cursor.is_settled(Kind::Write), settled, "{path}");
        }
        let names = |path: &str| rules.cursor(Path::new(path)).unwrap().names(Kind::Write);
        assert_eq!(names("/r/a"), exactly(&["b"]));
        assert_eq!(names("/r/a/b"), exactly(&["c"]));
        let cursor = rules.cursor(Path::new("/r/a/b")).unwrap();
        assert_eq!(cursor.basis(Kind::Write).unwrap().0, List::AllowWriteInside);
        assert!(cursor.leads_on());
    }

    #[test]
    fn what_denials_cover_is_what_rules_of_them_deny() {
        let patterns = ["/a", "/a/b/c", "/x/*/z", "/x/**/z", "/**/k", "/p/**/q/**/r*", "/"];
        let mut paths = vec!["".to_owned(), "a".to_owned(), "/a/../b".to_owned()];
        for first in ["a", "x", "p", "o"] {
            for second in ["", "/b", "/k", "/q", "/y"] {
                for third in ["", "/c", "/z", "/q", "/k/r1"] {
                    paths.extend(
                        ["", "/r", "/z/z", "/q/r"]
                            .map(|last| format!("/{first}{second}{third}{last}")),
                    );
                }
            }
        }
        for pattern in patterns.map(Pattern::of_globs) {
            let denials = [pattern];
            let (allow_write, deny_write) = (vec!["/".into()], denials.to_vec());
            let rules = Rules::new(&Files { allow_write, deny_write, ..Files::default() });
            for path in paths.iter().map(Path::new) {
                let denied = !rules.access(path).write;
                assert_eq!(covers(&denials, path), denied, "{} {}", denials[0], path.display());
            }
        }
        assert!(!covers(&[], Path::new("/a")));
    }

    #[test]
    fn what_may_not_be_read_may_not_be_written() {
        let rules = rules(&["/r"], &["/r/s/open/no"], &["/r/s", "/r/**/*.key"], &["/r/s/open"]);
        for (path, writable, settled) in [
            ("/r/x", true, false),
            ("/r/s", false, false),
            ("/r/s/x", false, true),
            ("/r/s/open", true, false),
            ("/r/s/open/x", true, false),
            ("/r/s/open/no", false, true),
            ("/r/s/open/x.key", false, true),
            ("/r/a/b.key", false, true),
        ] {
            let cursor = cursor(&rules, path);
            assert_eq!(cursor.access().write, writable, "{path}");
            assert_eq!(cursor.is_settled(Kind::Write), settled, "{path}");
        }
        assert_eq!(cursor(&rules, "/r/s").names(Kind::Write), exactly(&["open"]));
    }

    #[test]
    fn controls_are_opened_only_from_inside() {
        let files = Files {
            allow_write: ["/", "/proc/sys/kernel", "/sys"].map(PathBuf::from).into(),
            controls: ["/proc", "/sys", "/mnt/proc"].map(PathBuf::from).into(),
            deny_write: vec![Pattern::of_globs("/proc/sys/kernel/panic")],
            ..Files::default()
        };
        let rules = Rules::new(&files);
        for (path, writable) in [
            ("/x", true),
            ("/proc/sys", false),
            ("/proc/sys/kernel/ostype", true),
            ("/proc/sys/kernel/panic", false),
            ("/sys", false),
            ("/sys/x", false),
            ("/mnt/proc/sys/kernel", false),
            ("/mnt/x", true),
        ] {
            assert_eq!(rules.access(Path::new(path)).write, writable, "{path}");
        }
        assert!(cursor(&rules, "/sys").is_settled(Kind::Write));
        assert!(!cursor(&rules, "/proc").is_settled(Kind::Write));
    }

    #[test]
    fn the_root_itself_can_be_named() {
        let all = rules(&["/"], &["/etc"], &["/"], &["/usr"]);
        assert_eq!(all.access(Path::new("/")), Access::NONE);
        assert_eq!(all.access(Path::new("/usr/bin")), Access { read: true, write: true });
        assert_eq!(all.access(Path::new("/etc/x")), Access { read: false, write: false });
        let all = rules(&["/"], &["/**"], &["/**"], &[]);
        assert_eq!(all.access(Path::new("/x")), Access::NONE);
    }

    #[test]
    fn a_path_that_is_not_canonical_gets_nothing() {
        let rules = rules(&["/r"], &[], &[], &[]);
        for path in ["r", "", "/r/../etc", "/r/x/..", "../r"] {
            assert_eq!(rules.access(Path::new(path)), Access::NONE, "{path}");
        }
        assert!(rules.access(Path::new("/r//x/")).write);
    }

    #[test]
    fn a_verdict_is_settled_exactly_where_no_rule_can_change_it() {
        let rules = rules(
            &["/r", "/w/a"],
            &["/r/d", "/w/a/b", "/elsewhere/x"],
            &["/s", "/r/k/*.pem"],
            &["/s/a", "/open/a"],
        );
        // path, read settled, names for reads, write settled, names for writes
        for (path, read, read_names, write, write_names) in [
            ("/", false, exactly(&["r", "s"]), false, exactly(&["r", "w"])),
            // What reads are ruled by keeps its name.
            ("/r", false, exactly(&["k"]), false, exactly(&["d", "k"])),
            ("/r/k", false, Names::Any, false, Names::Any),
            ("/r/k/x", true, exactly(&[]), true, exactly(&[])),
            ("/r/d", true, exactly(&[]), true, exactly(&[])),
            ("/s", false, exactly(&["a"]), true, exactly(&[])),
            ("/s/a", true, exactly(&[]), true, exactly(&[])),
            ("/s/b", true, exactly(&[]), true, exactly(&[])),
            ("/w", true, exactly(&[]), false, exactly(&["a"])),
            ("/w/a", true, exactly(&[]), false, exactly(&["b"])),
            ("/w/a/b", true, exactly(&[]), true, exactly(&[])),
            ("/elsewhere", true, exactly(&[]), true, exactly(&[])),
            ("/open", true, exactly(&[]), true, exactly(&[])),
        ] {
            let cursor = cursor(&rules, path);
            assert_eq!(cursor.is_settled(Kind::Read), read, "reads at {path}");
            assert_eq!(cursor.names(Kind::Read), read_names, "reads at {path}");
            assert_eq!(cursor.is_settled(Kind::Write), write, "writes at {path}");
            assert_eq!(cursor.names(Kind::Write), write_names, "writes at {path}");
        }
    }

    #[test]
    fn a_deny_glob_stays_live_below_and_only_within_what_is_open() {
        let rules = rules(&["/r"], &["/**/.env"], &[], &[]);
        assert_eq!(rules.root().names(Kind::Write), exactly(&["r"]));
        assert!(cursor(&rules, "/other").is_settled(Kind::Write));
        assert_eq!(cursor(&rules, "/r/a/b").names(Kind::Write), Names::Any);
        assert!(cursor(&rules, "/r/a/.env").is_settled(Kind::Write));
    }

    #[test]
    fn only_what_a_rule_names_on_the_way_leads_on() {
        let deny_write = ["/r/.git/hooks/x", "/r/**/no/bad", "/r/*/at", "/r/in/**/bad"];
        let rules = rules(&["/r"], &deny_write, &["/r/k/key"], &["/r/k/key/open", "/r/o/x/open"]);
        for (path, expected) in [
            ("/r/.git", true),
            ("/r/.git/hooks", true),
            ("/r/.git/hooks/x", false),
            ("/r/.git/other", false),
            ("/r/any", true),
            ("/r/any/at", false),
            ("/r/any/other", false),
            ("/r/any/other/no", true),
            ("/r/any/other/no/bad", false),
            // Beside what a `**` begins in, all can be made to which a link would lead.
            ("/r/in", true),
            ("/r/in/any", true),
            ("/r/in/any/other", true),
            ("/r/in/any/bad", true),
            ("/r/k", true),
            // It is open anyway.
            ("/r/o/x", false),
        ] {
            assert_eq!(cursor(&rules, path).leads_on(), expected, "{path}");
        }
    }

    #[test]
    fn what_moves_within_a_zone_keeps_its_verdict() {
        let rules = rules(&["/r"], &["/r/**/*.pem", "/r/a/b"], &["/r/s"], &[]);
        for (one, other, expected) in [
            ("/r/x", "/r/y/z", true),
            ("/r/x", "/r/a", false),
            ("/r/x", "/r/a/x", true),
            ("/r/x", "/r/s/x", false),
            ("/r/s/x", "/r/s/y", true),
            ("/r/x", "/other", false),
        ] {
            let (one_at, other_at) = (cursor(&rules, one), cursor(&rules, other));
            assert_eq!(one_at.same_zone(&other_at), expected, "{one} {other}");
            assert_eq!(other_at.same_zone(&one_at), expected, "{other} {one}");
        }
    }

    #[test]
    fn what_reads_are_ruled_by_keeps_its_entry() {
        let rules = rules(&["/r"], &["/r/d"], &["/r/s"], &["/r/s/open", "/r/o/x/open"]);
        for (path, expected) in [
            ("/r/o/x/open", true),
            ("/r/x", true),
            ("/r/s", false),
            ("/r/s/x", false),
            ("/r/s/open", false),
            ("/r/s/open/x", true),
            ("/r/d", false),
        ] {
            assert_eq!(cursor(&rules, path).entry_may_change(), expected, "{path}");
        }
    }

    #[test]
    fn states_stay_few_under_repeated_any_depth() {
        let rules = rules(&["/"], &["/**/a/**/a/**/a/**/a/**/b"], &[], &[]);
        let deep = "/a".repeat(1000);
        assert!(rules.access(Path::new(&deep)).write);
        assert!(cursor(&rules, &deep).places.len() <= 10);
        assert!(!rules.access(Path::new(&format!("{deep}/b/x"))).write);
    }

    /// A small generator with a fixed seed, so that a failure can be repeated.
    struct XorShift(u64);

    impl XorShift {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }

        fn path(&mut self, names: &[&str]) -> String {
            let mut path = "/".to_owned();
            for _ in 0..=self.below(3) {
                let index = usize::try_from(self.below(names.len() as u64)).unwrap();
                path = format!("{path}{}/", names[index]);
            }
            path
        }
    }

    /// Whether a pattern matches exactly these names, by trying everything.
    fn ends(pattern: &Pattern, position: usize, names: &[&str]) -> bool {
        match (pattern.component(position), names) {
            (None, names) => names.is_empty(),
            (Some(Component::AnyDepth), names) => {
                (0..=names.len()).any(|skipped| ends(pattern, position + 1, &names[skipped..]))
            }
            (Some(Component::Literal(literal)), [first, rest @ ..]) => {
                **literal == *first.as_bytes() && ends(pattern, position + 1, rest)
            }
            (Some(glob @ Component::Glob(_)), [first, rest @ ..]) => {
                glob.matches(first.as_bytes()) && ends(pattern, position + 1, rest)
            }
            (Some(_), []) => false,
        }
    }

    /// The contract, word for word, over every ancestor of a path.
    fn access_by_definition(files: &Files, names: &[&str]) -> Access {
        let (mut read, mut opened, mut closed) = (true, false, false);
        for length in 0..=names.len() {
            let ancestor = &names[..length];
            let path: PathBuf = std::iter::once(&"/").chain(ancestor).collect();
            let denies = |patterns: &[Pattern]| patterns.iter().any(|p| ends(p, 0, ancestor));
            if files.allow_read.contains(&path) {
                read = true;
            } else if denies(&files.deny_read) {
                read = false;
            }
            opened |= files.allow_write.contains(&path);
            opened &= !files.controls.contains(&path);
            closed &= !files.allow_write_inside.contains(&path);
            closed |= denies(&files.deny_write);
        }
        Access { read, write: opened && !closed && read }
    }

    #[test]
    fn verdicts_are_those_of_the_definition_and_settled_ones_hold_all_the_way_down() {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let mut random = XorShift(0x5eed_cafe);
        for _ in 0..120 {
            let mut files = Files::default();
            for _ in 0..=random.below(2) {
                let globs = ["a", "b", "*", "?", "**", "[!a]"];
                files.allow_write.push(random.path(&NAMES).into());
                files.controls.push(random.path(&NAMES).into());
                files.allow_read.push(random.path(&NAMES).into());
                files.allow_write_inside.push(random.path(&NAMES).into());
                files.deny_write.push(Pattern::of_globs(&random.path(&globs)));
                files.deny_read.push(Pattern::of_globs(&random.path(&globs)));
            }
            let rules = Rules::new(&files);
            let mut pending = vec![(Vec::new(), rules.root(), None::<bool>, None::<bool>)];
            while let Some((path, cursor, read, write)) = pending.pop() {
                let access = access_by_definition(&files, &path);
                assert_eq!(cursor.access(), access, "{path:?} in {files:?}");
                assert!(read.is_none_or(|read| read == access.read), "{path:?} in {files:?}");
                assert!(write.is_none_or(|write| write == access.write), "{path:?} in {files:?}");
                if path.len() == 4 {
                    continue;
                }
                // Beneath a name that is not singled out, nothing may change.
                let fixed = |names: Names, name: &str, verdict: bool| match names {
                    Names::Any => None,
                    Names::Exactly(names) => {
                        (!names.contains(&name.as_bytes().to_vec())).then_some(verdict)
                    }
                };
                for name in NAMES {
                    let child: Vec<&str> = path.iter().copied().chain([name]).collect();
                    let read = read.or(fixed(cursor.names(Kind::Read), name, access.read));
                    let write = write.or(fixed(cursor.names(Kind::Write), name, access.write));
                    pending.push((child, cursor.enter(name.as_bytes()), read, write));
                }
            }
        }
    }

    #[test]
    #[ignore = "a measurement, for release builds"]
    fn a_verdict_takes_less_than_two_microseconds() {
        let deny = ["/h/u/.ssh", "/h/u/.aws", "/h/u/w/**/.env", "/h/u/w/.git/hooks", "/etc/*.key"];
        let rules = rules(&["/h/u/w", "/tmp", "/var/tmp"], &deny, &deny, &["/h/u/.ssh/known"]);
        let path = Path::new("/h/u/w/src/deep/module/file.rs");
        let begin = std::time::Instant::now();
        for _ in 0..100_000 {
            assert!(rules.access(std::hint::black_box(path)).write);
        }
        eprintln!("{:?} a verdict", begin.elapsed() / 100_000);
    }

    #[test]
    fn what_rules_of_known_depth_single_out_is_told_apart() {
        let rules = rules(&["/w"], &[], &["/w/.env", "/w/d/**/*.pem", "/w/*/key"], &[]);
        let at = |path: &str| rules.cursor(Path::new(path)).unwrap().fixed_read_names();
        assert_eq!(at("/"), Some(Names::Exactly(vec![b"w".to_vec()])));
        assert_eq!(at("/w"), Some(Names::Any));
        assert_eq!(at("/w/d"), Some(Names::Exactly(vec![b"key".to_vec()])));
        assert_eq!(at("/w/d/e"), None);
        assert_eq!(at("/x"), None);
    }
}
