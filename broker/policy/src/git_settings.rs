//! Where settings of git lead that git runs by itself or reads as settings: hooks, programs, included files. It reads
//! the settings and changes nothing. Source: git-config(1), SYNTAX, Includes and the keys in [`PROGRAMS`].

use super::moved::Moved;
use super::shell_words::words;
use super::{inner_links, repositories};
use kernel::locate::locate;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most files of settings that are read, how much of each, and most paths that are looked at for them: git's own need no
/// more, and what a command has left is not to keep any of those from being found.
const FILES_MAX: usize = 1024;
const LENGTH_MAX: u64 = 1 << 20;
const PATHS_MAX: usize = 1 << 14;
/// Most links in the directories of hooks.
const LINKS_MAX: usize = 1024;

/// Where settings are: of a repository, of a user, of all.
const OF_REPOSITORY: [&str; 2] = ["config", "config.worktree"];
const OF_USER: [&str; 2] = ["~/.gitconfig", "~/.config/git/config"];
const SYSTEM: &str = "/etc/gitconfig";

/// What git runs for everyday commands, as `status`, `diff`, `log`, `commit`, `merge`, `fetch`: keys without their
/// subsections, and besides each of `pager`. What is asked for by name (aliases, `difftool`, `mergetool`, `archive`) is run
/// knowingly. Those of `lfs` are of git-lfs-config(5).
const PROGRAMS: [&str; 30] = [
    "core.alternaterefscommand",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.pager",
    "core.sshcommand",
    "credential.helper",
    "diff.command",
    "diff.external",
    "diff.textconv",
    "filter.clean",
    "filter.process",
    "filter.smudge",
    "gc.recentobjectshook",
    "gpg.defaultkeycommand",
    "gpg.program",
    "hook.command",
    "interactive.difffilter",
    "lfs.clean",
    "lfs.path",
    "lfs.smudge",
    "merge.driver",
    "remote.receivepack",
    "remote.uploadpack",
    "sequence.editor",
    "submodule.update",
    "trailer.cmd",
    "trailer.command",
    "uploadpack.packobjectshook",
];

/// What names where to fetch from and push to; for most of these a name of a remote is usual.
const REMOTES: [&[u8]; 5] = [
    b"branch.pushremote",
    b"branch.remote",
    b"remote.pushdefault",
    b"remote.pushurl",
    b"remote.url",
];

/// What the settings of some files name, as paths that may be missing.
#[derive(Debug)]
struct Named<'a> {
    /// What is relative starts in each of these; `~` is the home.
    tops: &'a [PathBuf],
    home: Option<&'a Path>,
    /// Directories of hooks.
    hooks: Vec<PathBuf>,
    /// Programs, and other files of settings.
    files: Vec<PathBuf>,
    /// What has been looked at: many branches name one remote.
    known: HashSet<(Vec<u8>, Vec<u8>)>,
    /// How many paths may still be looked at.
    left: usize,
}

