//! The way of denials to whom they are told, which is outside of the core.

use super::denials::Denial;
use common::trap::FileOperation;
use kernel::threads::lock;
use rules::socket::SocketKind;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

/// Which denials are reported. What nobody asks for is enforced all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reports {
    /// All of them.
    #[default]
    All,
    /// Not those of reading files.
    Changes,
    /// Not those of files.
    Network,
    /// None.
    Nothing,
}

/// Who is told of what is refused. Nothing of it waits but [`Sink::catch_up`].
pub trait Sink: Debug + Send + Sync {
    /// Whether denials of this operation on files are wanted.
    fn wants(&self, operation: FileOperation) -> bool;

    /// Takes note of one denial; `reason` is for --debug.
    fn report(&self, denial: Denial, reason: &str);

    /// A call is let through that is still to be looked at: a denial may follow.
    fn begin_look(&self);
    /// It was looked at.
    fn end_look(&self);
    /// Waits a moment for the looks that have begun, before another call changes what their paths led to, or is reported
    /// itself.
    fn catch_up(&self);

    /// Notes that access(2) was answered no: programs may give up by that alone.
    fn note_question(&self, denial: Denial);

    /// Notes that this system call was refused, which no policy allows.
    fn note_refused(&self, call: &'static str);

    /// The name that a query to a name server asks for, as far as it is told.
    fn name_asked_for(&self, query: &[u8]) -> Option<String>;

    /// What a kind of sockets is called.
    fn name_of_kind(&self, kind: SocketKind) -> Vec<u8>;

    /// What an option of sockets is called, by its level and number, if a program misses it.
    fn name_of_option(&self, option: (i32, i32)) -> Option<Vec<u8>>;

    /// Logs `message` if --debug was given.
    fn log(&self, message: &str);
}

/// What is refused; shared by the threads that answer notifications.
#[derive(Debug)]
pub struct Traps {
    sink: Arc<dyn Sink>,
    /// What threads hold back of what they refuse, where somebody can be asked about it.
    held: Option<Mutex<HashMap<ThreadId, Vec<Held>>>>,
}

/// A denial that is not reported yet, and the reason.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) denial: Denial,
    reason: String,
}

impl Traps {
    /// Those that `sink` is told of. Where somebody `asks`, some are held back before.
    pub fn of(sink: Arc<dyn Sink>, asks: bool) -> Self {
        Self { sink, held: asks.then(Mutex::default) }
    }

    /// Does `work`, and returns with what comes of it what was to be reported meanwhile and still is. Nothing is held
    /// back where nobody can be asked.
    pub(crate) fn holding<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Held>) {
        let Some(held) = &self.held else { return (work(), Vec::new()) };
        let thread = thread::current().id();
        lock(held).insert(thread, Vec::new());
        let done = work();
        let denials = lock(held).remove(&thread);
        (done, denials.unwrap_or_default())
    }

    /// Reports what was held back.
    pub(crate) fn report_held(&self, held: Vec<Held>) {
        held.into_iter().for_each(|Held { denial, reason }| self.report(denial, &reason));
    }

    /// Whether denials of this operation on files are wanted, or are to be asked about.
    pub(crate) fn wants(&self, operation: FileOperation) -> bool {
        self.sink.wants(operation) || self.held.is_some() && operation == FileOperation::Write
    }

    /// Reports one denial; `reason` is for --debug.
    pub fn report(&self, denial: Denial, reason: &str) {
        if let Some(held) = &self.held
            && let Some(held) = lock(held).get_mut(&thread::current().id())
        {
            return held.push(Held { denial, reason: reason.to_owned() });
        }
        self.sink.report(denial, reason);
    }

    /// Who is told of it, for what is not held back.
    pub(crate) fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    /// As [`Sink::log`].
    pub fn log(&self, message: &str) {
        self.sink.log(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sink for () {
        fn wants(&self, _: FileOperation) -> bool {
            true
        }

        fn report(&self, _: Denial, _: &str) {}
        fn begin_look(&self) {}
        fn end_look(&self) {}
        fn catch_up(&self) {}
        fn note_question(&self, _: Denial) {}
        fn note_refused(&self, _: &'static str) {}
        fn name_asked_for(&self, _: &[u8]) -> Option<String> {
            None
        }
        fn name_of_kind(&self, _: SocketKind) -> Vec<u8> {
            Vec::new()
        }
        fn name_of_option(&self, _: (i32, i32)) -> Option<Vec<u8>> {
            None
        }
        fn log(&self, _: &str) {}
    }
}
