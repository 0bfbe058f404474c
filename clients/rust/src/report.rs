//! What landstrip writes to the descriptor of --trap-fd, as it is made into an outcome: landstrip(1), REPORTS.

use serde_json::Value;
use std::collections::HashSet;

/// How many denials an outcome holds.
const DENIALS_MAX: usize = 4096;

/// What a denial is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A path.
    Filesystem,
    /// An address, a host or a socket.
    Network,
    /// What a newer landstrip knows.
    Other,
}

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Denial {
    /// What it is about.
    pub kind: Kind,
    /// `read`, `write`, `connect` or `bind`.
    pub operation: String,
    /// A path, or a host or address with its port.
    pub target: String,
    /// The layer that saw it.
    pub mechanism: String,
}

/// A rule as a policy would have it: `filesystem.allowWrite`, `~/.npm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The key, with its object.
    pub key: String,
    /// One item of the list.
    pub value: String,
}

/// A rule that refused, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The rule.
    pub rule: Rule,
    /// A file or a preset.
    pub file: String,
    /// The line in it.
    pub line: u64,
}

/// Why landstrip gave up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// The part of it: usage, policy, launch, platform, ...
    pub source: String,
    /// What it says.
    pub message: String,
    /// The file of a policy that is wrong.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<String>,
    /// The key in it.
    pub field: Option<String>,
}

/// Whose status an outcome has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// The command's own.
    Tool,
    /// Landstrip's: nothing of the command ran, or it had to be ended.
    Landstrip,
}

/// What ended a command that did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The limit of the policy that has this key.
    Policy(String),
    /// The time that [`Command::timeout`](crate::Command::timeout) gives.
    Deadline,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The command's own, 128+N after signal N, or landstrip's: 2, 125, 126, 127.
    pub status: i32,
    /// Whose status it is.
    pub ended_by: EndedBy,
    /// Why landstrip gave up, if it said so.
    pub error: Option<Failure>,
    /// What ended the command, if it did not end by itself.
    pub limit: Option<Limit>,
    /// What was refused, in its order, nothing twice.
    pub denials: Vec<Denial>,
    /// Rules that would have let some of it through, where that is known to be harmless.
    pub advice: Vec<Rule>,
    /// Rules that refused some of it.
    pub denied_by: Vec<Origin>,
}

/// The strings of an array.
fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
}

/// A rule, as an array of two strings.
pub(crate) fn rule(value: &Value) -> Option<Rule> {
    let [key, value] = strings(value)?.try_into().ok()?;
    Some(Rule { key, value })
}

/// What a question is about: of a kind that is not known here, there is as much to show.
pub(crate) fn asked(report: &Value) -> Option<Denial> {
    denial(report).or_else(|| {
        let mut words = strings(report.as_object()?.values().next()?)?.into_iter();
        let mut next = || words.next().unwrap_or_default();
        Some(Denial { kind: Kind::Other, operation: next(), target: next(), mechanism: next() })
    })
}

fn denial(report: &Value) -> Option<Denial> {
    let kinds = [("Filesystem", Kind::Filesystem), ("Network", Kind::Network)];
    let (fields, kind) = kinds.iter().find_map(|(name, kind)| Some((report.get(name)?, *kind)))?;
    let [operation, target, mechanism] = strings(fields)?.try_into().ok()?;
    Some(Denial { kind, operation, target, mechanism })
}

/// The failure of landstrip's own that a report is of, if it is one.
pub(crate) fn failure(report: &Value) -> Option<Failure> {
    let of = |source: &str, message: String| Failure {
        source: source.into(),
        message,
        ..Failure::default()
    };
    if let Some(message) = report.get("Usage").and_then(Value::as_str) {
        return Some(of("usage", message.into()));
    }
    if let Some(words) = report.get("Launch").and_then(strings) {
        return Some(of("launch", words.join(": ")));
    }
    let given = report.get("Internal")?;
    let text = |name: &str| given.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Failure {
        source: text("source").unwrap_or_default(),
        message: text("message").unwrap_or_default(),
        file: text("file"),
        line: text("line"),
        field: text("field"),
    })
}

/// Puts reports into an outcome. Nothing of the command ran until landstrip says so.
pub(crate) struct Collector {
    pub(crate) outcome: Outcome,
    known: HashSet<Denial>,
}

impl Collector {
    pub(crate) fn new() -> Self {
        let outcome = Outcome {
            status: 125,
            ended_by: EndedBy::Landstrip,
            error: None,
            limit: None,
            denials: Vec::new(),
            advice: Vec::new(),
            denied_by: Vec::new(),
        };
        Self { outcome, known: HashSet::new() }
    }

    /// Takes one report in; gives the denial that it is, if it is one.
    pub(crate) fn collect(&mut self, report: &Value) -> Option<Denial> {
        if let Some(denial) = denial(report) {
            if self.known.len() < DENIALS_MAX && self.known.insert(denial.clone()) {
                self.outcome.denials.push(denial.clone());
            }
            return Some(denial);
        }
        let fields = |name: &str| report.get(name).and_then(strings);
        if let Some(fields) = fields("Exit") {
            let is_tool = fields.first().is_some_and(|whose| whose == "tool");
            self.outcome.ended_by = if is_tool { EndedBy::Tool } else { EndedBy::Landstrip };
        } else if let Some(rule) = report.get("Advice").and_then(rule) {
            self.outcome.advice.push(rule);
        } else if let Some(Ok([key, value, file, line])) =
            fields("DeniedBy").map(<[_; 4]>::try_from)
        {
            let line = line.parse().unwrap_or_default();
            self.outcome.denied_by.push(Origin { rule: Rule { key, value }, file, line });
        } else if let Some(failure) = failure(report) {
            self.outcome.error = Some(failure);
            if let Some(key) = report["Internal"]["limit"].as_str() {
                self.outcome.limit = Some(Limit::Policy(key.into()));
            }
        }
        None
    }
}
