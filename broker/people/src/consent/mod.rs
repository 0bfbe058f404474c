//! Who is asked, and by which rules: the program at `--ask`'s descriptor. What is answered goes through the same parser
//! and checks as a policy (`book`), and the core judges by what comes of it.

mod asking;
mod book;
mod channel;
mod client;
mod lines;
mod open;

use landstrip_core::ask::{Asking, Rule};
use landstrip_core::report::denials::Denial;
use landstrip_core::report::failure::Failure;
use landstrip_core::session::prepared::Prepared;
use policy::callers::Caller;
use rustix::fd::RawFd;
use std::time::Duration;

/// How long is waited for an answer, unless the policy says, in seconds.
const LIMIT: u64 = 60;

/// What somebody is asked.
#[derive(Debug)]
struct Question<'a> {
    number: u64,
    denial: &'a Denial,
    /// What would allow it.
    rule: &'a Rule,
    asker: &'a Asker,
}

/// Who makes the call, as far as the kernel and the process itself tell: to be shown, never to be decided by.
#[derive(Debug, Default)]
struct Asker {
    program: Vec<u8>,
    process: i32,
    arguments: Vec<Vec<u8>>,
    directory: Vec<u8>,
}

/// How a question came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    /// Nobody waits for the answer any more.
    Gone,
    /// Nobody answered in time.
    Time,
    /// Nobody can answer any more.
    Closed,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// This call, and no more.
    Once,
    /// All that the rule allows, for the rest of the run; that of the question, if none is given.
    Run(Option<Rule>),
    Deny,
}

/// What was heard of who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    /// To the question of this number.
    Answer(u64, Answer),
    /// Unasked.
    Grant(Rule),
    /// Nobody can answer any more.
    Closed,
}

/// Has the run that was `prepared` ask over descriptor `number` of the caller's.
///
/// # Errors
/// Returns [`Failure::Usage`] if that is no connected stream socket.
pub fn ask_over(number: RawFd, prepared: &Prepared, caller: &Caller) -> Result<Asking, Failure> {
    let Prepared { policy, judges, written, .. } = prepared;
    let book = book::Book::new(policy.clone(), caller.clone(), *written);
    let channel = channel::Channel::take_over(number)
        .map_err(|_| Failure::Usage(format!("--ask {number} is not a connected stream socket")))?;
    let limit = Duration::from_secs(policy.ask_seconds.unwrap_or(LIMIT));
    let proxies = judges.proxy.iter().flat_map(|proxy| proxy.addresses()).collect();
    let counsel = asking::Asking::new(book, channel, limit, proxies)
        .map_err(|errno| Failure::system("ask", errno))?;
    Ok(Asking::new(Box::new(counsel), policy.files.clone(), judges.proxy.clone()))
}
