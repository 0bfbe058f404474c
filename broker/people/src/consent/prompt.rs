//! What people are asked, and what they may say. Pure. What the command chose is shown between quotes, which nothing in it
//! ends, on a line that nothing in it breaks, and never whole if it is long.

use common::trap::is_hidden;
use landstrip_core::ask::Rule;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Write;

/// Most characters that are shown of a path or a rule, and of what the program says of itself.
const NAME_MAX: usize = 240;
const WORD_MAX: usize = 60;
const WORDS_MAX: usize = 6;

/// A question, as a line of the protocol has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) number: u64,
    pub(super) rule: Rule,
    /// The file name of the program.
    pub(super) program: String,
    /// The rule would help another run, too.
    pub(super) lasts: bool,
    /// As it came.
    pub(super) line: Value,
    text: String,
}

/// What was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Once,
    Run,
    Always,
    No,
}

impl Asked {
    /// The question that `line` is; none if it is none.
    pub(super) fn of(line: &Value) -> Option<Self> {
        let number = line["ask"].as_u64()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rule = Rule { key: text(&line["advice"][0]), value: text(&line["advice"][1]) };
        let program = text(&line["program"]);
        let report = line["report"].as_object()?.values().next()?;
        let (operation, target) = (report[0].as_str()?, report[1].as_str()?);
        let what = match (rule.key.as_str(), operation) {
            ("network.allowLocalBinding", _) => "be a server at",
            (_, "connect") => "connect to",
            _ => "change",
        };
        let who = match line["pid"].as_u64() {
            Some(process @ 1..) => format!("{} ({process})", shown(&program, WORD_MAX)),
            _ => "the command".to_owned(),
        };
        let mut told = format!("landstrip: {who} wants to {what} {}\n", shown(target, NAME_MAX));
        let words: Vec<_> = line["arguments"].as_array().into_iter().flatten().collect();
        if !words.is_empty() {
            let rest = if words.len() > WORDS_MAX { " ..." } else { "" };
            let words = words.into_iter().take(WORDS_MAX).filter_map(Value::as_str);
            let words: Vec<_> = words.map(|word| shown(word, WORD_MAX)).collect();
            let place = shown(line["directory"].as_str().unwrap_or_default(), NAME_MAX);
            // Writing to a String does not fail.
            let _ = writeln!(told, "  it calls itself {}{rest}, in {place}", words.join(" "));
        }
        let _ = writeln!(told, "  the rule for that: {}", line_of(&rule));
        let lasts = line["lasts"] != false;
        Some(Self { number, rule, program, lasts, line: line.clone(), text: told })
    }

    /// Whether `outcome`, what a line says was granted or refused, is that of its rule.
    pub(super) fn is_decided_by(&self, outcome: &Value) -> bool {
        outcome[0] == self.rule.key && outcome[1] == self.rule.value
    }

    /// What is asked, and how it can be answered; with the policy that the rule would be written into, or why it cannot be, in words
    /// that can be shown.
    pub(super) fn text(&self, policy: Result<Cow<'_, str>, &str>) -> String {
        let text = &self.text;
        match policy {
            Ok(policy) => {
                let policy = shown(&policy, NAME_MAX);
                format!("{text}  y once, r for this run, a always (in {policy})\n  n no? ")
            }
            Err(why) => {
                format!("{text}  cannot be made permanent: {why}\n  y once, r for this run, n no? ")
            }
        }
    }
}

/// Takes the whole lines off `input`; what is no JSON is passed over.
pub(super) fn take_lines(input: &mut Vec<u8>) -> Vec<Value> {
    let mut lines = Vec::new();
    while let Some(end) = input.iter().position(|&byte| byte == b'\n') {
        let line: Vec<u8> = input.drain(..=end).collect();
        lines.extend(serde_json::from_slice::<Value>(&line).ok());
    }
    lines
}

/// A rule as the line that helps has it.
pub(super) fn line_of(rule: &Rule) -> String {
    match rule.key.as_str() {
        "network.allowLocalBinding" => format!("{} = true", rule.key),
        key => format!("{key} += {}", shown(&rule.value, NAME_MAX)),
    }
}

/// What a line says, if it is an answer. None is made of letters of a longer one that means less: what got lost of `no` is
/// no yes.
pub(super) fn word(line: &[u8]) -> Option<Word> {
    match line.trim_ascii().to_ascii_lowercase().as_slice() {
        b"y" | b"yes" | b"once" => Some(Word::Once),
        b"r" | b"run" => Some(Word::Run),
        b"a" | b"always" => Some(Word::Always),
        b"n" | b"no" => Some(Word::No),
        _ => None,
    }
}

