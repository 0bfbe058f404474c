//! What a row of the table is made of: calls, verdicts, and conditions on arguments.
//!
//! A filter sees registers, never memory: a condition speaks of numbers and of null pointers only.

use crate::{Syscall, Variant};

/// What the kernel does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The kernel executes it; Landlock may still refuse.
    Allow,
    /// The broker is asked, and answers by refusing, performing or continuing.
    Notify,
    /// It fails at once.
    Deny(Errno),
    /// It succeeds, and nothing is done.
    Ignore,
    /// The whole process dies of SIGSYS.
    Kill,
}

/// The errors that the filter gives by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[expect(clippy::upper_case_acronyms, reason = "the names of errno(3)")]
pub(crate) enum Errno {
    /// Forbidden here; asking otherwise will not help.
    EPERM = 1,
    /// Forbidden here, as what the broker refuses.
    EACCES = 13,
    /// As where nothing can be changed.
    EROFS = 30,
    /// As what knows no such command.
    ENOTTY = 25,
    /// As on a kernel that lacks it: callers fall back to what they did before it existed.
    ENOSYS = 38,
    /// As on a kernel that lacks the option.
    ENOPROTOOPT = 92,
    /// As where the protocol lacks it.
    EOPNOTSUPP = 95,
}

/// An argument register, with the name that the manual page gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arg(pub u8, pub &'static str);

/// One condition on one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// For `int` and flags: of the low 32 bits, those in the mask equal one of the values. The kernel
    /// ignores the upper half of such a register, so must we: garbage there changes nothing.
    Low { arg: Arg, mask: u32, values: &'static [u32] },
    /// The same: at least one of the bits in the mask is set.
    Any { arg: Arg, mask: u32 },
    /// For pointers: all 64 bits are zero.
    Null { arg: Arg },
}

/// When a case is part of the filter: where the variant has all flags of `set` and none of `unset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    set: Variant,
    unset: Variant,
}

/// A verdict for the arguments that pass all tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub when: When,
    pub all: &'static [Test],
    pub then: Verdict,
}

/// Calls that are treated alike, for one reason. The first case that holds decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub calls: &'static [Syscall],
    pub cases: &'static [Case],
    pub otherwise: Verdict,
    /// What becomes of a call that the broker would decide on, where there is no listener to ask it.
    pub alone: Verdict,
    pub why: &'static str,
}

impl Row {
    /// The same row with what its calls get where no broker can be asked.
    pub(crate) const fn alone(self, verdict: Verdict) -> Self {
        Self { alone: verdict, ..self }
    }

    /// The cases that this variant leaves, and the verdict when none of them holds. An empty case list
    /// means that the arguments do not matter.
    pub(crate) fn resolve(&self, variant: Variant) -> (Vec<Case>, Verdict) {
        let answered = |verdict| match verdict {
            Verdict::Notify if variant.contains(Variant::ALONE) => self.alone,
            other => other,
        };
        let mut cases = Vec::new();
        for case in self.cases.iter().filter(|case| case.when.holds(variant)) {
            if case.all.is_empty() {
                return (cases, answered(case.then));
            }
            cases.push(Case { then: answered(case.then), ..*case });
        }
        (cases, answered(self.otherwise))
    }
}

impl When {
    pub(crate) const ALWAYS: Self = Self { set: Variant::empty(), unset: Variant::empty() };

    pub(crate) const fn is(set: Variant) -> Self {
        Self { set, ..Self::ALWAYS }
    }

    pub(crate) const fn unless(self, unset: Variant) -> Self {
        Self { unset, ..self }
    }

    fn holds(self, variant: Variant) -> bool {
        variant.contains(self.set) && !variant.intersects(self.unset)
    }
}
