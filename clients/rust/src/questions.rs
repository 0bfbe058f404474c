//! What landstrip says of a policy without running anything, and what a command would need.

use crate::command::Command;
use crate::process::Output;
use crate::report::{Denial, EndedBy, Failure, Rule, asked, failure, rule};
use serde_json::Value;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

/// Whether a policy is right and can be enforced, and what there is to say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is wrong; nothing, if it can be enforced.
    pub error: Option<Failure>,
    /// What there is to say of it.
    pub remarks: Vec<String>,
}

/// A denial of a run whose policy has `report.keep`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// When the run ended.
    pub time: SystemTime,
    /// The program.
    pub program: String,
    /// The working directory of the run.
    pub directory: PathBuf,
    /// What was refused.
    pub denial: Denial,
    /// Rules that would have let it through, where that is known to be harmless.
    pub advice: Vec<Rule>,
}

fn kept(line: &str) -> Option<Kept> {
    let entry: Value = serde_json::from_str(line).ok()?;
    Some(Kept {
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(entry["time"].as_u64()?),
        program: entry["program"].as_str()?.to_owned(),
        directory: entry["directory"].as_str()?.into(),
        denial: asked(&entry["report"])?,
        advice: entry["advice"].as_array()?.iter().filter_map(rule).collect(),
    })
}

/// What became of a command that ran to be learned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// What became of it.
    pub output: Output,
    /// The file for the policy.
    pub file: PathBuf,
    /// The policy in it, unless landstrip wrote none, as where the file exists: it is never overwritten.
    pub text: Option<String>,
}

impl Command {
    /// What landstrip itself says; the command is not run.
    fn ask<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
    ) -> io::Result<(String, Option<Failure>)> {
        let mut launch = self.launch()?;
        launch.command.args(words).stdin(Stdio::null());
        launch.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let said = launch.start()?.wait_with_output()?;
        let told = String::from_utf8_lossy(&said.stderr);
        let error = (!said.status.success()).then(|| {
            let report = told.lines().find(|line| line.starts_with('{'));
            let report = report.and_then(|line| serde_json::from_str::<Value>(line).ok());
            let other = || Failure { message: told.trim().into(), ..Failure::default() };
            report.as_ref().and_then(failure).unwrap_or_else(other)
        });
        Ok((String::from_utf8_lossy(&said.stdout).into_owned(), error))
    }

    /// Whether the policies are right and can be enforced. The command is not run.
    ///
    /// # Errors
    ///
    /// If the launcher cannot be started.
    pub fn check(&self) -> io::Result<Check> {
        let (text, error) = self.ask(["--check"])?;
        let mut remarks: Vec<String> = text.lines().map(str::to_owned).collect();
        // By the last line it says that all is well.
        remarks.pop();
        Ok(Check { remarks: if error.is_some() { Vec::new() } else { remarks }, error })
    }

    /// What would be enforced, or which rule decides about each path, host:port or socket: landstrip(1), --explain=json.
    /// The command is not run.
    ///
    /// # Errors
    ///
    /// If the launcher cannot be started, or the policy cannot be explained.
    pub fn explain<S: AsRef<OsStr>>(
        &self,
        questions: impl IntoIterator<Item = S>,
    ) -> io::Result<Value> {
        let questions: Vec<S> = questions.into_iter().collect();
        let words = ["--explain=json", "--"].map(OsStr::new).into_iter();
        let (text, error) = self.ask(words.chain(questions.iter().map(AsRef::as_ref)))?;
        match error {
            Some(error) => Err(io::Error::other(error.message)),
            None => Ok(serde_json::from_str(&text)?),
        }
    }

    /// What runs of this user were refused, oldest first: of the last days (`7d`), or since a day (`2026-11-01`), if `since`
    /// says so. The command is not run, and its policies say nothing about that.
    ///
    /// # Errors
    ///
    /// If the launcher cannot be started, or `since` is no day.
    pub fn denials(&self, since: Option<&str>) -> io::Result<Vec<Kept>> {
        let (text, error) = self.ask(std::iter::once("--denials=json").chain(since))?;
        match error {
            Some(error) => Err(io::Error::other(error.message)),
            None => Ok(text.lines().filter_map(kept).collect()),
        }
    }

    /// Runs the command with everything permitted that no rule denies, and writes the policy that it needs to a new file,
    /// .yaml or .json. It adds to the policy of the run, which is a preset or a file then.
    ///
    /// # Errors
    ///
    /// If the launcher cannot be started, or what it wrote cannot be read.
    pub fn learn(mut self, file: impl AsRef<Path>) -> io::Result<Learned> {
        let directory = self.directory.clone().unwrap_or_default();
        let file = std::path::absolute(directory.join(&file))?;
        self.more = vec!["--learn".into(), file.clone().into()];
        let output = self.output()?;
        // Otherwise nothing was written, and what is there was there before.
        let outcome = &output.outcome;
        let is_written = outcome.error.is_none() && outcome.ended_by == EndedBy::Tool;
        let text = is_written.then(|| std::fs::read_to_string(&file)).transpose()?;
        Ok(Learned { output, file, text })
    }
}
