//! The policy in force as a whole: where it came from, what became of each rule, and who enforces what.

use super::InForce;
use super::answer::Rule;
use super::directories::brokered;
use super::paths::hides_processes;
use landstrip_core::files::view::{Decider, Reads};
use landstrip_core::session::launch::Change;
use policy::keys::{Item, KEYS, Key, Value};
use policy::origins::{Cause, Origins, PathRule, SOCKETS};
use rules::pattern::Pattern;
use rules::policy::Needs;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// Most directories that are named for one rule.
const DIRECTORIES_MAX: usize = 8;

/// The name of what holds under every policy.
pub const PROTECTIONS: &str = "protections";

/// What is said of an allowed path that may not be written.
pub const NOT_SO: &str = "not so, another rule denies it";

/// What belongs together.
#[derive(Debug)]
pub struct Section {
    pub name: &'static str,
    pub rows: Vec<Row>,
}

/// One thing, and what is said of it.
#[derive(Debug)]
pub struct Row {
    pub subject: String,
    /// Who sees to it.
    pub by: Option<&'static str>,
    pub text: String,
    pub rule: Option<Rule>,
}

impl Row {
    fn new(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), by: None, text: text.into(), rule: None }
    }

    fn by(self, by: &'static str) -> Self {
        Self { by: Some(by), ..self }
    }

    fn under(self, rule: Option<Rule>) -> Self {
        Self { rule, ..self }
    }
}

/// All of it.
pub fn of(in_force: &InForce<'_>) -> Vec<Section> {
    let remarks = in_force.remarks.lines().iter().filter_map(|line| line.split_once(": "));
    let mut remarks: Vec<_> = remarks.map(|(kind, text)| Row::new(kind, text)).collect();
    // Warnings first.
    remarks.sort_by_key(|row| row.subject == "note");
    let sections = [
        Section { name: "policy", rows: policies(in_force) },
        Section { name: "files", rows: files(in_force) },
        Section { name: "network", rows: network(in_force) },
        Section { name: "limits", rows: limits(in_force.origins()) },
        Section { name: "environment", rows: environment(in_force) },
        Section { name: PROTECTIONS, rows: protections(in_force) },
        Section { name: "remarks", rows: remarks },
    ];
    sections.into_iter().filter(|section| !section.rows.is_empty()).collect()
}

fn policies(in_force: &InForce<'_>) -> Vec<Row> {
    let files = &in_force.origins().files;
    if in_force.policy.built_in {
        let text = "the working directory and a private TMPDIR may be written; everything may be read; no network";
        return vec![Row::new("built in", text)];
    }
    let last = files.len().saturating_sub(1);
    let row = |(index, file): (usize, &PathBuf)| {
        let file = file.canonicalize().unwrap_or_else(|_| file.clone());
        let text = if index == last { in_force.found } else { "extended by the next" };
        Row::new(file.display().to_string(), text)
    };
    files.iter().enumerate().map(row).collect()
}

fn files(in_force: &InForce<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    if in_force.policy.built_in {
        for path in &in_force.policy.files.allow_write {
            let (by, text) = write_fate(in_force, path);
            rows.push(
                Row::new(path.display().to_string(), format!("may be written: {text}")).by(by),
            );
        }
    }
    let mut own = 0;
    let mut seen = HashSet::new();
    for rule in in_force.origins().paths.iter().filter(|rule| rule.list != SOCKETS) {
        if !seen.insert((rule.list, rule.pattern.to_string())) {
            continue;
        }
        if matches!(rule.cause, Cause::Own(_)) {
            own += 1;
            continue;
        }
        let (by, text) = fate(in_force, rule);
        let pattern = rule.pattern.to_string();
        let subject = if pattern.is_empty() { "/".to_owned() } else { pattern };
        let rule = Rule::caused(&rule.cause, rule.list, subject.clone());
        rows.push(Row::new(subject, text).by(by).under(Some(rule)));
    }
    // Alike beside alike.
    rows.sort_by(|one, next| one.text.cmp(&next.text));
    if own > 0 {
        let text = "never writable: what determines the sandbox of this run or the next (policies, \
                    landstrip's programs), and other names of denied files";
        rows.push(Row::new(format!("{own} paths"), text));
    }
    if in_force.private_temporary {
        rows.push(Row::new("TMPDIR", "a private one, made for the run and removed after it"));
    }
    rows.push(Row::new("/dev/shm", "objects of the command's own").by("broker"));
    rows.extend(switches(in_force.origins(), "report"));
    rows
}