impl Named<'_> {
    /// What is named in `settings` and what they include, for a command that git runs in one of `tops`.
    ///
    /// # Errors
    /// Returns the file with which there are too many, or that names too much.
    fn of<'a>(
        settings: Vec<PathBuf>,
        tops: &'a [PathBuf],
        home: Option<&'a Path>,
    ) -> Result<Named<'a>, PathBuf> {
        let (hooks, files, known) = (Vec::new(), Vec::new(), HashSet::new());
        let mut named = Named { tops, home, hooks, files, known, left: PATHS_MAX };
        let mut pending: VecDeque<PathBuf> = settings.into();
        let mut read = HashSet::new();
        while let Some(file) = pending.pop_front() {
            if read.contains(&file) {
                continue;
            }
            let text = repositories::contents(&file, LENGTH_MAX);
            // A command can make any number of work trees, which have none.
            if text.is_empty() {
                continue;
            }
            for (key, value) in Settings::of(&text) {
                // What is included lies beside the file, and is known by its path.
                let is_relative = key.starts_with(b"include");
                if is_relative || named.known.insert((key.clone(), value.clone())) {
                    pending.extend(named.add(&key, &value, &file));
                }
            }
            if named.left == 0 || read.len() == FILES_MAX {
                return Err(file);
            }
            read.insert(file);
        }
        Ok(named)
    }

    /// Adds what a setting in `file` names; returns the files that it includes.
    fn add(&mut self, key: &[u8], value: &[u8], file: &Path) -> Vec<PathBuf> {
        match key {
            b"include.path" | b"includeif.path" => {
                let above = file.parent().unwrap_or(Path::new("/")).to_owned();
                let mut included = self.paths(value, &[above]);
                let name = |path: &PathBuf| (key.to_vec(), path.as_os_str().as_bytes().to_vec());
                included.retain(|path| self.known.insert(name(path)));
                self.files.extend_from_slice(&included);
                return included;
            }
            b"core.hookspath" => {
                let hooks = self.paths(value, self.tops);
                self.hooks.extend(hooks);
            }
            // Its hooks are copied into what is cloned or made later.
            b"init.templatedir" => {
                let template = self.paths(value, self.tops);
                self.files.extend(template);
            }
            key if REMOTES.contains(&key) => self.add_remote(value),
            key if is_run(key) => self.add_programs(value),
            _ => {}
        }
        Vec::new()
    }

    fn add_remote(&mut self, value: &[u8]) {
        // A transport that runs what is named: git-remote-ext(1).
        if let Some(command) = value.strip_prefix(b"ext::") {
            return self.add_programs(command);
        }
        // A push runs the hooks of a repository in the tree, as its settings have them. `.git` need not be written.
        let Some(mut path) = local(value) else { return };
        path.truncate(path.iter().rposition(|&byte| byte != b'/').map_or(1, |last| last + 1));
        for suffix in [&b""[..], b".git"] {
            let places = self.paths(&[&path, suffix].concat(), self.tops);
            let all = places.into_iter().flat_map(|place| [repositories::of(&place), vec![place]]);
            for git in all.flatten().filter(|git| repositories::is_repository(git)) {
                self.hooks.push(git.join("hooks"));
                self.files.push(git.join("config"));
            }
        }
    }

    /// Adds the paths in what a shell runs. A word without a slash is one where a file is called so, as a script that an
    /// interpreter is given.
    fn add_programs(&mut self, value: &[u8]) {
        for word in words(value, b'.') {
            let mut paths = self.paths(&word, self.tops);
            paths.retain(|path| word.contains(&b'/') || path.is_file());
            self.files.extend(paths);
        }
    }

    /// The paths that a value is, beneath each of `bases` if it is relative.
    fn paths(&mut self, value: &[u8], bases: &[PathBuf]) -> Vec<PathBuf> {
        if value.is_empty() || value.contains(&0) {
            return Vec::new();
        }
        let path = Path::new(OsStr::from_bytes(value));
        let found = match (path.strip_prefix("~"), self.home) {
            (Ok(rest), Some(home)) => vec![home.join(rest)],
            (Ok(_), None) => Vec::new(),
            (Err(_), _) => bases.iter().take(self.left).map(|base| base.join(path)).collect(),
        };
        self.left = self.left.saturating_sub(found.len());
        found.into_iter().filter(|path| locate(path).is_ok()).collect()
    }
}

/// The path that git takes the name of a remote for: git-fetch(1), GIT URLS. None for one of another host.
fn local(remote: &[u8]) -> Option<Vec<u8>> {
    let Some(url) = remote.strip_prefix(b"file://") else {
        let is_url = remote.windows(3).any(|part| part == b"://");
        let colon = remote.iter().position(|&byte| byte == b':');
        let is_of_host = colon.is_some_and(|colon| !remote[..colon].contains(&b'/'));
        return (!is_url && !is_of_host).then(|| remote.to_owned());
    };
    let path = &url[url.iter().position(|&byte| byte == b'/')?..];
    Some(proxy_url::decode(path).collect())
}

/// Whether git runs what stands there.
fn is_run(key: &[u8]) -> bool {
    key.starts_with(b"pager.") || PROGRAMS.iter().any(|program| program.as_bytes() == key)
}

/// The item of a preset that stands for hooks.
pub(super) const ITEM: &str = ".git/hooks";
/// The names that git runs in a directory of hooks (githooks(5)): the texts of items.
const HOOKS: [&str; 12] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-*",
    "post-*",
    "pre-*",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// What git runs outside of its directories for `trees`, whose repositories are called `.git` or found elsewhere: a
