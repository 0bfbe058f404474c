//! Which policy files are in force, and what they say together. It reads those files and nothing else.
//!
//! A policy is never looked for in the working directory: the command may have written it in an earlier run.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::callers::Caller;
use super::document::Format;
use super::error::PolicyError;
use super::keys::Written;
use super::locate::{LocateError, Located, locate, locate_in};
use super::parse::parse;

/// The largest policy that is read, in bytes. A real one has a few hundred.
const MAX_SIZE: u64 = 1 << 20;

/// What the user's own policy is called.
const DEFAULT_NAMES: [&str; 3] = ["policy.json", "policy.yaml", "policy.yml"];

/// The name of standard input in errors.
const STDIN: &str = "<stdin>";

/// The policies that the command line names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// They are merged in this order.
    pub(crate) sources: Vec<Source>,
    /// The format of all of them, if told.
    pub(crate) format: Option<Format>,
}

/// Where a policy is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file, relative to the working directory.
    File(PathBuf),
    /// Standard input, written `-`.
    Stdin,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// No policy file: the built-in default is in force.
    BuiltIn,
    /// These files.
    Files {
        /// All of them merged.
        policy: Box<Written>,
        /// Their canonical paths, and those of the symbolic links that led to them.
        sources: Vec<PathBuf>,
    },
}

impl Caller {
    /// Where the user's own policy is looked for: the XDG base directory specification, by which a
    /// relative path is invalid and ignored.
    fn policy_directory(&self) -> Option<PathBuf> {
        self.policy_directories().next()
    }

    /// Where it is looked for now, and where it would be if XDG_CONFIG_HOME were not set.
    fn policy_directories(&self) -> impl Iterator<Item = PathBuf> {
        let named = self.variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let fallback = self.home.as_ref().map(|home| home.join(".config"));
        let configs = named.filter(|path| path.is_absolute()).into_iter().chain(fallback);
        configs.map(|config| config.join("landstrip"))
    }

    /// What decides which policy a run of this user finds without being told, whatever is in force
    /// now and whether anything is there: the [`trail`] of each place.
    ///
    /// # Errors
    /// Returns a [`PolicyError`] if a place leads nowhere.
    pub(crate) fn policy_trails(&self) -> Result<Vec<PathBuf>, PolicyError> {
        let mut trails = Vec::new();
        for directory in self.policy_directories() {
            let located = located(locate(&directory), &directory)?;
            for name in DEFAULT_NAMES {
                trails.extend(trail_in(&located.path, name)?);
            }
            trails.extend(trail_of(located));
        }
        let named = self.variable("LANDSTRIP_POLICY").map(PathBuf::from);
        if let Some(path) = named.filter(|path| path.is_absolute()) {
            trails.extend(trail(&path)?);
        }
        Ok(trails)
    }
}

/// What decides what is found at `path`: the symbolic links that are followed, and where they lead.
///
/// # Errors
/// Returns a [`PolicyError`] if it leads nowhere.
fn trail(path: &Path) -> Result<Vec<PathBuf>, PolicyError> {
    located(locate(path), path).map(trail_of)
}

/// As [`trail`], for what `name` means in `directory`: a canonical path, which is not followed again.
///
/// # Errors
/// As [`trail`].
pub(crate) fn trail_in(directory: &Path, name: &str) -> Result<Vec<PathBuf>, PolicyError> {
    located(locate_in(directory, Path::new(name)), &directory.join(name)).map(trail_of)
}

fn trail_of(located: Located) -> Vec<PathBuf> {
    let mut trail: Vec<_> = located.links.into_iter().map(|link| link.path).collect();
    trail.push(located.path);
    // The links behind `/dev/stdin` and `/dev/fd` are not the policy's.
    let of_system =
        |path: &Path| path.starts_with("/proc") || path.parent() == Some(Path::new("/dev"));
    trail.retain(|path| !of_system(path));
    trail
}

fn located(result: Result<Located, LocateError>, path: &Path) -> Result<Located, PolicyError> {
    result.map_err(|error| PolicyError::in_file(path, error.to_string()))
}

