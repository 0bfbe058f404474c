//! How explanations look: lines for people, or one JSON object.

use super::answer::{Rule, members};
use super::overview::{Row, Section};
use super::question::Reply;
use crate::cli::Form;
use policy::error::Escaped;
use serde_json::{Value, json};
use std::fmt::Write;

/// What puts text into colours, or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    is_colored: bool,
}

impl Style {
    /// For standard output: colours on a terminal, unless NO_COLOR is set and not empty (no-color.org).
    pub fn of_standard_output() -> Self {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { is_colored: !is_refused && std::io::IsTerminal::is_terminal(&std::io::stdout()) }
    }

    /// With colours, or without.
    pub fn colored(is_colored: bool) -> Self {
        Self { is_colored }
    }

    pub fn is_colored(self) -> bool {
        self.is_colored
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self.is_colored {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }
}

/// `text` without what a terminal would obey: paths may hold anything.
pub fn plain(text: &str) -> String {
    Escaped(text).to_string()
}

/// The overview.
pub fn overview(sections: &[Section], form: Form, style: Style) -> String {
    if form == Form::Json {
        let section = |section: &Section| {
            let rows: Vec<Value> = section.rows.iter().map(row).collect();
            (section.name.to_owned(), Value::Array(rows))
        };
        return format!("{}\n", Value::Object(sections.iter().map(section).collect()));
    }
    let mut text = String::new();
    for Section { name, rows } in sections {
        let _ = writeln!(text, "{}", style.bold(name));
        // What is said of several is said once.
        for group in rows.chunk_by(|one, next| (&one.text, one.by) == (&next.text, next.by)) {
            write_group(&mut text, group);
        }
    }
    text
}

fn write_group(text: &mut String, group: &[Row]) {
    let said = |row: &Row| {
        let by = row.by.map(|by| format!(" [{by}]")).unwrap_or_default();
        format!("{}{by}", plain(&row.text))
    };
    let place = |row: &Row| match row.rule.as_ref().map(Rule::place) {
        Some(place) if !place.is_empty() => format!("  ({})", plain(&place)),
        _ => String::new(),
    };
    if let [row] = group {
        let _ = writeln!(text, "  {}: {}{}", plain(&row.subject), said(row), place(row));
        return;
    }
    let _ = writeln!(text, "  {}", group.first().map(said).unwrap_or_default());
    for row in group {
        let _ = writeln!(text, "    {}{}", plain(&row.subject), place(row));
    }
}

fn row(Row { subject, by, text, rule }: &Row) -> Value {
    members([
        ("subject", Some(subject.as_str().into())),
        ("text", Some(text.as_str().into())),
        ("by", by.map(Value::from)),
        ("rule", rule.as_ref().map(Rule::json)),
    ])
}

/// The answers to questions.
pub fn replies(replies: &[Reply], form: Form, style: Style) -> String {
    if form == Form::Json {
        let reply = |reply: &Reply| {
            let answers: Vec<Value> = reply.answers.iter().map(|answer| answer.json()).collect();
            json!({ "subject": reply.subject, "answers": answers })
        };
        return format!(
            "{}\n",
            json!({ "answers": replies.iter().map(reply).collect::<Vec<_>>() })
        );
    }
    let mut text = String::new();
    for Reply { subject, answers } in replies {
        let _ = writeln!(text, "{}", style.bold(&plain(subject)));
        for answer in answers {
            let verdict = match answer.is_allowed {
                true => style.good("yes"),
                false => style.bad("no "),
            };
            let (action, by) = (answer.action, answer.by.name());
            let _ = writeln!(text, "  {action:8} {verdict}  {} [{by}]", plain(&answer.reason()));
        }
    }
    text
}
