//! What is known of one kind of access at one path, as rules say it on the way there. Pure.

/// Whether access is open, and the rule, by index, that says so; none if no rule does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    pub(super) open: bool,
    pub(super) by: Option<usize>,
    /// The rule that denies it, whatever is open.
    pub(super) denied_by: Option<usize>,
}

impl Verdict {
    /// Whether there is access.
    pub(super) fn permits(self) -> bool {
        self.open && self.denied_by.is_none()
    }

    /// The rule that it rests on.
    pub(super) fn basis(self) -> Option<usize> {
        self.denied_by.or(self.by)
    }

    /// Whether both mean the same for what is further inside.
    pub(super) fn is_alike(self, other: Self) -> bool {
        self.open == other.open && self.denied_by.is_some() == other.denied_by.is_some()
    }
}
