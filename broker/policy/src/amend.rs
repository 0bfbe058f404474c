//! A rule added to the text of a policy, in which all else stays as it was written, comments among it. Pure.
//!
//! Where the rule goes is found by the look of the text, and what comes of that is parsed: unless it says what the text
//! said, and this one rule besides, it is none.

use super::document::{self, Format, Node, Value};

/// A policy with a rule more.
#[derive(Debug, PartialEq, Eq)]
pub struct Amended {
    pub text: String,
    /// What of that is new.
    pub lines: Vec<String>,
}

/// The rule that is added.
struct Rule<'a> {
    object: &'a str,
    name: &'a str,
    /// As both formats write it.
    value: String,
    comment: &'a str,
    /// It is on or off, and no list.
    is_switch: bool,
}

/// `text` with `value`, which the one line of `comment` is about, in the list that `key` names, or with that switch on.
/// None where it cannot be told how to write that there.
pub fn amend(
    text: &str,
    format: Format,
    (key, value): (&str, &str),
    comment: &str,
) -> Option<Amended> {
    let (object, name) = key.split_once('.')?;
    let is_switch = name == "allowLocalBinding";
    let quoted =
        if is_switch { value.to_owned() } else { serde_json::Value::from(value).to_string() };
    let rule = Rule { object, name, value: quoted, comment, is_switch };
    let before = document::parse(text.as_bytes(), format).ok()?;
    let blocks = if format == Format::Yaml { rule.in_blocks(text) } else { Vec::new() };
    let mut all = blocks.into_iter().chain(rule.in_braces(text));
    let new = all.find(|new| {
        let after = document::parse(new.as_bytes(), format);
        after.is_ok_and(|after| rule.is_all_that_is_new(&before, &after, value))
    })?;
    let known: Vec<_> = text.lines().collect();
    let lines = new.lines().filter(|line| !known.contains(line)).map(str::to_owned).collect();
    Some(Amended { text: new, lines })
}

impl Rule<'_> {
    /// The text with the rule, as YAML is written in lines: where it seems to fit best first.
    fn in_blocks(&self, text: &str) -> Vec<String> {
        let Self { object, name, .. } = self;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let Some(top) = lines.iter().position(|line| opens(line, 0, object)) else {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            let block = self.block("  ");
            return vec![format!("{text}{end}{object}:\n{block}")];
        };
        let inner = lines[top + 1..].iter().position(|line| is_content(line) && indent(line) == 0);
        let end = inner.map_or(lines.len(), |length| top + 1 + length);
        let inside = || (top + 1..end).filter(|at| is_content(lines[*at]));
        let width = inside().map(|at| indent(lines[at])).next().unwrap_or(2);
        let margin = " ".repeat(width);
        let Some(key) = inside().find(|at| opens(lines[*at], width, name)) else {
            return vec![inserted(&lines, top + 1, &self.block(&margin))];
        };
        let rest = lines[key].split_once(':').map_or("", |(_, rest)| rest);
        if let Some(bracket) = rest.find('[').filter(|_| rest.trim_start().starts_with('[')) {
            let at = lines[..key].concat().len() + lines[key].len() - rest.len() + bracket;
            let commented = lines[..key].concat().len();
            let new = with_first(text, at, &self.value);
            return new
                .map(|new| {
                    let (before, after) = new.split_at(commented);
                    format!("{before}{margin}# {}\n{after}", self.comment)
                })
                .into_iter()
                .collect();
        }
        let items = (key + 1..end).take_while(|at| {
            !is_content(lines[*at])
                || indent(lines[*at]) > width
                || lines[*at].trim_start().starts_with('-')
        });
        let items: Vec<_> = items.filter(|at| lines[*at].trim_start().starts_with('-')).collect();
        let dash = items.first().map_or(width + 2, |at| indent(lines[*at]));
        let item = format!("{}- {}  # {}\n", " ".repeat(dash), self.value, self.comment);
        let last = items.last().copied().unwrap_or(key);
        [last, key].into_iter().map(|at| inserted(&lines, at + 1, &item)).collect()
    }

    /// The key with the value and nothing else, in lines.
    fn block(&self, margin: &str) -> String {
        let Self { name, value, comment, .. } = self;
        match self.is_switch {
            true => format!("{margin}{name}: {value}  # {comment}\n"),
            false => format!("{margin}{name}:\n{margin}  - {value}  # {comment}\n"),
        }
    }

    /// The text with the rule, as JSON is written.
    fn in_braces(&self, text: &str) -> Option<String> {
        let Self { object, name, value, .. } = self;
        let member = match self.is_switch {
            true => format!("\"{name}\": {value}"),
            false => format!("\"{name}\": [{value}]"),
        };
        let root = text.find('{')?;
        let Some(inner) = member_of(text, root, object) else {
            return with_first(text, root, &format!("\"{object}\": {{{member}}}"));
        };
        match member_of(text, inner, name) {
            Some(list) => with_first(text, list, value),
            None => with_first(text, inner, &member),
        }
    }

    /// Whether `after` says what `before` does, and `value` by this key, and nothing else.
    fn is_all_that_is_new(&self, before: &Node, after: &Node, value: &str) -> bool {
        let (before, mut after) = (plain(before), plain(after));
        let mut expected = before;
        if !expected.is_object() {
            return false;
        }
        let place = &mut expected[self.object];
        if !(place.is_null() || place.is_object()) {
            return false;
        }
        let place = &mut place[self.name];
        if self.is_switch {
            let is_free = place.is_null();
            *place = true.into();
            return is_free && after == expected;
        }
        if place.is_null() {
            *place = serde_json::json!([]);
        }
        let Some(list) = after[self.object][self.name].as_array_mut() else { return false };
        let Some(new) = list.iter().position(|item| item == value) else { return false };
        list.remove(new);
        after == expected
    }
}

