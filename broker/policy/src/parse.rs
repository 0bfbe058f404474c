//! From the text of a policy file to what it says: each value where the table of keys wants it, or the first
//! error. Pure.

use super::amounts::Unit;
use super::document::{self, Entry, Format, Node, Value};
use super::error::{Origin, PolicyError};
use super::keys::{self, Item, Key, Setting, Written};
use super::meant;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// Reads one policy file.
///
/// # Errors
/// Returns a [`PolicyError`] that names `file`, and line and field where there are any, for text that is
/// empty or malformed, an unknown key, a key that is not built, or a value of the wrong type.
pub fn parse(bytes: &[u8], format: Format, file: &Path) -> Result<Written, PolicyError> {
    if bytes.is_empty() {
        return Err(Reader { file: file.into() }.empty());
    }
    let root = document::parse(bytes, format).map_err(|error| PolicyError {
        file: Some(file.to_owned()),
        line: error.line,
        field: None,
        message: match format {
            Format::Json if looks_like_yaml(bytes) => {
                let advice = "if it is YAML, call it .yaml or use --format yaml";
                format!("not valid JSON: {}; {advice}", error.message)
            }
            Format::Json => format!("not valid JSON: {}", error.message),
            Format::Yaml => format!("not valid YAML: {}", error.message),
        },
    })?;
    read(root, file)
}

/// Reads what was parsed of `file`.
///
/// # Errors
/// As [`parse`].
pub fn read(root: Node, file: &Path) -> Result<Written, PolicyError> {
    let reader = Reader { file: file.into() };
    // A file of comments, cut off or blanked by accident, must not pass for one that restricts nothing.
    if matches!(root.value, Value::Null | Value::Tilde) {
        return Err(reader.empty());
    }
    let mut written = Written::default();
    reader.keys_of(root, "", &mut written)?;
    Ok(written)
}

/// Whether the first line with something in it begins as a key in YAML does.
fn looks_like_yaml(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.find(|line| !line.starts_with('#')).unwrap_or_default();
    first == "---" || first.starts_with(char::is_alphabetic) && first.contains(':')
}

const BARE_TILDE: &str = "in YAML a bare ~ means null; write '~' in quotes for the home directory";

/// Turns nodes into values; it knows the file, so that every error can name it.
pub(super) struct Reader {
    file: Arc<Path>,
}

impl Reader {
    fn empty(&self) -> PolicyError {
        PolicyError::in_file(&self.file, "the policy is empty (write {} for one without rules)")
    }

    pub(super) fn origin(&self, line: u64, key: impl Into<Cow<'static, str>>) -> Origin {
        Origin { file: Arc::clone(&self.file), line, key: key.into(), index: None }
    }

    fn origin_of_item(&self, line: u64, key: Cow<'static, str>, index: usize) -> Origin {
        Origin { index: Some(index), ..self.origin(line, key) }
    }

    fn mismatch(&self, node: &Node, field: &str, expected: &str) -> PolicyError {
        mismatch(&self.origin(node.line, field.to_owned()), node, expected)
    }

    /// Reads what stands in the object `path`.
    fn keys_of(&self, node: Node, path: &str, written: &mut Written) -> Result<(), PolicyError> {
        for entry in self.object(node, path)? {
            let field = join(path, &entry.key);
            if keys::is_object(path, &entry.key) {
                self.keys_of(entry.node, &field, written)?;
            } else if let Some(key) = keys::find(path, &entry.key) {
                self.value(key, entry, written)?;
            } else {
                let origin = self.origin(entry.line, join(path, &keys::shorten(&entry.key)));
                return Err(origin.error(keys::unknown(&entry.key, path)));
            }
        }
        Ok(())
    }

