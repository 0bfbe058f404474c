//! The text of a policy, JSON or YAML, as one tree of values that know their line.
//!
//! Both parsers feed the same visitor, so that there is one reading of a policy whatever its format. Nothing
//! here knows a key. Duplicate keys, several documents and what follows the first are errors in both formats.

use super::elsewhere;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::io::Read;
use std::path::Path;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

/// The format of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// RFC 8259.
    Json,
    /// YAML 1.2.
    Yaml,
}

impl Format {
    /// That which the extension of `path` names.
    pub fn named_by(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "json" => Some(Format::Json),
            "yaml" | "yml" => Some(Format::Yaml),
            _ => None,
        }
    }
}

/// A value and the line it begins on, counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub line: u64,
    pub value: Value,
}

/// What both formats can say.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    /// The null that YAML writes as a bare `~`, which in a policy is likelier to mean the home directory.
    Tilde,
    Bool(bool),
    Integer(i128),
    Real(f64),
    /// That of a preset is part of the program.
    Text(Cow<'static, str>),
    List(Vec<Node>),
    Object(Vec<Entry>),
}

/// A key and its value, in the order written.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: String,
    pub line: u64,
    pub node: Node,
}

/// A text that is not a document of its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    pub line: Option<u64>,
    pub message: String,
}

/// Parses the whole of `bytes`.
///
/// # Errors
/// Returns a [`SyntaxError`] if they are not UTF-8, or not exactly one document with unique keys and of
/// reasonable depth.
pub fn parse(bytes: &[u8], format: Format) -> Result<Node, SyntaxError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let newlines = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n');
            let line = u64::try_from(newlines.count()).ok().map(|count| count + 1);
            return Err(SyntaxError { line, message: "not UTF-8 text".to_owned() });
        }
    };
    match format {
        Format::Json => parse_json(text),
        Format::Yaml => parse_yaml(text),
    }
}

fn parse_json(text: &str) -> Result<Node, SyntaxError> {
    let line = Cell::new(1);
    let reader = LineCounter { rest: text.as_bytes(), line: &line, at_line_end: false };
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    NodeSeed { counted: Some(&line) }
        .deserialize(&mut deserializer)
        .and_then(|node| deserializer.end().map(|()| node))
        .map_err(|error| SyntaxError {
            line: Some(line.get()),
            message: json_message(text, &error),
        })
}

/// What is wrong, for the author of a policy; the parser's own texts speak to programmers.
fn json_message(text: &str, error: &serde_json::Error) -> String {
    if let Some(text) = elsewhere::of_toml(text) {
        return format!("it is TOML; in JSON or YAML, {text}");
    }
    // The parser may have looked at the character before it knew.
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let is_at = |word| {
        (1..=2).any(|back| {
            let at = error.column().saturating_sub(back);
            line.get(at..).is_some_and(|rest: &str| rest.starts_with(word))
        })
    };
    if ["//", "/*", "#"].into_iter().any(is_at) {
        return "comments are not JSON; leave them out, or write the policy in YAML".to_owned();
    }
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message);
    match message {
        "trailing comma" => "leave out the comma that nothing follows".to_owned(),
        "key must be a string" => "write keys in double quotes".to_owned(),
        "expected value" => "expected a value; write texts in double quotes".to_owned(),
        "expected ident" => {
            "it is neither JSON nor YAML; write the policy in one of them".to_owned()
        }
        "expected `:`" => "write ':' between a key and its value".to_owned(),
        "expected `,` or `]`" => "write ',' between items, or ']' after the last".to_owned(),
        "expected `,` or `}`" => "write ',' between keys, or '}' after the last".to_owned(),
        "trailing characters" => "something follows the object; a policy is one object".to_owned(),
        "invalid escape" => "write a backslash in a text as '\\\\'".to_owned(),
        "EOF while parsing an object" => {
            "it ends before an object does; a '}' is missing".to_owned()
        }
        "EOF while parsing a list" => "it ends before an array does; a ']' is missing".to_owned(),
        "EOF while parsing a string" => "it ends before a text does; a '\"' is missing".to_owned(),
        _ => one_line(message),
    }
}

/// Hands out a text byte by byte and counts the lines, since `serde_json` tells the position of an error but
/// not of a value. A newline counts once the byte after it is read: a number is only known to end there.
struct LineCounter<'a> {
    rest: &'a [u8],
    line: &'a Cell<u64>,
    at_line_end: bool,
}

impl Read for LineCounter<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let (Some((byte, rest)), Some(slot)) = (self.rest.split_first(), buffer.first_mut()) else {
            return Ok(0);
        };
        if self.at_line_end {
            self.line.set(self.line.get() + 1);
        }
        self.at_line_end = *byte == b'\n';
        self.rest = rest;
        *slot = *byte;
        Ok(1)
    }
}