/// Whether `line` is that of the key `name` with this indentation.
fn opens(line: &str, width: usize, name: &str) -> bool {
    let key = line.trim_start().split_once(':').map(|(key, _)| key.trim_matches(['"', '\'']));
    indent(line) == width && key == Some(name)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Whether it says something: comments stand anywhere.
fn is_content(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with('#')
}

fn inserted(lines: &[&str], at: usize, new: &str) -> String {
    let before = lines[..at].concat();
    let end = if before.ends_with('\n') { "" } else { "\n" };
    format!("{before}{end}{new}{}", lines[at..].concat())
}

/// `text` with `item` as the first in the brackets that open at `at`, laid out as what follows.
fn with_first(text: &str, at: usize, item: &str) -> Option<String> {
    let (before, after) = text.split_at_checked(at + 1)?;
    let rest = after.trim_start();
    let space = &after[..after.len() - rest.len()];
    match rest.starts_with([']', '}']) {
        true => Some(format!("{before}{item}{after}")),
        false if space.is_empty() => Some(format!("{before}{item}, {after}")),
        false => Some(format!("{before}{space}{item},{after}")),
    }
}

/// Where the value of `key` begins, in the object that opens at `at`.
fn member_of(text: &str, at: usize, key: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let quoted = format!("\"{key}\"");
    let (mut depth, mut place) = (0_usize, at);
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1).filter(|depth| *depth > 0)?,
            b'"' => {
                let end = end_of_string(bytes, place)?;
                let after = text.get(end..)?.trim_start();
                if depth == 1 && text.get(place..end)? == quoted && after.starts_with(':') {
                    return Some(text.len() - after[1..].trim_start().len());
                }
                place = end;
                continue;
            }
            _ => {}
        }
        place += 1;
    }
    None
}

