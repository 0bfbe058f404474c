//! The other end of `--ask`: what a program does that answers for people.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long is waited for a line that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// The questions of one sandbox.
#[derive(Debug)]
pub struct Questions {
    stream: BufReader<UnixStream>,
}

impl Questions {
    pub(crate) fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE * crate::slowness())).expect("a time limit");
        Self { stream: BufReader::new(stream) }
    }

    /// The next line; none once landstrip has ended.
    #[track_caller]
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        let length = self.stream.read_line(&mut line).expect("a line in time");
        let parse = || serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        (length > 0).then(parse)
    }

    /// The next line, which asks about this file operation and path; its number.
    #[track_caller]
    pub fn expect(&mut self, operation: &str, path: &str) -> u64 {
        let line = self.line().expect("a question");
        let report = &line["report"]["Filesystem"];
        assert_eq!((&report[0], &report[1]), (&json!(operation), &json!(path)), "{line}");
        number(&line)
    }

    /// The next line, which asks about this host and port, with this rule; its number.
    #[track_caller]
    pub fn expect_host(&mut self, target: &str, rule: &str) -> u64 {
        number(&self.line_about_host(target, rule))
    }

    /// The same line as it is.
    #[track_caller]
    pub fn line_about_host(&mut self, target: &str, rule: &str) -> Value {
        let line = self.line().expect("a question");
        assert_eq!(line["report"], json!({ "Network": ["connect", target, "proxy"] }), "{line}");
        assert_eq!(line["advice"], json!(["network.allowedDomains", rule]), "{line}");
        line
    }

    /// Asserts what comes next.
    #[track_caller]
    pub fn then(&mut self, expected: &Value) {
        assert_eq!(self.line().as_ref(), Some(expected));
    }

    /// Asserts that question `number` is settled next, and how.
    #[track_caller]
    pub fn settled(&mut self, number: u64, by: &str) {
        self.then(&json!({ "settled": number, "by": by }));
    }

    /// Says something.
    pub fn say(&mut self, line: &Value) {
        self.send(format!("{line}\n").as_bytes());
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        // Who is gone hears nothing.
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Answers a question.
    pub fn answer(&mut self, number: u64, answer: &str) {
        self.say(&json!({ "ask": number, "answer": answer }));
    }

    /// Answers it, and expects that to be heard.
    #[track_caller]
    pub fn settle(&mut self, number: u64, answer: &str) {
        self.answer(number, answer);
        self.settled(number, "answered");
    }

    /// Closes the channel.
    pub fn close(&self) {
        let _ = self.stream.get_ref().shutdown(Shutdown::Both);
    }
}

#[track_caller]
fn number(line: &Value) -> u64 {
    line["ask"].as_u64().unwrap_or_else(|| panic!("no question: {line}"))
}
