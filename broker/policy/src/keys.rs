//! The keys of a policy, in one table: where each stands, what its value is and where that goes, what the
//! manual says of it. Known keys, parsing, merging, suggestions, the lists of landstrip-policy(5) and the JSON
//! Schema for editors come from here. A key is added to [`Written`] and to [`KEYS`], and gets its meaning where
//! policies are resolved.
//!
//! A key that would add protection which is not built is an error, because ignoring it would run the command
//! with less than was written. A key that only relaxes, or concerns another platform or another program's
//! set-up, is accepted and remembered for `--check`.

use super::amounts::Unit;
use super::error::Origin;
use super::meant;
use super::nearest::near;
use super::without::{TakenOut, Without};
use rules::policy::Limits;
use std::borrow::Cow;
use std::collections::HashSet;

/// One policy, or several merged: what was written, not yet resolved.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Written {
    /// Read before the rest, and gone once several are merged.
    pub extends: Vec<Item>,
    /// What is taken out of that, and gone then.
    pub without: Vec<Without>,
    pub allow_write: Vec<Item>,
    pub deny_write: Vec<Item>,
    pub allow_write_inside: Vec<Item>,
    pub deny_read: Vec<Item>,
    pub allow_read: Vec<Item>,
    pub allow_network: Option<bool>,
    pub allowed_domains: Vec<Item>,
    pub denied_domains: Vec<Item>,
    pub private_domains: Vec<Item>,
    pub hosts: Vec<Item>,
    pub http_proxy_port: Option<u16>,
    pub socks_proxy_port: Option<u16>,
    pub allow_local_binding: Option<bool>,
    pub allow_unix_sockets: Vec<Item>,
    pub allow_all_unix_sockets: Option<bool>,
    pub processes: Option<&'static str>,
    pub report_reads: Option<bool>,
    pub environment_allow: Option<Vec<Item>>,
    pub environment_deny: Vec<Item>,
    pub environment_set: Vec<Setting>,
    pub limits: Limits,
    pub report_keep: Option<bool>,
    pub ask_seconds: Option<u64>,
    pub weaker_nested: Option<bool>,
    /// By words of a command line, or `*`: words of what is not reported.
    pub ignore_violations: Vec<NamedList>,
    /// The accepted keys that have no effect, as paths such as `network.allowMachLookup`.
    pub ignored: Vec<&'static str>,
    /// The rules that were taken out of what policies extend.
    pub taken_out: Vec<TakenOut>,
    /// Where each value that is no list was written.
    pub places: Vec<(&'static str, Origin)>,
}

/// One item of a list, and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub text: Cow<'static, str>,
    pub origin: Origin,
}

/// A list with its name.
pub type NamedList = (String, Vec<Item>);

/// A name with a value, and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub value: String,
    pub origin: Origin,
}

/// A key that is known.
#[derive(Debug)]
pub struct Key {
    /// Where it stands: its object, if it is in one, a dot, its name.
    pub path: &'static str,
    pub value: Value,
    /// What the manual says of it, in a line; nothing of those without a meaning.
    #[cfg_attr(not(test), allow(dead_code, reason = "for what is generated, which tests compare"))]
    pub summary: &'static str,
}

