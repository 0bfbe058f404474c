//! What is worth saying of a policy that can be enforced, for `--check`. Each step of a launch adds its own.

/// The lines so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Remarks(Vec<String>);

impl Remarks {
    /// Something is likely not meant as it was written.
    pub(crate) fn warn(&mut self, text: impl AsRef<str>) {
        self.0.push(format!("warning: {}", text.as_ref()));
    }

    /// A key was accepted that has no effect.
    pub(crate) fn ignored(&mut self, key: &str) {
        self.0.push(format!("ignored: {key} has no meaning here"));
    }

    /// What follows from the policy and could surprise.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        self.0.push(format!("note: {}", text.as_ref()));
    }

    /// All of them, in the order in which they were added.
    pub(crate) fn lines(&self) -> &[String] {
        &self.0
    }
}
