//! The remedy: what a policy would have to say for what was refused. Pure.
//!
//! Files are grouped into the directory that belongs to one program or purpose, so that forty files of a
//! cache make one entry. What a deny rule names is somebody's decision: then the rule is named instead.
//! Never suggested is what would open the home directory or the system as a whole, a policy in force or
//! landstrip's own programs.

use super::denials::Denial;
use crate::policy::resolve::Network;
use crate::rules::paths::{Files, covers};
use crate::rules::pattern::Pattern;
use common::domain::{self, Host};
use common::trap::{self, FileOperation, NetworkOperation};
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most values that are suggested for one key.
const VALUES_MAX: usize = 8;
/// More entries than that of one directory are named by it.
const SIBLINGS_MAX: usize = 3;
/// Directories of the home in which each program has one of its own.
const SHARED: [&str; 8] = [
    ".cache",
    ".cargo",
    ".config",
    ".gradle",
    ".local/lib",
    ".local/share",
    ".local/state",
    ".rustup",
];

/// What the machine consists of: opened in parts at most.
const SYSTEM: [&str; 10] =
    ["/", "/bin", "/boot", "/etc", "/lib", "/lib64", "/run", "/sbin", "/usr", "/var"];
/// What the kernel shows of itself.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What remedies are found in view of.
#[derive(Debug)]
pub(crate) struct Grounds<'a> {
    pub(crate) home: Option<&'a Path>,
    /// The working directory at launch.
    pub(crate) work: &'a Path,
    /// Where temporary files of all programs are.
    pub(crate) temporary: &'a Path,
    /// The rules in force.
    pub(crate) files: &'a Files,
    /// How many of `deny_write` and `deny_read` were written, not added to protect landstrip.
    pub(crate) written: (usize, usize),
    pub(crate) network: &'a Network,
}

/// One key of the policy, and what to do with it.
#[derive(Debug, PartialEq, Eq)]
struct Remedy {
    key: &'static str,
    values: Vec<String>,
}

/// The line for people about `denials`, if there is something to say.
pub(crate) fn line(denials: &[&Denial], grounds: &Grounds<'_>) -> Option<String> {
    let mut writes = Vec::new();
    let mut allow = Vec::new();
    let mut rules = Vec::new();
    for denial in denials {
        match denial {
            Denial::File(operation, path) => {
                let path = Path::new(OsStr::from_bytes(path));
                match grounds.rule(*operation, path) {
                    Some((key, rule)) => add(&mut rules, key, rule),
                    // What a process asked for that hides its memory has no path.
                    None if *operation == FileOperation::Write && path.is_absolute() => {
                        writes.extend(grounds.place(path))
                    }
                    None => {}
                }
            }
            // By itself, where it may write.
            Denial::Network(NetworkOperation::Bind, path) if path.starts_with(b"/") => {
                if grounds.network.allow_local_binding {
                    writes.extend(grounds.place(Path::new(OsStr::from_bytes(path))));
                } else {
                    add(&mut allow, "network.allowLocalBinding", "true".to_owned());
                }
            }
            Denial::Network(operation, target) => {
                let is_given = |key: &str, network: &Network| {
                    key == "network.allowLocalBinding" && network.allow_local_binding
                };
                if let Some((key, value)) = socket(*operation, target)
                    && !is_given(key, grounds.network)
                {
                    add(&mut allow, key, value);
                }
            }
            Denial::Lookup(_) => {
                if let Some(name) = denial.looked_up() {
                    add(&mut allow, "network.allowedDomains", quote(name));
                }
            }
            Denial::Domain(target) => {
                let Ok(target) = std::str::from_utf8(target) else { continue };
                match denied_domain(target, grounds.network) {
                    Some(rule) => add(&mut rules, "network.deniedDomains", quote(rule)),
                    None => add(&mut allow, "network.allowedDomains", quote(&host(target))),
                }
            }
        }
    }
    let writes = grounds.joined(writes);
    if !writes.is_empty() {
        let values = writes.iter().map(|path| grounds.shown(path)).collect();
        allow.insert(0, Remedy { key: "filesystem.allowWrite", values });
    }
    let remedies: Vec<_> = allow.iter().map(Remedy::assignment).collect();
    let rules: Vec<_> = rules.iter().map(|rule| format!("{} {}", rule.key, rule.list())).collect();
    let parts = [("to allow this", remedies), ("denied by", rules)];
    let parts = parts.iter().filter(|(_, texts)| !texts.is_empty());
    let parts: Vec<_> =
        parts.map(|(what, texts)| format!("{what}: {}", texts.join(", "))).collect();
    (!parts.is_empty()).then(|| format!("landstrip: {}\n", parts.join("; ")))
}

