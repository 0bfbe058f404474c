//! One answer: whether something may be done, who sees to it, and by which rule.

use policy::error::Origin;
use policy::origins::{self, Cause, Origins};
use rules::paths::Basis;
use serde_json::Value;
use std::fmt;

/// Whether one thing may be done.
#[derive(Debug)]
pub struct Answer {
    pub action: &'static str,
    pub is_allowed: bool,
    pub by: Layer,
    /// In words, without the rule.
    pub why: String,
    pub rule: Option<Rule>,
}

/// Who sees to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    Landlock,
    Broker,
    Proxy,
    /// Owner and mode of the file, as without a sandbox.
    FileSystem,
    /// It is not restricted.
    Nobody,
}

/// A rule, and where it stands.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Its field, such as `filesystem.denyRead[1]`.
    pub field: Option<String>,
    pub file: Option<String>,
    pub line: Option<u64>,
    /// What it stands for.
    pub text: String,
    /// Why landstrip added it, if nobody wrote it.
    pub added: Option<&'static str>,
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Landlock => "Landlock",
            Self::Broker => "broker",
            Self::Proxy => "proxy",
            Self::FileSystem => "file system",
            Self::Nobody => "nobody",
        }
    }
}

impl Answer {
    pub(super) fn yes(action: &'static str, by: Layer, why: impl Into<String>) -> Self {
        Self { action, is_allowed: true, by, why: why.into(), rule: None }
    }

    pub(super) fn no(action: &'static str, by: Layer, why: impl Into<String>) -> Self {
        Self { is_allowed: false, ..Self::yes(action, by, why) }
    }

    pub(super) fn under(self, rule: Option<Rule>) -> Self {
        Self { rule, ..self }
    }

    /// Its members, as JSON has them.
    pub fn json(&self) -> Value {
        members([
            ("action", Some(self.action.into())),
            ("allowed", Some(self.is_allowed.into())),
            ("by", Some(self.by.name().into())),
            ("why", Some(self.why.as_str().into())),
            ("rule", self.rule.as_ref().map(Rule::json)),
        ])
    }

    /// The reason for people: in words, and the rule.
    pub fn reason(&self) -> String {
        match &self.rule {
            Some(rule) => format!("{}: {rule}", self.why),
            None => self.why.clone(),
        }
    }
}

impl Rule {
    /// One that was written at `origin`.
    pub(super) fn written(origin: &Origin, text: impl Into<String>) -> Self {
        // As it was named, it may lead through other directories.
        let file = origin.file.canonicalize().unwrap_or_else(|_| origin.file.to_path_buf());
        Self {
            field: Some(origin.field()),
            file: Some(file.display().to_string()),
            line: Some(origin.line),
            text: text.into(),
            added: None,
        }
    }

    /// The value of a key, if it was written.
    pub(super) fn of_value(origins: &Origins, key: &str, text: impl Into<String>) -> Option<Self> {
        origins.of_value(key).map(|origin| Self::written(origin, text))
    }

    pub(super) fn caused(cause: &Cause, list: &str, text: impl Into<String>) -> Self {
        match cause {
            Cause::Written(origin) => Self::written(origin, text),
            Cause::Own(why) => Self {
                field: Some(list.to_owned()),
                added: Some(why),
                text: text.into(),
                ..Self::default()
            },
        }
    }

    /// The rule that a verdict on a path rests on.
    pub(super) fn of(basis: Option<Basis<'_>>, origins: &Origins) -> Option<Self> {
        let (list, pattern) = basis?;
        let text = pattern.to_string();
        let Some(list) = origins::key(list) else {
            let added =
                Some("the kernel's own controls, devices, and what directories of runs lie in");
            return Some(Self { text, added, ..Self::default() });
        };
        let known = origins.of_path(list, pattern);
        Some(match known {
            Some(rule) => Self::caused(&rule.cause, list, text),
            // The built-in policy stands in no file.
            None => Self { field: Some(list.to_owned()), text, ..Self::default() },
        })
    }

    pub fn json(&self) -> Value {
        members([
            ("text", Some(self.text.as_str().into())),
            ("field", self.field.as_deref().map(Value::from)),
            ("file", self.file.as_deref().map(Value::from)),
            ("line", self.line.map(Value::from)),
            ("added", self.added.map(Value::from)),
        ])
    }

    /// Where it stands, or why landstrip added it.
    pub fn place(&self) -> String {
        let file = self.file.as_ref().zip(self.line).map(|(file, line)| format!("{file}:{line}"));
        let parts = [file, self.field.clone(), self.added.map(str::to_owned)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    }
}

/// A JSON object of those members that there are.
pub(super) fn members<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let there = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        let colon = if place.is_empty() { "" } else { ": " };
        write!(f, "{place}{colon}{}", self.text)
    }
}