    fn value(&self, key: &Key, entry: Entry, written: &mut Written) -> Result<(), PolicyError> {
        let Entry { node, line, .. } = entry;
        match key.value {
            keys::Value::List(list) => *list(written) = self.list(node, key.path.into())?,
            keys::Value::Choice(choice) => {
                let absent = matches!(node.value, Value::Null);
                let list = self.list(node, key.path.into())?;
                *choice(written) = (!absent).then_some(list);
            }
            keys::Value::Settings(settings) => {
                *settings(written) = self.settings(node, key.path)?;
            }
            keys::Value::Lists(lists) => {
                let entries = self.object(node, key.path)?;
                *lists(written) = entries
                    .into_iter()
                    .map(|entry| {
                        let field = join(key.path, &keys::shorten(&entry.key));
                        Ok((entry.key, self.list(entry.node, field.into())?))
                    })
                    .collect::<Result<_, _>>()?;
            }
            keys::Value::Switch(switch, _) => {
                *switch(written) = self.boolean(&node, key.path)?;
                self.note_place(switch(written).is_some(), key, line, written);
            }
            keys::Value::Word(word, words) => {
                *word(written) = self.word(&node, words, key.path)?;
                self.note_place(word(written).is_some(), key, line, written);
            }
            keys::Value::Port(port) => {
                *port(written) = self.port(&node, key.path)?;
                self.note_place(port(written).is_some(), key, line, written);
            }
            keys::Value::Amount(amount, unit) => {
                *amount(written) = self.amount(&node, unit, key.path)?;
                self.note_place(amount(written).is_some(), key, line, written);
            }
            keys::Value::Without => written.without = self.without(node)?,
            keys::Value::Note => {}
            keys::Value::Ignored => written.ignored.push(key.path),
            keys::Value::NotBuilt(_)
                if matches!(node.value, Value::Null | Value::Tilde | Value::Bool(false)) => {}
            keys::Value::NotBuilt(reason) => {
                let message = format!("this key would add protection: {reason}");
                return Err(self.origin(line, key.path).error(message));
            }
        }
        Ok(())
    }

    fn note_place(&self, is_there: bool, key: &Key, line: u64, written: &mut Written) {
        if is_there {
            written.places.push((key.path, self.origin(line, key.path)));
        }
    }

    pub(super) fn object(&self, node: Node, field: &str) -> Result<Vec<Entry>, PolicyError> {
        match node.value {
            Value::Object(entries) => Ok(entries),
            Value::Null | Value::Tilde => Ok(Vec::new()),
            _ => {
                let keys =
                    if matches!(node.value, Value::Text(_)) { ", keys with ': '" } else { "" };
                let mut error = self.mismatch(&node, field, &format!("an object{keys}"));
                if let Some(form) = meant::object(field) {
                    error.message.push_str(&format!(": write '{form}'"));
                }
                Err(error)
            }
        }
    }

