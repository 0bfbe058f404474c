//! `landstrip --watch`: shows what runs in other terminals are refused, and asks the user what they ask. What is shown of a
//! question, and what comes of what was typed, is the run's to say; of rules and policies this decides nothing.

use super::place;
use super::prompt::shown;
use super::terminal::GLANCE;
use super::watcher::{Proof, address, is_own, name};
use super::wire::Wire;
use crate::commands;
use crate::explain::page::plain;
use crate::reports::stream::is_told_to_end;
use landstrip_core::report::failure::Failure;
use landstrip_core::session::process_tree::ProcessTree;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::{self, Errno};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Instant;

/// Most connections of runs at a time: each has one for what is refused, and one for questions.
const RUNS_MAX: usize = 128;
/// Most refusals that wait while a question is shown.
const REFUSED_MAX: usize = 1024;
/// Most characters of what was refused.
const NAME_MAX: usize = 240;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A connection of a run.
struct Run {
    wire: Wire,
    process: i32,
    /// What it has to make before it is heard.
    proof: Option<Proof>,
    /// The question that it asks.
    question: Option<Question>,
}

struct Question {
    number: u64,
    /// What was said of it and is not shown.
    text: String,
    /// When it came, among all.
    turn: u64,
}

/// The process of the only run that is watched.
struct Wanted {
    process: i32,
    /// Readable once it has ended (pidfd_open(2)).
    held: OwnedFd,
}

impl Wanted {
    fn of(process: i32) -> Result<Self, Failure> {
        let held = Pid::from_raw(process).ok_or(Errno::SRCH);
        match held.and_then(|held| pidfd_open(held, PidfdFlags::empty())) {
            Ok(held) => Ok(Self { process, held }),
            // Or no process, but one of its threads (EINVAL, ENOENT).
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => {
                Err(Failure::Internal("watch", format!("there is no process {process}")))
            }
            Err(errno) => Err(Failure::system("watch", errno)),
        }
    }
}

/// What is shown, and asked.
#[derive(Default)]
struct Watch {
    runs: Vec<Run>,
    turns: u64,
    /// The one of the questions that is shown.
    shown: Option<u64>,
    /// When one ended last that nobody had answered.
    withdrawn: Option<Instant>,
    /// What was refused meanwhile, and how much more.
    refused: VecDeque<String>,
    left_out: usize,
    /// Nobody types.
    is_mute: bool,
}

/// Watches all runs of this user until it is ended, or only that of `wanted` for as long as there is that process.
///
/// # Errors
/// Returns a [`Failure`] if no run could find this.
pub fn run(wanted: Option<i32>, tree: &ProcessTree) -> Result<(), Failure> {
    let failed = |errno| Failure::system("watch", errno);
    // Any that there is can become a run.
    let wanted = wanted.map(Wanted::of).transpose()?;
    let place = place::open_for_sockets().map_err(|why| Failure::Internal("watch", why))?;
    let name = name(std::process::id(), wanted.as_ref().map(|wanted| wanted.process));
    // What a process of this number left is nobody's.
    let _ = unlinkat(&place, &name, AtFlags::empty());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let listener = listener.map_err(failed)?;
    let address = address(&place, &name).map_err(failed)?;
    net::bind(&listener, &address).and_then(|()| net::listen(&listener, 16)).map_err(failed)?;
    print("landstrip: watching; press Ctrl-C to stop\n");
    let mut watch = Watch::default();
    let ended = loop {
        match watch.wait((&listener, &place), tree, wanted.as_ref()) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(errno) => break Err(failed(errno)),
        }
    };
    let _ = unlinkat(&place, &name, AtFlags::empty());
    ended
}

impl Watch {
    /// Does what there is to do next. Whether this is to end, as by a signal or once the only process that is `wanted` has.
    fn wait(
        &mut self,
        (listener, place): (&OwnedFd, &OwnedFd),
        tree: &ProcessTree,
        wanted: Option<&Wanted>,
    ) -> io::Result<bool> {
        let input = std::io::stdin();
        let wires = self.runs.iter().map(|run| run.wire.as_fd());
        let sources = [tree.as_fd(), listener.as_fd()].into_iter().chain(wires);
        let typed = Some(input.as_fd()).filter(|_| !self.is_mute);
        let sources = sources.chain(typed).chain(wanted.map(|wanted| wanted.held.as_fd()));
        let mut polled: Vec<_> =
            sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        if ready[0] && is_told_to_end(tree.as_fd()) {
            return Ok(true);
        }
        let count = self.runs.len();
        if !self.is_mute && ready[2 + count] {
            self.type_in();
        }
        // Not before all is shown that it has said.
        let is_over =
            wanted.is_some() && ready.last() == Some(&true) && !ready[1..2 + count].contains(&true);
        for at in (0..count).rev().filter(|at| ready[2 + at]) {
            if self.hear(at, place).is_none() {
                let run = self.runs.remove(at);
                self.is_over(run.question, false);
            }
        }
        if ready[1]
            && let Ok(socket) = net::accept_with(listener, SocketFlags::CLOEXEC)
        {
            self.add(socket, wanted);
        }
        self.show();
        Ok(is_over)
    }

    fn add(&mut self, socket: OwnedFd, wanted: Option<&Wanted>) {
        let (Ok(peer), Ok(proof)) = (socket_peercred(&socket), Proof::new()) else { return };
        let process = peer.pid.as_raw_pid();
        // Who has not made its file yet may be none, and is not to keep out who is.
        let is_full = self.runs.len() >= RUNS_MAX;
        let stranger = self.runs.iter().position(|run| run.proof.is_some()).filter(|_| is_full);
        stranger.into_iter().for_each(|at| drop(self.runs.remove(at)));
        if is_own(&socket)
            && wanted.is_none_or(|wanted| wanted.process == process)
            && self.runs.len() < RUNS_MAX
        {
            let mut wire = Wire::over(socket.into());
            wire.say(&proof.line());
            self.runs.push(Run { wire, process, proof: Some(proof), question: None });
        }
    }