fn add(remedies: &mut Vec<Remedy>, key: &'static str, value: String) {
    let found = remedies.iter().position(|remedy| remedy.key == key);
    let at = found.unwrap_or_else(|| {
        remedies.push(Remedy { key, values: Vec::new() });
        remedies.len() - 1
    });
    if !remedies[at].values.contains(&value) {
        remedies[at].values.push(value);
    }
}

impl Remedy {
    fn assignment(&self) -> String {
        match self.values.as_slice() {
            [value] if value == "true" => format!("{} = true", self.key),
            _ => format!("{} += {}", self.key, self.list()),
        }
    }

    fn list(&self) -> String {
        let shown = self.values.iter().take(VALUES_MAX).map(String::as_str);
        let rest = self.values.len().saturating_sub(VALUES_MAX);
        let rest = (rest > 0).then(|| format!("and {rest} more"));
        format!("[{}]", shown.chain(rest.as_deref()).collect::<Vec<_>>().join(", "))
    }
}

fn quote(text: &str) -> String {
    let mut quoted = String::new();
    // Writing to a String cannot fail.
    let _ = trap::string(&mut quoted, text.as_bytes());
    quoted
}

/// `host:port` as a rule names it: the usual ports are part of every rule.
fn host(target: &str) -> String {
    match target.rsplit_once(':') {
        Some((host, "80" | "443")) => host.trim_matches(['[', ']']).to_owned(),
        _ => target.to_owned(),
    }
}

/// The rule that denies `host:port`.
fn denied_domain<'a>(target: &str, network: &'a Network) -> Option<&'a String> {
    let (name, port) = target.rsplit_once(':')?;
    let port = domain::parse_port(port)?;
    let mut buffer = [0; domain::NAME_MAX];
    let host = Host::parse(name.trim_matches(['[', ']']).as_bytes(), &mut buffer).ok()?;
    network.denied_domains.iter().find(|rule| {
        let mut buffer = [0; domain::NAME_MAX];
        domain::Pattern::parse(rule, &mut buffer).is_ok_and(|rule| rule.matches(&host, port))
    })
}

/// What lets a socket have this address. A name is looked up by the proxy, whatever port 53 answers.
fn socket(operation: NetworkOperation, target: &[u8]) -> Option<(&'static str, String)> {
    let text = std::str::from_utf8(target).ok()?;
    if text.starts_with('/') {
        return Some(("network.allowUnixSockets", quote(text)));
    }
    let address: SocketAddr = text.parse().ok()?;
    let ip = address.ip().to_canonical();
    match operation {
        NetworkOperation::Bind => (ip.is_loopback() || ip.is_unspecified())
            .then(|| ("network.allowLocalBinding", "true".to_owned())),
        NetworkOperation::Connect if address.port() == 53 || ip.is_unspecified() => None,
        NetworkOperation::Connect => {
            let target = match (ip, address.port()) {
                (ip, 80 | 443) => ip.to_string(),
                (IpAddr::V4(ip), port) => format!("{ip}:{port}"),
                (IpAddr::V6(ip), port) => format!("[{ip}]:{port}"),
            };
            Some(("network.allowedDomains", quote(&target)))
        }
    }
}

