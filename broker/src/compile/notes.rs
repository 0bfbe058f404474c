//! What compiling a policy finds that people may want to know. It decides nothing.

use crate::rules::pattern::Pattern;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Whether looking for something to say is worth its time.
    pub(crate) are_wanted: bool,
    /// Whether it is to be known where rules come from.
    pub(crate) keeps_rules: bool,
    pub(crate) lines: Vec<Note>,
    pub(crate) rules: Vec<OwnRule>,
}

/// Something to say.
#[derive(Debug)]
pub(crate) enum Note {
    /// It is likely not meant.
    Warning(String),
    /// It could surprise.
    Remark(String),
}

/// A rule for paths that nobody wrote.
#[derive(Debug)]
pub(crate) struct OwnRule {
    /// The key that it belongs to.
    pub(crate) list: &'static str,
    pub(crate) pattern: Pattern,
    pub(crate) why: &'static str,
}

impl Notes {
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        if self.are_wanted {
            self.lines.push(Note::Warning(text.into()));
        }
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        if self.are_wanted {
            self.lines.push(Note::Remark(text.into()));
        }
    }

    pub(crate) fn own_rule(&mut self, list: &'static str, pattern: &Pattern, why: &'static str) {
        if self.keeps_rules {
            self.rules.push(OwnRule { list, pattern: pattern.clone(), why });
        }
    }
}