/// Finds, reads and merges the policy files.
///
/// # Errors
/// Returns the first [`PolicyError`]: a file that cannot be read, is too large, or is no policy. Only that
/// there is no default file at all is no error.
pub(crate) fn load(selection: &Selection, caller: &Caller) -> Result<Loaded, PolicyError> {
    let format = selection.format;
    let mut merged = Merged::default();
    if !selection.sources.is_empty() {
        for source in &selection.sources {
            match source {
                Source::File(path) => {
                    merged.add_file(&caller.cwd.join(path), Trust::Named, format)?;
                }
                Source::Stdin => merged.add_stdin(format)?,
            }
        }
    } else if let Some(path) = caller.variable("LANDSTRIP_POLICY") {
        let path = Path::new(&path);
        // A relative one would pick up whatever the working directory holds.
        if !path.is_absolute() {
            let message = "LANDSTRIP_POLICY must be an absolute path";
            return Err(PolicyError::in_file(path, message));
        }
        merged.add_file(path, Trust::Found, format)?;
    } else if let Some(path) = default_file(caller)? {
        merged.add_file(&path, Trust::Found, format)?;
    } else {
        return Ok(Loaded::BuiltIn);
    }
    Ok(Loaded::Files { policy: Box::new(merged.policy), sources: merged.sources })
}

/// How a file came to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The user named it for this run; it may be a pipe, as in `-p <(generate)`.
    Named,
    /// It was found; only a regular file is read, so that no pipe or device can make the launch hang.
    Found,
}

#[derive(Default)]
struct Merged {
    policy: Written,
    sources: Vec<PathBuf>,
}

impl Merged {
    fn add_file(
        &mut self,
        path: &Path,
        trust: Trust,
        format: Option<Format>,
    ) -> Result<(), PolicyError> {
        let (bytes, regular) = read_file(path, trust)
            .map_err(|error| PolicyError::in_file(path, format!("cannot read policy: {error}")))?;
        let format = format.unwrap_or_else(|| format_of(path));
        self.policy.merge(parse(&bytes, format, path)?);
        if regular {
            self.add_source(path)?;
        }
        Ok(())
    }

    fn add_stdin(&mut self, format: Option<Format>) -> Result<(), PolicyError> {
        let file = Path::new(STDIN);
        let bytes = read_limited(io::stdin().lock())
            .map_err(|error| PolicyError::in_file(file, format!("cannot read policy: {error}")))?;
        self.policy.merge(parse(&bytes, format.unwrap_or(Format::Json), file)?);
        // `-p - < policy.json`: the file is in force like one that was named.
        let stdin = Path::new("/proc/self/fd/0");
        if stdin.metadata().is_ok_and(|metadata| metadata.is_file())
            && let Ok(path) = stdin.read_link()
            && path.is_file()
        {
            self.add_source(&path)?;
        }
        Ok(())
    }

    fn add_source(&mut self, path: &Path) -> Result<(), PolicyError> {
        for path in trail(path)? {
            if !self.sources.contains(&path) {
                self.sources.push(path);
            }
        }
        Ok(())
    }
}

/// The user's policy file, if there is one. A broken link in its place is one that cannot be read.
fn default_file(caller: &Caller) -> Result<Option<PathBuf>, PolicyError> {
    let Some(directory) = caller.policy_directory() else { return Ok(None) };
    let mut found = Vec::new();
    for name in DEFAULT_NAMES {
        let path = directory.join(name);
        match path.symlink_metadata() {
            Ok(_) => found.push(path),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                _ => {
                    let message = format!("cannot look for a policy: {error}");
                    return Err(PolicyError::in_file(&path, message));
                }
            },
        }
    }
    if let [first, second, ..] = &found[..] {
        let message = format!("there is also {}; keep one of them", second.display());
        return Err(PolicyError::in_file(first, message));
    }
    Ok(found.pop())
}

fn format_of(path: &Path) -> Format {
    match path.extension().and_then(OsStr::to_str) {
        Some(extension)
            if extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml") =>
        {
            Format::Yaml
        }
        _ => Format::Json,
    }
}

