//! The values of options.

use super::mistakes::needless;
use super::{Ask, Extent, Form, NewPolicy, UsageError};
use landstrip_core::report::traps::Reports;
use policy::document::Format;
use policy::load::{Selection, Source};
use policy::presets;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// Takes the letter of an option that has no value; its `word` with one dash is meant by it as well.
pub(super) fn alone(
    letter: char,
    word: &str,
    parser: &mut lexopt::Parser,
) -> Result<(), UsageError> {
    let rest = parser.optional_value();
    let is_word = |rest: &OsString| word.strip_prefix(letter).is_some_and(|end| rest == end);
    match rest.filter(|rest| !is_word(rest)) {
        None => Ok(()),
        Some(value) => Err(needless(&format!("-{letter}"), &value)),
    }
}

pub(super) fn without_value(option: &str, parser: &mut lexopt::Parser) -> Result<(), UsageError> {
    parser.optional_value().map_or(Ok(()), |value| Err(needless(option, &value)))
}

/// Where a policy is to be written that adds to `base`.
pub(super) fn new_policy(path: PathBuf, base: &Selection) -> Result<NewPolicy, UsageError> {
    if base.sources.contains(&Source::Stdin) {
        let message = "--learn adds to a policy that has a name; standard input has none";
        return Err(UsageError(message.to_owned()));
    }
    // As it will be read.
    match base.format.or_else(|| Format::named_by(&path)) {
        Some(format) => Ok(NewPolicy { path, format }),
        None => Err(UsageError(format!(
            "--learn needs a file named .yaml, or .json for a policy without comments, found '{}'",
            path.display()
        ))),
    }
}

pub(super) fn add_policy(policies: &mut Vec<Source>, value: OsString) -> Result<(), UsageError> {
    if value.is_empty() {
        return Err(UsageError("--policy needs a file, found an empty word".into()));
    }
    if value != "-" {
        policies.push(match value.to_str() {
            Some(text) if text.trim_start().starts_with('{') => Source::Text(text.to_owned()),
            Some(name) if presets::is_name(name) => Source::Preset(name.to_owned()),
            _ => Source::File(value.into()),
        });
        return Ok(());
    }
    if policies.contains(&Source::Stdin) {
        return Err(UsageError("--policy - given twice: standard input can be read once".into()));
    }
    policies.push(Source::Stdin);
    Ok(())
}

pub(super) fn format(value: &OsString) -> Result<Format, UsageError> {
    match value.to_str() {
        Some("json") => Ok(Format::Json),
        Some("yaml") => Ok(Format::Yaml),
        _ => Err(UsageError(format!(
            "--format must be json or yaml, found '{}'",
            value.to_string_lossy()
        ))),
    }
}

pub(super) fn form(option: &str, value: Option<OsString>) -> Result<Form, UsageError> {
    match value.as_ref().map(|value| value.to_string_lossy()).as_deref() {
        None => Ok(Form::Text),
        Some("json") => Ok(Form::Json),
        Some(other) => {
            Err(UsageError(format!("--{option} takes '=json' or nothing, found '{other}'")))
        }
    }
}

pub(super) fn extent(value: Option<OsString>) -> Result<Extent, UsageError> {
    match value.as_ref().map(|value| value.to_string_lossy()).as_deref() {
        None => Ok(Extent::Page),
        Some("full") => Ok(Extent::Full),
        Some("json") => Ok(Extent::Json),
        Some(other) => {
            let message = format!("--explain takes '=full', '=json' or nothing, found '{other}'");
            Err(UsageError(message))
        }
    }
}

pub(super) fn reports(value: &OsString) -> Result<Reports, UsageError> {
    match value.to_str() {
        Some("all") => Ok(Reports::All),
        Some("changes") => Ok(Reports::Changes),
        Some("network") => Ok(Reports::Network),
        Some("none") => Ok(Reports::Nothing),
        _ => Err(UsageError(format!(
            "--report must be all, changes, network or none, found '{}'",
            value.to_string_lossy()
        ))),
    }
}

pub(super) fn ask(value: &OsString) -> Result<Ask, UsageError> {
    if value == "terminal" {
        return Ok(Ask::Terminal);
    }
    fd("ask", value).map(Ask::Over).map_err(|_| {
        UsageError(format!(
            "--ask must be terminal, or a descriptor number of 3 or higher, found '{}'",
            value.to_string_lossy()
        ))
    })
}

pub(super) fn fd(option: &str, value: &OsString) -> Result<RawFd, UsageError> {
    let digits = value.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    // 0, 1 and 2 are the tool's own.
    match digits.and_then(|text| text.parse::<RawFd>().ok()) {
        Some(fd) if fd >= 3 => Ok(fd),
        _ => Err(UsageError(format!(
            "--{option} must be a descriptor number of 3 or higher, found '{}'",
            value.to_string_lossy()
        ))),
    }
}
