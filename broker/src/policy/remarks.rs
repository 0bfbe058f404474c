//! What is worth saying of a policy that can be enforced, for `--check`. Each step of a launch adds its own.

/// The lines so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Remarks {
    lines: Vec<String>,
    are_wanted: bool,
}

impl Remarks {
    /// For a check: they are kept.
    pub(crate) fn wanted() -> Remarks {
        Remarks { lines: Vec::new(), are_wanted: true }
    }

    /// For a run, which shows none: they are dropped.
    pub(crate) fn unwanted() -> Remarks {
        Remarks::default()
    }

    /// Whether looking for something to say is worth its time.
    pub(crate) fn are_wanted(&self) -> bool {
        self.are_wanted
    }

    fn add(&mut self, kind: &str, text: &str) {
        if self.are_wanted {
            self.lines.push(format!("{kind}: {text}"));
        }
    }

    /// Something is likely not meant as it was written.
    pub(crate) fn warn(&mut self, text: impl AsRef<str>) {
        self.add("warning", text.as_ref());
    }

    /// A key was accepted that has no effect.
    pub(crate) fn ignored(&mut self, key: &str) {
        self.add("ignored", &format!("{key} has no meaning here"));
    }

    /// What follows from the policy and could surprise.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        self.add("note", text.as_ref());
    }

    /// All of them, in the order in which they were added.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}
