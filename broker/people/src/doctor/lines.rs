//! How the doctor's words look: lines for people, or an object of JSON a line, its kind as the only key.

use super::attempt::Attempt;
use super::platform::{Finding, State};
use crate::cli::Form;
use crate::explain::page::Style;
use serde_json::json;
use std::fmt::Write as _;

/// What was found of the platform.
pub fn findings(findings: &[Finding], form: Form, style: Style) -> String {
    let mut text = String::new();
    if form == Form::Text {
        let _ = writeln!(text, "{}", style.bold("this host"));
    }
    for Finding { what, found, state, advice } in findings {
        if form == Form::Json {
            let state = state.word();
            let object = json!({"what": what, "found": found, "state": state, "advice": advice});
            let _ = writeln!(text, "{}", json!({ "Platform": object }));
            continue;
        }
        let word = match state {
            State::Missing => style.bad(state.word()),
            _ => style.good(state.word()),
        };
        let _ = writeln!(text, "  {word}  {what}: {found}");
        if let Some(advice) = advice {
            let _ = writeln!(text, "        {advice}");
        }
    }
    text
}

/// What goes before the attempts.
pub fn heading(count: usize, form: Form, style: Style) -> String {
    match form {
        Form::Json => String::new(),
        Form::Text => {
            let what = format!("{count} attempts inside a sandbox with this policy");
            format!("{}\n", style.bold(&what))
        }
    }
}

/// What there is to say if no sandbox can be made.
pub fn nothing_runs(form: Form, style: Style) -> String {
    match form {
        Form::Json => format!("{}\n", json!({"Doctor": { "holds": false }})),
        Form::Text => format!("{}\n", style.bad("no tool would run with this policy")),
    }
}

/// What came of it all. `taken` are attempts that arrived outside, whatever was said inside.
pub fn conclusion(
    holds: bool,
    status: i32,
    taken: &[&Attempt],
    form: Form,
    style: Style,
) -> String {
    let mut text = String::new();
    for Attempt { act, object, .. } in taken {
        let what = format!("{} {object}", act.word());
        let _ = match form {
            Form::Json => writeln!(text, "{}", json!({"Reached": { "what": what }})),
            Form::Text => writeln!(text, "  {}  seen from outside: {what}", style.bad("FAILS")),
        };
    }
    let said = match (holds, status) {
        (true, _) => style.good("everything holds"),
        (false, 0 | 1) => style.bad("something does not hold"),
        (false, _) => style.bad(&format!("the attempts did not end: status {status}")),
    };
    let _ = match form {
        Form::Json => writeln!(text, "{}", json!({"Doctor": { "holds": holds }})),
        Form::Text => writeln!(text, "{said}"),
    };
    text
}
