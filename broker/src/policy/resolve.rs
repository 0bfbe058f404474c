//! From what was written to what is meant: absolute canonical paths, patterns, ports. The end of the one way
//! that policy data walks.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::callers::{CallerProxies, CallerProxy};
use super::domains;
use super::error::{Origin, PolicyError};
use super::expand::{self, expand};
use super::load::{Environment, Loaded, load};
use super::locate::{Located, locate};
use super::remarks::Remarks;
use super::schema::{Item, RawNetwork, RawPolicy};
use crate::cli::Options;
use crate::rules::paths::{Files, Rules, push_new};
use crate::rules::pattern::{Component, Pattern};
use common::upstream::Protocol;

/// The policy in force, resolved against the file system and the environment as they were at launch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// No policy file was found: the built-in default, which comes with a private TMPDIR.
    pub(crate) built_in: bool,
    pub(crate) files: Files,
    pub(crate) network: Network,
    /// The canonical paths of the policy files in force, and of the symbolic links that led to them. The caller
    /// denies writing them.
    pub(crate) sources: Vec<PathBuf>,
}

/// What of the network may be used.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) allow_network: bool,
    pub(crate) allowed_domains: Vec<String>,
    pub(crate) denied_domains: Vec<String>,
    /// Names that may have private addresses.
    pub(crate) private_domains: Vec<String>,
    /// The policy's port, else that of a loopback HTTP_PROXY.
    pub(crate) http_proxy_port: Option<u16>,
    /// The policy's port, else that of a loopback SOCKS_PROXY.
    pub(crate) socks_proxy_port: Option<u16>,
    /// The proxies that the caller uses: landstrip's own may have to go through them.
    pub(crate) callers: CallerProxies,
    pub(crate) allow_local_binding: bool,
    /// Canonical paths of sockets, or of directories of sockets.
    pub(crate) allow_unix_sockets: Vec<PathBuf>,
    pub(crate) allow_all_unix_sockets: bool,
}

impl Policy {
    /// Finds, reads, merges and resolves the policy.
    ///
    /// # Errors
    /// Returns the first [`PolicyError`]; then nothing must run.
    pub(crate) fn load(
        options: &Options,
        environment: &Environment,
    ) -> Result<(Policy, Remarks), PolicyError> {
        match load(options, environment)? {
            Loaded::BuiltIn => Ok((Policy::built_in(environment)?, Remarks::default())),
            Loaded::Files { policy, sources } => resolve(*policy, sources, environment),
        }
    }

    /// Without a policy file: the working directory may be written, everything may be read, there is no
    /// network, not even through a proxy that the environment names.
    fn built_in(environment: &Environment) -> Result<Policy, PolicyError> {
        let cwd = locate(&environment.cwd)
            .map_err(|error| PolicyError::in_file(&environment.cwd, error.to_string()))?;
        if cwd.path == Path::new("/") {
            let message = "without a policy the working directory may be written, and that is /: \
                           start in another one, or name a policy with -p";
            return Err(PolicyError::general(message));
        }
        let files = Files { allow_write: vec![cwd.path], ..Files::default() };
        Ok(Policy { built_in: true, files, ..Policy::default() })
    }
}

fn resolve(
    raw: RawPolicy,
    sources: Vec<PathBuf>,
    environment: &Environment,
) -> Result<(Policy, Remarks), PolicyError> {
    let mut remarks = Remarks::default();
    raw.ignored_keys.iter().for_each(|key| remarks.ignored(key));
    let mut resolver = Resolver { environment, budget: expand::MAX_ENTRIES, remarks };
    let written = &raw.filesystem;
    let deny_write = resolver.denials(&written.deny_write, Denial::Write)?;
    let deny_read = resolver.denials(&written.deny_read, Denial::Read)?;
    let mut grants = Grants {
        write: resolver.grants(&written.allow_write)?,
        read: resolver.grants(&written.allow_read)?,
        sockets: resolver.grants(&raw.network.allow_unix_sockets)?,
    };
    resolver.drop_planted(&mut grants, &deny_write, &deny_read)?;
    let files = Files {
        allow_write: paths(&grants.write),
        deny_write,
        deny_read,
        allow_read: paths(&grants.read),
    };
    let network = resolver.network(&raw.network, paths(&grants.sockets))?;
    Ok((Policy { built_in: false, files, network, sources }, resolver.remarks))
}

