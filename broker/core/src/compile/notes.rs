//! What compiling a policy finds that people may want to know. It decides nothing.

use rules::pattern::Pattern;

/// What was found.
#[derive(Debug, Default)]
pub struct Notes {
    /// Whether looking for something to say is worth its time.
    pub are_wanted: bool,
    /// Whether it is to be known where rules come from.
    pub keeps_rules: bool,
    pub lines: Vec<Note>,
    pub rules: Vec<OwnRule>,
}

/// Something to say.
#[derive(Debug)]
pub enum Note {
    /// It is likely not meant.
    Warning(String),
    /// It could surprise.
    Remark(String),
}

/// A rule for paths that nobody wrote.
#[derive(Debug)]
pub struct OwnRule {
    /// The key that it belongs to.
    pub list: &'static str,
    pub pattern: Pattern,
    pub why: &'static str,
}

impl Notes {
    pub fn warn(&mut self, text: impl Into<String>) {
        if self.are_wanted {
            self.lines.push(Note::Warning(text.into()));
        }
    }

    pub fn note(&mut self, text: impl Into<String>) {
        if self.are_wanted {
            self.lines.push(Note::Remark(text.into()));
        }
    }

    pub fn own_rule(&mut self, list: &'static str, pattern: &Pattern, why: &'static str) {
        if self.keeps_rules {
            self.rules.push(OwnRule { list, pattern: pattern.clone(), why });
        }
    }
}