    pub(super) fn list(
        &self,
        node: Node,
        field: Cow<'static, str>,
    ) -> Result<Vec<Item>, PolicyError> {
        match node.value {
            Value::Null => Ok(Vec::new()),
            Value::Tilde => Err(self.origin(node.line, field).error(
                "in YAML a bare ~ means null; write '~' in quotes for the home directory, [] for nothing",
            )),
            Value::Text(text) if has_commas(&text) => Err(self
                .origin(node.line, field)
                .error("a comma separates nothing in a string; write an array, or an item a line")),
            Value::Text(text) if has_paths_in_a_line(&text) => {
                Err(self.origin(node.line, field).error(
                    "a line has one path; write an array, or an item a line, in YAML after a '|'",
                ))
            }
            Value::Text(text) => {
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                Ok(lines
                    .enumerate()
                    .map(|(index, line)| Item {
                        text: line.to_owned().into(),
                        origin: self.origin_of_item(node.line, field.clone(), index),
                    })
                    .collect())
            }
            Value::List(items) => {
                // Hundreds, in presets.
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    let origin = self.origin_of_item(item.line, field.clone(), index);
                    list.push(Self::item(item, origin)?);
                }
                Ok(list)
            }
            _ => Err(self.mismatch(&node, &field, "an array of strings or a string")),
        }
    }

    fn item(node: Node, origin: Origin) -> Result<Item, PolicyError> {
        match node.value {
            Value::Text(text) => Ok(Item { text, origin }),
            Value::Tilde => Err(origin.error(BARE_TILDE)),
            _ => Err(mismatch(&origin, &node, "a string")),
        }
    }

    fn settings(&self, node: Node, field: &str) -> Result<Vec<Setting>, PolicyError> {
        let mut settings = Vec::new();
        for Entry { key: name, line, node } in self.object(node, field)? {
            let field = join(field, &keys::shorten(&name));
            let origin = self.origin(line, field.clone());
            match node.value {
                Value::Text(value) => {
                    settings.push(Setting { name, value: value.into_owned(), origin });
                }
                Value::Null => {}
                Value::Tilde => return Err(origin.error(BARE_TILDE)),
                _ => {
                    let found = describe(&node.value);
                    let message = format!("expected a string, found {found}; add quotes");
                    return Err(origin.error(message));
                }
            }
        }
        Ok(settings)
    }

    fn boolean(&self, node: &Node, field: &str) -> Result<Option<bool>, PolicyError> {
        match node.value {
            Value::Null | Value::Tilde => Ok(None),
            Value::Bool(value) => Ok(Some(value)),
            Value::Text(ref text) if text == "true" || text == "false" => {
                Err(self.mismatch(node, field, "true or false, without quotes"))
            }
            _ => Err(self.mismatch(node, field, "true or false")),
        }
    }

    fn word(
        &self,
        node: &Node,
        words: &[&'static str],
        field: &str,
    ) -> Result<Option<&'static str>, PolicyError> {
        match node.value {
            Value::Null | Value::Tilde => Ok(None),
            Value::Text(ref text) if let Some(word) = words.iter().find(|word| *word == text) => {
                Ok(Some(word))
            }
            _ => Err(self.mismatch(node, field, &format!("\"{}\"", words.join("\" or \"")))),
        }
    }

    fn port(&self, node: &Node, field: &str) -> Result<Option<u16>, PolicyError> {
        match node.value {
            Value::Null | Value::Tilde => Ok(None),
            Value::Integer(value) => match u16::try_from(value) {
                Ok(port) if port > 0 => Ok(Some(port)),
                _ => Err(self.mismatch(node, field, "a port from 1 to 65535")),
            },
            Value::Text(ref text) if text.parse::<u16>().is_ok() => {
                Err(self.mismatch(node, field, "a port from 1 to 65535, without quotes"))
            }
            _ => Err(self.mismatch(node, field, "a port from 1 to 65535")),
        }
    }

    fn amount(&self, node: &Node, unit: Unit, field: &str) -> Result<Option<u64>, PolicyError> {
        let amount = match node.value {
            Value::Null | Value::Tilde => return Ok(None),
            Value::Integer(value) => u64::try_from(value).ok(),
            Value::Text(ref text) => unit.parse(text),
            _ => None,
        };
        let amount = amount.filter(|amount| (1..=unit.most()).contains(amount));
        let is_quoted = matches!(&node.value, Value::Text(text) if text.parse::<u64>().is_ok());
        let quotes = if is_quoted { ", without quotes" } else { "" };
        let expected = || format!("{}{quotes}", unit.expected());
        amount.map(Some).ok_or_else(|| self.mismatch(node, field, &expected()))
    }
}

fn mismatch(origin: &Origin, node: &Node, expected: &str) -> PolicyError {
    origin.error(format!("expected {expected}, found {}", describe(&node.value)))
}

/// Whether a list was written in one line, with commas.
fn has_commas(text: &str) -> bool {
    let begins_path = |c: char| c.is_whitespace() || matches!(c, '~' | '/' | '.' | '*');
    let mut pairs = text.chars().zip(text.chars().skip(1));
    pairs.any(|(first, second)| first == ',' && begins_path(second))
}

/// Whether a line has several paths, as YAML makes one line of those that are not after a `|`.
fn has_paths_in_a_line(text: &str) -> bool {
    let begins_path = |word: &str| {
        word.starts_with(['/', '~']) || word.starts_with("./") || word.starts_with("../")
    };
    text.lines().any(|line| line.split_whitespace().skip(1).any(begins_path))
}