/// A written path: a literal beginning, and what follows from the first glob on.
struct Written {
    prefix: PathBuf,
    rest: Vec<Component>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denial {
    Read,
    Write,
}

/// A path that is allowed, and how it was reached.
struct Grant {
    path: PathBuf,
    /// The symbolic links followed.
    links: Vec<PathBuf>,
    /// It is a match of a glob.
    from_glob: bool,
    origin: Origin,
}

struct Grants {
    write: Vec<Grant>,
    read: Vec<Grant>,
    sockets: Vec<Grant>,
}

fn paths(grants: &[Grant]) -> Vec<PathBuf> {
    let mut known = HashSet::new();
    grants
        .iter()
        .map(|grant| grant.path.clone())
        .filter(|path| known.insert(path.clone()))
        .collect()
}

struct Resolver<'a> {
    environment: &'a Environment,
    /// What the allow globs may still look at.
    budget: usize,
    remarks: Remarks,
}

impl Resolver<'_> {
    fn warn(&mut self, origin: &Origin, message: &str) {
        self.remarks.warn(origin.error(message).to_string());
    }

    fn denials(&mut self, items: &[Item], denial: Denial) -> Result<Vec<Pattern>, PolicyError> {
        let mut patterns = Vec::new();
        for item in items {
            let Written { prefix, rest } = self.interpret(item)?;
            let located = locate_for(&item.origin, &prefix)?;
            if located.of_process {
                return Err(item.origin.error(
                    "a path through /proc/self means another one to each process; it cannot be denied",
                ));
            }
            let names_a_link = rest.is_empty();
            push_new(&mut patterns, Pattern::new(&located.path, rest));
            for link in located.links {
                // A link that could be replaced would lead what was denied elsewhere. Reading through it is
                // settled by where it leads, except that a denied link itself is denied by its name too.
                if denial == Denial::Write || (link.last && names_a_link) {
                    push_new(&mut patterns, Pattern::literal(&link.path));
                }
            }
        }
        Ok(patterns)
    }

    fn grants(&mut self, items: &[Item]) -> Result<Vec<Grant>, PolicyError> {
        let mut grants = Vec::new();
        for item in items {
            let Written { prefix, rest } = self.interpret(item)?;
            let located = locate_for(&item.origin, &prefix)?;
            if located.of_process {
                self.warn(&item.origin, "ignored: what the command holds open is usable anyway");
            } else if rest.is_empty() {
                grants.push(Grant::new(located, &[], false, item));
            } else {
                self.expand(item, &located, rest, &mut grants)?;
            }
        }
        Ok(grants)
    }

    fn expand(
        &mut self,
        item: &Item,
        prefix: &Located,
        rest: Vec<Component>,
        grants: &mut Vec<Grant>,
    ) -> Result<(), PolicyError> {
        let found = expand(&prefix.path, rest, &mut self.budget)
            .map_err(|error| item.origin.error(error.to_string()))?;
        if found.matches.is_empty() {
            self.warn(&item.origin, &format!("'{}' matches nothing", item.text));
        }
        for directory in &found.unreadable {
            let message = format!("{} cannot be read to find matches", directory.display());
            self.warn(&item.origin, &message);
        }
        for path in found.matches {
            match locate(&path) {
                Ok(located) if located.of_process => {}
                Ok(located) => {
                    let before: Vec<PathBuf> =
                        prefix.links.iter().map(|link| link.path.clone()).collect();
                    grants.push(Grant::new(located, &before, true, item));
                }
                Err(error) => self.warn(&item.origin, &format!("{}: {error}", path.display())),
            }
        }
        Ok(())
    }

    /// Refuses what would be allowed only through a symbolic link that lies where the command may write: an
    /// earlier run could have made it, to be let out by the next one. A literal entry is an error, since it can
    /// name the target instead; a match of a glob is left out.
    fn drop_planted(
        &mut self,
        grants: &mut Grants,
        deny_write: &[Pattern],
        deny_read: &[Pattern],
    ) -> Result<(), PolicyError> {
        let rules_of = |write: Vec<PathBuf>, read: Vec<PathBuf>| {
            Rules::new(&Files {
                allow_write: write,
                deny_write: deny_write.to_vec(),
                deny_read: deny_read.to_vec(),
                allow_read: read,
            })
        };
        let all = rules_of(paths(&grants.write), paths(&grants.read));
        let planted =
            |grant: &Grant| grant.links.iter().find(|link| all.access(link).write).cloned();
        let sound = |list: &[Grant]| {
            let sound = list.iter().filter(|grant| planted(grant).is_none());
            sound.map(|grant| grant.path.clone()).collect::<Vec<_>>()
        };
        let trusted = rules_of(sound(&grants.write), sound(&grants.read));
        let sockets = sound(&grants.sockets);

        let widens_write = |path: &Path| all.access(path).write && !trusted.access(path).write;
        let widens_read = |path: &Path| all.access(path).read && !trusted.access(path).read;
        let widens_sockets = |path: &Path| !sockets.iter().any(|socket| path.starts_with(socket));
        self.keep_sound(&mut grants.write, &planted, &widens_write)?;
        self.keep_sound(&mut grants.read, &planted, &widens_read)?;
        self.keep_sound(&mut grants.sockets, &planted, &widens_sockets)
    }

    fn keep_sound(
        &mut self,
        grants: &mut Vec<Grant>,
        planted: &dyn Fn(&Grant) -> Option<PathBuf>,
        widens: &dyn Fn(&Path) -> bool,
    ) -> Result<(), PolicyError> {
        let mut kept = Vec::new();
        for grant in grants.drain(..) {
            let Some(link) = planted(&grant).filter(|_| widens(&grant.path)) else {
                kept.push(grant);
                continue;
            };
            let message = format!(
                "{} is a symbolic link where the command may write, so the command could choose where \
                 it leads; name {} instead",
                link.display(),
                grant.path.display()
            );
            if !grant.from_glob {
                return Err(grant.origin.error(message));
            }
            self.warn(&grant.origin, &format!("match left out: {message}"));
        }
        *grants = kept;
        Ok(())
    }

    /// Makes a written path absolute and splits it at its first glob.
    fn interpret(&mut self, item: &Item) -> Result<Written, PolicyError> {
        let error = |message: &str| Err(item.origin.error(message));
        let text = item.text.as_str();
        if text.is_empty() {
            return error("empty path");
        }
        if text.contains('\0') {
            return error("a path cannot contain a NUL byte");
        }
        let (base, relative) = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                match &self.environment.home {
                    Some(home) => (home.as_path(), rest),
                    None => return error("'~' needs HOME, which is unset or no absolute path"),
                }
            }
            Some(_) => {
                return error("'~user' is not supported; write './~...' for a file of that name");
            }
            None if text.starts_with('/') => (Path::new("/"), text),
            None => (self.environment.cwd.as_path(), text),
        };
        let mut written = Written { prefix: base.to_owned(), rest: Vec::new() };
        for part in relative.split('/').filter(|part| !part.is_empty()) {
            let component = Component::parse(part.as_bytes())
                .map_err(|error| item.origin.error(format!("'{part}': {error}")))?;
            match component {
                Component::Literal(name) if name == b"." => {}
                Component::Literal(name) if written.rest.is_empty() => {
                    written.prefix.push(OsStr::from_bytes(&name));
                }
                Component::Literal(name) if name == b".." => {
                    return error("'..' cannot follow a glob");
                }
                component => written.rest.push(component),
            }
        }
        if !written.rest.is_empty() && text.contains('{') {
            self.warn(&item.origin, "braces are ordinary characters in a glob");
        }
        Ok(written)
    }

    fn network(
        &mut self,
        raw: &RawNetwork,
        allow_unix_sockets: Vec<PathBuf>,
    ) -> Result<Network, PolicyError> {
        let callers = self.caller_proxies();
        let port_of = |caller: &Option<CallerProxy>| caller.as_ref()?.loopback_port();
        let network = Network {
            allow_network: raw.allow_network.unwrap_or(false),
            allowed_domains: checked_domains(&raw.allowed_domains)?,
            denied_domains: checked_domains(&raw.denied_domains)?,
            private_domains: checked_domains(&raw.private_domains)?,
            http_proxy_port: raw.http_proxy_port.or(port_of(&callers.http)),
            socks_proxy_port: raw.socks_proxy_port.or(port_of(&callers.socks)),
            callers,
            allow_local_binding: raw.allow_local_binding.unwrap_or(false),
            allow_unix_sockets,
            allow_all_unix_sockets: raw.allow_all_unix_sockets.unwrap_or(false),
        };
        if network.allow_network {
            for (field, items) in
                [("allowedDomains", &raw.allowed_domains), ("deniedDomains", &raw.denied_domains)]
            {
                if let Some(item) = items.first() {
                    let message = format!("allowNetwork is true, so {field} restricts nothing");
                    self.warn(&item.origin, &message);
                }
            }
        }
        Ok(network)
    }

    /// What the environment says of proxies; what is no proxy is ignored, with a warning.
    fn caller_proxies(&mut self) -> CallerProxies {
        CallerProxies {
            http: self.caller_proxy(["HTTP_PROXY", "http_proxy"], Protocol::Http),
            https: self.caller_proxy(["HTTPS_PROXY", "https_proxy"], Protocol::Http),
            all: self.caller_proxy(["ALL_PROXY", "all_proxy"], Protocol::Http),
            socks: self.caller_proxy(["SOCKS_PROXY", "socks_proxy"], Protocol::Socks5),
            direct: ["NO_PROXY", "no_proxy"]
                .into_iter()
                .find_map(|name| self.environment.variable(name)?.into_string().ok()),
        }
    }

    /// The proxy that the first set one of `names` gives.
    fn caller_proxy(&mut self, names: [&'static str; 2], default: Protocol) -> Option<CallerProxy> {
        let (name, value) =
            names.into_iter().find_map(|name| Some((name, self.environment.variable(name)?)))?;
        let proxy = match value.to_str() {
            Some(text) => CallerProxy::parse(name, text, default),
            None => Err("it is not UTF-8".to_owned()),
        };
        proxy.map_err(|reason| self.remarks.warn(format!("{name} ignored: {reason}"))).ok()
    }
}

