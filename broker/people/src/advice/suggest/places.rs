//! Which path to allow so that another one can be written, and how a policy writes it. Of the file system it asks what is
//! there by that name, and nothing else.

use super::{Grounds, quote};
use common::trap::FileOperation;
use policy::harmless::Ground;
use policy::keys::Item;
use rules::paths::covers;
use rules::pattern::Pattern;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the broker does for no process that confined itself, or became another user.
pub(super) const OWN_SANDBOX: (&str, &str) = (
    "refused to a process with a sandbox, user or label of its own",
    "run the tool without its own sandbox, as this one replaces it",
);
/// More entries than that of one directory are named by it.
const SIBLINGS_MAX: usize = 3;
type Way = (&'static [u8], &'static str, &'static str);
/// What the words about a server of the command's own end with, where it may have none yet.
const WITH_SERVERS: &str = ", with network.allowLocalBinding = true";
const SHARED: &str = "filesystem.allowWrite += [\"/tmp\"]";
/// Programs that heed no TMPDIR, by how what they make is called: of what it is said, and what to do instead.
const INSTEAD: [Way; 8] = [
    (
        b"S-",
        "for a screen of its own, with network.allowLocalBinding = true",
        "mkdir -pm 700 $TMPDIR/s; SCREENDIR=$TMPDIR/s screen",
    ),
    (
        b"tmux-",
        "for a tmux of its own, with network.allowLocalBinding = true",
        "TMUX_TMPDIR=$TMPDIR tmux -L NAME",
    ),
    (b".ZendSem.", "for PHP", "php -d opcache.lockfile_path=$TMPDIR"),
    (b".java_pid", JAVA, "kill -QUIT PID"),
    (b".attach_pid", JAVA, "kill -QUIT PID"),
    (b"tmpf", "for tmpfile(3), which ignores TMPDIR, if nobody else uses /tmp", SHARED),
    (b"lua_", "for os.tmpname of Lua, which ignores TMPDIR, if nobody else uses /tmp", SHARED),
    (
        b"pnpm-",
        "for pnpm 12, whose locks ignore TMPDIR, with your user's number (id -u)",
        "filesystem.allowWrite += [\"/tmp/pnpm-store-operation-locks-ID\", \"/tmp/pnpm-dir-locks-ID\", \
         \"/tmp/pnpm-modules-swaps-ID\"]",
    ),
];
/// The same of programs that keep something in the home.
const INSTEAD_OF_HOME: [Way; 10] = [
    (b".cabal", "for cabal", "CABAL_DIR=$TMPDIR/cabal"),
    (b".cpanm", "for cpanm", "PERL_CPANM_HOME=$TMPDIR/cpanm"),
    (b".crates", "for cargo install", "cargo install --root DIRECTORY"),
    (b".distcc", "for distcc", "DISTCC_DIR=$TMPDIR"),
    (b".gunicorn", "for gunicorn", "gunicorn --no-control-socket"),
    (b".ipython", "for IPython", "IPYTHONDIR=$TMPDIR/ipython"),
    (b"chromium", CHROMIUM.0, CHROMIUM.1),
    (b"google-chrome", CHROMIUM.0, CHROMIUM.1),
    (b"nim", "for Nim", "nim c --nimcache:$TMPDIR/nim"),
    (b"bazel", "for Bazel", "bazel --output_user_root=$TMPDIR/bazel"),
];
const CHROMIUM: (&str, &str) = ("for Chromium", "--no-sandbox --user-data-dir=$TMPDIR/chromium");
const JAVA: &str =
    "as jcmd and jstack only work through /tmp, to make the process print its stacks";
/// What to do where a program asks whether the nearest directory that is there may be written.
pub(super) const MAKE_FIRST: (&str, &str) = (
    "for a tool that checks first whether it may create an allowed directory in there",
    "create that outside first (mkdir -p)",
);
/// What to do where a program asks whether the home may be written.
const HOME: (&str, &str) = ("for a tool that needs a home that it may write", "HOME=$TMPDIR");
/// What to do about a socket without a path.
pub(super) const ABSTRACT: (&str, &str) =
    ("no policy allows abstract Unix sockets", "use one with a path, such as in $TMPDIR");
/// What to do where an allowed path was missing.
pub(super) const AT_MISSING: (&str, &str) =
    ("for a link, or what is moved there", "make it outside, or allow its directory");
/// What a lone `*` allows.
pub(super) const STAR: (&str, &str) = (
    "'*' in filesystem.allowWrite matches only what exists at launch",
    "allow the directory itself, such as '.', for new files too",
);
/// What the kernel shows of itself.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

impl Grounds<'_> {
    /// The key and the text of the written rule that denies `path`, and where it is written, if that was kept.
    pub(super) fn rule(
        &self,
        operation: FileOperation,
        path: &Path,
    ) -> Option<(&'static str, String, Option<&Item>)> {
        let find = |key, rules: &[Pattern]| {
            let rule = rules.iter().find(|rule| covers(std::slice::from_ref(*rule), path))?;
            let pattern = || quote(&self.nearest(Path::new(&rule.to_string()), str::to_owned));
            let text = rule.as_path().map_or_else(pattern, |path| self.shown(&path));
            Some((key, text, self.origins.item_of(key, rule)))
        };
        let (writes, reads) = self.written;
        let writes = self.files.deny_write.get(..writes).unwrap_or_default();
        let reads = self.files.deny_read.get(..reads).unwrap_or_default();
        let by_write = (operation == FileOperation::Write)
            .then(|| find("filesystem.denyWrite", writes))
            .flatten();
        by_write.or_else(|| find("filesystem.denyRead", reads))
    }

    /// What to allow so that `path` can be written.
    pub(super) fn place(&self, path: &Path) -> Option<PathBuf> {
        self.place_where(path, |place| !self.reaches_further(place))
    }

    /// Whether a rule for `place`, which is harmless by its own name, gives more than that: what lies in a directory of the
    /// home, such as the hooks of repositories, or where a link leads.
    pub(super) fn reaches_further(&self, place: &Path) -> bool {
        place.is_symlink() || !self.is_region(place) && leads_further(place)
    }

    /// The same among the places that fit.
    pub(in crate::advice) fn place_where(
        &self,
        path: &Path,
        fits: impl Fn(&Path) -> bool,
    ) -> Option<PathBuf> {
        // Whoever may write it may not remove it.
        let is_futile = |removed: &BTreeSet<_>| is_stand_in(path) || removed.contains(path);
        let helps = |place: &Path| place != path || !self.removed.is_some_and(is_futile);
        self.ground().places(path).into_iter().find(|place| {
            let is_new = !self.is_protected(place) && !self.is_allowed(place);
            is_new && place != self.work && helps(place) && fits(place)
        })
    }

    /// What to do instead where a program wants `path` among what other programs have there.
    pub(super) fn instead_of_shared(&self, path: &Path) -> Option<(&'static str, &'static str)> {
        let (what, text) = instead(&INSTEAD, path)?;
        let has_servers = self.network.allow_local_binding;
        Some((what.strip_suffix(WITH_SERVERS).filter(|_| has_servers).unwrap_or(what), text))
    }

    /// The same in the home.
    pub(super) fn instead_in_home(&self, path: &Path) -> Option<(&'static str, &'static str)> {
        let inner = path.strip_prefix(self.home?).ok()?;
        let is_all = ["", ".config"].map(Path::new).contains(&inner);
        if is_all { Some(HOME) } else { instead(&INSTEAD_OF_HOME, inner) }
    }

    /// What is known to be harmless depends on this of them.
    pub(super) fn ground(&self) -> Ground<'_> {
        let Self { home, work, temporary, settings, .. } = *self;
        Ground { home, work, temporary, settings }
    }

    /// Whether all beneath `place` may be allowed.
    pub(in crate::advice) fn is_region(&self, place: &Path) -> bool {
        self.ground().is_region(place) && !self.is_protected(place)
    }

    /// Whether `place` is suggested for what is in it: not the work tree, which has settings that programs outside obey
    /// (`.git/hooks`, `.envrc`), whether or not the command has tried to change them as yet.
    pub(in crate::advice) fn is_named_for_all(&self, place: &Path) -> bool {
        self.is_region(place) && place != self.work
    }

    /// What protects landstrip, and nobody wrote.
    pub(super) fn protected(&self) -> &[Pattern] {
        let (writes, _) = self.written;
        self.files.deny_write.get(writes..).unwrap_or_default()
    }

    /// Why `place`, a canonical path, is nobody's to allow during a run.
    pub(crate) fn why_not_granted(&self, place: &Path) -> Option<&'static str> {
        let is_denied =
            || covers(&self.files.deny_write, place) || covers(&self.files.deny_read, place);
        if is_denied() || self.is_protected(place) {
            Some("a rule denies it")
        } else if !self.ground().is_harmless(place) {
            Some("programs outside may run or obey what is there")
        } else if !self.is_named_for_all(place) && place.is_dir() {
            // By its own name it is harmless, not with all beneath.
            Some("programs outside may run or obey what is in there")
        } else {
            None
        }
    }

    /// Whether a rule lets `place` be written, by its name.
    pub(super) fn is_allowed(&self, place: &Path) -> bool {
        self.files.allow_write.iter().any(|root| place.starts_with(root))
    }

    /// Whether `place` holds what protects the sandbox, or lies in it.
    fn is_protected(&self, place: &Path) -> bool {
        self.protected().iter().any(|rule| {
            rule.as_path().is_some_and(|path| path.starts_with(place) || place.starts_with(path))
        })
    }

    /// Each place once, and many of one directory as that directory, if it `can` be named for them.
    pub(in crate::advice) fn joined(
        &self,
        places: Vec<PathBuf>,
        can: impl Fn(&Path) -> bool,
    ) -> Vec<PathBuf> {
        let mut siblings: HashMap<&Path, usize> = HashMap::new();
        let distinct: HashSet<&Path> = places.iter().map(PathBuf::as_path).collect();
        for parent in distinct.iter().filter_map(|place| place.parent()) {
            *siblings.entry(parent).or_default() += 1;
        }
        let named = places.iter().map(|place| {
            let is_for_all = |parent: &&Path| siblings[parent] > SIBLINGS_MAX && can(parent);
            place.parent().filter(is_for_all).unwrap_or(place)
        });
        let named: Vec<&Path> = named.collect();
        let all: HashSet<&Path> = named.iter().copied().collect();
        let (mut known, mut joined) = (HashSet::new(), Vec::new());
        for place in named {
            let lies_in_one = place.ancestors().skip(1).any(|above| all.contains(above));
            if !lies_in_one && known.insert(place) {
                joined.push(place.to_owned());
            }
        }
        joined
    }

    /// As a policy would write it, in quotes.
    pub(super) fn shown(&self, place: &Path) -> String {
        quote(&self.written(place))
    }

    /// The same without quotes: relative to the working directory or to the home where that is shorter.
    pub(crate) fn written(&self, place: &Path) -> String {
        self.nearest(place, literal)
    }

    fn nearest(&self, place: &Path, write: fn(&str) -> String) -> String {
        let beneath = |base: Option<&Path>, sign: &str| {
            let inner = write(place.strip_prefix(base?).ok()?.to_str()?);
            Some(if inner.is_empty() { sign.to_owned() } else { format!("{sign}/{inner}") })
        };
        let work = Some(self.work).filter(|work| self.is_region(work));
        let text = beneath(work, ".").or_else(|| beneath(self.home, "~"));
        text.unwrap_or_else(|| write(&place.to_string_lossy()))
    }
}

