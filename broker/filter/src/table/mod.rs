//! What happens to every system call, and why: the policy of the filter, to be read from top to bottom.
//!
//! Two rules hold for every row. A verdict that needs what a pointer leads to (a path, an address) is the
//! broker's, never the filter's: other threads write to that memory. And whatever is allowed is either
//! confined by Landlock, or touches nothing but the caller and what it already holds.

mod files;
mod network;
mod options;
mod processes;
mod system;

use crate::rule::{Arg, Case, Errno, Row, Test, Verdict, When};
use crate::{Syscall, Variant};

/// The table.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    [files::ROWS, network::ROWS, processes::ROWS, system::ROWS].into_iter().flatten()
}

const fn row(calls: &'static [Syscall], always: Verdict, why: &'static str) -> Row {
    judge(calls, &[], always, why)
}

const fn judge(
    calls: &'static [Syscall],
    cases: &'static [Case],
    otherwise: Verdict,
    why: &'static str,
) -> Row {
    // Without a broker to judge what a pointer leads to, nothing is let through.
    Row { calls, cases, otherwise, alone: Verdict::Deny(Errno::EPERM), why }
}

const fn case(all: &'static [Test], then: Verdict) -> Case {
    when(When::ALWAYS, all, then)
}

const fn when(when: When, all: &'static [Test], then: Verdict) -> Case {
    Case { when, all, then }
}

const fn is(arg: Arg, values: &'static [u32]) -> Test {
    masked(arg, u32::MAX, values)
}

const fn masked(arg: Arg, mask: u32, values: &'static [u32]) -> Test {
    Test::Low { arg, mask, values }
}

/// At least one of the flags is set.
const fn any(arg: Arg, flags: u32) -> Test {
    Test::Any { arg, mask: flags }
}

/// Nobody but the broker keeps signals inside.
const NO_SCOPES: When = When::is(Variant::NO_SCOPES);

/// There is a listener.
const WITH_BROKER: When = When::ALWAYS.unless(Variant::ALONE);

/// None of the flags is set.
const fn lacks(arg: Arg, flags: u32) -> Test {
    masked(arg, flags, &[0])
}
