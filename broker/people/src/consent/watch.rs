//! `landstrip --watch`: asks the user what runs in other terminals ask. What such a run says is shown as the terminal's own
//! question is; of rules and policies this decides nothing.

use super::prompt::{Asked, Word, shown, take_lines, word};
use super::watcher::{address, is_own, name, place};
use crate::explain::page::plain;
use landstrip_core::report::failure::Failure;
use landstrip_core::session::process_tree::ProcessTree;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::{self, Errno};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Most runs that are shown at a time, and the longest line of one.
const RUNS_MAX: usize = 64;
const LINE_MAX: usize = 256 * 1024;

/// A run.
struct Run {
    stream: UnixStream,
    process: i32,
    input: Vec<u8>,
}

/// What is shown, and asked.
#[derive(Default)]
struct Watch {
    runs: Vec<Run>,
    /// With the processes of their runs.
    questions: VecDeque<(i32, Asked)>,
    /// The first of them is shown.
    is_shown: bool,
    /// It is the line that is to be written that was shown last.
    is_proposed: bool,
    /// Nobody types.
    is_mute: bool,
}

/// Watches all runs of this user, or only that of `wanted`, until it is ended.
///
/// # Errors
/// Returns a [`Failure`] if no run could find this.
pub fn run(wanted: Option<i32>, tree: &ProcessTree) -> Result<(), Failure> {
    let failed = |errno| Failure::system("watch", errno);
    let parent = landstrip_core::compile::runs::cache();
    let _ = parent.map(std::fs::create_dir_all);
    let message = "~/.cache/landstrip cannot be used: set HOME, and see that it is yours alone";
    let place = place().ok_or_else(|| Failure::Internal("watch", message.to_owned()))?;
    let name = name(std::process::id(), wanted);
    // What a process of this number left is nobody's.
    let _ = unlinkat(&place, &name, AtFlags::empty());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let listener = listener.map_err(failed)?;
    let address = address(&place, &name).map_err(failed)?;
    net::bind(&listener, &address).and_then(|()| net::listen(&listener, 16)).map_err(failed)?;
    println("landstrip: watching; Ctrl-C ends this");
    let mut watch = Watch::default();
    let ended = loop {
        match watch.wait(&listener, tree, wanted) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(errno) => break Err(failed(errno)),
        }
    };
    let _ = unlinkat(&place, &name, AtFlags::empty());
    ended
}

impl Watch {
    /// Does what there is to do next. Whether this is to end.
    fn wait(
        &mut self,
        listener: &OwnedFd,
        tree: &ProcessTree,
        wanted: Option<i32>,
    ) -> io::Result<bool> {
        let input = std::io::stdin();
        let streams = self.runs.iter().map(|run| run.stream.as_fd());
        let sources = [tree.as_fd(), listener.as_fd()].into_iter().chain(streams);
        let typed = Some(input.as_fd()).filter(|_| !self.is_mute);
        let sources = sources.chain(typed);
        let mut polled: Vec<_> =
            sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        if ready[0] && is_told_to_end(tree) {
            return Ok(true);
        }
        let count = self.runs.len();
        for at in (0..count).rev().filter(|at| ready[2 + at]) {
            self.hear(at);
        }
        if ready.get(2 + count) == Some(&true) {
            self.type_in();
        }
        if ready[1]
            && let Ok(socket) = net::accept_with(listener, SocketFlags::CLOEXEC)
        {
            self.add(socket, wanted);
        }
        self.show();
        Ok(false)
    }

    fn add(&mut self, socket: OwnedFd, wanted: Option<i32>) {
        let Ok(peer) = socket_peercred(&socket) else { return };
        let process = peer.pid.as_raw_pid();
        if is_own(&socket)
            && wanted.is_none_or(|wanted| wanted == process)
            && self.runs.len() < RUNS_MAX
        {
            self.runs.push(Run { stream: socket.into(), process, input: Vec::new() });
        }
    }

