//! Questions: what no rule allows waits while somebody is asked, and is judged again when the answer comes.
//!
//! A call that waits is a notification that nobody has answered (seccomp_unotify(2)): no thread waits for it, no lock
//! is held and no descriptor. A connection to a host waits at the proxy, which judges it again. What was shown is never what is done: an answer adds to the rules, and the call is judged
//! from the beginning by those. Where its path leads elsewhere by then, that is another question.
//!
//! This room knows neither what may be asked and granted, nor who answers, and how: that is a [`Counsel`]'s. Whatever
//! one says, deny rules hold: what is added goes through the same matcher, among them.

use crate::domains::proxy::Proxy;
use crate::domains::waiting::{Connection, Heard};
use crate::report::denials::Denial;
use crate::report::traps::Traps;
use common::asking::Outcome;
use kernel::listener::Notification;
use kernel::request::{Request, Sign};
use kernel::target::Target;
use rules::files::Files;
use rules::pattern::Pattern;
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A rule as a policy has it: `filesystem.allowWrite`, `~/.npm`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    pub key: String,
    pub value: String,
}

/// What a rule adds to those of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addition {
    /// A canonical path that may be written, with all beneath but what these rules deny.
    Write(PathBuf, Vec<Pattern>),
    /// A host that may be reached, as a pattern names it.
    Host(String),
    /// What this refused: a connection to a Unix socket, or a server, and then all of the command's own.
    Address(Denial),
}

/// Who waits for an answer.
#[derive(Debug)]
pub enum Waiting {
    /// A call.
    Call(Parked),
    /// A connection at the proxy; what was answered with yes, for it alone.
    Connection(Connection, Option<Denial>),
}

/// A call that waits for an answer, or was judged again after one.
#[derive(Debug)]
pub struct Parked {
    pub(crate) notification: Notification,
    /// What was answered with yes, for this call.
    pub(crate) granted: Vec<Denial>,
    /// A rule would name what was shown, and nothing around it: no link is made there, as by such a rule.
    pub(crate) is_named: bool,
    pub(crate) sign: Sign,
}

/// What is to become of a call that has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is judged again, and asked about again where it leads elsewhere.
    Judged,
    /// It is refused as if nobody could be asked.
    Refused,
    /// It goes on with a signal, and may be made again.
    Interrupted,
}

/// A rule that is to be added.
#[derive(Debug)]
pub struct Grant {
    pub rule: Rule,
    /// What was asked with another rule, which is added if `rule` does not cover that.
    pub asked: Option<(Rule, Denial)>,
}

/// What an answer comes to: it may have to wait, for a file system, and so is for another thread.
#[derive(Debug, Default)]
pub struct Job {
    pub grant: Option<Grant>,
    pub calls: VecDeque<(Waiting, Fate)>,
}

/// Who decides what is asked and granted. Nothing here may wait but [`Counsel::grant`].
pub trait Counsel: Debug + Send + Sync {
    /// Takes `call`, if one of its `denials` is a question that was not answered yet: then nobody must answer the call
    /// until it comes back in a [`Job`].
    fn park(&self, request: &Request<'_>, call: Parked, denials: &[Denial]) -> bool;

    /// Takes `connection` of the client at port `client`, if what it wants is a question: then it waits until it comes
    /// back in a [`Job`].
    fn park_connection(&self, connection: Connection, denial: Denial, client: u16) -> bool;

    /// The connections that `ended` finds do not wait any more.
    fn withdraw(&self, ended: &dyn Fn(Connection) -> bool);

    /// What is readable when there is something to attend to.
    fn events(&self) -> BorrowedFd<'_>;

    /// What was answered since, and who is not to wait any more.
    fn attend(&self) -> Vec<Job>;

    /// Has `add` add what a rule comes to, and tells who was asked what came of it. `add` returns whether what is made
    /// there can be executed.
    fn grant(&self, grant: Grant, add: &dyn Fn(&Addition) -> Result<bool, String>);
}

/// The questions of a run.
#[derive(Debug)]
pub struct Asking {
    pub(crate) counsel: Box<dyn Counsel>,
    /// The rules for files, with what was added.
    pub(crate) files: Mutex<Files>,
    /// Where connections wait.
    proxy: Option<Arc<Proxy>>,
}

impl Asking {
    /// Asks `counsel` about what `files` does not allow, and `proxy` does not.
    pub fn new(counsel: Box<dyn Counsel>, files: Files, proxy: Option<Arc<Proxy>>) -> Self {
        Self { counsel, files: Mutex::new(files), proxy }
    }

    /// Has what a pattern names be reached.
    ///
    /// # Errors
    /// Returns why it is not.
    pub(crate) fn grant_host(&self, pattern: &str) -> Result<(), String> {
        let proxy = self.proxy.as_ref().ok_or("no host is refused in this run")?;
        proxy.grant(pattern)
    }

    /// Has a connection that has waited go on, or refused.
    pub(crate) fn decide(&self, connection: Connection, granted: Option<&Denial>, fate: Fate) {
        let outcome = match fate {
            Fate::Judged if granted.is_some() => Outcome::Permitted,
            Fate::Judged => Outcome::Judged,
            Fate::Refused | Fate::Interrupted => Outcome::Refused,
        };
        self.proxy.iter().for_each(|proxy| proxy.decide(connection, outcome));
    }

    /// Takes what the proxy says of connections that wait.
    fn hear(&self, heard: Heard) {
        match heard {
            Heard::Asked(connection, target, client) => {
                if !self.counsel.park_connection(connection, Denial::Domain(target), client) {
                    self.decide(connection, None, Fate::Refused);
                }
            }
            Heard::Withdrawn(one) => self.counsel.withdraw(&|connection| connection == one),
            Heard::Ended => self.counsel.withdraw(&|_| true),
        }
    }
}

/// Attends to `proxy`, and to what it asks.
pub(crate) fn attend_proxy(proxy: &Proxy, asking: Option<&Asking>, traps: &Traps) {
    let heard = proxy.attend(traps);
    // Where nobody is asked, it says nothing of that.
    if let Some(asking) = asking {
        heard.into_iter().for_each(|one| asking.hear(one));
    }
}

impl Waiting {
    /// Notes that what was asked was answered with yes; of a change, whether it `is_named` by its rule, which may be for
    /// more.
    pub fn permit(&mut self, denial: Denial, is_named: bool) {
        match self {
            Self::Call(call) => {
                call.granted.push(denial);
                call.is_named |= is_named;
            }
            Self::Connection(_, granted) => *granted = Some(denial),
        }
    }

    /// Whether it waits for nothing any more, as far as that has to be looked for: the caller of a call has ended, or has a
    /// signal to handle, which nothing tells the broker.
    pub fn is_over(&self) -> bool {
        let Self::Call(Parked { notification, sign, .. }) = self else { return false };
        let status = || Target::new(notification.thread).status();
        !sign.is_waiting() || status().is_ok_and(|status| status.is_signalled())
    }
}
