//! Which policies are in force.
//!
//! A policy is never looked for in the working directory: the command may have written it in an earlier run.

use super::callers::Caller;
use super::document::Format;
use super::error::PolicyError;
use super::keys::Written;
use super::merged::{Merged, Trust, located, trail};
use super::unexpanded;
use kernel::locate::{locate, locate_in};
use std::io;
use std::path::{Path, PathBuf};

/// What the user's own policy is called.
const DEFAULT_NAMES: [&str; 3] = ["policy.json", "policy.yaml", "policy.yml"];

/// The policies that the command line names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// They are merged in this order.
    pub sources: Vec<Source>,
    /// The format of all of them, if told.
    pub format: Option<Format>,
}

/// Where a policy is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, relative to the working directory.
    File(PathBuf),
    /// One that comes with landstrip.
    Preset(String),
    /// Standard input, written `-`.
    Stdin,
    /// The policy itself, which a program has made: a file would have a name by which others could rewrite it.
    Text(String),
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded {
    /// No policy file: the built-in default is in force.
    BuiltIn,
    /// These files.
    Files {
        /// All of them merged.
        policy: Box<Written>,
        /// Their canonical paths, and those of the symbolic links that led to them.
        sources: Vec<PathBuf>,
        /// What was read, each after what it extends.
        files: Vec<PathBuf>,
        /// Which of them others can change, a line each.
        shared: Vec<String>,
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
    pub fn policy_trails(&self) -> Result<Vec<PathBuf>, PolicyError> {
        let mut trails = Vec::new();
        for directory in self.policy_directories() {
            let located = located(locate(&directory), &directory)?;
            for name in DEFAULT_NAMES {
                let place = located.path.join(name);
                let found = self::located(locate_in(&located.path, Path::new(name)), &place)?;
                trails.extend(found.trail());
            }
            trails.extend(located.trail());
        }
        let named = self.variable("LANDSTRIP_POLICY").map(PathBuf::from);
        if let Some(path) = named.filter(|path| path.is_absolute()) {
            trails.extend(trail(&path)?);
        }
        Ok(trails)
    }
}

/// Finds, reads and merges the policy files.
///
/// # Errors
/// Returns the first [`PolicyError`]: a file that cannot be read, is too large, or is not a policy. That there is
/// no default file at all is not an error.
pub fn load(selection: &Selection, caller: &Caller) -> Result<Loaded, PolicyError> {
    let mut merged = Merged::new(caller, selection.format);
    for source in &selection.sources {
        match source {
            Source::File(path) => merged.add_file(&caller.cwd.join(path), Trust::Named)?,
            Source::Preset(name) => merged.add_preset(name)?,
            Source::Stdin => merged.add_stdin()?,
            Source::Text(text) => merged.add_text(text)?,
        }
    }
    if selection.sources.is_empty() {
        match found_file(caller)? {
            Some(path) => merged.add_file(&path, Trust::Found)?,
            None => return Ok(Loaded::BuiltIn),
        }
    }
    let Merged { written, sources, files, shared, .. } = merged;
    Ok(Loaded::Files { policy: Box::new(written), sources, files, shared })
}

/// What a policy has to extend to add to those that `selection` names; nothing for the built-in one.
///
/// # Errors
/// Returns a [`PolicyError`] for what cannot be extended: standard input, what is no regular file, a name that
/// no policy can hold.
pub fn to_extend(selection: &Selection, caller: &Caller) -> Result<Vec<String>, PolicyError> {
    let of_file = |path: &Path| {
        let error = |message: &str| Err(PolicyError::in_file(path, message));
        let path = located(locate(path), path)?.path;
        match path.to_str() {
            _ if !path.is_file() => error("a draft extends regular files only"),
            Some(text) if text.trim() == text && unexpanded::check(text).is_ok() => {
                Ok(text.to_owned())
            }
            _ => error("no policy can extend a file of this name"),
        }
    };
    if selection.sources.is_empty() {
        return found_file(caller)?.iter().map(|path| of_file(path)).collect();
    }
    let of_source = |source: &Source| match source {
        Source::File(path) => of_file(&caller.cwd.join(path)),
        Source::Preset(name) => Ok(name.clone()),
        Source::Stdin => Err(PolicyError::general("a draft cannot extend standard input")),
        Source::Text(_) => {
            Err(PolicyError::general("a draft cannot extend a policy without a name; write a file"))
        }
    };
    selection.sources.iter().map(of_source).collect()
}

/// The policy file that a rule can be added to so that such a run has it: the last that `selection` names, else the one
/// that is in force without being named. None where a preset, standard input or a text alone is in force.
pub fn to_amend(selection: &Selection, caller: &Caller) -> Option<(PathBuf, Format)> {
    let named = selection.sources.iter().rev().find_map(|source| match source {
        Source::File(path) => Some(caller.cwd.join(path)),
        _ => None,
    });
    let found = || match selection.sources.is_empty() {
        true => found_file(caller).ok().flatten(),
        false => None,
    };
    let path = named.or_else(found)?.canonicalize().ok().filter(|path| path.is_file())?;
    let format = selection.format.or_else(|| Format::named_by(&path)).unwrap_or(Format::Json);
    Some((path, format))
}

/// The policy file that is in force without being named, if there is one.
fn found_file(caller: &Caller) -> Result<Option<PathBuf>, PolicyError> {
    let Some(path) = caller.variable("LANDSTRIP_POLICY").map(PathBuf::from) else {
        return default_file(caller);
    };
    // A relative one would pick up whatever the working directory holds.
    if !path.is_absolute() {
        return Err(PolicyError::in_file(&path, "LANDSTRIP_POLICY must be an absolute path"));
    }
    Ok(Some(path))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::super::presets::PRESETS;
    use super::*;
    use kernel::test_directory::TestDirectory;

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
                policy.allow_write.iter().map(|item| &*item.text).collect()
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
    fn a_policy_adds_to_what_it_extends() {
        let dir = TestDirectory::new();
        dir.file("work/top.yaml", "extends: [sub/base.yaml, agent]\nfilesystem: {allowWrite: top}");
        dir.file(
            "work/sub/base.yaml",
            "extends: ./deep.json\nfilesystem: {allowWrite: [base]}\nnetwork: {httpProxyPort: 2}",
        );
        dir.file(
            "work/sub/deep.json",
            "{\"extends\":\"~/own.yaml\",\"network\":{\"httpProxyPort\":1,\"allowNetwork\":true}}",
        );
        dir.file("home/own.yaml", "filesystem: {allowWrite: own}\nnetwork: {allowNetwork: false}");
        let loaded = load(&named(&["top.yaml"]), &caller(&dir, &[])).unwrap();
        let writes = writes(&loaded);
        assert_eq!(writes[..3], ["own", "base", "."]);
        assert_eq!(writes.last(), Some(&"top"));
        let Loaded::Files { policy, sources, .. } = loaded else { unreachable!() };
        assert_eq!((policy.http_proxy_port, policy.allow_network), (Some(2), Some(true)));
        assert!(policy.deny_read.iter().any(|item| item.text == "~/.ssh"));
        assert!(policy.extends.is_empty());
        let files = ["home/own.yaml", "work/sub/deep.json", "work/sub/base.yaml", "work/top.yaml"];
        assert_eq!(sources, files.map(|file| dir.path(file)));
    }

    #[test]
    fn what_cannot_be_extended_is_named_where_it_is_written() {
        let dir = TestDirectory::new();
        dir.file("work/self.yaml", "extends: ./self.yaml");
        dir.file("work/a.yaml", "\nextends: [./b.yaml]");
        dir.file("work/b.yaml", "extends: ./link.yaml");
        symlink("a.yaml", dir.path("work/link.yaml")).unwrap();
        dir.file("work/twice.yaml", "extends: [./good.yaml, good.yaml]");
        dir.file("work/good.yaml", "extends: read-only");
        dir.file("work/preset.yaml", "extends: agnet");
        dir.file("work/variable.yaml", "extends: $HOME/x.yaml");
        dir.file("work/empty.yaml", "extends: ['']");
        dir.file("work/gone.yaml", "filesystem: {}\nextends: gone.json");
        dir.file("work/wrong.yaml", "extends: ./bad.json");
        dir.file("work/bad.json", "{\n\"netwrok\":{}}");
        dir.file("work/null.yaml", "extends: /dev/null");
        for number in 0..20 {
            let next = format!("extends: ./n{}.yaml", number + 1);
            dir.file(&format!("work/n{number}.yaml"), &next);
        }
        for (file, at, line, expected) in [
            ("self.yaml", "self.yaml", 1, "'./self.yaml' extends itself by this"),
            ("a.yaml", "b.yaml", 1, "'./link.yaml' extends itself by this"),
            ("preset.yaml", "preset.yaml", 1, "no preset is called 'agnet': did you mean 'agent'?"),
            ("variable.yaml", "variable.yaml", 1, "write '~/x.yaml' for"),
            ("empty.yaml", "empty.yaml", 1, "empty name"),
            ("gone.yaml", "gone.yaml", 2, "gone.json: No such file"),
            ("wrong.yaml", "bad.json", 2, "unknown key 'netwrok'"),
            ("null.yaml", "null.yaml", 1, "not a regular file"),
            ("n0.yaml", "n15.yaml", 1, "more than 16 policies"),
        ] {
            let error = load(&named(&[file]), &caller(&dir, &[])).unwrap_err();
            assert!(error.message.contains(expected), "{file}: {error}");
            assert_eq!(error.file, Some(dir.path(format!("work/{at}"))), "{file}: {error}");
            assert_eq!(error.line, Some(line), "{file}: {error}");
        }
        assert!(load(&named(&["twice.yaml"]), &caller(&dir, &[])).is_ok());
    }

    #[test]
    fn every_preset_can_be_read() {
        let dir = TestDirectory::new();
        for (name, _) in PRESETS {
            let sources = vec![Source::Preset(name.to_owned())];
            let loaded = load(&Selection { sources, format: None }, &caller(&dir, &[]));
            let Loaded::Files { sources, .. } = loaded.unwrap() else { unreachable!() };
            assert!(sources.is_empty(), "{name}");
        }
        let sources = vec![Source::Preset("policy".to_owned())];
        let error = load(&Selection { sources, format: None }, &caller(&dir, &[])).unwrap_err();
        assert!(error.message.contains("A file is written './policy'"), "{error}");
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
        // landstrip's own is closed on exec, and not meant.
        assert!(load(&named(&[&path]), &caller(&dir, &[])).is_err());
        rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::empty()).unwrap();
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
