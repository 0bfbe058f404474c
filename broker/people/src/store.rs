//! The denials that runs keep (`report.keep` in landstrip-policy(5)), and what `--denials` says of them.
//!
//! They are JSON lines in two files of a directory that is the user's alone: when the newer is full, it becomes the
//! older. Every sandbox is denied that directory where policies are resolved.

use crate::advice::suggest::{self, Grounds, quote};
use crate::cli::Form;
use crate::explain::page::{json_line, plain};
use crate::load::unusable;
use crate::reports::lines::denial_line;
use landstrip_core::compile::runs::hold;
use landstrip_core::report::denials::Denial;
use landstrip_core::report::failure::{Failure, say};
use landstrip_core::session::launch::Tool;
use policy::callers::Caller;
use rules::policy::Policy;
use rustix::fs::{self, Mode, OFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::SystemTime;

const NEWER: &str = "denials.jsonl";
const OLDER: &str = "denials.old.jsonl";
/// When a file is full, in bytes.
const FULL: u64 = 1 << 20;
/// Most denials that are kept of a run.
const OF_RUN_MAX: usize = 256;
/// Most examples that are shown of a group.
const EXAMPLES_MAX: usize = 3;
const DAY: u64 = 24 * 60 * 60;

/// The command line of `tool`, for people.
pub(crate) fn line_of(tool: &Tool<'_>) -> String {
    let words = tool.line.iter().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

/// The words of what `policy` wants refused without a report, for the command line of `tool`.
pub fn ignored(policy: &Policy, tool: &Tool<'_>) -> Vec<String> {
    if policy.ignored.is_empty() {
        return Vec::new();
    }
    let line = line_of(tool);
    let is_meant = |name: &str| name == "*" || !name.is_empty() && line.contains(name);
    let lists = policy.ignored.iter().filter(|(name, _)| is_meant(name));
    let words = lists.flat_map(|(_, words)| words).filter(|word| !word.is_empty());
    words.cloned().collect()
}

/// Keeps the denials of a run.
pub fn keep(denials: &[Denial], tool: &Tool<'_>, caller: &Caller, grounds: &Grounds<'_>) {
    if denials.is_empty() {
        return;
    }
    // Another run may start elsewhere.
    let grounds = Grounds { work: Path::new("/"), ..*grounds };
    let name = Path::new(OsStr::from_bytes(tool.name())).file_name().unwrap_or_default();
    let (time, directory) = (now(), caller.cwd.to_string_lossy());
    let entry = |denial: &Denial| {
        let remedies = suggest::remedies(&[denial], &grounds);
        let parsed = |line: &String| serde_json::from_str::<Value>(line).ok();
        let advice = remedies.lines.iter().filter_map(parsed);
        let advice: Vec<_> = advice.filter_map(|line| line.get("Advice").cloned()).collect();
        let remedy = remedies.line.unwrap_or_default();
        let remedy = remedy.trim_end().trim_start_matches("landstrip: ");
        let entry = json!({ "time": time, "program": name.to_string_lossy(), "directory": directory,
            "report": parsed(&denial_line(denial)), "advice": advice, "remedy": remedy });
        format!("{entry}\n")
    };
    let text: String = denials.iter().take(OF_RUN_MAX).map(entry).collect();
    if let Err(why) = append(caller, &text) {
        say(&plain(&format!("report.keep: cannot record what was refused: {why}")));
    }
}

/// Adds `text` to the newer file. Of runs that find it full at the same time, each may begin a new one; then older
/// denials are lost.
fn append(caller: &Caller, text: &str) -> Result<(), String> {
    let place = caller.state().ok_or("set HOME")?;
    let shown = |why: &dyn std::fmt::Display| format!("{}: {why}", place.display());
    let parent = place.parent().unwrap_or(&place);
    DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|error| shown(&error))?;
    let directory = hold(&place).map_err(|why| shown(&why))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = || fs::openat(&directory, NEWER, flags, Mode::RUSR | Mode::WUSR).map(File::from);
    let mut file = open().map_err(|why| shown(&why))?;
    if file.metadata().is_ok_and(|found| found.len() >= FULL) {
        fs::renameat(&directory, NEWER, &directory, OLDER).map_err(|why| shown(&why))?;
        file = open().map_err(|why| shown(&why))?;
    }
    // At once, so that lines of other runs come before or after.
    file.write_all(text.as_bytes()).map_err(|why| shown(&why))
}

/// What was kept, since a day if one is given.
///
/// # Errors
/// Returns [`Failure::Usage`] for what is no day, else the [`Failure`] to read what was kept.
pub fn list(form: Form, since: Option<&OsStr>) -> Result<String, Failure> {
    let since = since.map(first_day).transpose()?.unwrap_or_default();
    let caller = Caller::of_process().map_err(unusable)?;
    let mut text = String::new();
    for name in [OLDER, NEWER] {
        let Some(path) = caller.state().map(|place| place.join(name)) else { continue };
        // Anything else could have it wait.
        let read = path.symlink_metadata().and_then(|found| match found.is_file() {
            true => std::fs::read_to_string(&path),
            false => Err(std::io::Error::other("not a file written by landstrip: remove it")),
        });
        match read {
            Ok(found) => text += &found,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let message = format!("{}: {error}", path.display());
                return Err(Failure::Internal("denials", message));
            }
        }
    }
    let entries = text.lines().filter_map(|line| Some((line, serde_json::from_str(line).ok()?)));
    let entries = entries.filter(|(_, entry): &(&str, Value)| day_of(entry) >= since);
    let entries: Vec<_> = entries.collect();
    if form == Form::Json {
        return Ok(entries.iter().map(|(line, _)| json_line(line)).collect());
    }
    let entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
    if entries.is_empty() {
        return Ok(
            "nothing was recorded; a policy with report.keep: true records what is refused\n"
                .to_owned(),
        );
    }
    Ok(groups(&entries) + &policy(&entries))
}

