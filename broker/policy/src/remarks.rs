//! What is worth saying of a policy that can be enforced, for `--check`. Each step of a launch adds its own.

use super::error::{Escaped, Origin};
use super::keys::Written;
use super::origins::{Cause, Origins, PathRule};
use rules::pattern::Pattern;
use std::path::PathBuf;

/// The lines so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Remarks {
    lines: Vec<String>,
    /// What a run is to show.
    told: Vec<String>,
    origins: Origins,
    are_wanted: bool,
    keep_origins: bool,
}

impl Remarks {
    /// For a check: they are kept.
    pub fn wanted() -> Remarks {
        Remarks { are_wanted: true, keep_origins: true, ..Remarks::default() }
    }

    /// For a run, which shows hardly any: the others are dropped.
    pub fn unwanted() -> Remarks {
        Remarks::default()
    }

    /// For a run of which the reports name rules: nothing but where these come from is kept.
    pub fn of_rules() -> Remarks {
        Remarks { keep_origins: true, ..Remarks::default() }
    }

    /// Whether looking for something to say is worth its time.
    pub fn are_wanted(&self) -> bool {
        self.are_wanted
    }

    /// Whether it is kept where rules come from.
    pub fn keep_origins(&self) -> bool {
        self.keep_origins
    }

    fn add(&mut self, kind: &str, text: &str) {
        if self.are_wanted {
            // Paths may hold anything.
            self.lines.push(format!("{kind}: {}", Escaped(text)));
        }
    }

    /// Something is likely not meant as it was written.
    pub fn warn(&mut self, text: impl AsRef<str>) {
        self.add("warning", text.as_ref());
    }

    /// Something is likely not meant, and must be known of a run too.
    pub fn tell(&mut self, text: &str) {
        match self.are_wanted {
            true => self.warn(text),
            false => self.told.push(text.to_owned()),
        }
    }

    /// What must be known of a run.
    pub fn told(&self) -> &[String] {
        &self.told
    }

    /// A key was accepted that has no effect.
    pub fn ignored(&mut self, key: &str) {
        self.add("ignored", &format!("{key} has no meaning here"));
    }

    /// What follows from the policy and could surprise.
    pub fn note(&mut self, text: impl AsRef<str>) {
        self.add("note", text.as_ref());
    }

    /// These policies were read, and say this.
    pub fn read(&mut self, files: &[PathBuf], written: &Written) {
        if self.keep_origins {
            self.origins.files = files.to_vec();
            self.origins.written = written.clone();
        }
    }

    /// A rule for paths was written here.
    pub fn rule(&mut self, list: &'static str, pattern: &Pattern, origin: &Origin) {
        if self.keep_origins {
            let (pattern, cause) = (pattern.clone(), Cause::Written(origin.clone()));
            self.origins.paths.push(PathRule { list, pattern, cause });
        }
    }

    /// A rule for paths was added for this reason.
    pub fn own_rule(&mut self, list: &'static str, pattern: &Pattern, why: &'static str) {
        if self.keep_origins {
            let (pattern, cause) = (pattern.clone(), Cause::Own(why));
            self.origins.paths.push(PathRule { list, pattern, cause });
        }
    }

    /// What a lone `*` stands for is in this directory.
    pub fn star(&mut self, directory: PathBuf) {
        self.origins.stars.push(directory);
    }

    /// Where the rules come from.
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// All of them, in the order in which they were added.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}