    /// Takes what a run says. None if it has ended, or is none.
    fn hear(&mut self, at: usize, place: &OwnedFd) -> Option<()> {
        for line in self.runs[at].wire.lines(Some(NOW))? {
            let run = &mut self.runs[at];
            if let Some(proof) = run.proof.take() {
                if !proof.is_given(place) {
                    return None;
                }
            } else if let (Some(number), Some(text)) = (line["ask"].as_u64(), line["text"].as_str())
            {
                let turn = &mut self.turns;
                let begun = || {
                    *turn += 1;
                    Question { number, text: String::new(), turn: *turn }
                };
                let known = run.question.take().filter(|known| known.number == number);
                let mut question = known.unwrap_or_else(begun);
                question.text.extend(text.split_inclusive('\n').map(whole_line));
                run.question = Some(question);
            } else if line["over"].is_u64() {
                let question = run.question.take();
                self.is_over(question, line["answered"] == true);
            } else if let Some(report) = line["denied"].as_object() {
                let told = refused(run.process, report.values().next()?);
                if self.refused.len() < REFUSED_MAX {
                    self.refused.push_back(told);
                } else {
                    self.left_out += 1;
                }
            }
        }
        Some(())
    }

    /// Shows what is still to be said of a question that is none any more.
    fn is_over(&mut self, question: Option<Question>, is_answered: bool) {
        if let Some(Question { text, turn, .. }) = question
            && self.shown == Some(turn)
        {
            print(&text);
            self.shown = None;
            self.withdrawn = (!is_answered).then(Instant::now);
        }
    }

    /// Shows what there is to show: nothing beside a question.
    fn show(&mut self) {
        if self.shown.is_none() {
            self.refused.drain(..).for_each(|told| print(&told));
            let left_out = std::mem::take(&mut self.left_out);
            if left_out > 0 {
                print(&format!("landstrip: {left_out} more were refused\n"));
            }
        }
        let asking =
            self.runs.iter_mut().filter_map(|run| Some((run.process, run.question.as_mut()?)));
        let first = match self.shown {
            Some(turn) => asking.into_iter().find(|(_, question)| question.turn == turn),
            None => asking.into_iter().min_by_key(|(_, question)| question.turn),
        };
        let Some((process, question)) = first else { return };
        if self.shown.is_none() {
            // What was typed before is not meant for it.
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
            print(&format!("\nin run {process}"));
            self.shown = Some(question.turn);
        }
        print(&std::mem::take(&mut question.text));
    }

    /// Takes a line from the keyboard, for the question that is shown.
    fn type_in(&mut self) {
        let mut line = vec![0; 4096];
        let count = io::read(std::io::stdin(), &mut line).unwrap_or(0);
        self.is_mute = count == 0;
        self.pass_on(&line[..count]);
    }

    fn pass_on(&mut self, line: &[u8]) {
        let shown = self.shown;
        let is_shown = |question: &Question| Some(question.turn) == shown;
        // It may be meant for the one that stood there, of another run. An empty line has this one shown again.
        let is_early = self.withdrawn.is_some_and(|at| at.elapsed() < GLANCE);
        let typed = String::from_utf8_lossy(if is_early { b"\n" } else { line });
        for run in &mut self.runs {
            if let Some(question) = run.question.as_ref().filter(|question| is_shown(question)) {
                // Who is gone is heard of.
                run.wire.say(&json!({ "ask": question.number, "typed": typed }));
            }
        }
    }
}

/// A line of a run's as it is shown: nothing in it moves the cursor.
fn whole_line(line: &str) -> String {
    let end = if line.ends_with('\n') { "\n" } else { "" };
    plain(line.trim_end_matches('\n')) + end
}

/// The line about `report`, the operation, path or address, and mechanism of what `process` was refused.
fn refused(process: i32, report: &Value) -> String {
    let [operation, target] = [0, 1].map(|at| report[at].as_str().unwrap_or_default());
    format!("in run {process}: refused to {} {}\n", plain(operation), shown(target, NAME_MAX))
}

/// A closed standard output is the caller's choice.
fn print(text: &str) {
    let _ = commands::print(text);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn what_is_typed_as_another_run_s_question_takes_the_place_of_one_answers_none() {
        let later = Instant::now() + Duration::from_secs(3600);
        for (withdrawn, typed) in [(None, "y\n"), (Some(later), "\n")] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let question = Some(Question { number: 7, text: String::new(), turn: 1 });
            let run = Run { wire: Wire::over(ours), process: 1, proof: None, question };
            let mut watch =
                Watch { runs: vec![run], shown: Some(1), withdrawn, ..Watch::default() };
            watch.pass_on(b"y\n");
            drop(watch);
            let line = BufReader::new(theirs).lines().next().unwrap().unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(said, json!({ "ask": 7, "typed": typed }));
        }
    }

    #[test]
    fn only_a_question_that_was_answered_is_followed_by_one_that_can_be_at_once() {
        for is_answered in [true, false] {
            let mut watch = Watch { shown: Some(1), ..Watch::default() };
            let question = Question { number: 7, text: String::new(), turn: 1 };
            watch.is_over(Some(question), is_answered);
            assert_eq!(watch.withdrawn.is_none(), is_answered);
        }
    }
}