/// text relative to a path for each. Nothing that lies where `may_change` says no, and no more of a directory that
/// `is_all` says yes of, or that holds a tree, than its hooks.
///
/// # Errors
/// Returns a file of settings that leads to more than is looked at.
pub(super) fn led_to(
    trees: &[PathBuf],
    elsewhere: &[PathBuf],
    (home, moved): (Option<&Path>, &Moved),
    may_change: impl Fn(&PathBuf) -> bool,
    is_all: impl Fn(&Path) -> bool,
) -> Result<Vec<(&'static str, PathBuf)>, PathBuf> {
    let tops: Vec<PathBuf> = repositories::tops(trees.iter().map(PathBuf::as_path)).collect();
    if tops.is_empty() && elsewhere.is_empty() {
        return Ok(Vec::new());
    }
    let called_so = tops.iter().map(|top| top.join(".git"));
    // What is relative starts there: at the top, of a bare repository in itself.
    let bases: Vec<PathBuf> = tops.iter().chain(elsewhere).cloned().collect();
    let repositories: Vec<PathBuf> = called_so.chain(elsewhere.iter().cloned()).collect();
    let of_home = |name: &str| Some(home?.join(name.strip_prefix("~/")?));
    let place = |(rest, place): (&str, PathBuf)| if rest == "." { place } else { place.join(rest) };
    let moved = |name| moved.of_item(name).into_iter().map(place);
    let of_user = OF_USER.iter().flat_map(|name| of_home(name).into_iter().chain(moved(name)));
    let own = repositories.iter().flat_map(|git| OF_REPOSITORY.map(|name| git.join(name)));
    let Named { hooks, files, .. } =
        Named::of(of_user.chain([SYSTEM.into()]).chain(own).collect(), &bases, home)?;
    let hooks = hooks.into_iter().filter_map(|path| Some((locate(&path).ok()?.path, path)));
    let hooks: Vec<_> = hooks.collect();
    let (mut links, mut listed, mut found) = (Vec::new(), HashSet::new(), Vec::new());
    for (at, directory) in &hooks {
        if listed.insert(at) {
            links.extend(inner_links::of(directory, 1));
        }
        if links.len() > LINKS_MAX {
            return Err(directory.clone());
        }
    }
    for path in links.into_iter().chain(files) {
        if locate(&path).is_ok_and(|at| may_change(&at.path) && !is_all(&at.path)) {
            found.push((".", path));
        }
    }
    // With the links that lead there.
    for (at, path) in hooks.iter().filter(|(at, _)| may_change(at)) {
        let holds_tree = trees.iter().any(|tree| tree.starts_with(at));
        let texts = if holds_tree || is_all(at) { &HOOKS[..] } else { &["."] };
        found.extend(texts.iter().map(|text| (*text, path.clone())));
    }
    Ok(found)
}

/// The settings in a text, each with its key: section and name in lower case, without the subsection.
pub(super) struct Settings<'a> {
    rest: &'a [u8],
    section: Vec<u8>,
}

impl<'a> Settings<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        Self { rest: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text), section: Vec::new() }
    }

    fn take(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip_line(&mut self) {
        while !matches!(self.take(), None | Some(b'\n')) {}
    }

    /// What follows `[`, up to `]`; a subsection is in quotes, in which a backslash takes the next byte.
    fn enter_section(&mut self) {
        self.section.clear();
        let (mut is_quoted, mut has_ended) = (false, false);
        while let Some(byte) = self.take() {
            match byte {
                b'\\' if is_quoted => drop(self.take()),
                b'"' => is_quoted = !is_quoted,
                b']' if !is_quoted => return,
                b'\n' => return,
                _ if is_quoted => {}
                b' ' | b'\t' | b'.' => has_ended = true,
                _ if has_ended => {}
                byte => self.section.push(byte.to_ascii_lowercase()),
            }
        }
    }

    /// What follows `=`, to the end of the line that no backslash takes back.
    fn value(&mut self) -> Vec<u8> {
        let (mut value, mut is_quoted, mut length) = (Vec::new(), false, 0);
        while let Some(byte) = self.take() {
            match byte {
                b'\n' => break,
                b'\r' if self.rest.first() == Some(&b'\n') => {}
                b'#' | b';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                b'"' => is_quoted = !is_quoted,
                b'\\' => match self.take() {
                    Some(b'\n') | None => {}
                    Some(b'\r') if self.rest.first() == Some(&b'\n') => drop(self.take()),
                    Some(b'n') => value.push(b'\n'),
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(8),
                    Some(other) => value.push(other),
                },
                byte if byte.is_ascii_whitespace() && !is_quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    // Blanks at the end are none of it.
                    continue;
                }
                byte => value.push(byte),
            }
            length = value.len();
        }
        value.truncate(length);
        value
    }
}

