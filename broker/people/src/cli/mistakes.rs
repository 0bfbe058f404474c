//! Command lines that cannot be followed, and what was likely meant.

use super::{HELP, UsageError, elsewhere};
use policy::keys;
use policy::nearest::near;
use std::ffi::OsString;

/// What other programs call an option.
const CALLED: [(&[&str], &str); 5] = [
    (&["f", "config", "profile", "settings", "rules"], "--policy"),
    (&["v", "version"], "--version"),
    (&["n", "dry-run", "validate", "test"], "--check"),
    (&["d", "verbose", "trace", "log"], "--debug"),
    (&["?", "H", "usage"], "--help"),
];

/// Every long option, as the help has them: to suggest the nearest one.
pub(super) fn long_options() -> impl Iterator<Item = &'static str> {
    let lines = HELP.lines().filter(|line| line.trim_start().starts_with('-'));
    let options =
        lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
    options.filter_map(|option| option.split('[').next())
}

pub(super) fn needless(option: &str, value: &OsString) -> UsageError {
    let value = value.to_string_lossy();
    UsageError(format!("option '{option}' takes no value, found '{value}'"))
}

/// The error of a long option that was written with one dash, if that is what its letter and the rest are.
pub(super) fn one_dash(letter: char, rest: &str) -> Option<UsageError> {
    let word = format!("{letter}{}", rest.split_once('=').map_or(rest, |(name, _)| name));
    let long = long_options().find(|long| long[2..] == word)?;
    Some(UsageError(format!("unknown option '-{word}', did you mean '{long}'?")))
}

pub(super) fn unknown_option(option: &str) -> UsageError {
    if option == "-c" {
        let message =
            "unknown option '-c': for a shell, write sh -c '...'; for a policy, '--policy'";
        return UsageError(message.to_owned());
    }
    let word = option.trim_start_matches('-');
    if let Some(text) = elsewhere::instead(word) {
        return UsageError(format!("unknown option '{option}': {text}"));
    }
    let called = CALLED.iter().find(|(others, _)| others.contains(&word));
    if let Some(meant) = called.map(|(_, meant)| *meant).or_else(|| near(option, long_options())) {
        return UsageError(format!("unknown option '{option}', did you mean '{meant}'?"));
    }
    UsageError(match keys::meant_by(word) {
        Some(key) => {
            format!("unknown option '{option}': {key} is a key of policies, named by '--policy'")
        }
        None => format!(
            "unknown option '{option}': options of the tool follow the tool; '--help' lists those of landstrip"
        ),
    })
}

pub(super) fn unusable(error: lexopt::Error) -> UsageError {
    match error {
        lexopt::Error::MissingValue { option: Some(option) } => {
            UsageError(format!("option '{option}' needs a value"))
        }
        lexopt::Error::UnexpectedValue { option, value } => needless(&option, &value),
        lexopt::Error::UnexpectedOption(option) => unknown_option(&option),
        other => UsageError(other.to_string()),
    }
}