/// What became of a rule for files, and who enforces it.
fn fate(
    in_force: &InForce<'_>,
    PathRule { list, pattern, .. }: &PathRule,
) -> (&'static str, String) {
    let view = &in_force.judges.view;
    let roots = &in_force.policy.files.allow_write;
    let prefix = pattern.as_path();
    let is_inside = |root: &PathBuf| match &prefix {
        Some(path) => path.starts_with(root),
        None => !brokered(view, root, [pattern].into_iter()).is_empty(),
    };
    let around = roots.iter().find(|root| is_inside(root));
    match *list {
        "filesystem.allowWrite" => {
            let (by, text) = write_fate(in_force, &prefix.unwrap_or_default());
            (by, format!("may be written: {text}"))
        }
        "filesystem.allowWriteInside" => {
            let (by, text) = write_fate(in_force, &prefix.unwrap_or_default());
            (by, format!("may be written again: {text}"))
        }
        "filesystem.allowRead" => ("Landlock", "may be read again".to_owned()),
        "filesystem.denyWrite" => match around {
            None => ("Landlock", "may not be written, like everything around it".to_owned()),
            Some(root) => {
                let places = list_of(&brokered(view, root, [pattern].into_iter()));
                let text = format!(
                    "may not be written: Landlock grants what is beside it and not this; the broker \
                     makes changes in {places}"
                );
                ("Landlock and broker", text)
            }
        },
        _ if around.is_some() && view.grants.reads == Reads::More => {
            let text = "may not be read: it is inside what may be written, where Landlock has to let \
                        new files be read, so the broker opens every file";
            ("broker", text.to_owned())
        }
        _ => {
            let on_the_way = prefix.as_deref().and_then(Path::parent);
            let listed = on_the_way.filter(|path| view.grants.unlistable.contains_key(*path));
            let listed = listed.map(|path| format!("; the broker lists {}", path.display()));
            let text = format!(
                "may not be read: Landlock grants what is beside it and not this{}",
                listed.unwrap_or_default()
            );
            ("Landlock", text)
        }
    }
}

/// What became of the right to write `root`.
fn write_fate(in_force: &InForce<'_>, root: &Path) -> (&'static str, String) {
    let view = &in_force.judges.view;
    let files = &in_force.policy.files;
    if view.is_missing_root(root) {
        return ("broker", "missing; may be created".to_owned());
    }
    if !view.rules.access(root).write {
        return ("Landlock", NOT_SO.to_owned());
    }
    let reads = files.allow_read.iter().map(|path| Pattern::literal(path)).collect::<Vec<_>>();
    let controls = files.controls.iter().map(|path| Pattern::literal(path)).collect::<Vec<_>>();
    let patterns = files.deny_write.iter().chain(&files.deny_read).chain(&reads).chain(&controls);
    let places = brokered(view, root, patterns);
    match view.content(root) {
        Some(Decider::Landlock) if places.is_empty() => {
            ("Landlock", "granted with everything beneath".to_owned())
        }
        _ if places.is_empty() => ("broker", "by the broker".to_owned()),
        _ => {
            let places = list_of(&places);
            let text = format!(
                "the broker makes changes in {places}, which other rules lead through; Landlock \
                 grants the rest"
            );
            ("Landlock and broker", text)
        }
    }
}

fn list_of(places: &BTreeSet<PathBuf>) -> String {
    let shown = places.iter().take(DIRECTORIES_MAX).map(|path| path.display().to_string());
    let rest = places.len().saturating_sub(DIRECTORIES_MAX);
    let rest = (rest > 0).then(|| format!("{rest} more"));
    let shown: Vec<_> = shown.chain(rest).collect();
    if shown.is_empty() { "no directory".to_owned() } else { shown.join(", ") }
}

fn environment(in_force: &InForce<'_>) -> Vec<Row> {
    let row = |(name, value): &Change| {
        let value = value.as_ref().map(|value| format!("set to {}", value.to_string_lossy()));
        Row::new(name.to_string_lossy(), value.unwrap_or_else(|| "not passed on".to_owned()))
    };
    let mut rows: Vec<Row> = in_force.environment.iter().map(row).collect();
    // Alike beside alike.
    rows.sort_by(|one, next| one.text.cmp(&next.text));
    rows
}

/// What is not as by default among the switches of the object `place`, by the table of keys.
fn switches(origins: &Origins, place: &str) -> Vec<Row> {
    let mut written = origins.written.clone();
    let mut row = |key: &Key| match key.value {
        Value::Switch(switch, effect) if *switch(&mut written) == Some(effect.of) => {
            let rule = Rule::of_value(origins, key.path, effect.of.to_string());
            Some(Row::new(effect.subject, effect.text).by(effect.by).under(rule))
        }
        _ => None,
    };
    KEYS.iter().filter(|key| key.place().0 == place).filter_map(&mut row).collect()
}

