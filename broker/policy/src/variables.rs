//! What the keys of `environment` say. Pure.

use super::error::PolicyError;
use super::keys::{Item, Setting, Written};
use super::presets;
use rules::pattern::Component;
use rules::variables::Variables;

/// The item that stands for what its words would match: values that are URLs with a password.
const URL_WITH_PASSWORD: &str = "*://*:*@*";

/// What the keys of `environment` say.
///
/// # Errors
/// Returns the first [`PolicyError`]: what can be no name of a variable, or no value.
pub fn resolve(written: &Written) -> Result<Variables, PolicyError> {
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
    use super::super::parse::{parse, read};
    use super::*;
    use std::ffi::OsStr;
    use std::path::Path;

    fn variables(yaml: &str) -> Result<Variables, PolicyError> {
        resolve(&parse(yaml.as_bytes(), Format::Yaml, Path::new("/p")).unwrap())
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
            ("I_URL", "https://ghp_x@h/d", false),
            ("J_URL", "git+https://x@h/d", false),
            ("K_URL", "ssh://git@h/d", true),
            ("L_URL", "jdbc:postgresql://h/d?user=u&password=p", false),
            ("M_URL", "https://h/d?access_token=t", false),
            ("N_URL", "https://h/d?token=&page=2", true),
            ("Q_URL", "https://h/d?sv=1&sig=x", false),
            ("R_URL", "https://h/d?config=x&design=y", true),
            ("O_URL", "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=k", false),
            ("P_URL", "https://h/tokens?author=a", true),
        ] {
            assert_eq!(own.passes(OsStr::new(name), OsStr::new(value)), passes, "{name}");
        }
        let denied = variables("environment: {allow: [A_KEY], deny: [A_KEY]}").unwrap();
        assert!(!denied.pass(OsStr::new("A_KEY")));
        let root = presets::find("agent").unwrap();
        let written = read(root, &presets::file("agent")).unwrap();
        let preset = resolve(&written).unwrap();
        for name in [
            "gh_token",
            "npm_config__authToken",
            "Db_Pass",
            "SENTRY_DSN",
            "SOME_CREDS",
            "NPM_AUTH",
            "my_apikey",
            "SSHPASS",
            "OP_SESSION_my",
            "GITHUB_TOKENS",
            "GHTOKEN",
            "DB_PWD",
            "CI_JOB_JWT_V2",
            "BUNDLE_GEMS__EXAMPLE__COM",
            "HTTP_AUTHORIZATION",
            "SLACK_WEBHOOK_URL",
            "AUTH",
            "BEARER",
            "CREDS",
            "DSN",
            "GHPAT",
            "MNEMONIC",
            "SEED_PHRASE",
            "PASSPHRASE",
            "CREDENTIALS",
            "TOKEN",
            "MYSQL_PWD",
            "NPM_CONFIG_OTP",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
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
            "PWD",
            "OLDPWD",
            "BUNDLE_PATH",
            "COMPASS",
            "COMPAT",
            "AWS_REGION",
            "AWS_PROFILE",
            "AWS_CA_BUNDLE",
            "XAUTHORITY",
            "GIT_AUTHOR_EMAIL",
            "DESKTOP_SESSION",
            "PYTHONPATH",
            "DEBUG",
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
