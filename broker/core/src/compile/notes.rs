//! What compiling a policy finds that people may want to know. It decides nothing.

use rules::pattern::Pattern;

/// What was found.
#[derive(Debug, Default)]
pub struct Notes {
    /// Whether looking for something to say is worth its time.
    pub are_wanted: bool,
    /// Whether it is to be known where rules come from.
    pub keeps_rules: bool,
    /// What is likely not meant.
    pub warnings: Vec<String>,
    /// The rules for paths that nobody wrote: the key, the rule, and why.
    pub rules: Vec<(&'static str, Pattern, &'static str)>,
}

impl Notes {
    pub fn warn(&mut self, text: impl Into<String>) {
        if self.are_wanted {
            self.warnings.push(text.into());
        }
    }

    pub fn own_rule(&mut self, list: &'static str, pattern: &Pattern, why: &'static str) {
        if self.keeps_rules {
            self.rules.push((list, pattern.clone(), why));
        }
    }
}
