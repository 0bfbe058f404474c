//! The lines of the protocol: one JSON object each (landstrip(1), Asking). Pure.

use super::{Answer, End, Question, Said};
use crate::reports::lines::{denial_line, quoted as string};
use landstrip_core::ask::Rule;
use serde_json::Value;

/// Longest line, both ways.
pub(super) const LINE_MAX: usize = 64 * 1024;
/// Most arguments that are shown, and of each.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_MAX: usize = 256;

/// A question; without what the process tells of itself if it would be too long. None if it is too long all the same.
pub(super) fn question(question: &Question<'_>) -> Option<String> {
    let all = written(question, true);
    let fits = |line: &String| line.len() <= LINE_MAX;
    Some(all).filter(fits).or_else(|| Some(written(question, false)).filter(fits))
}

fn written(question: &Question<'_>, with_details: bool) -> String {
    let Question { number, denial, rule, lasts, asker } = question;
    let report = denial_line(denial);
    let program = asker.program.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let (arguments, directory) = match with_details {
        true => (&*asker.arguments, &*asker.directory),
        false => Default::default(),
    };
    let cut = |text: &Vec<u8>| string(&text[..text.len().min(ARGUMENT_MAX)]);
    let arguments: Vec<_> = arguments.iter().take(ARGUMENTS_MAX).map(cut).collect();
    format!(
        "{{\"ask\":{number},\"report\":{},\"advice\":[{}],\"program\":{},\"pid\":{},\"arguments\":[{}],\
         \"directory\":{}{}}}\n",
        report.trim_end(),
        pair(rule),
        string(program),
        asker.process,
        arguments.join(","),
        string(directory),
        if *lasts { "" } else { ",\"lasts\":false" },
    )
}

/// How a question came to its end.
pub(super) fn settled(number: u64, end: End) -> String {
    let by = match end {
        End::Answered => "answered",
        End::Gone => "gone",
        End::Time => "time",
        End::Closed => "closed",
    };
    format!("{{\"settled\":{number},\"by\":\"{by}\"}}\n")
}

/// What became of a rule.
pub(super) fn granted(rule: &Rule, outcome: Result<Option<&str>, String>) -> String {
    let (kind, more) = match outcome {
        Ok(more) => ("granted", more.map(str::to_owned)),
        Err(why) => ("refused", Some(why)),
    };
    let more = more.map(|text| format!(",{}", string(text.as_bytes()))).unwrap_or_default();
    format!("{{\"{kind}\":[{}{more}]}}\n", pair(rule))
}

/// What is answered to a line that cannot be followed.
pub(super) fn not_understood(why: &str) -> String {
    format!("{{\"refused\":[{}]}}\n", string(why.as_bytes()))
}

fn pair(rule: &Rule) -> String {
    format!("{},{}", string(rule.key.as_bytes()), string(rule.value.as_bytes()))
}

/// What a line of the other side's says.
///
/// # Errors
/// Returns what is wrong with it.
pub(super) fn parse(line: &[u8]) -> Result<Said, &'static str> {
    const EXPECTED: &str =
        "expected {\"ask\":N,\"answer\":\"once\", \"run\" or \"deny\"} or {\"grant\":[KEY,VALUE]}";
    let said: Value = serde_json::from_slice(line).map_err(|_| "not a line of JSON")?;
    let rule = |value: &Value| match value.as_array().map(Vec::as_slice) {
        Some([Value::String(key), Value::String(value)]) => {
            Ok(Rule { key: key.clone(), value: value.clone() })
        }
        _ => Err("a rule is an array of two strings: the key and the value"),
    };
    if let Some(value) = said.get("grant") {
        return rule(value).map(Said::Grant);
    }
    let number = said.get("ask").and_then(Value::as_u64).ok_or(EXPECTED)?;
    let answer = match said.get("answer").and_then(Value::as_str) {
        Some("once") => Answer::Once,
        Some("run") => Answer::Run(said.get("rule").map(rule).transpose()?),
        Some("deny") => Answer::Deny,
        _ => return Err(EXPECTED),
    };
    Ok(Said::Answer(number, answer))
}

#[cfg(test)]
mod tests {
    use super::super::Asker;
    use super::*;
    use common::trap::FileOperation;
    use landstrip_core::report::denials::Denial;
    use std::path::Path;

    fn asked(path: &str, asker: &Asker) -> Option<String> {
        let denial = Denial::file(FileOperation::Write, Path::new(path));
        let rule = Rule { key: "filesystem.allowWrite".to_owned(), value: "~/.npm".to_owned() };
        question(&Question { number: 7, denial: &denial, rule: &rule, lasts: true, asker })
    }

    #[test]
    fn a_question_is_one_line_of_json_whatever_it_holds() {
        let hostile = "\"}\n{\"ask\":8}\u{202e}\u{1b}[2J";
        let asker = Asker {
            program: format!("/bin/{hostile}").into_bytes(),
            process: 4711,
            arguments: vec![hostile.as_bytes().to_vec(), vec![0xff; 1000]],
            directory: hostile.as_bytes().to_vec(),
        };
        let line = asked(&format!("/{hostile}"), &asker).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains(['\u{202e}', '\u{1b}']), "{line}");
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["ask"], &value["pid"]), (&7.into(), &4711.into()));
        assert_eq!(value["report"]["Filesystem"][1], format!("/{hostile}"));
        assert_eq!(value["advice"][1], "~/.npm");
        assert_eq!(value["arguments"][0], hostile);
        assert_eq!(value["directory"], hostile);
    }

    #[test]
    fn a_line_has_an_end() {
        let long = vec![1; 4096];
        let arguments = vec![long.clone(); 100];
        let asker = Asker { program: long.clone(), process: 1, arguments, directory: long.clone() };
        let path = "\u{1}".repeat(4095);
        let line = asked(&path, &asker).unwrap();
        assert!(line.len() <= LINE_MAX, "{}", line.len());
        assert_eq!(asked(&"\u{1}".repeat(11_000), &asker), None);
    }

    #[test]
    fn what_is_answered_is_understood_or_said_to_be_wrong() {
        let rule = || Rule { key: "a.b".to_owned(), value: "c".to_owned() };
        for (line, expected) in [
            (r#"{"ask":1,"answer":"once"}"#, Ok(Said::Answer(1, Answer::Once))),
            (r#"{"ask":1,"answer":"run"}"#, Ok(Said::Answer(1, Answer::Run(None)))),
            (
                r#"{"ask":1,"answer":"run","rule":["a.b","c"]}"#,
                Ok(Said::Answer(1, Answer::Run(Some(rule())))),
            ),
            (r#"{"answer":"deny","ask":3}"#, Ok(Said::Answer(3, Answer::Deny))),
            (r#"{"grant":["a.b","c"]}"#, Ok(Said::Grant(rule()))),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        }
        for line in [
            "",
            "{",
            "[]",
            r#"{"ask":"1","answer":"once"}"#,
            r#"{"ask":-1,"answer":"once"}"#,
            r#"{"ask":1,"answer":"yes"}"#,
            r#"{"ask":1,"answer":"run","rule":["a.b"]}"#,
            r#"{"ask":1,"answer":"run","rule":"a.b"}"#,
            r#"{"grant":["a.b",1]}"#,
            r#"{"ask":1,"answer":"once"}{"ask":2,"answer":"once"}"#,
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