/// The entries by day, program, and what would have allowed them.
fn groups(entries: &[Value]) -> String {
    let mut groups: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for entry in entries {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let key = (day_of(entry), text("program"), text("remedy"));
        groups.entry(key).or_default().push(example(&entry["report"]));
    }
    let line = |((day, program, remedy), mut examples): ((String, &str, &str), Vec<String>)| {
        let often = match examples.len() {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        examples.sort();
        examples.dedup();
        let rest = examples.len().saturating_sub(EXAMPLES_MAX);
        examples.truncate(EXAMPLES_MAX);
        let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        let remedy = if remedy.is_empty() { "nothing is suggested" } else { remedy };
        let examples = examples.join(", ");
        plain(&format!("{day}  {program}  {often}: {examples}{rest}"))
            + &plain(&format!("; {remedy}"))
            + "\n"
    };
    groups.into_iter().map(line).collect()
}

/// An operation and what it was refused on, whose name the command chose: without quotes it could go on as advice.
fn example(report: &Value) -> String {
    let words = report.as_object().and_then(|report| report.values().next());
    let word = |index: usize| words.and_then(|words| words[index].as_str()).unwrap_or_default();
    format!("{} {}", word(0), quote(word(1)))
}

/// The policy that would have allowed what can be allowed, in JSON.
fn policy(entries: &[Value]) -> String {
    let mut objects: BTreeMap<&str, BTreeMap<&str, Vec<&Value>>> = BTreeMap::new();
    for advice in entries.iter().filter_map(|entry| entry["advice"].as_array()).flatten() {
        let Some((object, key)) = advice[0].as_str().and_then(|key| key.split_once('.')) else {
            continue;
        };
        let values = objects.entry(object).or_default().entry(key).or_default();
        if !values.contains(&&advice[1]) {
            values.push(&advice[1]);
        }
    }
    let value = |key: &str, values: &Vec<&Value>| {
        let texts: Option<Vec<_>> = values.iter().map(|value| value.as_str().map(quote)).collect();
        match texts {
            // A host can be called "true" as well.
            Some(texts) if key != "allowLocalBinding" => format!("[{}]", texts.join(", ")),
            _ => "true".to_owned(),
        }
    };
    let keys = |keys: &BTreeMap<_, _>| {
        let pair = |(key, values): (&&str, &Vec<&Value>)| {
            format!("{}: {}", quote(key), value(key, values))
        };
        keys.iter().map(pair).collect::<Vec<_>>().join(", ")
    };
    let objects: Vec<_> = objects
        .iter()
        .map(|(name, found)| format!("  {}: {{{}}}", quote(name), keys(found)))
        .collect();
    match objects.is_empty() {
        true => String::new(),
        false => format!("this would have allowed them:\n{{\n{}\n}}\n", objects.join(",\n")),
    }
}

/// The day that it is.
pub(crate) fn today() -> String {
    day(now())
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn day_of(entry: &Value) -> String {
    day(entry["time"].as_u64().unwrap_or(0))
}

/// The day of a time in seconds, as in ISO 8601, UTC.
fn day(time: u64) -> String {
    // Years begin in March here, so that a leap day is the last of one: of each 400 years, 146 097 days.
    let days = time / DAY + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + later)
}

/// The day that `since` means.
fn first_day(since: &OsStr) -> Result<String, Failure> {
    let text = since.to_string_lossy();
    let ago = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    if let Some(ago) = ago.and_then(|days| days.checked_mul(DAY)) {
        return Ok(day(now().saturating_sub(ago)));
    }
    let shape = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    if text.len() == 10 && text.bytes().enumerate().all(shape) && is_in_calendar(&text) {
        return Ok(text.into_owned());
    }
    Err(Failure::Usage(format!(
        "--denials takes a day such as 2026-01-31, or 7d, found '{}'",
        plain(&text)
    )))
}

/// Whether there is such a day, of the form `YYYY-MM-DD`.
fn is_in_calendar(text: &str) -> bool {
    let number = |part: &str| part.parse::<u32>().unwrap_or(0);
    let [year, month, day] = [&text[..4], &text[5..7], &text[8..]].map(number);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=last).contains(&day)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (time, expected) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_767_225_599, "2025-12-31"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(time), expected);
        }
        assert_eq!(first_day(OsStr::new("2026-01-31")).unwrap(), "2026-01-31");
        assert_eq!(first_day(OsStr::new("0d")).unwrap(), day(now()));
        assert!(first_day(OsStr::new("2024-02-29")).is_ok());
        for wrong in
            ["2026-13-01", "2026-00-10", "2026-01-00", "2026-04-31", "2026-02-29", "1900-02-29"]
        {
            assert!(first_day(OsStr::new(wrong)).is_err(), "{wrong}");
        }
        for wrong in ["", "d", "-1d", "yesterday", "2026-1-31", "2026/01/31"] {
            assert!(first_day(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn entries_are_grouped_and_become_one_policy() {
        let entry = |time: u64, path: &str, key: &str, value: Value| {
            json!({ "time": time, "program": "npm", "report": {"Filesystem": ["write", path, "seccomp"]},
                "advice": [[key, value]], "remedy": format!("to allow this: {key}") })
        };
        let entries = [
            entry(0, "/a/1", "filesystem.allowWrite", json!("/a")),
            entry(1, "/a/2\u{202e}", "filesystem.allowWrite", json!("/a")),
            entry(DAY, "/b", "filesystem.allowWrite", json!("/b\u{202e}")),
            entry(DAY, "x", "network.allowLocalBinding", json!("true")),
            entry(DAY, "true:80", "network.allowedDomains", json!("true")),
        ];
        let text = groups(&entries);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let first = "1970-01-01  npm  2 times: write \"/a/1\", write \"/a/2\\u202e\"; to allow this: filesystem.allowWrite";
        assert_eq!(lines[0], first);
        let policy = policy(&entries);
        let (_, object) = policy.split_once('\n').unwrap();
        let expected = json!({ "filesystem": {"allowWrite": ["/a", "/b\u{202e}"]},
            "network": {"allowLocalBinding": true, "allowedDomains": ["true"]} });
        assert_eq!(serde_json::from_str::<Value>(object).unwrap(), expected);
        assert!(!policy.contains('\u{202e}'));
    }
}