/// Where the string ends that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// What a tree says, without the lines.
fn plain(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        // As no text is, so that it is not taken for one.
        Value::Tilde => serde_json::json!({ "": "~" }),
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => serde_json::json!({ "": value.to_string() }),
        Value::Real(value) => serde_json::json!({ "": value.to_string() }),
        Value::Text(text) => (&**text).into(),
        Value::List(items) => items.iter().map(plain).collect(),
        Value::Object(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), plain(&entry.node))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const WRITE: &str = "filesystem.allowWrite";

    fn yaml(text: &str, key: &str, value: &str) -> Option<String> {
        amend(text, Format::Yaml, (key, value), "why").map(|amended| amended.text)
    }

    #[test]
    fn a_rule_is_added_where_its_kind_stands_and_all_else_stays() {
        for (text, expected) in [
            (
                "# head\nfilesystem:\n  # of mine\n  allowWrite:\n    - .  # here\n    - ~/b\n  denyRead: [~/.ssh] # keys\n",
                "# head\nfilesystem:\n  # of mine\n  allowWrite:\n    - .  # here\n    - ~/b\n    - \"~/.npm\"  # why\n  denyRead: [~/.ssh] # keys\n",
            ),
            (
                "filesystem:\n  allowWrite:\n  - .\n# end\n",
                "filesystem:\n  allowWrite:\n  - .\n  - \"~/.npm\"  # why\n# end\n",
            ),
            (
                "filesystem:\n  allowWrite: [., '[x]'] # these\n",
                "filesystem:\n  # why\n  allowWrite: [\"~/.npm\", ., '[x]'] # these\n",
            ),
            (
                "filesystem:\n  allowWrite: []\n",
                "filesystem:\n  # why\n  allowWrite: [\"~/.npm\"]\n",
            ),
            (
                "filesystem:\n  allowWrite:\n",
                "filesystem:\n  allowWrite:\n    - \"~/.npm\"  # why\n",
            ),
            (
                "filesystem:\n    denyRead: [~/x]\nextends: agent",
                "filesystem:\n    allowWrite:\n      - \"~/.npm\"  # why\n    denyRead: [~/x]\nextends: agent",
            ),
            (
                "extends: agent # that",
                "extends: agent # that\nfilesystem:\n  allowWrite:\n    - \"~/.npm\"  # why\n",
            ),
            (
                "{\"filesystem\": {\"allowWrite\": [\".\"]}}",
                "{\"filesystem\": {\"allowWrite\": [\"~/.npm\", \".\"]}}",
            ),
        ] {
            assert_eq!(yaml(text, WRITE, "~/.npm").as_deref(), Some(expected));
        }
    }

    #[test]
    fn json_gets_it_laid_out_as_it_is() {
        for (text, expected) in [
            (
                "{\n  \"filesystem\": {\n    \"allowWrite\": [\n      \".\"\n    ]\n  }\n}\n",
                "{\n  \"filesystem\": {\n    \"allowWrite\": [\n      \"~/.npm\",\n      \".\"\n    ]\n  }\n}\n",
            ),
            ("{}", "{\"filesystem\": {\"allowWrite\": [\"~/.npm\"]}}"),
            (
                "{\"a\": {\"filesystem\": {}}, \"filesystem\": {\"x\": [{}], \"\\\"\": \"{\"}}",
                "{\"a\": {\"filesystem\": {}}, \"filesystem\": {\"allowWrite\": [\"~/.npm\"], \"x\": [{}], \"\\\"\": \"{\"}}",
            ),
        ] {
            let amended = amend(text, Format::Json, (WRITE, "~/.npm"), "why").unwrap();
            assert_eq!(amended.text, expected);
        }
    }

    #[test]
    fn a_switch_is_put_on_only_where_nothing_is_said_of_it() {
        let key = "network.allowLocalBinding";
        for (text, expected) in [
            (
                "network:\n  allowedDomains: [a.example]\n",
                Some("network:\n  allowLocalBinding: true  # why\n  allowedDomains: [a.example]\n"),
            ),
            ("network:\n  allowLocalBinding: false\n", None),
            ("network: {allowLocalBinding: false}\n", None),
        ] {
            assert_eq!(yaml(text, key, "true").as_deref(), expected);
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_left_alone() {
        for text in [
            "filesystem:\n  allowWrite: |\n    .\n    ~/b\n",
            "filesystem: {allowWrite: [.]}\n",
            "filesystem:\n  allowWrite: &x [.]\n  denyRead: *x\n",
            "a: |\n  text\nb: [\n",
            "filesystem: [x]\n",
            "[]",
            "",
        ] {
            assert_eq!(yaml(text, WRITE, "~/.npm"), None, "{text}");
        }
        // Nor does a value become anything else than a value.
        for value in ["a: b", "\"", "x\n    - /", "# c", "~", "\\", "\u{85}- /", "\u{feff}", "null"]
        {
            let text = yaml("filesystem:\n  allowWrite:\n    - .\n", WRITE, value);
            let tree =
                text.map(|text| plain(&document::parse(text.as_bytes(), Format::Yaml).unwrap()));
            let expected = serde_json::json!({ "filesystem": { "allowWrite": [".", value] } });
            assert!(tree.is_none_or(|tree| tree == expected), "{value:?}");
        }
    }
}