/// What the value of a key is, and where it goes.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// Strings; several policies unite them.
    List(fn(&mut Written) -> &mut Vec<Item>),
    /// Strings; several policies unite them. Without the key everything is meant, not nothing.
    Choice(fn(&mut Written) -> &mut Option<Vec<Item>>),
    /// Strings by name; of several policies the last that has a name counts.
    Settings(fn(&mut Written) -> &mut Vec<Setting>),
    /// Lists of strings by name; several policies unite them.
    Lists(fn(&mut Written) -> &mut Vec<NamedList>),
    /// A boolean, by default the opposite of what its effect is the effect of; of several policies the last counts.
    Switch(fn(&mut Written) -> &mut Option<bool>, Effect),
    /// One of these words, the first by default; of several policies the last counts.
    Word(fn(&mut Written) -> &mut Option<&'static str>, &'static [&'static str]),
    /// A port; of several policies the last counts.
    Port(fn(&mut Written) -> &mut Option<u16>),
    /// How much there may be of something; of several policies the last counts.
    Amount(fn(&mut Written) -> &mut Option<u64>, Unit),
    /// Rules to take out of what is extended, by their keys.
    Without,
    /// For editors, and accepted without a word.
    Note,
    /// Accepted without effect: it relaxes, names another program, or concerns another platform.
    Ignored,
    /// An error unless null: without it the command would be less confined than written.
    NotBuilt(&'static str),
}

/// What `--explain` says of a switch that is not as by default.
#[derive(Debug, Clone, Copy)]
pub struct Effect {
    /// The value of which this is the effect.
    pub of: bool,
    pub subject: &'static str,
    /// Who sees to it.
    pub by: &'static str,
    pub text: &'static str,
}

use Value::{Amount, Choice, Ignored, List, Lists, NotBuilt, Note, Port, Settings, Switch, Word};

const fn key(path: &'static str, value: Value, summary: &'static str) -> Key {
    Key { path, value, summary }
}

const fn ignored(path: &'static str) -> Key {
    key(path, Ignored, "")
}

const fn not_built(path: &'static str, reason: &'static str) -> Key {
    key(path, NotBuilt(reason), "")
}

/// The word for what the command itself has made.
pub const OWN: &str = "own";

const MANAGED: &str = "managed settings are not implemented";
const UPSTREAM: &str = "not implemented; name the upstream proxy in HTTP_PROXY and SOCKS_PROXY";

/// Every key, in the order of the manual.
pub static KEYS: &[Key] = &[
    key("$schema", Note, "the JSON Schema of policies, for editors; nothing is read from there"),
    key(
        "extends",
        List(|w| &mut w.extends),
        "presets, or files relative to this one, that this policy adds to",
    ),
    key(
        "without",
        Value::Without,
        "rules to take out of what this policy extends, by the same keys and words",
    ),
    key("filesystem.allowWrite", List(|w| &mut w.allow_write), "paths that may be written"),
    key(
        "filesystem.denyWrite",
        List(|w| &mut w.deny_write),
        "paths that may not be written, inside allowWrite too",
    ),
    key(
        "filesystem.allowWriteInside",
        List(|w| &mut w.allow_write_inside),
        "paths that may be written again inside denyWrite, as far as allowWrite reaches",
    ),
    key(
        "filesystem.denyRead",
        List(|w| &mut w.deny_read),
        "paths that may not be read; everything else may",
    ),
    key(
        "filesystem.allowRead",
        List(|w| &mut w.allow_read),
        "paths that may be read again inside denyRead",
    ),
    key(
        "network.allowNetwork",
        Switch(
            |w| &mut w.allow_network,
            Effect { of: true, subject: "IP", by: "nobody", text: "not restricted" },
        ),
        "whether IP networking is unrestricted",
    ),
    key(
        "network.allowedDomains",
        List(|w| &mut w.allowed_domains),
        "hosts that may be reached through landstrip's own proxies",
    ),
    key(
        "network.deniedDomains",
        List(|w| &mut w.denied_domains),
        "hosts that are denied, even if allowedDomains has them",
    ),
    key(
        "network.privateDomains",
        List(|w| &mut w.private_domains),
        "allowed hosts that may have private addresses",
    ),
    key("network.hosts", List(|w| &mut w.hosts), "lines as in /etc/hosts, for this run"),
    key(
        "network.httpProxyPort",
        Port(|w| &mut w.http_proxy_port),
        "the port of an HTTP proxy on this host",
    ),
    key(
        "network.socksProxyPort",
        Port(|w| &mut w.socks_proxy_port),
        "the port of a SOCKS5 proxy on this host",
    ),
    key(
        "network.allowLocalBinding",
        Switch(
            |w| &mut w.allow_local_binding,
            Effect {
                of: true,
                subject: "loopback",
                by: "broker",
                text: "servers of the command's own, which it alone reaches",
            },
        ),
        "whether the command may have servers for itself",
    ),
    key(
        "network.allowUnixSockets",
        List(|w| &mut w.allow_unix_sockets),
        "Unix sockets that may be connected to and bound, by path",
    ),
    key(
        "network.allowAllUnixSockets",
        Switch(
            |w| &mut w.allow_all_unix_sockets,
            Effect {
                of: true,
                subject: "Unix sockets",
                by: "nobody",
                text: "all that have a path may be connected to",
            },
        ),
        "whether all Unix sockets that have a path are allowed",
    ),
    key(
        "processes",
        Word(|w| &mut w.processes, &["all", OWN]),
        "of which processes the command may read in /proc: all, or its own",
    ),
    key(
        "environment.allow",
        Choice(|w| &mut w.environment_allow),
        "variables of the caller that the command gets; all, without this key",
    ),
    key(
        "environment.deny",
        List(|w| &mut w.environment_deny),
        "variables that it does not get, even if allow has them",
    ),
    key("environment.set", Settings(|w| &mut w.environment_set), "variables with their values"),
    key(
        "limits.memory",
        Amount(|w| &mut w.limits.memory, Unit::Bytes),
        "how much memory the command and all that it starts may use together",
    ),
    key(
        "limits.processes",
        Amount(|w| &mut w.limits.processes, Unit::Count),
        "how many processes and threads there may be at a time",
    ),
    key(
        "limits.cpuSeconds",
        Amount(|w| &mut w.limits.cpu_seconds, Unit::Seconds),
        "how much processor time they may take together",
    ),
    key(
        "limits.wallSeconds",
        Amount(|w| &mut w.limits.wall_seconds, Unit::Seconds),
        "how long the run may take",
    ),
    key(
        "limits.fileSize",
        Amount(|w| &mut w.limits.file_size, Unit::Bytes),
        "how long each file may become",
    ),
    key(
        "report.reads",
        Switch(
            |w| &mut w.report_reads,
            Effect {
                of: false,
                subject: "refused reads",
                by: "nobody",
                text: "neither watched nor reported, unless --report says so",
            },
        ),
        "whether refused reads are watched and reported",
    ),
    key(
        "report.keep",
        Switch(
            |w| &mut w.report_keep,
            Effect { of: true, subject: "refusals", by: "landstrip", text: "kept for --denials" },
        ),
        "whether refusals are kept for landstrip --denials",
    ),
    key(
        "ask.timeoutSeconds",
        Amount(|w| &mut w.ask_seconds, Unit::Seconds),
        "how long a question of landstrip --ask waits for its answer; 60 by default",
    ),
    key(
        "ignoreViolations",
        Lists(|w| &mut w.ignore_violations),
        "what is refused without a report, by words of the command line, or * for all",
    ),
    key(
        "enableWeakerNestedSandbox",
        Switch(
            |w| &mut w.weaker_nested,
            Effect {
                of: true,
                subject: "inside another sandbox",
                by: "Landlock and filter",
                text: "what only the broker could decide is left to that sandbox",
            },
        ),
        "whether to run with less protection where another sandbox leaves no listener",
    ),
    not_built(
        "credentials",
        "hiding credentials is not implemented; deny the files with filesystem.denyRead",
    ),
    not_built("parentProxy", UPSTREAM),
    not_built("filesystem.allowManagedReadPathsOnly", MANAGED),
    not_built("network.allowManagedDomainsOnly", MANAGED),
    not_built("network.filterRequest", "filtering single requests is not implemented"),
    not_built("network.mitmProxy", "an inspecting proxy is not implemented"),
    not_built("network.parentProxy", UPSTREAM),
    not_built("network.tlsTerminate", "inspecting TLS is not implemented"),
    ignored("allowAppleEvents"),
    ignored("allowPty"),
    ignored("bwrapPath"),
    ignored("enableWeakerNetworkIsolation"),
    ignored("git"),
    ignored("javaAgentJarPath"),
    ignored("macos"),
    ignored("mandatoryDenySearchDepth"),
    ignored("ripgrep"),
    ignored("seccomp"),
    ignored("socatPath"),
    ignored("windows"),
    ignored("filesystem.allowGitConfig"),
    ignored("filesystem.disabled"),
    ignored("filesystem.ignoreViolations"),
    ignored("network.allowMachLookup"),
    ignored("network.deniedDomainReasons"),
    ignored("network.enableWeakerNestedSandbox"),
    ignored("network.enableWeakerNetworkIsolation"),
    ignored("network.ignoreViolations"),
    // What it asks for always holds here: nobody is asked about a domain that is not listed.
    ignored("network.strictAllowlist"),
];

impl Key {
    /// The object that it is in, empty at the top level, and its name there.
    pub fn place(&self) -> (&'static str, &'static str) {
        self.path.split_once('.').unwrap_or(("", self.path))
    }

    fn has_meaning(&self) -> bool {
        !matches!(self.value, Ignored | NotBuilt(_))
    }
}

/// The key `name` of `object`.
pub fn find(object: &str, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.place() == (object, name))
}

/// The names of the objects that keys are in, none twice.
pub(super) fn objects() -> impl Iterator<Item = &'static str> {
    let mut known = HashSet::new();
    KEYS.iter().map(|key| key.place().0).filter(move |name| !name.is_empty() && known.insert(*name))
}

