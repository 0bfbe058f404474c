//! Which of the caller's environment variables the command gets, and which values are set. Pure.

use super::error::PolicyError;
use super::keys::{Item, Setting, Written};
use super::presets;
use crate::rules::pattern::Component;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The item that stands for what its words would match: values that are URLs with a password.
const URL_WITH_PASSWORD: &str = "*://*:*@*";

/// The rules for the command's environment. By default it gets all of the caller's.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Variables {
    /// Names and globs of those that it gets; all, if there is no list.
    allow: Option<Vec<Component>>,
    /// Names and globs of those that it does not get, even so.
    deny: Vec<Component>,
    /// The same of presets, in upper case: they hold for names in any.
    deny_any_case: Vec<Component>,
    /// Whether it gets none whose value is a URL with a password.
    deny_passwords: bool,
    /// What it gets whatever the caller has, by name.
    set: Vec<(String, String)>,
}

impl Variables {
    /// What the keys of `environment` say.
    ///
    /// # Errors
    /// Returns the first [`PolicyError`]: what can be no name of a variable, or no value.
    pub(crate) fn resolve(written: &Written) -> Result<Variables, PolicyError> {
        let names = |items: &[Item]| items.iter().map(name).collect::<Result<_, _>>();
        let is_url = |item: &&Item| item.text.trim() == URL_WITH_PASSWORD;
        let of_names = written.environment_deny.iter().filter(|item| !is_url(item)).cloned();
        let (of_presets, own): (Vec<_>, Vec<_>) =
            of_names.partition(|item| presets::is_file(&item.origin.file));
        Ok(Variables {
            allow: written.environment_allow.as_deref().map(names).transpose()?,
            deny: names(&own)?,
            deny_any_case: names(&of_presets)?,
            deny_passwords: written.environment_deny.iter().any(|item| is_url(&item)),
            set: written.environment_set.iter().map(setting).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the command gets the caller's variable `name`, as far as its name goes. Deny wins, but over a name that is
    /// allowed as it is only the same name does.
    pub(crate) fn pass(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        let is_name =
            |listed: &Component| matches!(listed, Component::Literal(exact) if exact == name);
        let listed = |list: &[Component]| list.iter().any(|listed| listed.matches(name));
        if self.is_allowed_by_name(name) {
            return !self.deny.iter().any(is_name) && !self.deny_any_case.iter().any(is_name);
        }
        let is_denied = listed(&self.deny)
            || self.deny_any_case.iter().any(|listed| listed.matches(&name.to_ascii_uppercase()));
        self.allow.as_deref().is_none_or(listed) && !is_denied
    }

    /// The same in view of its value.
    pub(crate) fn passes(&self, name: &OsStr, value: &OsStr) -> bool {
        let is_kept = || !self.deny_passwords || self.is_allowed_by_name(name.as_bytes());
        self.pass(name) && (is_kept() || !has_password(value.as_bytes()))
    }

    fn is_allowed_by_name(&self, name: &[u8]) -> bool {
        let is_name =
            |listed: &Component| matches!(listed, Component::Literal(exact) if exact == name);
        self.allow.as_deref().is_some_and(|list| list.iter().any(is_name))
    }

    /// Whether the command gets whatever the caller has.
    pub(crate) fn pass_all(&self) -> bool {
        self.allow.is_none()
            && self.deny.is_empty()
            && self.deny_any_case.is_empty()
            && !self.deny_passwords
    }

    /// What is set.
    pub(crate) fn set(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.set.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value)))
    }

    /// The value that `name` is set to.
    pub(crate) fn value(&self, name: &str) -> Option<&OsStr> {
        self.set().find(|(set, _)| *set == name).map(|(_, value)| value)
    }
}

/// Whether there is a URL with a user and a password in `value` (RFC 3986, section 3.2.1).
fn has_password(value: &[u8]) -> bool {
    let mut rest = value;
    while let Some(at) = rest.windows(3).position(|window| window == b"://") {
        rest = &rest[at + 3..];
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'`<>".contains(byte);
        let authority = rest.split(ends).next().unwrap_or_default();
        let user = authority.iter().rposition(|&byte| byte == b'@').map(|end| &authority[..end]);
        let password = user.and_then(|user| user.splitn(2, |&byte| byte == b':').nth(1));
        if password.is_some_and(|password| !password.is_empty()) {
            return true;
        }
    }
    false
}

fn name(item: &Item) -> Result<Component, PolicyError> {
    let error = |message: String| item.origin.error(message);
    let text = item.text.trim();
    if let Some(wrong) = wrong_name(text) {
        return Err(error(wrong));
    }
    match Component::parse(text.as_bytes()).map_err(|wrong| error(format!("'{text}': {wrong}")))? {
        Component::AnyDepth => Err(error("'**' is for paths; write '*'".to_owned())),
        name => Ok(name),
    }
}

fn setting(setting: &Setting) -> Result<(String, String), PolicyError> {
    let Setting { name, value, origin } = setting;
    match wrong_name(name) {
        Some(wrong) => Err(origin.error(wrong)),
        None if value.contains('\0') => Err(origin.error("a value cannot contain a NUL byte")),
        None => Ok((name.clone(), value.clone())),
    }
}

