//! The policy that a run which learned would have needed, as a text. Pure.
//!
//! It adds to the policy of that run, whose deny rules it so keeps. Paths are grouped as in a remedy
//! ([`super::suggest`]); each value stands in quotes, and before the text is handed out it is read again: a
//! file can be called anything, and must not write the policy.

use super::needs::{Lessons, Need, plain};
use super::suggest::{Grounds, host, quote};
use policy::document::Format;
use policy::harmless::is_socket;
use policy::keys::{Item, Written};
use policy::parse::parse;
use proxy_hosts::address::classify;
use rules::files::Files;
use rules::paths::Rules;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Most programs that are named behind a value, and most things in a line of text.
pub const NAMED_MAX: usize = 3;
/// Most of what is left out that is named in the file.
const LEFT_OUT_MAX: usize = 100;

/// What a draft adds to.
#[derive(Debug, Default)]
pub struct Base {
    /// The policies of the run, as `extends` names them; none for the built-in one.
    pub extends: Vec<String>,
    /// What its command was called.
    pub tool: Vec<u8>,
}

/// What is to be written.
#[derive(Debug, Default)]
pub struct Draft {
    base: Base,
    writes: Values,
    sockets: Values,
    hosts: Values,
    private: Values,
    servers: Option<Programs>,
    /// What was reached past the proxy.
    addresses: Values,
    /// What is not known to be harmless.
    left_out: Vec<PathBuf>,
    /// What no rule helps but one for a directory that would open too much.
    wide: Vec<PathBuf>,
    left_out_hosts: BTreeSet<String>,
    forgotten: usize,
}

type Programs = BTreeSet<String>;
/// The values of one key, and who asked for them.
type Values = Vec<(String, Programs)>;

/// A change, and what to allow for it.
struct Change {
    place: PathBuf,
    path: PathBuf,
    programs: Programs,
}

impl Draft {
    /// What `lessons` come to.
    pub fn of(lessons: Lessons, base: Base, grounds: &Grounds<'_>) -> Self {
        let lone = Grounds { removed: None, ..*grounds };
        let grounds = &Grounds { removed: Some(&lessons.removed), ..*grounds };
        let mut draft = Self { base, forgotten: lessons.forgotten, ..Self::default() };
        // All but what is denied.
        let rules = Rules::new(&Files { allow_write: vec!["/".into()], ..grounds.files.clone() });
        let mut written = Vec::new();
        for (need, programs) in lessons.needs {
            match need {
                // All in the work tree and in caches is harmless.
                Need::Further(path) if !grounds.is_region(&path) => draft.left_out.push(path),
                Need::Write(path) | Need::Further(path) => {
                    let fits = |place: &Path| rules.access(place).write;
                    match grounds.place_where(&path, fits) {
                        Some(place) => written.push(Change { place, path, programs }),
                        None if lone.place_where(&path, fits).is_some() => draft.wide.push(path),
                        None => draft.left_out.push(path),
                    }
                }
                Need::Socket(path) => match path.to_str() {
                    Some(_) if is_socket(&path) => {
                        add(&mut draft.sockets, grounds.written(&path), programs);
                    }
                    _ => draft.left_out.push(path),
                },
                Need::Host(target) => match host(&target) {
                    Some(rule) => add(&mut draft.hosts, rule, programs),
                    None => drop(draft.left_out_hosts.insert(target)),
                },
                Need::PrivateHost(target) => {
                    if let Some(rule) = host(&target) {
                        add(&mut draft.private, rule, programs);
                    }
                }
                Need::Server => draft.servers.get_or_insert_default().extend(programs),
                Need::Address(address) => match address.parse() {
                    Ok(found) if !is_advisable(found) => drop(draft.left_out_hosts.insert(address)),
                    _ => add(&mut draft.addresses, address, programs),
                },
            }
        }
        if draft.base.extends.is_empty() {
            // As without a policy.
            add(&mut draft.writes, ".".to_owned(), Programs::new());
        }
        without_ways(&mut written);
        // A directory that was made would be allowed with all that is left out in it.
        let holds_left_out = |change: &Change| {
            let is_beneath = |path: &PathBuf| path.starts_with(&change.place);
            !grounds.is_region(&change.place) && draft.left_out.iter().any(is_beneath)
        };
        let (holding, written): (Vec<_>, Vec<_>) = written.into_iter().partition(holds_left_out);
        draft.left_out.extend(holding.into_iter().map(|change| change.path));
        let places = written.iter().map(|change| change.place.clone()).collect();
        let places = grounds.joined(places, |place| grounds.is_named_for_all(place));
        // Nor what was only made on the way to it.
        let is_allowed = |path: &Path| {
            places.iter().any(|place| path.starts_with(place) || place.starts_with(path))
        };
        for missing in [&mut draft.left_out, &mut draft.wide] {
            missing.retain(|path| !is_allowed(path));
            *missing = grounds.joined(std::mem::take(missing), |_| true);
        }
        for place in places {
            let inside = written.iter().filter(|change| change.place.starts_with(&place));
            let programs = inside.flat_map(|change| change.programs.clone()).collect();
            add(&mut draft.writes, grounds.written(&place), programs);
        }
        draft
    }