/// Whether `name` of `object` is an object with keys in it.
pub fn is_object(object: &str, name: &str) -> bool {
    object.is_empty() && objects().any(|known| known == name)
}

/// What is wrong with the key `name` in `object`, where none of that name is known.
pub fn unknown(name: &str, object: &str) -> String {
    let shown = shorten(name);
    if let Some(text) = meant::instead(name, object) {
        return format!("unknown key '{shown}': {text}");
    }
    let with_meaning = KEYS.iter().filter(|key| key.has_meaning()).map(Key::place);
    let places = || objects().map(|object| ("", object)).chain(with_meaning.clone());
    if let Some((home, _)) = places().find(|(_, known)| *known == name) {
        let home = if home.is_empty() { "the top level" } else { home };
        return format!("unknown key '{shown}' here: it belongs in {home}");
    }
    if let Some((object, key)) = KEYS.iter().find(|key| key.path == name).map(Key::place) {
        return format!("unknown key '{shown}': write '{key}' inside the object '{object}'");
    }
    let ignored = KEYS.iter().filter(|key| matches!(key.value, Ignored)).map(Key::place);
    let is_here = |(home, _): &(&str, &str)| *home == object;
    let here = places().chain(ignored).filter(is_here).map(|(_, name)| name);
    match near(name, here) {
        Some(near) => format!("unknown key '{shown}', the nearest known key is '{near}'"),
        None => {
            let here: Vec<_> = places().filter(is_here).map(|(_, name)| name).collect();
            format!("unknown key '{shown}', known here are {}", here.join(", "))
        }
    }
}