fn network(in_force: &InForce<'_>) -> Vec<Row> {
    let network = &in_force.policy.network;
    let origins = in_force.origins();
    let value = |key: &str, text: &str| Rule::of_value(origins, key, text);
    let mut rows = switches(origins, "network");
    let lists: [(&str, &[String], &[Item]); 4] = [
        ("may be reached", &network.allowed_domains, &origins.written.allowed_domains),
        ("may not be reached", &network.denied_domains, &origins.written.denied_domains),
        ("may have private addresses", &network.private_domains, &origins.written.private_domains),
        ("holds for this run", &network.hosts, &origins.written.hosts),
    ];
    for (text, domains, items) in lists.into_iter().filter(|_| !network.allow_network) {
        rows.extend(domains.iter().map(|domain| {
            let origin = Origins::of_item(items, domain);
            let rule = origin.map(|origin| Rule::written(origin, domain));
            Row::new(domain, text).by("proxy").under(rule)
        }));
    }
    let ports = [
        ("network.httpProxyPort", network.http_proxy_port),
        ("network.socksProxyPort", network.socks_proxy_port),
    ];
    for (key, port) in ports {
        let Some(port) = port else { continue };
        let text = match Needs::of(network).hosts {
            true => "of landstrip's own proxy",
            false => "of a proxy on this host, may be connected to",
        };
        let rule = value(key, &port.to_string());
        rows.push(Row::new(format!("127.0.0.1:{port}"), text).by("broker").under(rule));
    }
    for rule in origins.paths.iter().filter(|rule| rule.list == SOCKETS) {
        let path = rule.pattern.to_string();
        let known = rule.pattern.as_path().is_some_and(|path| path.exists());
        let text = if known {
            "may be connected to"
        } else {
            "may be connected to; it does not exist now"
        };
        let rule = Rule::caused(&rule.cause, rule.list, path.clone());
        rows.push(Row::new(path, text).by("broker").under(Some(rule)));
    }
    if Needs::of(network).refusals {
        let text = "none; a proxy refuses all requests at once";
        rows.push(Row::new("hosts", text).by("Landlock and broker"));
    }
    rows
}

/// How much of what the command and all that it starts may use, and how long somebody has to answer.
fn limits(origins: &Origins) -> Vec<Row> {
    let mut written = origins.written.clone();
    let row = |key: &Key| {
        let Value::Amount(amount, unit) = key.value else { return None };
        let amount = (*amount(&mut written))?;
        let (by, then) = match key.place() {
            ("ask", _) => ("broker", "then what is asked about is refused"),
            (_, "fileSize") => ("the kernel (RLIMIT_FSIZE)", "then the run ends"),
            _ => ("broker", "then the run ends"),
        };
        let rule = Rule::of_value(origins, key.path, amount.to_string());
        let text = format!("{}, {then}", unit.show(amount));
        Some(Row::new(key.place().1, text).by(by).under(rule))
    };
    KEYS.iter().filter_map(row).collect()
}

/// What holds whatever the policy says, and who sees to it.
fn protections(in_force: &InForce<'_>) -> Vec<Row> {
    let restricts = !in_force.policy.network.allow_network;
    let view = &in_force.judges.view;
    let files = match (view.brokers_writes(), view.leaves_reads()) {
        (false, true) => "Landlock",
        _ => "Landlock and broker",
    };
    let processes = match hides_processes(view) {
        true => "not traced or changed, and not read in /proc",
        false => "not traced, read or changed",
    };
    let mut rows = vec![
        Row::new("content and names of files", "as the rules say").by(files),
        Row::new("modes, owners, times, attributes", "changed only where writing is allowed")
            .by("broker"),
        Row::new("devices", "only the harmless ones, and those that a rule names").by("Landlock"),
    ];
    if restricts {
        rows.push(Row::new("TCP", "as the rules say").by("Landlock and broker"));
        let udp = match in_force.policy.network.allow_local_binding {
            true => "between the command's own sockets",
            false => "sent nowhere",
        };
        rows.push(Row::new("UDP", udp).by("broker"));
        rows.push(Row::new("raw and other sockets", "cannot be created").by("filter"));
    }
    rows.extend([
        Row::new("Unix sockets", "by path, as the rules say").by("broker"),
        Row::new("abstract sockets, signals", "none outside").by("Landlock"),
        Row::new("processes outside", processes).by("Landlock and broker"),
        Row::new("shared memory, System V", "only the command's own").by("broker"),
        Row::new("namespaces, mounts, making devices, io_uring, BPF, keyrings", "refused")
            .by("filter"),
        Row::new("set-user-ID programs", "gain nothing").by("no_new_privs"),
    ]);
    rows.extend(switches(in_force.origins(), ""));
    rows
}
