//! The table in words, for its documentation, and for tests that go by it.

use crate::rule::{Case, Test, Verdict};
use crate::{Syscall, Variant, table};
use std::fmt;

/// One line of the documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The call.
    pub call: Syscall,
    /// What happens to it, in words.
    pub what: String,
    /// The reason.
    pub why: &'static str,
}

/// The whole table in words, in the order of [`Syscall::ALL`].
pub fn describe(variant: Variant) -> impl Iterator<Item = Entry> {
    let mut entries = Vec::new();
    for row in table::rows() {
        let (cases, otherwise) = row.resolve(variant);
        let mut what = String::new();
        for case in &cases {
            what.push_str(&format!("{case}; "));
        }
        what.push_str(&format!("{}{otherwise}", if cases.is_empty() { "" } else { "else " }));
        entries.extend(row.calls.iter().map(|&call| Entry {
            call,
            what: what.clone(),
            why: row.why,
        }));
    }
    entries.sort_by_key(|entry| entry.call as u16);
    entries.into_iter()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Allow => f.write_str("allowed"),
            Verdict::Notify => f.write_str("the broker decides"),
            Verdict::Deny(errno) => write!(f, "refused with {errno:?}"),
            Verdict::Ignore => f.write_str("answered as done, and not done"),
            Verdict::Kill => f.write_str("the process is killed"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Test::Null { arg } => write!(f, "{} is null", arg.1),
            Test::Any { arg, mask } => write!(f, "{} & {mask:#x} is not 0x0", arg.1),
            Test::Low { arg, mask, values } => {
                f.write_str(arg.1)?;
                if mask != u32::MAX {
                    write!(f, " & {mask:#x}")?;
                }
                for (position, value) in values.iter().enumerate() {
                    write!(f, "{} {value:#x}", if position == 0 { " is" } else { " or" })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.then)?;
        for (position, test) in self.all.iter().enumerate() {
            write!(f, " {} {test}", if position == 0 { "if" } else { "and" })?;
        }
        Ok(())
    }
}
