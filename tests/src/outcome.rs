//! What came of a command, and the sentences that tests say about it.

use crate::ESCAPED;
use serde_json::Value;

/// The errnos with which a sandbox may refuse. ENOENT, EINVAL and the like are not among them: an
/// attack that fails with those was probably misspelt.
const REFUSALS: [&str; 10] = [
    "EPERM",
    "EACCES",
    "EROFS",
    "EXDEV",
    "ENOSYS",
    "ENOPROTOOPT",
    "EOPNOTSUPP",
    "EAFNOSUPPORT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
];

/// A command that has ended.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub command: String,
    /// The exit status, if it exited.
    pub status: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error, reports included.
    pub stderr: String,
    /// The JSON lines of standard error.
    pub reports: Vec<Value>,
    /// The denials written to the trap descriptor, with [`crate::Sandbox::trap`].
    pub traps: Vec<Value>,
    /// The JSON lines there that come at the end: `Advice`, `DeniedBy`, `Exit`.
    pub endings: Vec<Value>,
}

impl Outcome {
    /// Parses the JSON lines of a stream: those that start with a brace.
    ///
    /// # Panics
    ///
    /// If such a line is not one JSON object with a single key.
    pub(crate) fn json_lines(text: &str) -> Vec<Value> {
        let parse = |line: &str| {
            let value: Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("not JSON: {error}: {line:?}"));
            let keys = value.as_object().map(serde_json::Map::len);
            assert_eq!(keys, Some(1), "a report has one key, its kind: {line}");
            value
        };
        text.lines().filter(|line| line.starts_with('{')).map(parse).collect()
    }

    /// Asserts exit status 0.
    #[track_caller]
    pub fn succeeds(&self) -> &Self {
        self.exits(0)
    }

    /// Asserts an exit status.
    #[track_caller]
    pub fn exits(&self, status: i32) -> &Self {
        assert_eq!(self.status, Some(status), "{self:#?}");
        self
    }

    /// Asserts that the command itself failed, not landstrip.
    #[track_caller]
    pub fn fails(&self) -> &Self {
        let status = self.status.unwrap_or_else(|| panic!("killed: {self:#?}"));
        assert!(status != 0, "{ESCAPED}{self:#?}");
        assert!(![101, 134].contains(&status), "{self:#?}");
        for kind in ["Usage", "Internal", "Launch"] {
            assert!(self.reports_of(kind).is_empty(), "landstrip failed: {self:#?}");
        }
        self
    }

    /// The value that the probe printed for `name`.
    ///
    /// # Panics
    ///
    /// If it printed none: an attack that was not made is not an attack that was refused.
    #[track_caller]
    pub fn result(&self, name: &str) -> &str {
        self.results()
            .find(|(found, _)| *found == name)
            .unwrap_or_else(|| panic!("no result named {name}: {self:#?}"))
            .1
    }

    /// All results of the probe.
    pub fn results(&self) -> impl Iterator<Item = (&str, &str)> {
        self.stdout.lines().filter_map(|line| line.split_once('='))
    }

    /// Asserts that the probe's call `name` worked.
    #[track_caller]
    pub fn allowed(&self, name: &str) -> &Self {
        assert_eq!(self.result(name), "OK", "{name} should work: {self:#?}");
        self
    }

    /// Asserts that the probe's call `name` was refused, with an errno that means it.
    #[track_caller]
    pub fn refused(&self, name: &str) -> &Self {
        self.is_refusal(name, self.result(name));
        self
    }

    /// Asserts that a result is one with which a sandbox refuses.
    #[track_caller]
    pub fn is_refusal(&self, name: &str, result: &str) {
        assert!(
            REFUSALS.contains(&result),
            "{ESCAPED}{name} should be refused, not {result}: {self:#?}"
        );
    }

    /// Asserts that the probe's call `name` failed with this errno.
    #[track_caller]
    pub fn refused_with(&self, name: &str, errno: &str) -> &Self {
        assert_eq!(self.result(name), errno, "{ESCAPED}{name}: {self:#?}");
        self
    }

    /// Asserts that all calls of the probe were refused.
    #[track_caller]
    pub fn all_refused(&self) -> &Self {
        self.succeeds();
        assert!(self.results().next().is_some(), "no results: {self:#?}");
        for (name, result) in self.results() {
            self.is_refusal(name, result);
        }
        self
    }

    /// Asserts that all calls of the probe worked.
    #[track_caller]
    pub fn all_allowed(&self) -> &Self {
        self.succeeds();
        assert!(self.results().next().is_some(), "no results: {self:#?}");
        // Each, not the first of each name.
        for (name, result) in self.results() {
            assert_eq!(result, "OK", "{name} should work: {self:#?}");
        }
        self
    }

    /// The payloads of the reports of one kind on standard error.
    pub fn reports_of(&self, kind: &str) -> Vec<&Value> {
        self.reports.iter().filter_map(|report| report.get(kind)).collect()
    }

    /// Asserts that landstrip failed with `status` and exactly one JSON line of `kind` that
    /// mentions `text`.
    #[track_caller]
    pub fn is_error(&self, status: i32, kind: &str, text: &str) -> &Self {
        self.exits(status);
        assert_eq!(self.reports.len(), 1, "one report: {self:#?}");
        assert_eq!(self.stderr.lines().count(), 1, "one line: {self:#?}");
        let report = self.reports[0].get(kind);
        let report = report.unwrap_or_else(|| panic!("{kind} expected: {self:#?}"));
        let found = report.to_string().to_lowercase();
        assert!(found.contains(&text.to_lowercase()), "{text:?} in {self:#?}");
        self
    }
}
