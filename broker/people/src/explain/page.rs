//! How explanations look: lines for people, or one JSON object.

use super::answer::{Rule, members};
use super::overview::{NOT_SO, PROTECTIONS, Row, Section};
use super::question::Reply;
use crate::cli::Extent;
use common::trap::{escaped, is_hidden};
use policy::callers::Caller;
use policy::error::Escaped;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

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

/// The text of a JSON value on a line of its own, in which no string holds what a terminal would obey as it is.
pub fn json_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        // Writing to a String does not fail.
        let _ = match is_hidden(character) {
            true => escaped(&mut line, character),
            false => line.write_char(character),
        };
    }
    line + "\n"
}

/// Most lines that a section has on a page, most things of one kind that are named, and how long the text is.
const LINES_MAX: usize = 12;
const NAMES_MAX: usize = 6;
const LENGTH_MAX: usize = 240;

/// The overview, for `caller`.
pub fn overview(sections: &[Section], extent: Extent, style: Style, caller: &Caller) -> String {
    if extent == Extent::Json {
        let section = |section: &Section| {
            let rows: Vec<Value> = section.rows.iter().map(row).collect();
            (section.name.to_owned(), Value::Array(rows))
        };
        let object = Value::Object(sections.iter().map(section).collect());
        return json_line(&object.to_string());
    }
    let mut text = String::new();
    let is_shown = |section: &&Section| extent == Extent::Full || section.name != PROTECTIONS;
    for Section { name, rows } in sections.iter().filter(is_shown) {
        let _ = writeln!(text, "{}", style.bold(name));
        if extent == Extent::Page {
            write_page(&mut text, rows, caller);
            continue;
        }
        // What is said of several is said once.
        for group in rows.chunk_by(|one, next| (&one.text, one.by) == (&next.text, next.by)) {
            write_group(&mut text, group);
        }
    }
    if extent == Extent::Page {
        let _ = writeln!(
            text,
            "--explain=full shows every rule, where it is written, and what holds under every policy"
        );
    }
    text
}

/// What is said, and of which: only the first where there are many, and what they have in common.
fn write_page(text: &mut String, rows: &[Row], caller: &Caller) {
    let places = [(Some(caller.cwd.as_path()), "."), (caller.home.as_deref(), "~")];
    let named = |path: &str| {
        let short = places.iter().find_map(|(place, short)| {
            let inner = Path::new(path)
                .strip_prefix((*place)?)
                .ok()
                .filter(|inner| *inner != Path::new(""))?;
            Some(format!("{short}/{}", inner.display()))
        });
        plain(&short.unwrap_or_else(|| path.to_owned()))
    };
    let shown = |said: &str| match said.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => plain(&said[..end]) + "...",
        None => plain(said),
    };
    let more = |rest: usize| if rest > 0 { format!(", and {rest} more") } else { String::new() };
    let kind = |row: &Row| match row.text.split_once(": ") {
        Some((kind, how)) if how != NOT_SO => kind.to_owned(),
        _ => row.text.clone(),
    };
    let groups: Vec<_> = rows.chunk_by(|one, next| kind(one) == kind(next)).collect();
    for group in groups.iter().take(LINES_MAX) {
        let mut names: Vec<_> = group.iter().map(|row| named(&row.subject)).collect();
        // What is the user's alone comes last.
        names.sort_by_key(|name| name.starts_with('~'));
        names.truncate(NAMES_MAX);
        let (names, rest) = (names.join(", "), more(group.len().saturating_sub(NAMES_MAX)));
        let _ = match group {
            [row] => writeln!(text, "  {names}: {}", shown(&row.text)),
            [row, ..] => writeln!(text, "  {}: {names}{rest}", shown(&kind(row))),
            [] => Ok(()),
        };
    }
    if let Some(rest) = groups.len().checked_sub(LINES_MAX + 1) {
        let _ = writeln!(text, "  and {} more lines", rest + 1);
    }
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
pub fn replies(replies: &[Reply], extent: Extent, style: Style) -> String {
    if extent == Extent::Json {
        let reply = |reply: &Reply| {
            let answers: Vec<Value> = reply.answers.iter().map(|answer| answer.json()).collect();
            json!({ "subject": reply.subject, "answers": answers })
        };
        let answers = json!({ "answers": replies.iter().map(reply).collect::<Vec<_>>() });
        return json_line(&answers.to_string());
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