/// A path as a policy names it and nothing else: what would have a meaning there is escaped.
fn literal(path: &str) -> String {
    let mut written = String::new();
    let mut before = None;
    for character in path.chars() {
        let is_special = match character {
            '\\' | '*' | '?' | '[' | '{' => true,
            '~' => before == Some(':'),
            _ => false,
        };
        if is_special {
            written.push('\\');
        }
        written.push(character);
        before = Some(character);
    }
    written
}

/// Whether `place` is a link, a program, or a directory that holds something.
pub(crate) fn leads_further(place: &Path) -> bool {
    let is_empty = || place.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    place.symlink_metadata().is_ok_and(|found| match found.file_type() {
        kind if kind.is_dir() => !is_empty(),
        kind => kind.is_symlink() || kind.is_file() && found.mode() & 0o111 != 0,
    })
}

/// What to do instead where a program wants this path, and of whom that is said.
fn instead(ways: &[Way], path: &Path) -> Option<(&'static str, &'static str)> {
    let of = |name: &OsStr| {
        let is_its = |(start, ..): &&Way| name.as_bytes().starts_with(start);
        ways.iter().find(is_its).map(|(_, what, text)| (*what, *text))
    };
    path.iter().find_map(of)
}

/// The same where a rule denies the path.
pub(super) fn instead_of_denied(path: &Path) -> Option<(&'static str, &'static str)> {
    match path.file_name()?.as_bytes() {
        b".python-version" => Some(("for uv init", "--no-pin-python")),
        b".erlang.cookie" => Some(("for an Erlang node", "-setcookie NAME")),
        b".git" if !path.exists() => Some(("for a new repository or work tree", "make it outside")),
        _ => None,
    }
}