fn parse_yaml(text: &str) -> Result<Node, SyntaxError> {
    // A policy is small; these limits only have to stop what is made to explode. Depth costs stack, tens of
    // kilobytes a level in a debug build, and aliases could add depth that the limit does not see: none.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 16,
            flow_nesting_limit: 16,
            max_nodes: 100_000,
            max_events: 400_000,
            max_aliases: 0,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        // `no` and `off` are likelier to be names of files than booleans.
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map(|YamlNode(node)| node).map_err(|error| {
        let line = error.location().map(|location| location.line());
        SyntaxError { line, message: yaml_message(&error) }
    })
}

/// As [`json_message`].
fn yaml_message(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::{Error, budget::BudgetBreach};

    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key '{key}'"),
        Error::MultipleDocuments { .. } => "more than one document".to_owned(),
        Error::MergeKeyNotAllowed { .. } => "merge keys ('<<') are not supported".to_owned(),
        Error::Budget { breach: BudgetBreach::Aliases { .. }, .. } => {
            "aliases ('*name') are not supported".to_owned()
        }
        Error::Budget { .. } => "nested too deep, or too large".to_owned(),
        _ => {
            let text = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            let position = error.location().map(|location| {
                format!(" at line {}, column {}", location.line(), location.column())
            });
            let text = position.and_then(|p| text.strip_suffix(&p)).unwrap_or(&text);
            let text = one_line(text);
            match yaml_advice(&text) {
                Some(advice) => format!("{text}; {advice}"),
                None => text,
            }
        }
    }
}

/// What the authors of policies mostly did when the parser says `text`.
fn yaml_advice(text: &str) -> Option<&'static str> {
    let is = |words: &str| text.contains(words);
    match () {
        () if is("tabs disallowed") => Some("indent by blanks"),
        () if is("unknown value") || is("alias") => Some("write a glob in quotes: '*.key'"),
        () if is("unsupported tag") || is("unexpected character") => {
            Some("write a text that begins with such a character in quotes")
        }
        () if is("did not find expected key") => Some("indent a key as those beside it"),
        () if is("hexadecimal number") || is("unknown escape") => {
            Some("a backslash begins an escape in double quotes: write single quotes")
        }
        () if is("quoted scalar") => Some("is a quote missing?"),
        () => None,
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Deserialises one value. JSON counts the lines in `counted`; YAML tells them itself.
#[derive(Clone, Copy)]
struct NodeSeed<'a> {
    counted: Option<&'a Cell<u64>>,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        match self.counted {
            Some(_) => deserializer.deserialize_any(NodeVisitor(self)),
            None => YamlNode::deserialize(deserializer).map(|YamlNode(node)| node),
        }
    }
}

struct YamlNode(Node);

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<YamlNode, D::Error> {
        let Spanned { value: YamlValue(value), referenced, .. } =
            Spanned::<YamlValue>::deserialize(deserializer)?;
        // Of the three ways to write null, only `~` is one byte long.
        let tilde = value == Value::Null && referenced.span().byte_len() == Some(1);
        let value = if tilde { Value::Tilde } else { value };
        Ok(YamlNode(Node { line: referenced.line(), value }))
    }
}

struct YamlValue(Value);

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<YamlValue, D::Error> {
        let node = deserializer.deserialize_any(NodeVisitor(NodeSeed { counted: None }))?;
        Ok(YamlValue(node.value))
    }
}

struct NodeVisitor<'a>(NodeSeed<'a>);

impl NodeVisitor<'_> {
    fn line(&self) -> u64 {
        self.0.counted.map_or(0, Cell::get)
    }

    fn scalar<E>(&self, value: Value) -> Result<Node, E> {
        Ok(Node { line: self.line(), value })
    }
}

