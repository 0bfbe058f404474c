//! Who is asked during a run, how, and by which rules: the program at `--ask`'s descriptor, or the user at the terminal by a
//! thread that speaks to the rest as such a program does. What is answered goes through the same parser
//! and checks as a policy (`book`), and the core judges by what comes of it. Who watches is told what is refused (`feed`).

mod always;
mod asking;
mod book;
mod channel;
mod client;
mod exchange;
pub mod feed;
mod lines;
mod open;
mod place;
mod prompt;
mod standstill;
mod terminal;
pub(crate) mod tty;
pub mod watch;
mod watcher;
mod wire;

use crate::cli::{Ask, Invocation};
use crate::reports::collected::Collected;
use always::PolicyFile;
use asking::AtEnd;
use channel::Channel;
use kernel::{features, inherited};
use landstrip_core::ask::{Asking, Rule};
use landstrip_core::report::denials::Denial;
use landstrip_core::report::failure::Failure;
use landstrip_core::session::prepared::Prepared;
use landstrip_core::session::process_tree::ProcessTree;
use policy::callers::Caller;
use std::sync::Arc;
use std::time::Duration;
use terminal::Prompter;

/// Whether a line of the other side's is one of the protocol.
pub fn is_understood(line: &[u8]) -> bool {
    lines::parse(line).is_ok()
}

/// How long is waited for an answer, unless the policy says, in seconds.
const LIMIT: u64 = 60;

/// What somebody is asked.
#[derive(Debug)]
struct Question<'a> {
    number: u64,
    denial: &'a Denial,
    /// What would allow it.
    rule: &'a Rule,
    /// Such a rule would help another run, too.
    lasts: bool,
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

/// What is dropped when the run has ended: who was asked is told so, and nobody asks at the terminal any more.
pub type Asked = (AtEnd, Option<Prompter>);

/// Has the run of `tree` that was `prepared` as `invocation` says ask as that says too, if it does.
///
/// # Errors
/// Returns [`Failure::Usage`] if there is no connected stream socket, or no terminal.
pub fn begin(
    invocation: &Invocation,
    prepared: &Prepared,
    caller: &Caller,
    tree: &ProcessTree,
    collected: &Arc<Collected>,
) -> Result<Option<(Asking, Asked)>, Failure> {
    let Some(ask) = invocation.ask else { return Ok(None) };
    let Prepared { policy, judges, written, .. } = prepared;
    let book = book::Book::new(policy.clone(), caller.clone(), *written, Arc::clone(collected));
    let unusable = |what: &dyn std::fmt::Display| {
        Failure::Usage(format!("--ask {what} is not a connected stream socket"))
    };
    let (channel, prompter) = match ask {
        Ask::Over(number) => {
            let channel = inherited::duplicate(number).and_then(Channel::new);
            (channel.map_err(|_| unusable(&number))?, None)
        }
        // A question there stops the job, which would end the call that is asked about.
        Ask::Terminal if !features::signals_wait() => {
            let message =
                "--ask terminal needs Linux 5.19, where calls outlast a stop; --ask FD works here";
            return Err(Failure::Usage(message.to_owned()));
        }
        Ask::Terminal => {
            let (command, guardian) = (tree.command, tree.guardian);
            let always = PolicyFile::of(&invocation.policies, caller);
            let run = terminal::Run { command, guardian, proxy: judges.proxy.clone(), always };
            let (prompter, end) = Prompter::start(run)?;
            let channel = Channel::new(end.into()).map_err(|_| unusable(&"terminal"))?;
            (channel, Some(prompter))
        }
    };
    let limit = Duration::from_secs(policy.ask_seconds.unwrap_or(LIMIT));
    let counsel = asking::Asking::new(book, channel, limit, judges.proxy.clone())
        .map_err(|errno| Failure::system("ask", errno))?;
    let at_end = counsel.at_end();
    let asking = Asking::new(Box::new(counsel), policy.files.clone(), judges.proxy.clone());
    Ok(Some((asking, (at_end, prompter))))
}