impl Iterator for Settings<'_> {
    type Item = (Vec<u8>, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.take()? {
                b'#' | b';' => self.skip_line(),
                b'[' => self.enter_section(),
                byte if byte.is_ascii_alphanumeric() => {
                    let mut key = [self.section.as_slice(), b".", &[byte]].concat();
                    while let Some((&next, rest)) = self.rest.split_first()
                        && (next.is_ascii_alphanumeric() || next == b'-')
                    {
                        key.push(next);
                        self.rest = rest;
                    }
                    key.make_ascii_lowercase();
                    while let Some((b' ' | b'\t', rest)) = self.rest.split_first() {
                        self.rest = rest;
                    }
                    if self.rest.first() == Some(&b'=') {
                        self.take();
                        return Some((key, self.value()));
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::test_directory::TestDirectory;

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = b"\xef\xbb\xbf# [core] hooksPath = no\n[core]\n\tbare\n\tHOOKSpath = a b \t; no\n[Core] hookspath=\"c # d\" e\n\
            [includeIf \"gitdir:[x]\\\"]\"]\r\n path = \"q\\\"\\\\\\t\"\r\n[include]path=one\\\ntwo\n[core.old]\nkey = v";
        let found: Vec<_> = Settings::of(text).collect();
        let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let expected = [
            pair("core.hookspath", "a b"),
            pair("core.hookspath", "c # d e"),
            pair("includeif.path", "q\"\\\t"),
            pair("include.path", "onetwo"),
            pair("core.key", "v"),
        ];
        assert_eq!(found, expected);
        for text in ["", "[", "[a \"", "a", "a=", "a=\\", "a=\"", "[a]b = \\\r\n", "\0[\0]\0=\0"] {
            let _ = Settings::of(text.as_bytes()).count();
        }
    }

    #[test]
    fn what_a_shell_runs_is_read_in_words() {
        for (value, expected) in [
            ("sh ./f %f", "sh ./f %f"),
            ("!f() { c/h; }; f", "f { c/h } f"),
            ("$PWD/tools/x -a", "./tools/x -a"),
            ("\"$(git rev-parse --show-toplevel)\"/tools/x", "./tools/x"),
            ("`git rev-parse --show-toplevel`/x", "./x"),
            ("${HOME}/bin/x $HOME/y", "~/bin/x ~/y"),
            ("cd tools && ./x --y", "cd tools tools/./x ./x --y"),
            ("'./x'", "./x"),
            ("$( `", "."),
            ("$", "."),
            ("", ""),
        ] {
            let found = words(value.as_bytes(), b'.').join(&b' ');
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn what_they_name_is_found_through_includes() {
        let dir = TestDirectory::new();
        let home = dir.directory("home");
        let first = dir.file("r/.git/config", "[include]path=../more\n[core]hooksPath=.githooks\n");
        dir.file(
            "r/more",
            "[include]path=more\n[includeIf \"x\"]path=~/own\n[core]fsmonitor=true\n\
             [filter \"f\"]clean=sh ./f %f\n[credential \"u\"]helper=!f() { c/h; }; f\n[alias]a=!./a\n",
        );
        dir.file("home/own", "[core]\nhooksPath = ~/hooks\nfsmonitor = tools/watch --all\n");
        let tops = [dir.path("r")];
        let named = Named::of(vec![first], &tops, Some(&home)).unwrap();
        let paths = |names: &[&str]| names.iter().map(|name| dir.path(name)).collect::<Vec<_>>();
        assert_eq!(named.hooks, paths(&["r/.githooks", "home/hooks"]));
        let files = ["r/.git/../more", "home/own", "r/./f", "r/c/h", "r/tools/watch"];
        let files = paths(&files);
        assert_eq!(named.files, files);
    }

    #[test]
    fn repositories_that_are_pushed_to_are_found_as_git_finds_them() {
        let dir = TestDirectory::new();
        for git in ["server.git", "one/.git", "two.git/.git", "other"] {
            dir.directory(&format!("{git}/refs"));
            dir.file(&format!("{git}/HEAD"), "ref: refs/heads/main\n");
        }
        dir.file("file/.git", "gitdir: ../other\n");
        let tops = [dir.path("")];
        let top = tops[0].to_str().unwrap().trim_end_matches('/');
        for (remote, expected) in [
            ("./server", Some("server.git")),
            ("server.git", Some("server.git")),
            ("./one", Some("one/.git")),
            ("./two", Some("two.git/.git")),
            ("./file", Some("other")),
            ("./server/", Some("server.git")),
            ("file://localhost@/ser%76er", Some("server.git")),
            ("origin", None),
            ("https://host/server", None),
            ("host:server", None),
        ] {
            let settings = dir
                .file("config", &format!("[remote \"r\"]\nurl = {}\n", remote.replace('@', top)));
            let named = Named::of(vec![settings], &tops, None).unwrap();
            let found = named.hooks.iter().map(|hooks| {
                hooks.canonicalize().unwrap_or_else(|_| {
                    hooks.parent().unwrap().canonicalize().unwrap().join("hooks")
                })
            });
            let expected = expected.map(|git| dir.path(git).join("hooks"));
            assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(expected), "{remote}");
        }
    }
}