impl<'de> Visitor<'de> for NodeVisitor<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        self.scalar(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        self.scalar(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        self.scalar(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        self.scalar(Value::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        self.scalar(Value::Real(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        self.scalar(Value::Text(value.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let line = self.line();
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.0)? {
            list.push(item);
        }
        Ok(Node { line, value: Value::List(list) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let line = self.line();
        let mut object: Vec<Entry> = Vec::new();
        let mut keys = HashSet::new();
        while let Some((key, key_line)) = self.next_key(&mut entries)? {
            if !keys.insert(key.clone()) {
                return Err(de::Error::custom(format_args!("duplicate key '{key}'")));
            }
            let node = entries.next_value_seed(self.0)?;
            object.push(Entry { key, line: key_line, node });
        }
        Ok(Node { line, value: Value::Object(object) })
    }
}

impl NodeVisitor<'_> {
    fn next_key<'de, A: MapAccess<'de>>(
        &self,
        entries: &mut A,
    ) -> Result<Option<(String, u64)>, A::Error> {
        match self.0.counted {
            Some(line) => Ok(entries.next_key()?.map(|key| (key, line.get()))),
            None => {
                let key = entries.next_key::<Spanned<String>>()?;
                Ok(key.map(|key| (key.value, key.referenced.line())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A tree as one line, each value behind its line number.
    fn outline(node: &Node) -> String {
        let value = match &node.value {
            Value::Null => "null".to_owned(),
            Value::Tilde => "~".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Real(value) => format!("{value:?}"),
            Value::Text(text) => format!("{text:?}"),
            Value::List(items) => {
                format!("[{}]", items.iter().map(outline).collect::<Vec<_>>().join(" "))
            }
            Value::Object(entries) => {
                let entry = |e: &Entry| format!("{}.{}={}", e.line, e.key, outline(&e.node));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
        };
        format!("{}:{value}", node.line)
    }

    #[test]
    fn json_values_know_their_line() {
        for (text, expected) in [
            ("{}", "1:{}"),
            ("\n\n[1,\n2\n,\n-3]\n", "3:[3:1 4:2 6:-3]"),
            ("{\"a\":\n1\n,\"b\":[\"x\\ny\",\n\"z\"]}", "1:{1.a=2:1 3.b=3:[3:\"x\\ny\" 4:\"z\"]}"),
            ("[true,\nnull,\n1.5]", "1:[1:true 2:null 3:1.5]"),
            ("\u{feff}{\n\"a\": \"\\ud83d\\ude00\"}", "1:{2.a=2:\"😀\"}"),
        ] {
            assert_eq!(outline(&parse(text.as_bytes(), Format::Json).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn yaml_values_know_their_line() {
        for (text, expected) in [
            ("", "1:null"),
            ("# nothing\n", "2:null"),
            ("{}", "1:{}"),
            (
                "a:\n  - x\n  - 1\n\n  - no\nb: true\n",
                "1:{1.a=2:[2:\"x\" 3:1 5:\"no\"] 6.b=6:true}",
            ),
            ("a: ~\nb:\nc: null\n", "1:{1.a=1:~ 2.b=2:null 3.c=3:null}"),
            ("a: |\n  x\n  y\n", "1:{1.a=2:\"x\\ny\\n\"}"),
            ("a: &l [x]\n", "1:{1.a=1:[1:\"x\"]}"),
            ("\u{feff}a: '~'\n", "1:{1.a=1:\"~\"}"),
        ] {
            assert_eq!(outline(&parse(text.as_bytes(), Format::Yaml).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_single_document_is_an_error_with_its_line() {
        let deep = |open: &str, close: &str| format!("{}{}", open.repeat(5000), close.repeat(5000));
        let bomb = (0..20).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
            let alias = format!("*a{n}, ").repeat(9);
            format!("{text}a{m}: &a{m} [{alias}x]\n", m = n + 1)
        });
        for (format, text, line) in [
            (Format::Json, "".to_owned(), Some(1)),
            (Format::Json, "{\n\"a\": 1,\n}".to_owned(), Some(3)),
            (Format::Json, "{}\n{}".to_owned(), Some(2)),
            (Format::Json, "{}\nx".to_owned(), Some(2)),
            (Format::Json, "{\"a\":1,\n\"a\":2}".to_owned(), Some(2)),
            (Format::Json, "// note\n{}".to_owned(), Some(1)),
            (Format::Json, "[1e999]".to_owned(), Some(1)),
            (Format::Json, deep("[", "]"), Some(1)),
            (Format::Json, deep("{\"a\":", "}"), Some(1)),
            (Format::Yaml, "a: 1\na: 2\n".to_owned(), Some(2)),
            (Format::Yaml, "a: 1\n---\nb: 2\n".to_owned(), Some(3)),
            (Format::Yaml, "a: 1\n...\nb: 2\n".to_owned(), Some(3)),
            (Format::Yaml, "a: [1\nb: 2\n".to_owned(), Some(2)),
            (Format::Yaml, "a: !thing x\n".to_owned(), Some(1)),
            (Format::Yaml, "a: *nowhere\n".to_owned(), Some(1)),
            (Format::Yaml, "x: &x {a: 1}\ny:\n  <<: *x\n".to_owned(), Some(3)),
            (Format::Yaml, "a: .nan\n".to_owned(), Some(1)),
            (Format::Yaml, deep("[", "]"), Some(1)),
            (Format::Yaml, deep("- ", ""), Some(1)),
            (Format::Yaml, bomb, None),
        ] {
            let head: String = text.chars().take(40).collect();
            let error = parse(text.as_bytes(), format).map(|node| outline(&node)).unwrap_err();
            if line.is_some() {
                assert_eq!(error.line, line, "{head}: {error:?}");
            }
            assert!(
                !error.message.is_empty() && !error.message.contains('\n'),
                "{head}: {error:?}"
            );
        }
        for format in [Format::Json, Format::Yaml] {
            let error = parse(b"a:\n\xff", format).unwrap_err();
            assert_eq!(error, SyntaxError { line: Some(2), message: "not UTF-8 text".to_owned() });
            assert!(parse(&[0xff, 0xfe, b'{', 0, b'}', 0], format).is_err());
        }
    }
}