/// Reads a file, and tells whether it is a regular one.
fn read_file(path: &Path, trust: Trust) -> io::Result<(Vec<u8>, bool)> {
    let readable = |kind: std::fs::FileType| {
        let pipe_or_terminal = kind.is_fifo() || kind.is_char_device();
        kind.is_file() || (trust == Trust::Named && pipe_or_terminal)
    };
    let refused = || io::Error::other("it is not a regular file");
    // Before it is opened, since opening a device can have effects of its own.
    let kind = path.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !readable(kind) {
        return Err(refused());
    }
    let mut flags = OFlags::NOCTTY;
    if trust == Trust::Found {
        // A pipe put in its place meanwhile must not block.
        flags |= OFlags::NONBLOCK;
    }
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if !readable(kind) {
        return Err(refused());
    }
    Ok((read_limited(file)?, kind.is_file()))
}

fn read_limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size > MAX_SIZE) {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::super::test_directory::TestDirectory;
    use super::*;

    fn caller(dir: &TestDirectory, variables: &[(&str, &str)]) -> Caller {
        let home = dir.directory("home");
        let pairs = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let home = [("HOME".into(), home.into_os_string())];
        Caller::new(dir.directory("work"), home.into_iter().chain(pairs))
    }

    fn named(paths: &[&str]) -> Selection {
        let file = |path: &&str| Source::File(PathBuf::from(path));
        Selection { sources: paths.iter().map(file).collect(), format: None }
    }

    fn writes(loaded: &Loaded) -> Vec<&str> {
        match loaded {
            Loaded::BuiltIn => vec!["built in"],
            Loaded::Files { policy, .. } => {
                policy.allow_write.iter().map(|item| item.text.as_str()).collect()
            }
        }
    }

    fn policy(path: &str) -> String {
        format!("{{\"filesystem\":{{\"allowWrite\":[\"{path}\"]}}}}")
    }

    #[test]
    fn the_first_place_that_holds_a_policy_counts() {
        let dir = TestDirectory::new();
        let variable = dir.file("v.json", &policy("variable"));
        let variable = variable.to_str().unwrap();
        dir.file("work/policy.json", &policy("work"));
        dir.file("work/p.json", &policy("named"));
        let config = dir.directory("config");
        let config = config.to_str().unwrap();
        let all = [("LANDSTRIP_POLICY", variable), ("XDG_CONFIG_HOME", config)];

        let load = |selection: &Selection, variables: &[(&str, &str)]| {
            writes(&load(selection, &caller(&dir, variables)).unwrap()).join(",")
        };
        assert_eq!(load(&named(&[]), &[]), "built in");
        assert_eq!(load(&named(&[]), &[("LANDSTRIP_POLICY", "")]), "built in");
        dir.file("home/.config/landstrip/policy.yaml", "filesystem: {allowWrite: home}");
        assert_eq!(load(&named(&[]), &[]), "home");
        assert_eq!(load(&named(&[]), &[("XDG_CONFIG_HOME", "relative")]), "home");
        assert_eq!(load(&named(&[]), &all[1..]), "built in");
        dir.file("config/landstrip/policy.json", &policy("config"));
        assert_eq!(load(&named(&[]), &all[1..]), "config");
        assert_eq!(load(&named(&[]), &all), "variable");
        assert_eq!(load(&named(&["p.json"]), &all), "named");
    }

    #[test]
    fn several_files_merge_in_order_and_each_is_a_source() {
        let dir = TestDirectory::new();
        dir.file("work/a.json", &policy("a"));
        dir.file("work/b.yml", "filesystem: {allowWrite: [b, a]}");
        symlink("a.json", dir.path("work/link")).unwrap();
        let loaded = load(&named(&["b.yml", "link"]), &caller(&dir, &[])).unwrap();
        assert_eq!(writes(&loaded), ["b", "a"]);
        let Loaded::Files { sources, .. } = loaded else { unreachable!() };
        let expected = ["work/b.yml", "work/link", "work/a.json"].map(|path| dir.path(path));
        assert_eq!(sources, expected);
    }

    #[test]
    fn the_format_is_told_or_follows_the_extension() {
        let dir = TestDirectory::new();
        for (path, content, format, good) in [
            ("a.json", "{}", None, true),
            ("b.yaml", "network:", None, true),
            ("c.YML", "network:", None, true),
            ("d", "{}", None, true),
            ("e", "network:", None, false),
            ("f", "network:", Some(Format::Yaml), true),
            ("g.yaml", "network:", Some(Format::Json), false),
            ("h.json", "network:", Some(Format::Yaml), true),
        ] {
            dir.file(&format!("work/{path}"), content);
            let selection = Selection { format, ..named(&[path]) };
            assert_eq!(load(&selection, &caller(&dir, &[])).is_ok(), good, "{path}");
        }
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_never_skipped() {
        let dir = TestDirectory::new();
        dir.directory("work/d.json");
        dir.file("work/empty.json", "");
        dir.file("work/large.json", &" ".repeat((1 << 20) + 1));
        dir.file("work/fits.json", &format!("{{}}{}", " ".repeat((1 << 20) - 2)));
        symlink("gone", dir.path("work/broken.json")).unwrap();
        let none = caller(&dir, &[]);
        for (path, expected) in [
            ("gone.json", "No such file"),
            ("broken.json", "No such file"),
            ("d.json", "directory"),
            ("empty.json", "the policy is empty"),
            ("large.json", "larger than 1 MiB"),
            ("/dev/null", "the policy is empty"),
            ("/dev/zero", "larger than 1 MiB"),
        ] {
            let error = load(&named(&[path]), &none).unwrap_err();
            assert_eq!(error.file, Some(none.cwd.join(path)), "{path}");
            assert!(error.message.contains(expected), "{path}: {error}");
        }
        assert!(load(&named(&["fits.json"]), &none).is_ok());

        for (value, expected) in [
            ("/dev/zero", "not a regular file"),
            ("/nonexistent/policy", "No such file"),
            ("policy.json", "absolute path"),
        ] {
            let caller = caller(&dir, &[("LANDSTRIP_POLICY", value)]);
            let error = load(&named(&[]), &caller).unwrap_err();
            assert!(error.message.contains(expected), "{value}: {error}");
        }
    }

    #[test]
    fn a_default_file_that_is_there_must_be_usable() {
        let dir = TestDirectory::new();
        let none = caller(&dir, &[]);
        dir.directory("home/.config/landstrip");
        let policy = dir.path("home/.config/landstrip/policy.json");
        symlink("gone", &policy).unwrap();
        assert!(load(&named(&[]), &none).is_err());
        std::fs::remove_file(&policy).unwrap();
        std::fs::create_dir(&policy).unwrap();
        assert!(load(&named(&[]), &none).is_err());
        std::fs::remove_dir(&policy).unwrap();
        assert_eq!(load(&named(&[]), &none), Ok(Loaded::BuiltIn));
        dir.file("home/.config/landstrip/policy.json", "{}");
        dir.file("home/.config/landstrip/policy.yaml", "{}");
        let error = load(&named(&[]), &none).unwrap_err();
        assert!(error.message.contains("policy.yaml; keep one"), "{error}");
    }

    #[test]
    fn a_pipe_is_read_when_named() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let dir = TestDirectory::new();
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(policy("piped").as_bytes()).unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let loaded = load(&named(&[&path]), &caller(&dir, &[])).unwrap();
        assert_eq!(writes(&loaded), ["piped"]);
        let Loaded::Files { sources, .. } = loaded else { unreachable!() };
        assert!(sources.is_empty());
    }

    #[test]
    fn without_a_home_there_is_no_default_file() {
        for home in [None, Some(""), Some("relative")] {
            let variables = home.map(|home| ("HOME".into(), home.into()));
            let caller = Caller::new("/".into(), variables);
            assert_eq!(caller.home, None);
            assert_eq!(load(&named(&[]), &caller), Ok(Loaded::BuiltIn));
        }
    }
}