/// The path of the key that somebody means who writes `word` as an option: its name, in whatever case.
pub fn meant_by(word: &str) -> Option<&'static str> {
    let plain = |text: &str| text.replace(['-', '_', '.'], "").to_lowercase();
    let is_meant =
        |key: &&Key| plain(key.place().1) == plain(word) || plain(key.path) == plain(word);
    KEYS.iter().filter(|key| key.has_meaning()).find(is_meant).map(|key| key.path)
}

/// A key as errors show it: whatever it is, the message stays one readable line.
pub fn shorten(key: &str) -> String {
    const SHOWN: usize = 60;
    match key.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", key[..end].escape_debug()),
        None => key.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::presets::PRESETS;
    use super::super::presets::tests::text as text_of;
    use super::*;
    use std::fmt::Write;

    const MANUAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../man/landstrip-policy.5");

    #[test]
    fn no_key_stands_in_the_table_twice() {
        let mut known = HashSet::new();
        assert!(KEYS.iter().all(|key| known.insert(key.path)));
        assert!(KEYS.iter().all(|key| !is_object("", key.path)));
        assert!(KEYS.iter().all(|key| key.has_meaning() != key.summary.is_empty()));
    }

    /// What stands in the manual between the comments that name `part`.
    fn generated(part: &str) -> String {
        let mut text = String::new();
        match part {
            "keys" => {
                for key in KEYS {
                    let value = match key.value {
                        Word(_, words) => &format!("{}, default {}", words.join(" or "), words[0]),
                        List(_) | Choice(_) => "list",
                        Settings(_) => "object of strings",
                        Lists(_) => "object of lists",
                        Switch(..) if key.path == "report.reads" => "boolean, default true",
                        Switch(..) => "boolean, default false",
                        Port(_) => "integer from 1 to 65535",
                        Amount(_, unit) => unit.in_manual(),
                        Value::Without => "object of objects of lists",
                        Note => "string",
                        Ignored | NotBuilt(_) => continue,
                    };
                    writeln!(text, ".It Ic {} No ({value})\n{}", key.path, key.summary).unwrap();
                }
            }
            "presets" => {
                for (name, _) in PRESETS {
                    // Lines that begin with a dot or a quote would be requests.
                    let preset = text_of(name).replace('\\', "\\e").replace("\n'", "\n\\&'");
                    writeln!(text, ".It Cm {name}\n.Bd -literal -compact\n{preset}.Ed").unwrap();
                }
            }
            "keys that are not built" => {
                let keys = KEYS.iter().filter(|key| matches!(key.value, NotBuilt(_)));
                text = enumeration(keys);
            }
            _ => text = enumeration(KEYS.iter().filter(|key| matches!(key.value, Ignored))),
        }
        text
    }

    fn enumeration(keys: impl Iterator<Item = &'static Key>) -> String {
        let keys: Vec<_> = keys.map(|key| key.path).collect();
        let (last, rest) = keys.split_last().unwrap();
        format!(".Ic {}\nand\n.Ic {last} .\n", rest.join(" ,\n.Ic "))
    }

    /// Run with `LANDSTRIP_WRITE_TABLE=1` to write the lists of the manual anew.
    #[test]
    fn the_manual_lists_every_key() {
        let mut manual = std::fs::read_to_string(MANUAL).unwrap();
        for part in ["keys", "presets", "keys that are not built", "keys without effect"] {
            let begin = format!(".\\\" generated: {part}\n");
            let from = manual.find(&begin).unwrap() + begin.len();
            let to = from + manual[from..].find(".\\\" end\n").unwrap();
            let text = generated(part);
            if std::env::var_os("LANDSTRIP_WRITE_TABLE").is_some() {
                manual.replace_range(from..to, &text);
                std::fs::write(MANUAL, &manual).unwrap();
            } else {
                assert_eq!(&manual[from..to], text, "run this test with LANDSTRIP_WRITE_TABLE=1");
            }
        }
    }
}