impl Grant {
    fn new(located: Located, links_before: &[PathBuf], from_glob: bool, item: &Item) -> Grant {
        let links = located.links.into_iter().map(|link| link.path);
        Grant {
            path: located.path,
            links: links_before.iter().cloned().chain(links).collect(),
            from_glob,
            origin: item.origin.clone(),
        }
    }
}

fn locate_for(origin: &Origin, path: &Path) -> Result<Located, PolicyError> {
    locate(path).map_err(|error| origin.error(error.to_string()))
}

fn checked_domains(items: &[Item]) -> Result<Vec<String>, PolicyError> {
    let check = |item: &Item| {
        let text = item.text.trim();
        domains::check(text).map(|()| text.to_owned()).map_err(|e| item.origin.error(e))
    };
    items.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::super::test_directory::TestDirectory;
    use super::*;
    use crate::cli::{Format, PolicySource};

    /// A home, a working directory, and the policies tried in them.
    struct Fixture {
        dir: TestDirectory,
        variables: Vec<(&'static str, String)>,
    }

    impl Fixture {
        fn new() -> Fixture {
            let dir = TestDirectory::new();
            let home = dir.directory("home").to_str().unwrap().to_owned();
            dir.directory("work");
            Fixture { dir, variables: vec![("HOME", home)] }
        }

        fn environment(&self) -> Environment {
            let variables = self.variables.iter().map(|(name, value)| (name.into(), value.into()));
            Environment::new(self.dir.path("work"), variables)
        }

        fn resolve(&self, yaml: &str) -> Result<Policy, PolicyError> {
            self.load(yaml).map(|(policy, _)| policy)
        }

        fn remarks(&self, yaml: &str) -> Vec<String> {
            self.load(yaml).unwrap().1.lines().to_vec()
        }

        fn load(&self, yaml: &str) -> Result<(Policy, Remarks), PolicyError> {
            let file = self.dir.file("policy", yaml);
            let options = Options {
                policies: vec![PolicySource::File(file)],
                format: Some(Format::Yaml),
                ..Options::default()
            };
            Policy::load(&options, &self.environment())
        }

        /// Resolves one list and returns it relative to the fixture.
        fn writable(&self, list: &str) -> Result<Vec<String>, PolicyError> {
            let policy = self.resolve(&format!("filesystem: {{allowWrite: {list}}}"))?;
            Ok(policy.files.allow_write.iter().map(|path| self.relative(path)).collect())
        }

        fn relative(&self, path: &Path) -> String {
            match path.strip_prefix(self.dir.path("")) {
                Ok(path) => path.display().to_string(),
                Err(_) => path.display().to_string(),
            }
        }

        fn literal(&self, path: &str) -> Pattern {
            Pattern::literal(&self.dir.path(path))
        }
    }

    #[test]
    fn written_paths_become_canonical_ones() {
        let f = Fixture::new();
        f.dir.directory("work/real/d");
        f.dir.directory("home/x");
        f.dir.file("home/~odd", "");
        symlink("../work/real", f.dir.path("home/link")).unwrap();
        symlink("nowhere/yet", f.dir.path("home/broken")).unwrap();
        for (list, expected) in [
            ("[.]", "work"),
            ("[real/d/]", "work/real/d"),
            ("[./real/../new//file]", "work/new/file"),
            ("['~']", "home"),
            ("['~/']", "home"),
            ("[~/x]", "home/x"),
            ("[../home/~odd]", "home/~odd"),
            ("[~/link/d]", "work/real/d"),
            ("[~/link]", "work/real"),
            ("[~/link/gone/../e]", "work/real/e"),
            ("[~/broken]", "home/nowhere/yet"),
            ("['a\\*b']", "work/a*b"),
            ("[/]", "/"),
            ("[/nonexistent/x/../y]", "/nonexistent/y"),
            ("[/dev/null]", "/dev/null"),
        ] {
            assert_eq!(f.writable(list).unwrap(), [expected], "{list}");
        }
        assert_eq!(f.writable("[real, ./real, ~/link]").unwrap(), ["work/real"]);
    }

    #[test]
    fn what_cannot_be_a_path_is_an_error_in_every_list() {
        let f = Fixture::new();
        symlink("loop", f.dir.path("work/loop")).unwrap();
        for (item, expected) in [
            ("''", "empty path"),
            ("'~root/x'", "'~user' is not supported"),
            ("\"a\\0b\"", "NUL"),
            ("loop", "too many levels of symbolic links"),
            ("loop/x", "too many levels of symbolic links"),
            ("'a[b'", "without a closing ']'"),
            ("'*/../x'", "'..' cannot follow a glob"),
            ("'a**'", "must be a whole path component"),
            (&"x/".repeat(3000), "longer than 4095 bytes"),
        ] {
            for list in [
                "filesystem.allowWrite",
                "filesystem.denyWrite",
                "filesystem.denyRead",
                "filesystem.allowRead",
                "network.allowUnixSockets",
            ] {
                let (object, key) = list.split_once('.').unwrap();
                let yaml = format!("{object}:\n  {key}:\n  - ok\n  - {item}\n");
                let error = f.resolve(&yaml).unwrap_err();
                assert!(error.message.contains(expected), "{item} in {list}: {error}");
                assert_eq!(error.field, Some(format!("{list}[1]")), "{item}");
                assert_eq!(error.line, Some(4), "{item}");
                assert_eq!(error.file, Some(f.dir.path("policy")));
            }
        }
    }

    #[test]
    fn home_must_be_known_only_where_it_is_used() {
        let mut f = Fixture::new();
        f.variables.clear();
        assert!(f.writable("['~/x']").unwrap_err().message.contains("HOME"));
        assert_eq!(f.writable("[x]").unwrap(), ["work/x"]);
    }

    #[test]
    fn denied_links_are_denied_as_links_and_as_targets() {
        let f = Fixture::new();
        f.dir.file("work/real/f", "");
        symlink("real", f.dir.path("work/way")).unwrap();
        symlink("way/f", f.dir.path("work/link")).unwrap();
        symlink("gone", f.dir.path("work/broken")).unwrap();
        let policy = f
            .resolve("filesystem: {denyWrite: [link, broken], denyRead: [link, broken, way/f]}")
            .unwrap();
        assert_eq!(
            policy.files.deny_write,
            ["work/real/f", "work/link", "work/way", "work/gone", "work/broken"]
                .map(|path| f.literal(path))
        );
        assert_eq!(
            policy.files.deny_read,
            ["work/real/f", "work/link", "work/gone", "work/broken"].map(|path| f.literal(path))
        );
    }

    #[test]
    fn deny_globs_stay_patterns_behind_a_canonical_prefix() {
        let f = Fixture::new();
        f.dir.directory("work/real");
        symlink("real", f.dir.path("work/way")).unwrap();
        let policy =
            f.resolve("filesystem: {denyWrite: ['way/*.key', '**/.env'], denyRead: ['way/**']}");
        let files = policy.unwrap().files;
        let glob = |text: &str| Component::parse(text.as_bytes()).unwrap();
        assert_eq!(
            files.deny_write,
            [
                Pattern::new(&f.dir.path("work/real"), vec![glob("*.key")]),
                f.literal("work/way"),
                Pattern::new(&f.dir.path("work"), vec![Component::AnyDepth, glob(".env")]),
            ]
        );
        assert_eq!(files.deny_read, [f.literal("work/real")]);
    }

    #[test]
    fn allow_globs_become_what_they_match() {
        let f = Fixture::new();
        for file in ["work/a/x.log", "work/b/x.log", "work/b/y", "work/.h/x.log"] {
            f.dir.file(file, "");
        }
        assert_eq!(
            f.writable("['*/x.log']").unwrap(),
            ["work/.h/x.log", "work/a/x.log", "work/b/x.log"]
        );
        assert_eq!(f.writable("['**/y', 'b/*']").unwrap(), ["work/b/y", "work/b/x.log"]);
        assert_eq!(f.writable("['a/**']").unwrap(), ["work/a"]);
        let yaml = "filesystem: {allowWrite: ['*/none', 'x{a,b}*']}";
        assert!(f.resolve(yaml).unwrap().files.allow_write.is_empty());
        let warnings = f.remarks(yaml).join("\n");
        assert!(warnings.contains("'*/none' matches nothing"), "{warnings}");
        assert!(warnings.contains("braces"), "{warnings}");
    }

    #[test]
    fn a_link_that_the_command_could_have_made_widens_nothing() {
        let f = Fixture::new();
        f.dir.directory("outside/d");
        f.dir.directory("work/build/inner");
        f.dir.directory("work/fixed");
        symlink("../outside/d", f.dir.path("work/out")).unwrap();
        symlink("build/inner", f.dir.path("work/in")).unwrap();
        symlink("../../outside/d", f.dir.path("work/build/planted")).unwrap();
        symlink("../../outside/d", f.dir.path("work/fixed/kept")).unwrap();

        // Where the command may write, a link out of it is refused and one within it changes nothing.
        let error = f.writable("[., out]").unwrap_err();
        assert!(error.message.contains("name ") && error.message.contains("outside/d"), "{error}");
        assert_eq!(f.writable("[., in]").unwrap(), ["work", "work/build/inner"]);
        assert_eq!(f.writable("[., out, ../outside]").unwrap(), ["work", "outside/d", "outside"]);
        // Elsewhere it is as good as any path.
        assert_eq!(f.writable("[build, out]").unwrap(), ["work/build", "outside/d"]);
        // A glob leaves it out and says so.
        let policy = f.resolve("filesystem: {allowWrite: [build, 'build/*', 'fixed/*']}").unwrap();
        let writable: Vec<_> = policy.files.allow_write.iter().map(|p| f.relative(p)).collect();
        assert_eq!(writable, ["work/build", "work/build/inner", "outside/d"]);
        let yaml = "filesystem: {allowWrite: [build, 'build/*']}";
        assert_eq!(f.resolve(yaml).unwrap().files.allow_write.len(), 2);
        assert!(f.remarks(yaml)[0].contains("left out"), "{:?}", f.remarks(yaml));
        // A denied link is not the command's to make.
        let yaml = "filesystem: {allowWrite: [., out], denyWrite: [out]}";
        assert!(!Rules::new(&f.resolve(yaml).unwrap().files).access(&f.dir.path("work/out")).write);
        // Reads and sockets alike.
        let yaml = "filesystem: {allowWrite: [.], denyRead: [../outside], allowRead: [out]}";
        assert!(f.resolve(yaml).is_err());
        let yaml = "filesystem: {allowWrite: [build], denyRead: [../outside], allowRead: [out]}";
        assert!(f.resolve(yaml).is_ok());
        let yaml = "{filesystem: {allowWrite: [.]}, network: {allowUnixSockets: [out/s]}}";
        assert!(f.resolve(yaml).is_err());
        let yaml = "{filesystem: {allowWrite: [.]}, network: {allowUnixSockets: [build/s]}}";
        assert!(f.resolve(yaml).is_ok());
    }

    #[test]
    fn paths_of_the_process_cannot_be_denied_and_need_no_permission() {
        let f = Fixture::new();
        assert!(f.resolve("filesystem: {denyRead: [/proc/self/environ]}").is_err());
        let yaml = "filesystem: {allowWrite: [/dev/stdout]}";
        assert!(f.resolve(yaml).unwrap().files.allow_write.is_empty());
        assert_eq!(f.remarks(yaml).len(), 1);
    }

    #[test]
    fn proxy_variables_give_defaults_that_the_policy_overrides() {
        let mut f = Fixture::new();
        f.variables.push(("HTTP_PROXY", "http://127.0.0.1:3128".to_owned()));
        f.variables.push(("socks_proxy", "socks5://proxy.example:1080".to_owned()));
        let network = f.resolve("{}").unwrap().network;
        assert_eq!(network.http_proxy_port, Some(3128));
        assert_eq!(network.socks_proxy_port, None);
        let urls: Vec<_> = network.callers.iter().map(|caller| caller.url.as_str()).collect();
        assert_eq!(urls, ["http://127.0.0.1:3128", "socks5://proxy.example:1080"]);
        let network = f.resolve("network: {httpProxyPort: 1, socksProxyPort: 2}").unwrap().network;
        assert_eq!((network.http_proxy_port, network.socks_proxy_port), (Some(1), Some(2)));
        f.variables.push(("SOCKS_PROXY", "nonsense:port".to_owned()));
        let policy = f.resolve("{}").unwrap();
        assert_eq!(policy.network.callers.socks, None);
        assert!(f.remarks("{}")[0].contains("SOCKS_PROXY ignored"));
    }

    #[test]
    fn domains_are_checked_and_named_when_open_anyway() {
        let f = Fixture::new();
        let error = f.resolve("network:\n  deniedDomains: [a.com, 'http://b']\n").unwrap_err();
        assert_eq!(error.field.as_deref(), Some("network.deniedDomains[1]"));
        let yaml = "network: {allowNetwork: true, deniedDomains: ' a.com \n'}";
        assert_eq!(f.resolve(yaml).unwrap().network.denied_domains, ["a.com"]);
        assert!(f.remarks(yaml)[0].contains("restricts nothing"));
    }

    #[test]
    fn without_a_policy_the_working_directory_is_all() {
        let mut f = Fixture::new();
        f.variables.push(("HTTP_PROXY", "http://127.0.0.1:3128".to_owned()));
        let (policy, _) = Policy::load(&Options::default(), &f.environment()).unwrap();
        let files = Files { allow_write: vec![f.dir.path("work")], ..Files::default() };
        assert_eq!(policy, Policy { built_in: true, files, ..Policy::default() });
    }

    #[test]
    fn implicit_denials_join_the_written_ones() {
        let mut files = Files { allow_write: vec!["/w".into()], ..Files::default() };
        for _ in 0..2 {
            files.deny_write_path(Path::new("/w/policy.json"));
            files.deny_read_path(Path::new("/w/key"));
        }
        assert_eq!((files.deny_write.len(), files.deny_read.len()), (1, 1));
        let rules = Rules::new(&files);
        assert!(!rules.access(Path::new("/w/policy.json")).write);
        assert!(!rules.access(Path::new("/w/key")).read);
        assert!(rules.access(Path::new("/w/other")).write);
    }
}