/// The same where Python has its packages, or a user's own ones.
pub(super) fn instead_of_packages(path: &Path) -> Option<(&'static str, &'static str)> {
    const PACKAGES: [&str; 2] = ["dist-packages", "site-packages"];
    let is_one = |name: &OsStr| PACKAGES.iter().any(|known| name == OsStr::new(known));
    let is_library = |name: &OsStr| name.as_bytes().starts_with(b"python3");
    let is_in_lib = path.parent().is_some_and(|above| above.ends_with("lib"));
    (path.iter().any(is_one) || is_in_lib && path.file_name().is_some_and(is_library)).then_some((
        "to install Python packages",
        "python3 -m venv .venv, then .venv/bin/pip install",
    ))
}

/// Whether `path` lies in what the kernel shows of itself.
pub(super) fn is_of_kernel(path: &Path) -> bool {
    KERNEL.iter().any(|tree| path.starts_with(tree))
}

/// Whether a rule for this path alone does not help: it is what a program makes beside a file to put it in that
/// one's place, and the file cannot be replaced without its directory; or it is called otherwise each time.
fn is_stand_in(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    // Not Cargo.lock.
    name.strip_suffix(b".lock").is_some_and(|of| of.contains(&b'.'))
        || name.windows(4).any(|part| part == b".tmp")
        || is_made_up(name)
}