    /// Takes what the run at `at` says, or that it has ended.
    fn hear(&mut self, at: usize) {
        let run = &mut self.runs[at];
        let mut chunk = vec![0; 64 * 1024];
        let count = run.stream.read(&mut chunk).unwrap_or(0);
        run.input.extend_from_slice(&chunk[..count]);
        let process = run.process;
        let lines = take_lines(&mut run.input);
        if count == 0 || run.input.len() > LINE_MAX {
            self.runs.remove(at);
            self.forget(|other, _| other == process);
        }
        lines.iter().for_each(|line| self.note(process, line));
    }

    fn note(&mut self, process: i32, line: &Value) {
        if let Some(asked) = Asked::of(line) {
            self.questions.push_back((process, asked));
        } else if let Some(number) = line["settled"].as_u64() {
            self.forget(|other, asked| other == process && asked.number == number);
        } else if let Some(text) = line["told"].as_str() {
            println(&format!("landstrip: {}", plain(text)));
            self.is_shown = false;
        } else if let Some(lines) = line["lines"].as_array() {
            println("  this is to be written:");
            lines
                .iter()
                .filter_map(Value::as_str)
                .for_each(|line| println(&format!("  {}", shown(line, 400))));
            print("  y write it, n ask again? ");
            self.is_proposed = true;
        }
    }

    /// Forgets questions that are none any more.
    fn forget(&mut self, is_over: impl Fn(i32, &Asked) -> bool) {
        let first = self.questions.front().map(|(process, asked)| (*process, asked.number));
        self.questions.retain(|(process, asked)| !is_over(*process, asked));
        let now = self.questions.front().map(|(process, asked)| (*process, asked.number));
        if first != now && self.is_shown {
            println("\nlandstrip: the question is over");
            (self.is_shown, self.is_proposed) = (false, false);
        }
    }

    /// Shows the first question, unless it is.
    fn show(&mut self) {
        if let Some((process, asked)) = self.questions.front().filter(|_| !self.is_shown) {
            let policy = asked.line["policy"].as_str();
            print(&format!("\nin run {process}\n{}", asked.text(policy)));
            (self.is_shown, self.is_proposed) = (true, false);
        }
    }

    /// Takes a line from the keyboard.
    fn type_in(&mut self) {
        let mut line = vec![0; 4096];
        let count = io::read(std::io::stdin(), &mut line).unwrap_or(0);
        self.is_mute = count == 0;
        let (Some((process, asked)), true) = (self.questions.front(), self.is_shown) else {
            return;
        };
        let answer = match (word(&line[..count]), self.is_proposed) {
            (Some(Word::Once), true) => "always",
            (Some(Word::Once), false) => "once",
            (Some(Word::Run), false) => "run",
            (Some(Word::No), false) => "deny",
            (Some(Word::Always), false) => "propose",
            _ => {
                self.is_shown = false;
                return;
            }
        };
        let (process, number) = (*process, asked.number);
        let answer = format!("{}\n", json!({ "ask": number, "answer": answer }));
        if let Some(run) = self.runs.iter_mut().find(|run| run.process == process) {
            // Who is gone is heard of.
            let _ = run.stream.write_all(answer.as_bytes());
        }
        if !answer.contains("propose") {
            self.questions.pop_front();
            (self.is_shown, self.is_proposed) = (false, false);
        }
    }
}

/// Whether a signal came that ends programs (signalfd(2)).
fn is_told_to_end(tree: &ProcessTree) -> bool {
    let mut info = [0; 128];
    let ending = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    let mut is_to_end = false;
    while let Ok(128) = io::read(tree.as_fd(), &mut info) {
        let number = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
        is_to_end |= ending.contains(&number);
    }
    is_to_end
}

fn println(text: &str) {
    print(&format!("{text}\n"));
}

/// A closed standard output is the caller's choice.
fn print(text: &str) {
    let mut output = std::io::stdout();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}