fn join(object: &str, key: &str) -> String {
    if object.is_empty() { key.to_owned() } else { format!("{object}.{key}") }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null | Value::Tilde => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => format!("integer {value}"),
        Value::Real(value) => format!("number {value}"),
        Value::Text(text) if text.chars().count() > 40 => "a long string".to_owned(),
        Value::Text(text) => format!("string {text:?}"),
        Value::List(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use std::time::{Duration, Instant};

    use super::*;

    const FILE: &str = "/p";

    fn parse(text: &str, format: Format) -> Result<Written, PolicyError> {
        super::parse(text.as_bytes(), format, Path::new(FILE))
    }

    fn texts(items: &[Item]) -> Vec<&str> {
        items.iter().map(|item| &*item.text).collect()
    }

    const FULL_JSON: &str = r#"{
  "filesystem": {
    "allowWrite": [".", "/tmp"],
    "denyWrite": " .env \n\n  .git/hooks\n",
    "denyRead": null
  },
  "network": {
    "allowNetwork": false,
    "allowedDomains": ["example.com"],
    "httpProxyPort": 3128,
    "allowLocalBinding": true,
    "allowMachLookup": ["x"]
  },
  "ignoreViolations": {"*": ["/usr"]}
}"#;

    const FULL_YAML: &str = "
filesystem:
  allowWrite: [., /tmp]
  denyWrite: |
    .env

    .git/hooks
  denyRead:
network:
  allowNetwork: false
  allowedDomains:
    - example.com
  httpProxyPort: 3128
  allowLocalBinding: true
  allowMachLookup: [x]
ignoreViolations:
  '*': [/usr]
";

    #[test]
    fn both_formats_say_the_same() {
        for (text, format) in [(FULL_JSON, Format::Json), (FULL_YAML, Format::Yaml)] {
            let policy = parse(text, format).unwrap();
            assert_eq!(texts(&policy.allow_write), [".", "/tmp"]);
            assert_eq!(texts(&policy.deny_write), [".env", ".git/hooks"]);
            assert_eq!(texts(&policy.deny_read), [""; 0]);
            assert_eq!(texts(&policy.allowed_domains), ["example.com"]);
            assert_eq!(policy.allow_network, Some(false));
            assert_eq!(policy.http_proxy_port, Some(3128));
            assert_eq!(policy.socks_proxy_port, None);
            assert_eq!(policy.allow_local_binding, Some(true));
            assert_eq!(policy.allow_all_unix_sockets, None);
            assert_eq!(policy.ignored, ["network.allowMachLookup"]);
        }
        let origin = &parse(FULL_JSON, Format::Json).unwrap().deny_write[1].origin;
        assert_eq!((origin.line, &*origin.field()), (4, "filesystem.denyWrite[1]"));
    }

    #[test]
    fn an_object_may_be_absent_null_or_empty() {
        for (text, format) in [
            ("{}", Format::Json),
            ("{\"filesystem\":null,\"network\":{}}", Format::Json),
            ("{\"network\":{\"allowNetwork\":null,\"mitmProxy\":null}}", Format::Json),
            ("filesystem:\nnetwork: {}\n", Format::Yaml),
        ] {
            assert_eq!(parse(text, format), Ok(Written::default()), "{text}");
        }
    }

    #[test]
    fn errors_name_file_line_field_and_expectation() {
        for (format, text, line, field, expected) in [
            (Format::Json, "", 0, "", "the policy is empty"),
            (Format::Json, "null", 0, "", "the policy is empty"),
            (Format::Yaml, "# all\n# comments\n", 0, "", "the policy is empty"),
            (Format::Json, " \n", 1, "", "not valid JSON"),
            (Format::Json, "[]", 1, "", "expected an object, found an array"),
            (
                Format::Yaml,
                "just text",
                1,
                "",
                "expected an object, keys with ': ', found string \"just text\"",
            ),
            (
                Format::Json,
                "{\"filesystem\":{\"allowWrite\":[\"a\",\n\"b\",\n3]}}",
                3,
                "filesystem.allowWrite[2]",
                "expected a string, found integer 3",
            ),
            (
                Format::Yaml,
                "filesystem:\n  allowWrite:\n    - a\n    - true\n",
                4,
                "filesystem.allowWrite[1]",
                "expected a string, found true",
            ),
            (
                Format::Yaml,
                "filesystem:\n  denyRead: ~\n",
                2,
                "filesystem.denyRead",
                "write '~' in quotes",
            ),
            // YAML makes one line of these.
            (
                Format::Yaml,
                "filesystem:\n  denyRead:\n    ~/.ssh\n    ~/.aws\n",
                3,
                "filesystem.denyRead",
                "a line has one path",
            ),
            (
                Format::Json,
                "{\"filesystem\":{\"denyWrite\":\"a b\\n/c ./d\"}}",
                1,
                "filesystem.denyWrite",
                "a line has one path",
            ),
            (
                Format::Yaml,
                "filesystem:\n  denyRead:\n  - ~\n",
                3,
                "filesystem.denyRead[0]",
                "write '~' in quotes",
            ),
            (
                Format::Json,
                "{\"filesystem\":{\"denyRead\":{}}}",
                1,
                "filesystem.denyRead",
                "expected an array of strings or a string, found an object",
            ),
            (
                Format::Json,
                "{\n\"filesystem\":{\n\"denyWrites\":[]}}",
                3,
                "filesystem.denyWrites",
                "unknown key 'denyWrites', the nearest known key is 'denyWrite'",
            ),
            (
                Format::Yaml,
                "network:\n  alowedDomains: []\n",
                2,
                "network.alowedDomains",
                "the nearest known key is 'allowedDomains'",
            ),
            (Format::Json, "{\"filesytem\":{}}", 1, "filesytem", "known key is 'filesystem'"),
            (Format::Json, "{\"denyRead\":[]}", 1, "denyRead", "it belongs in filesystem"),
            (
                Format::Json,
                "{\"network\":{\"httpProxyPort\":0}}",
                1,
                "network.httpProxyPort",
                "expected a port from 1 to 65535, found integer 0",
            ),
            (
                Format::Json,
                "{\"network\":{\"socksProxyPort\":65536}}",
                1,
                "network.socksProxyPort",
                "found integer 65536",
            ),
            (
                Format::Json,
                "{\"network\":{\"httpProxyPort\":80.0}}",
                1,
                "network.httpProxyPort",
                "found number 80",
            ),
            (
                Format::Json,
                "{\"network\":{\"allowNetwork\":\"yes\"}}",
                1,
                "network.allowNetwork",
                "expected true or false, found string \"yes\"",
            ),
            (
                Format::Json,
                "{\"network\":\n{\"mitmProxy\":{}}}",
                2,
                "network.mitmProxy",
                "would add protection",
            ),
            (
                Format::Yaml,
                "environment:\n  set:\n    A: 1\n",
                3,
                "environment.set.A",
                "expected a string, found integer 1; add quotes",
            ),
            (
                Format::Yaml,
                "environment:\n  set: [A]\n",
                2,
                "environment.set",
                "expected an object, found an array",
            ),
            (Format::Json, "{\"environment\":\n{\"alow\":[]}}", 2, "environment.alow", "'allow'"),
            (
                Format::Yaml,
                "limits:\n  memory: 2G\n",
                2,
                "limits.memory",
                "a size such as \"512MiB\" or \"2GiB\", found string \"2G\"",
            ),
            (Format::Json, "{\"limits\":{\"processes\":0}}", 1, "limits.processes", "integer 0"),
            (
                Format::Json,
                "{\"limits\":{\"wallSeconds\":\"1\"}}",
                1,
                "limits.wallSeconds",
                "a number of seconds from 1, without quotes",
            ),
            (Format::Json, "{\"limits\":{\"cpu\":1}}", 1, "limits.cpu", "write cpuSeconds"),
            (Format::Json, "{\"credentials\":{}}", 1, "credentials", "would add protection"),
            (Format::Json, "{\"network\":{},\n\"network\":{}}", 2, "", "duplicate key 'network'"),
        ] {
            let error = parse(text, format).unwrap_err();
            assert_eq!(error.file.as_deref(), Some(Path::new(FILE)), "{text}");
            assert_eq!(error.line.unwrap_or(0), line, "{text}: {error}");
            assert_eq!(error.field.clone().unwrap_or_default(), field, "{text}: {error}");
            assert!(error.message.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_environment_merges_by_name_and_a_list_that_is_absent_restricts_nothing() {
        let yaml = |text| parse(text, Format::Yaml).unwrap();
        let mut policy = yaml("environment: {deny: [A], set: {X: '1', Y: '1'}}");
        policy.merge(yaml("environment: {deny: [B, A], set: {Y: '2', Z: '2'}}"));
        assert_eq!(policy.environment_allow, None);
        assert_eq!(texts(&policy.environment_deny), ["A", "B"]);
        let set = policy.environment_set.iter();
        let set: Vec<_> = set.map(|set| format!("{}={}", set.name, set.value)).collect();
        assert_eq!(set, ["X=1", "Y=2", "Z=2"]);
        policy.merge(yaml("environment: {allow: []}"));
        assert_eq!(policy.environment_allow, Some(vec![]));
        policy.merge(yaml("environment: {allow: [C]}"));
        policy.merge(yaml("environment: {allow: }"));
        assert_eq!(texts(&policy.environment_allow.unwrap()), ["C"]);
    }

    #[test]
    fn merging_unites_lists_and_lets_later_scalars_win() {
        let mut policy = parse(
            r#"{"filesystem":{"allowWrite":["a","b"],"denyRead":["x"]},
                "network":{"httpProxyPort":1,"allowNetwork":true,"allowLocalBinding":true},"macos":1}"#,
            Format::Json,
        )
        .unwrap();
        policy.merge(
            parse(
                "filesystem: {allowWrite: \"c\\nb\\nd\"}\nnetwork: {httpProxyPort: 2, allowNetwork: false, allowLocalBinding: }\nmacos: 2",
                Format::Yaml,
            )
            .unwrap(),
        );
        assert_eq!(texts(&policy.allow_write), ["a", "b", "c", "d"]);
        assert_eq!(texts(&policy.deny_read), ["x"]);
        assert_eq!(policy.http_proxy_port, Some(2));
        assert_eq!(policy.allow_network, Some(false));
        assert_eq!(policy.allow_local_binding, Some(true));
        assert_eq!(policy.ignored, ["macos"]);
    }

    /// A small generator with a fixed seed, so that a failure can be repeated.
    struct XorShift(u64);

    impl XorShift {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 as usize % limit
        }
    }

    fn mutate(text: &str, random: &mut XorShift) -> Vec<u8> {
        let fragments: [&[u8]; 14] = [
            b"\"",
            b"{",
            b"}",
            b"[",
            b"]",
            b"&a ",
            b"*a",
            b"<<: ",
            b"---\n",
            b"\xff",
            b"\0",
            b"!!binary ",
            b"- ",
            b"|\n",
        ];
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() + 1);
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => {
                    let fragment = fragments[random.below(fragments.len())];
                    bytes.splice(at..at, fragment.iter().copied());
                }
                2 if at < bytes.len() => bytes[at] = random.below(256) as u8,
                _ => {
                    let end = at + random.below(bytes.len() - at + 1);
                    let copy = bytes[at..end].to_vec();
                    let to = random.below(bytes.len() + 1);
                    bytes.splice(to..to, copy);
                }
            }
        }
        bytes
    }

    #[test]
    fn mutated_policies_give_a_policy_or_one_error_with_the_file() {
        let mut random = XorShift(0x5eed_1234_abcd);
        let begin = Instant::now();
        for round in 0..20_000 {
            if begin.elapsed() > Duration::from_secs(2) {
                break;
            }
            let (text, format) = match round % 2 {
                0 => (FULL_JSON, Format::Json),
                _ => (FULL_YAML, Format::Yaml),
            };
            let bytes = mutate(text, &mut random);
            if let Err(error) = super::parse(&bytes, format, Path::new(FILE)) {
                assert_eq!(error.file.as_deref(), Some(Path::new(FILE)));
                assert!(!error.message.is_empty() && !error.to_string().contains('\n'), "{error}");
            }
        }
    }
}