impl Grounds<'_> {
    /// The key and the text of the written rule that denies `path`.
    fn rule(&self, operation: FileOperation, path: &Path) -> Option<(&'static str, String)> {
        let find = |key, rules: &[Pattern]| {
            let rule = rules.iter().find(|rule| covers(std::slice::from_ref(*rule), path))?;
            let text =
                rule.as_path().map_or_else(|| quote(&rule.to_string()), |path| self.shown(&path));
            Some((key, text))
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
    fn place(&self, path: &Path) -> Option<PathBuf> {
        // What is removed or moved away is an entry of its directory.
        let around = path.parent().unwrap_or(path);
        let places = [self.group(path), around.to_owned(), path.to_owned()];
        places.into_iter().find(|place| self.is_harmless(place))
    }

    /// The directory of the program or the purpose that `path` belongs to, or `path` itself.
    fn group(&self, path: &Path) -> PathBuf {
        let first = |base: &Path, depth: usize| {
            let inner = path.strip_prefix(base).ok().filter(|inner| *inner != Path::new(""))?;
            Some(base.join(inner.components().take(depth).collect::<PathBuf>()))
        };
        if self.is_harmless(self.work)
            && let Some(place) = first(self.work, 1)
        {
            return place;
        }
        if let Some(place) = first(self.temporary, 1) {
            return place;
        }
        if let Some(home) = self.home
            && let Some(inner) = path.strip_prefix(home).ok()
        {
            let shared = SHARED.iter().find(|shared| inner.starts_with(shared));
            let depth = match shared {
                Some(shared) => Path::new(shared).components().count() + 1,
                None if inner.as_os_str().as_bytes().starts_with(b".local/") => 2,
                None if inner.as_os_str().as_bytes().starts_with(b".") => 1,
                // A work tree among others, perhaps.
                None => 2,
            };
            return first(home, depth).unwrap_or_else(|| path.to_owned());
        }
        // Beside the file, but no deeper than where software is usually put.
        let depth = path.components().skip(1).count();
        first(Path::new("/"), depth.saturating_sub(1).clamp(2, 4))
            .unwrap_or_else(|| path.to_owned())
    }

    /// Whether `place` opens neither the system nor the home directory as a whole, nor what protects the
    /// sandbox.
    fn is_harmless(&self, place: &Path) -> bool {
        let (writes, _) = self.written;
        let protected = self.files.deny_write.get(writes..).unwrap_or_default();
        let is = |tree: &&str| place == Path::new(tree);
        let protects = |rule: &Pattern| {
            rule.as_path().is_some_and(|path| path.starts_with(place) || place.starts_with(path))
        };
        let is_chosen = place == self.temporary || place == self.work;
        let is_deep = place.components().count() > 2 || (is_chosen && !SYSTEM.iter().any(is));
        is_deep
            && !KERNEL.iter().any(|tree| place.starts_with(tree))
            && !self.home.is_some_and(|home| home.starts_with(place))
            && std::str::from_utf8(place.as_os_str().as_bytes()).is_ok()
            && !protected.iter().any(protects)
    }

    /// Each place once, and many of one directory as that directory.
    fn joined(&self, places: Vec<PathBuf>) -> Vec<PathBuf> {
        let mut joined: Vec<PathBuf> = Vec::new();
        for place in &places {
            let siblings = |parent: &Path| {
                let mut names: Vec<_> =
                    places.iter().filter(|other| other.parent() == Some(parent)).collect();
                names.sort();
                names.dedup();
                names.len()
            };
            let parent = place
                .parent()
                .filter(|parent| siblings(parent) > SIBLINGS_MAX && self.is_harmless(parent));
            let place = parent.unwrap_or(place);
            if !joined.iter().any(|known| place.starts_with(known)) {
                joined.retain(|known| !known.starts_with(place));
                joined.push(place.to_owned());
            }
        }
        joined
    }

    /// As a policy would write it: relative to the working directory or to the home where that is shorter.
    fn shown(&self, place: &Path) -> String {
        let beneath = |base: Option<&Path>, sign: &str| {
            let inner = place.strip_prefix(base?).ok()?;
            let inner = inner.to_str()?;
            Some(if inner.is_empty() { sign.to_owned() } else { format!("{sign}/{inner}") })
        };
        let work = Some(self.work).filter(|work| self.is_harmless(work));
        let text = beneath(work, ".").or_else(|| beneath(self.home, "~"));
        quote(&text.unwrap_or_else(|| place.display().to_string()))
    }
}

#[cfg(test)]
mod tests;