    /// The text, which says in `format` what was learned and nothing else.
    pub fn text(&self, format: Format) -> Result<String, String> {
        let text = match format {
            Format::Yaml => self.yaml(),
            Format::Json => self.json(),
        };
        let read = parse(text.as_bytes(), format, Path::new("draft"))
            .map_err(|error| error.to_string())?;
        match self.is_said_by(&read) {
            true => Ok(text),
            false => Err("something in it cannot be written as it is called".to_owned()),
        }
    }

    /// Whether IP networking is opened as a whole: nothing less lets a program past the proxy.
    pub fn opens_network(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// What is missing because it would have opened too much, `most` of it by name.
    pub fn left_out(&self, most: usize) -> Option<String> {
        let paths = self.left_out.iter().map(|path| quote(&path.to_string_lossy()));
        let hosts = self.left_out_hosts.iter().map(|host| quote(host));
        let all: Vec<_> = paths.chain(hosts).collect();
        (!all.is_empty()).then(|| some_of(all.into_iter(), most))
    }

    /// The same of what only a rule for its directory would help: what was removed, replaced or linked, or has another name
    /// each time.
    pub fn wide(&self, most: usize) -> Option<String> {
        let all = self.wide.iter().map(|path| quote(&path.to_string_lossy()));
        (!self.wide.is_empty()).then(|| some_of(all, most))
    }

    /// How many things are missing because there were too many.
    pub fn forgotten(&self) -> usize {
        self.forgotten
    }

    fn lists(&self) -> [(&'static str, &'static str, &Values); 4] {
        const NONE: &Values = &Vec::new();
        // They would restrict nothing.
        let of_proxy = |values| if self.opens_network() { NONE } else { values };
        [
            ("filesystem", "allowWrite", &self.writes),
            ("network", "allowedDomains", of_proxy(&self.hosts)),
            ("network", "privateDomains", of_proxy(&self.private)),
            ("network", "allowUnixSockets", &self.sockets),
        ]
    }

    fn switches(&self) -> [(&'static str, bool); 2] {
        [
            ("allowNetwork", self.opens_network()),
            // Unix sockets need it with the network as well.
            ("allowLocalBinding", self.servers.is_some()),
        ]
    }

    fn is_said_by(&self, read: &Written) -> bool {
        let texts = |items: &[Item]| items.iter().map(|item| item.text.clone()).collect::<Vec<_>>();
        let [writes, hosts, private, sockets] = self
            .lists()
            .map(|(_, _, values)| values.iter().map(|(text, _)| text.clone()).collect());
        let switch = |at: usize| self.switches()[at].1.then_some(true);
        let mut said = Written {
            allow_network: switch(0),
            allow_local_binding: switch(1),
            places: read.places.clone(),
            ..Written::default()
        };
        for (list, expected) in [
            (&mut said.extends, (&read.extends, self.base.extends.clone())),
            (&mut said.allow_write, (&read.allow_write, writes)),
            (&mut said.allowed_domains, (&read.allowed_domains, hosts)),
            (&mut said.private_domains, (&read.private_domains, private)),
            (&mut said.allow_unix_sockets, (&read.allow_unix_sockets, sockets)),
        ] {
            let (found, expected) = expected;
            if texts(found) == expected {
                list.clone_from(found);
            }
        }
        said == *read
    }

    fn yaml(&self) -> String {
        let mut text = format!(
            "# What {} needed, as landstrip --learn saw it. Read it before you use it.\n",
            plain(self.base.tool.rsplit(|&byte| byte == b'/').next().unwrap_or_default())
        );
        if self.forgotten > 0 {
            line(&mut text, format_args!("# It is not all: {} more were seen.", self.forgotten));
        }
        if let Some(paths) = self.left_out(LEFT_OUT_MAX) {
            line(&mut text, format_args!("# Left out, as not known to be harmless: {paths}"));
        }
        if let Some(paths) = self.wide(LEFT_OUT_MAX) {
            let why = "only a rule for the directory would help";
            line(&mut text, format_args!("# Left out, as {why}: {paths}"));
        }
        if !self.base.extends.is_empty() {
            let names: Vec<_> = self.base.extends.iter().map(|name| quote(name)).collect();
            line(&mut text, format_args!("extends: [{}]", names.join(", ")));
        }
        let mut above = "";
        let mut enter = |text: &mut String, object: &'static str| {
            if above != object {
                line(text, format_args!("{object}:"));
                above = object;
            }
        };
        for (object, key, values) in self.lists() {
            if !values.is_empty() {
                enter(&mut text, object);
                line(&mut text, format_args!("  {key}:"));
            }
            for (value, programs) in values {
                line(&mut text, format_args!("    - {}{}", quote(value), asked(programs)));
            }
        }
        for (key, _) in self.switches().iter().filter(|(_, is_on)| *is_on) {
            enter(&mut text, "network");
            let why = match *key {
                "allowNetwork" => {
                    let reached = self.addresses.iter().map(|(address, programs)| {
                        format!("{} to {address}", some(programs.iter().cloned()))
                    });
                    format!("  # past the proxy: {}", some(reached))
                }
                _ => self.servers.as_ref().map(asked).unwrap_or_default(),
            };
            line(&mut text, format_args!("  {key}: true{why}"));
        }
        text
    }

    fn json(&self) -> String {
        let list = |values: &mut dyn Iterator<Item = &String>| {
            let values: Vec<_> = values.map(|value| quote(value)).collect();
            format!("[{}]", values.join(", "))
        };
        let mut members = Vec::new();
        if !self.base.extends.is_empty() {
            members.push(format!("  \"extends\": {}", list(&mut self.base.extends.iter())));
        }
        for object in ["filesystem", "network"] {
            let lists = self
                .lists()
                .into_iter()
                .filter(|(of, _, values)| *of == object && !values.is_empty());
            let mut inner: Vec<_> = lists
                .map(|(_, key, values)| {
                    let list = list(&mut values.iter().map(|(value, _)| value));
                    format!("    \"{key}\": {list}")
                })
                .collect();
            let switches = self.switches().into_iter().filter(|(_, is_on)| *is_on);
            let switches = switches.filter(|_| object == "network");
            inner.extend(switches.map(|(key, _)| format!("    \"{key}\": true")));
            if !inner.is_empty() {
                members.push(format!("  \"{object}\": {{\n{}\n  }}", inner.join(",\n")));
            }
        }
        format!("{{\n{}\n}}\n", members.join(",\n"))
    }
}

/// A metadata service is nobody's reason to open the network.
fn is_advisable(address: SocketAddr) -> bool {
    classify(address.ip()).is_advisable()
}

/// Leaves out the directories that were only made on the way to what is allowed: that may be made by itself.
fn without_ways(changes: &mut Vec<Change>) {
    let places: BTreeSet<PathBuf> = changes.iter().map(|change| change.place.clone()).collect();
    let used = changes.iter().filter(|change| change.path != change.place);
    let used: BTreeSet<PathBuf> = used.map(|change| change.place.clone()).collect();
    let leads_on =
        |place: &Path| places.iter().any(|other| other != place && other.starts_with(place));
    changes.retain(|change| used.contains(&change.place) || !leads_on(&change.place));
}

fn add(values: &mut Values, value: String, programs: Programs) {
    match values.iter_mut().find(|(known, _)| *known == value) {
        Some((_, known)) => known.extend(programs),
        None => values.push((value, programs)),
    }
}

/// Who asked for a value, as a comment behind it.
fn asked(programs: &Programs) -> String {
    match programs.is_empty() {
        true => String::new(),
        false => format!("  # {}", some(programs.iter().cloned())),
    }
}

/// The first ones, and how many there are besides.
fn some(items: impl ExactSizeIterator<Item = String>) -> String {
    some_of(items, NAMED_MAX)
}

fn some_of(items: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let rest = items.len().saturating_sub(most);
    let rest = (rest > 0).then(|| format!("{rest} more"));
    items.take(most).chain(rest).collect::<Vec<_>>().join(", ")
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "{what}");
}

#[cfg(test)]
mod tests;