fn wrong_name(name: &str) -> Option<String> {
    if let Some(bare) = name.strip_prefix('$').filter(|bare| !bare.is_empty()) {
        return Some(format!("write the name of the variable without '$': '{bare}'"));
    }
    if let Some((bare, _)) = name.split_once('=') {
        return Some(format!("'{bare}' alone is the name; environment.set has values"));
    }
    match name {
        "" => Some("empty name of a variable".to_owned()),
        _ if name.contains(|c: char| c.is_whitespace() || c == ',') => Some(format!(
            "'{name}' is not the name of a variable: write each as an item of its own"
        )),
        _ if name.contains('\0') => Some("a name cannot contain a NUL byte".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::document::Format;
    use super::super::parse::parse;
    use super::*;
    use std::path::Path;

    fn variables(yaml: &str) -> Result<Variables, PolicyError> {
        Variables::resolve(&parse(yaml.as_bytes(), Format::Yaml, Path::new("/p")).unwrap())
    }

    #[test]
    fn an_exact_name_wins_over_a_glob_and_passwords_in_urls_are_seen() {
        let own = variables(
            "environment: {allow: [GH_TOKEN, A_URL, '*'], deny: ['*_TOKEN', A_KEY, '*://*:*@*']}",
        );
        let own = own.unwrap();
        for (name, value, passes) in [
            ("GH_TOKEN", "x", true),
            ("NPM_TOKEN", "x", false),
            ("A_KEY", "x", false),
            ("A_URL", "postgres://u:p@h/d", true),
            ("B_URL", "postgres://u:p@h/d", false),
            ("C_URL", "postgres://u@h/d", true),
            ("D_URL", "http://h:80/a@b", true),
            ("E_URL", "see http://h/ and amqp://u:p:q@h", false),
            ("F_URL", "redis://:p@h", false),
            ("G_URL", "redis://u:@h", true),
            ("H", "://", true),
        ] {
            assert_eq!(own.passes(OsStr::new(name), OsStr::new(value)), passes, "{name}");
        }
        let denied = variables("environment: {allow: [A_KEY], deny: [A_KEY]}").unwrap();
        assert!(!denied.pass(OsStr::new("A_KEY")));
        let text = presets::find("agent").unwrap();
        let written = parse(text.as_bytes(), Format::Yaml, &presets::file("agent")).unwrap();
        let preset = Variables::resolve(&written).unwrap();
        for name in [
            "gh_token",
            "npm_config__authToken",
            "Db_Pass",
            "SENTRY_DSN",
            "SOME_CREDS",
            "NPM_AUTH",
            "my_apikey",
        ] {
            assert!(!preset.pass(OsStr::new(name)), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "LANG",
            "TERM",
            "EDITOR",
            "npm_config_registry",
            "GIT_AUTHOR_NAME",
            "KEYMAP",
            "PASSED",
        ] {
            assert!(preset.pass(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_command_gets_what_is_allowed_and_not_denied() {
        const NAMES: [&str; 5] = ["PATH", "HOME", "GH_TOKEN", "AWS_REGION", "_TOKEN"];
        for (yaml, expected) in [
            ("{}", "PATH HOME GH_TOKEN AWS_REGION _TOKEN"),
            ("environment: {allow: }", "PATH HOME GH_TOKEN AWS_REGION _TOKEN"),
            ("environment: {allow: []}", ""),
            ("environment: {allow: [PATH, 'H*']}", "PATH HOME"),
            ("environment: {deny: ['*_TOKEN', 'AWS_*']}", "PATH HOME"),
            ("environment: {allow: ['*_*'], deny: ['?*_TOKEN']}", "AWS_REGION _TOKEN"),
            ("environment: {deny: \"PATH\\n[A-G]*\"}", "HOME _TOKEN"),
            ("environment: {deny: [path, OME, HOM]}", "PATH HOME GH_TOKEN AWS_REGION _TOKEN"),
            ("environment: {deny: ['*']}", ""),
        ] {
            let variables = variables(yaml).unwrap();
            let passed = NAMES.into_iter().filter(|name| variables.pass(OsStr::new(name)));
            assert_eq!(passed.collect::<Vec<_>>().join(" "), expected, "{yaml}");
        }
    }

    #[test]
    fn what_is_no_name_or_value_is_an_error_with_its_place() {
        for (yaml, field, expected) in [
            ("environment: {deny: [$HOME]}", "environment.deny[0]", "without '$': 'HOME'"),
            ("environment: {allow: [A, 'B=1']}", "environment.allow[1]", "environment.set has"),
            ("environment: {deny: 'A,B'}", "environment.deny[0]", "each as an item of its own"),
            ("environment: {deny: 'A B'}", "environment.deny[0]", "each as an item of its own"),
            ("environment: {deny: ['']}", "environment.deny[0]", "empty name"),
            ("environment: {deny: ['**']}", "environment.deny[0]", "write '*'"),
            ("environment: {deny: ['[a']}", "environment.deny[0]", "closing ']'"),
            ("environment: {set: {'A=B': c}}", "environment.set.A=B", "environment.set has values"),
            ("environment: {set: {A: \"b\\0\"}}", "environment.set.A", "NUL"),
        ] {
            let error = variables(yaml).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{yaml}");
            assert!(error.message.contains(expected), "{yaml}: {error}");
        }
        let variables = variables("environment: {set: {A: b, EMPTY: ''}}").unwrap();
        assert_eq!(variables.value("A"), Some(OsStr::new("b")));
        assert_eq!(variables.value("EMPTY"), Some(OsStr::new("")));
        assert_eq!(variables.value("B"), None);
    }
}
