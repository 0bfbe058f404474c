//! Where settings of git lead that git runs by itself or reads as settings: hooks, programs, included files. It reads
//! the settings and changes nothing. Source: git-config(1), SYNTAX, Includes and the keys in [`PROGRAMS`].

use super::moved::Moved;
use super::shell_words::words;
use super::{inner_links, repositories};
use kernel::locate::{Located, locate};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most files of settings that are read, and how much of each: git's own need no more.
const FILES_MAX: usize = 256;
const LENGTH_MAX: u64 = 1 << 20;

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
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    /// Directories of hooks.
    hooks: Vec<PathBuf>,
    /// Programs, and other files of settings.
    files: Vec<PathBuf>,
}

impl Named {
    /// Adds what is run in those of `places` that are repositories, or have one.
    fn extend_by_repositories(&mut self, places: Vec<PathBuf>) {
        let all = places.into_iter().flat_map(|place| [place.join(".git"), place]);
        for git in all.filter(|git| repositories::is_repository(git)) {
            self.hooks.push(git.join("hooks"));
            self.files.push(git.join("config"));
        }
    }
}

/// Reads `settings` and what they include, in which `~` is `home`, for a command that git runs in one of `tops`.
fn named_in(settings: Vec<PathBuf>, tops: &[PathBuf], home: Option<&Path>) -> Named {
    let mut named = Named::default();
    let mut pending: VecDeque<PathBuf> = settings.into();
    let mut read = Vec::new();
    while let Some(file) = pending.pop_front() {
        if read.len() == FILES_MAX || read.contains(&file) {
            continue;
        }
        let text = repositories::contents(&file, LENGTH_MAX);
        // A command can make any number of work trees, which have none.
        if text.is_empty() {
            continue;
        }
        let above = [file.parent().unwrap_or(Path::new("/")).to_owned()];
        read.push(file);
        for (key, value) in Settings::of(&text) {
            match key.as_slice() {
                b"include.path" | b"includeif.path" => {
                    let included = paths(&value, &above, home);
                    named.files.extend_from_slice(&included);
                    pending.extend(included);
                }
                b"core.hookspath" => named.hooks.extend(paths(&value, tops, home)),
                // Its hooks are copied into what is cloned or made later.
                b"init.templatedir" => named.files.extend(paths(&value, tops, home)),
                // A transport that runs what is named: git-remote-ext(1).
                key if REMOTES.contains(&key) && value.starts_with(b"ext::") => {
                    named.files.extend(programs(&value["ext::".len()..], tops, home));
                }
                // A push runs the hooks of a repository in the tree, as its settings have them.
                key if REMOTES.contains(&key) => {
                    let path = value.strip_prefix(b"file://").unwrap_or(&value);
                    named.extend_by_repositories(paths(path, tops, home));
                }
                key if is_run(key) => named.files.extend(programs(&value, tops, home)),
                _ => {}
            }
        }
    }
    named
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
/// holds a tree than its hooks.
pub(super) fn led_to(
    trees: &[PathBuf],
    elsewhere: &[PathBuf],
    (home, moved): (Option<&Path>, &Moved),
    may_change: impl Fn(&PathBuf) -> bool,
) -> Vec<(&'static str, PathBuf)> {
    let tops: Vec<PathBuf> = trees.iter().flat_map(|tree| repositories::tops(tree)).collect();
    if tops.is_empty() && elsewhere.is_empty() {
        return Vec::new();
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
    let named = named_in(own.chain(of_user).chain([SYSTEM.into()]).collect(), &bases, home);
    // Of a directory of hooks that holds a tree the hooks alone are protected, whatever they are called.
    let links = named.hooks.iter().flat_map(|directory| inner_links::of(directory, 1));
    let files = links.chain(named.files).map(|path| (".", path));
    // With the links that lead there.
    let hooks = named.hooks.iter().flat_map(|path| {
        let holds_tree = |at: Located| trees.iter().any(|tree| tree.starts_with(&at.path));
        let texts = if locate(path).is_ok_and(holds_tree) { &HOOKS[..] } else { &["."] };
        texts.iter().map(move |text| (*text, path.clone()))
    });
    files
        .chain(hooks)
        .filter(|(_, path)| locate(path).is_ok_and(|at| may_change(&at.path)))
        .collect()
}

/// The paths in what a shell runs. A word without a slash is one where a file is called so, as a script that an
/// interpreter is given.
fn programs(value: &[u8], bases: &[PathBuf], home: Option<&Path>) -> Vec<PathBuf> {
    let words = words(value, b'.');
    let all = words.iter().flat_map(|word| {
        let is_path = word.contains(&b'/');
        paths(word, bases, home).into_iter().filter(move |path| is_path || path.is_file())
    });
    all.collect()
}

/// The paths that a value is, beneath each of `bases` if it is relative.
fn paths(value: &[u8], bases: &[PathBuf], home: Option<&Path>) -> Vec<PathBuf> {
    if value.is_empty() || value.contains(&0) {
        return Vec::new();
    }
    let path = Path::new(OsStr::from_bytes(value));
    let found = match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => vec![home.join(rest)],
        (Ok(_), None) => Vec::new(),
        (Err(_), _) => bases.iter().map(|base| base.join(path)).collect(),
    };
    found.into_iter().filter(|path| locate(path).is_ok()).collect()
}

/// The settings in a text, each with its key: section and name in lower case, without the subsection.
struct Settings<'a> {
    rest: &'a [u8],
    section: Vec<u8>,
}

impl<'a> Settings<'a> {
    fn of(text: &'a [u8]) -> Self {
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
        let named = named_in(vec![first], &[dir.path("r")], Some(&home));
        let paths = |names: &[&str]| names.iter().map(|name| dir.path(name)).collect::<Vec<_>>();
        assert_eq!(named.hooks, paths(&["r/.githooks", "home/hooks"]));
        let files =
            ["r/.git/../more", "r/.git/../more", "home/own", "r/./f", "r/c/h", "r/tools/watch"];
        let files = paths(&files);
        assert_eq!(named.files, files);
    }
}