/// Whether a name was made up by mkstemp(3), which puts six characters in the place of six `X`, and OpenSSH ten, by
/// Python's tempfile, which has eight, or by git for what becomes an object.
fn is_made_up(name: &[u8]) -> bool {
    /// What programs put in front: sed, ln, zip, Perl, many; patch for a file and for what it refuses.
    const WHOLE: [&[u8]; 5] = [b"sed", b"Cu", b"zi", b"XX", b"tmp"];
    const ENDS: [&[u8]; 3] = [b".", b".o", b".r"];
    let is_no_word =
        |part: &[u8]| part.iter().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let is_odd = |pair: &[u8]| {
        pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()
            || pair[0].is_ascii_digit() && pair[1].is_ascii_alphabetic()
    };
    let is_of_chance = |(start, end): (&[u8], &[u8])| {
        let is_mixed = end.iter().all(u8::is_ascii_alphanumeric) && is_no_word(end);
        let is_after = ENDS.iter().any(|before| start.ends_with(before));
        let has = |is_one: fn(&u8) -> bool| end.iter().any(is_one);
        let is_bare = name.len() == 6 && has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase);
        is_mixed && (WHOLE.contains(&start) || (is_after || is_bare) && end.windows(2).any(is_odd))
    };
    let of_length = |count: usize| name.len().checked_sub(count).map(|at| name.split_at(at));
    let is_of_python = |part: &[u8]| {
        let is_one = |byte: &u8| *byte == b'_' || byte.is_ascii_alphanumeric();
        part.len() == 8 && part.iter().all(is_one) && is_no_word(part)
    };
    [6, 10].into_iter().filter_map(of_length).any(is_of_chance)
        || name.strip_prefix(b"tmp").is_some_and(is_of_python)
        || [&b"tmp_obj"[..], b"tmp_pack", b"tmp_idx"].iter().any(|start| name.starts_with(start))
}

/// Whether git writes `path` for commands that change settings: of remotes, linked work trees and submodules.
pub(super) fn is_setting_of_git(path: &Path) -> bool {
    const FILES: [&str; 3] = ["commondir", "config", "config.worktree"];
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = name.strip_suffix(b".lock").unwrap_or(name);
    let is_called = |names: &[&str]| names.iter().any(|one| one.as_bytes() == name);
    let mut inside = path.iter().skip_while(|part| *part != ".git").skip(1).peekable();
    let is_inside = inside.peek().is_some();
    let is_of_module = inside.next() == Some(OsStr::new("modules"));
    is_called(&[".gitmodules"]) || is_inside && (is_called(&FILES) || is_of_module)
}

/// What SQLite makes beside a database.
pub(super) fn companions(path: &Path) -> impl Iterator<Item = PathBuf> {
    let is_database = path.extension().is_some_and(|extension| {
        ["db", "sqlite", "sqlite3"].iter().any(|known| extension == OsStr::new(known))
    });
    let beside = move |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let suffixes = ["-journal", "-wal", "-shm"].into_iter().filter(move |_| is_database);
    suffixes.map(beside)
}