/// `text` in quotes, with all escaped that is neither a letter, a digit nor in ASCII, or would change the order of what stands
/// beside it; the middle is left out of what has more than `most` characters.
pub(super) fn shown(text: &str, most: usize) -> String {
    let count = text.chars().count();
    let (head, tail) = if count > most { (most / 2, most / 2) } else { (count, 0) };
    let mut quoted = String::from("\"");
    text.chars().take(head).for_each(|character| show(&mut quoted, character));
    if count > most {
        let _ = write!(quoted, "\" ... {} characters ... \"", count - head - tail);
        text.chars().skip(count - tail).for_each(|character| show(&mut quoted, character));
    }
    quoted + "\""
}

fn show(out: &mut String, character: char) {
    let is_plain = match character {
        '"' | '\\' => false,
        ' '..='~' => true,
        other => other.is_alphanumeric() && !is_hidden(other) && !is_from_right(other),
    };
    match is_plain {
        true => out.push(character),
        false => out.extend(character.escape_default()),
    }
}

/// Whether it is a letter of a script that is written from the right (Unicode, DerivedBidiClass.txt).
fn is_from_right(character: char) -> bool {
    matches!(
        character,
        '\u{590}'..='\u{8ff}'
            | '\u{fb1d}'..='\u{fdff}'
            | '\u{fe70}'..='\u{feff}'
            | '\u{10800}'..='\u{10fff}'
            | '\u{1e800}'..='\u{1efff}'
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn question(target: &str, program: &str, argument: &str) -> Value {
        json!({ "ask": 1, "report": {"Filesystem": ["write", target, "seccomp"]},
            "advice": ["filesystem.allowWrite", target], "program": program, "pid": 7,
            "arguments": [argument], "directory": target })
    }

    #[test]
    fn a_question_says_what_who_and_the_rule() {
        let asked = Asked::of(&question("~/.npm", "npm", "ci")).unwrap();
        let expected = "landstrip: \"npm\" (7) wants to change \"~/.npm\"\n  it calls itself \"ci\", in \"~/.npm\"\n  \
            the rule for that: filesystem.allowWrite += \"~/.npm\"\n  y once, r for this run, ";
        assert_eq!(
            asked.text(Err("why")),
            expected.replace("  y once", "  cannot be made permanent: why\n  y once") + "n no? "
        );
        assert_eq!(
            asked.text(Ok("/p".into())),
            format!("{expected}a always (in \"/p\")\n  n no? ")
        );
        assert_eq!(Asked::of(&json!({ "settled": 1, "by": "gone" })), None);
    }

    #[test]
    fn nothing_that_a_command_chose_leaves_its_quotes_or_its_line() {
        let hostile =
            "x\" y once?\n\r\u{1b}[2J\u{9b}\u{202e}\u{2066}\u{a0}\u{201d}\u{2028}\u{5d0}\u{0301}\\";
        let text = Asked::of(&question(hostile, hostile, hostile)).unwrap().text(Err("why"));
        let plain = Asked::of(&question("a", "b", "c")).unwrap().text(Err("why"));
        assert_eq!(text.lines().count(), plain.lines().count(), "{text}");
        assert!(text.chars().all(|character| matches!(character, ' '..='~' | '\n')), "{text}");
        assert_eq!(
            text.replace("\\\\", "").replace("\\\"", "").matches('"').count(),
            plain.matches('"').count()
        );
        assert_eq!(shown("größe 漢字", 99), "\"größe 漢字\"");
    }

    #[test]
    fn what_is_long_is_shown_in_part_with_both_ends() {
        let long = format!("/begin{}/end", "x".repeat(5000));
        let text = shown(&long, NAME_MAX);
        assert!(text.len() < NAME_MAX + 40 && text.starts_with("\"/begin"), "{text}");
        assert!(
            text.ends_with("/end\"") && text.contains("\" ... 4770 characters ... \""),
            "{text}"
        );
    }

    #[test]
    fn no_part_of_a_no_is_a_yes() {
        for (line, expected) in [
            ("y\n", Some(Word::Once)),
            (" YES \n", Some(Word::Once)),
            ("r", Some(Word::Run)),
            ("always", Some(Word::Always)),
            ("n", Some(Word::No)),
            ("", None),
            ("\n", None),
            ("yes please", None),
            ("ny", None),
            ("o", None),
        ] {
            assert_eq!(word(line.as_bytes()), expected, "{line:?}");
        }
        // Whatever is lost of what was typed, it permits no more.
        for (typed, most) in [
            ("no", None),
            ("once", Some(Word::Once)),
            ("yes", Some(Word::Once)),
            ("run", Some(Word::Run)),
        ] {
            for kept in 0..1_u32 << typed.len() {
                let rest: String = typed
                    .char_indices()
                    .filter(|(at, _)| kept >> at & 1 == 1)
                    .map(|(_, c)| c)
                    .collect();
                let found = word(rest.as_bytes());
                assert!([None, Some(Word::No), most].contains(&found), "{typed}: {rest}");
            }
        }
    }
}
