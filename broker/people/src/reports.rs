//! What is said of a run's denials once it has ended, and of its status.

use crate::advice::noise::{can_matter_alone, is_done_without, is_noise_of_success};
use crate::advice::suggest::looked_up;
use crate::consent::{feed, tty};
use collected::Collected;
use common::trap::FileOperation;
use landstrip_core::report::denials::Denial;
use landstrip_core::report::failure::Failure;
use lines::{denial_line, failure_line, internal, list};
use rustix::fd::BorrowedFd;
use std::io::{IsTerminal, Write};
use stream::Stream;

pub mod collected;
pub mod lines;
mod looks;
pub mod names;
mod query;
pub(crate) mod stream;

/// Most lines that are printed at the end, and of a command that succeeded.
const LINES_MAX: usize = 64;
const LINES_OF_SUCCESS: usize = 5;

/// What there is to say of denials.
#[derive(Debug, Default)]
pub struct Remedies {
    /// For people.
    pub line: Option<String>,
    /// For programs, as reports.
    pub lines: Vec<String>,
}

/// Writes the last reports to whoever watches, and to the caller's descriptor: why landstrip gave up, if it did, with what to do about it, and
/// whose the status is.
pub fn tell_status(collected: &Collected, outcome: &Result<i32, Failure>) {
    feed::end();
    let (why, whose, status) = match outcome {
        Ok(status) => (String::new(), "tool", *status),
        Err(failure) => (failure_line(failure), "landstrip", failure.status()),
    };
    let exit = list("Exit", &[whose.as_bytes(), status.to_string().as_bytes()]);
    collected.write(|stream| stream.finish((why + &exit).as_bytes()));
}

/// Prints what was collected about a command that `failed` or did not: reads only if it did, since it may have found
/// another way, and then the line of `remedy` about what is shown. Where all was written at once, what programs are
/// told of it. If it failed with nothing to print, `unseen` is what could not be seen.
pub fn print(
    (collected, signals): (&Collected, BorrowedFd<'_>),
    failed: bool,
    unseen: impl FnOnce() -> Option<String>,
    remedy: impl Fn(&[&Denial]) -> Remedies,
) {
    let (order, uncounted) = collected.all(failed);
    let all = || remedy(&order.iter().collect::<Vec<_>>());
    if collected.write(|stream| stream.write_last(all().lines.iter().map(String::as_str))) {
        return;
    }
    let (mut shown, limit) = shown(&order, failed);
    let rest = shown.len().saturating_sub(limit) + uncounted;
    shown.truncate(limit);
    let mut text: String = shown.iter().map(|denial| denial_line(denial)).collect();
    if rest > 0 {
        let rest = rest.to_string();
        let pairs = [("source", &b"report"[..]), ("unreported", rest.as_bytes())];
        text.push_str(&internal(&pairs));
    }
    let noise = collected.noise();
    if text.is_empty() && failed {
        shown = noise.iter().filter(|denial| can_matter_alone(denial)).collect();
        text = shown.iter().map(|denial| denial_line(denial)).collect();
        if let Some(unseen) = unseen() {
            text.push_str(&format!("landstrip: {unseen}\n"));
        }
    }
    if !shown.is_empty() {
        text.push_str(&remedy(&shown).line.unwrap_or_default());
    }
    if !text.is_empty() {
        say(&text, signals);
    }
}

/// Prints `text` on standard error, so that it shows whatever the command had a terminal do. Nobody may read it: whoever
/// has landstrip end does not wait for that. A closed standard error is the caller's choice.
fn say(text: &str, signals: BorrowedFd<'_>) {
    show();
    if let Ok(stream) = Stream::of_standard_error() {
        stream.write_whole(text.as_bytes(), signals);
    }
}

/// Has standard error show what is printed next, if it is a terminal: a title without an end would swallow it.
pub fn show() {
    let mut stream = std::io::stderr();
    if stream.is_terminal() {
        let _ = stream.write_all(tty::showing().as_bytes());
    }
}

/// Warns of what the command may have left: on the caller's descriptor, else on standard error.
pub fn warn((collected, signals): (&Collected, BorrowedFd<'_>), what: &str) {
    let pairs = [("source", &b"left"[..]), ("warning", what.as_bytes())];
    if !collected.write(|stream| stream.write_last([&*internal(&pairs)].into_iter())) {
        say(&format!("landstrip: {what}\n"), signals);
    }
}

/// Which denials are shown, in which order, and how many lines they may take.
fn shown(order: &[Denial], failed: bool) -> (Vec<&Denial>, usize) {
    if failed {
        let is_named = order.iter().any(|denial| looked_up(denial).is_some());
        let unnamed = |denial: &&Denial| {
            matches!(denial, Denial::Lookup { .. }) && looked_up(denial).is_none()
        };
        let said = order.iter().filter(|denial| !(is_named && unnamed(denial)));
        let said = said.filter(|denial| !is_done_without(denial));
        return (said.collect(), LINES_MAX);
    }
    let is_write = |denial: &&Denial| matches!(denial, Denial::File(FileOperation::Write, _));
    let writes = order.iter().filter(is_write);
    // A tool that cannot look a name up asks the proxy, which names the host that it refuses.
    let network = order.iter().filter(|denial| match denial {
        Denial::Network(..) | Denial::Datagram(_) | Denial::Domain(_) => true,
        Denial::Lookup { by_proxy, .. } => *by_proxy,
        _ => false,
    });
    let missed = writes
        .chain(network)
        .filter(|denial| !is_noise_of_success(denial) && !is_done_without(denial));
    (missed.collect(), LINES_OF_SUCCESS)
}
