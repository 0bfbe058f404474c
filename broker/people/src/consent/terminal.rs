//! `--ask terminal`: a thread that speaks the protocol as any program at the other end would, and asks the user: where
//! `landstrip --watch` runs, else at the controlling terminal. One question is shown at a time; the others wait.

use super::exchange::{Always, Exchange};
use super::prompt::Asked;
use super::tty::{Busy, INTERRUPT, SUSPEND, Taken, Tty, Unit};
use super::watcher;
use super::wire::Wire;
use kernel::threads::spawn;
use landstrip_core::domains::proxy::Proxy;
use landstrip_core::report::failure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{self, Errno};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const STACK: usize = 512 * 1024;
/// How often it is looked whether the terminal can be had, and the command is to end.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// How long nothing must be typed before a question is shown: what is left of a word is not meant for it.
const QUIET: Duration = Duration::from_millis(500);
/// How long after a question that ended by itself nothing is taken for an answer to the next: people look up first.
pub(super) const GLANCE: Duration = Duration::from_secs(1);
/// How often a question is shown again because the command did not stand still.
const AGAIN_MAX: usize = 50;
/// How often it is looked whether a command that was to stop has; one that does not heed that is asked about again.
const STOPS_MAX: usize = 20;

/// Who asks at the terminal. When dropped, that is given back, and nobody is asked any more.
#[derive(Debug)]
pub struct Prompter {
    stream: UnixStream,
    ended: Receiver<()>,
}

/// Of the run that is asked about.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) command: Pid,
    pub(super) guardian: Option<Pid>,
    pub(super) proxy: Option<Arc<Proxy>>,
    pub(super) always: Always,
}

/// The other end of the channel.
struct Dialog {
    channel: Wire,
    run: Run,
    waiting: VecDeque<Asked>,
    /// Why the terminal cannot be had was said.
    told: Option<Busy>,
    /// When a question ended last that nobody had answered.
    withdrawn: Option<Instant>,
    /// Who asks in another terminal instead.
    watcher: Option<Wire>,
}

/// Where questions are shown, and answers typed.
trait Place {
    /// Another question is to be shown.
    fn begin(&mut self) {}

    /// Shows `text` of question `number`.
    fn show(&mut self, number: u64, text: &str);

    /// What is typed to it, waiting for that, for the `channel` or for a while.
    fn typed(&mut self, number: u64, channel: BorrowedFd<'_>) -> Typed;

    /// The question is over, as somebody answered it or not.
    fn end(&mut self, number: u64, is_answered: bool);
}

/// What came of a place for questions.
enum Typed {
    Line(Vec<u8>),
    Nothing,
    /// Something else may have been shown over the question: what is typed may be meant for that.
    Again,
    Left(Left),
}

/// Why no more is asked in a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// There is nothing to ask.
    Done,
    /// It is there no more.
    Gone,
    /// By the key for an interruption, usually Ctrl-C, or for a stop, Ctrl-Z.
    Key(Signal),
    /// What is asked is refused, and why.
    Refused(&'static str),
}

/// The terminal as long as it is landstrip's.
struct Screen<'a> {
    tty: &'a Tty,
    taken: Taken<'a>,
    /// How often something was shown again.
    again: usize,
    /// A question that is not shown yet, and when a key was pressed last.
    withheld: Option<(String, Instant)>,
}

impl Prompter {
    /// Starts one, and returns the end of the channel that asks.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if there is no terminal.
    pub(super) fn start(run: Run) -> Result<(Self, UnixStream), Failure> {
        let tty = Tty::open(run.guardian).map_err(|_| {
            let message = "--ask terminal: there is no terminal; give a socket with --ask FD, or add the rule to the policy";
            Failure::Usage(message.to_owned())
        })?;
        let failed = |error: &std::io::Error| {
            Failure::system("ask", Errno::from_io_error(error).unwrap_or(Errno::IO))
        };
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(&error))?;
        let stream = theirs.try_clone().map_err(|error| failed(&error))?;
        let (end, ended) = mpsc::channel();
        let (channel, waiting) = (Wire::over(theirs), VecDeque::new());
        let mut dialog =
            Dialog { channel, run, waiting, told: None, withdrawn: None, watcher: None };
        let work = move || {
            while dialog.serve(&tty).is_some() {}
            drop(end);
        };
        spawn(STACK, work).map_err(|errno| Failure::system("ask", errno))?;
        Ok((Self { stream, ended }, ours))
    }
}

impl Drop for Prompter {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        // Nothing is ever sent: it is dropped with the thread's work.
        let _ = self.ended.recv();
    }
}

impl Dialog {
    /// Asks what there is to ask. None once the channel has ended.
    fn serve(&mut self, tty: &Tty) -> Option<()> {
        if self.waiting.is_empty() {
            return self.hear(None);
        }
        // Where somebody watches, the command goes on meanwhile, and its terminal is its own.
        if let Some(mut watcher) = self.watcher.take().or_else(watcher::find)
            && self.ask_all(&mut watcher)? == Left::Done
        {
            self.watcher = Some(watcher);
            return Some(());
        }
        let proxy = self.run.proxy.as_ref().and_then(|proxy| proxy.process());
        let spared: Vec<_> = [self.run.guardian, proxy].into_iter().flatten().collect();
        match tty.take(&spared) {
            Ok(taken) => {
                self.told = None;
                self.ask_at(Screen { tty, taken, again: 0, withheld: None })
            }
            Err(busy) => {
                if self.told.replace(busy) != Some(busy) {
                    tty.write(&format!("landstrip: a question waits until {busy}\n"));
                }
                self.hear(Some(INTERVAL))
            }
        }
    }

    /// Asks at the terminal, and gives it back.
    fn ask_at(&mut self, mut screen: Screen<'_>) -> Option<()> {
        let left = self.ask_all(&mut screen).or_else(|| (screen.tty.write("\n"), None).1)?;
        let Screen { tty, taken, withheld, .. } = screen;
        match left {
            Left::Done => return Some(()),
            Left::Key(Signal::TSTP) => {
                tty.write("^Z\n");
                taken.signal(self.run.command, Signal::TSTP);
                // A call that stops is made again when it goes on: that is another question.
                let number = self.waiting.front()?.number;
                for _ in 0..STOPS_MAX {
                    if self.waiting.iter().all(|asked| asked.number != number) {
                        break;
                    }
                    self.hear(Some(INTERVAL))?;
                }
                return Some(());
            }
            Left::Key(signal) => {
                tty.write("^C\n");
                taken.signal(self.run.command, signal);
            }
            Left::Refused(why) => {
                withheld.iter().for_each(|(text, _)| tty.write(text));
                tty.write(&format!("\nlandstrip: refused, as the command {why}\n"));
                drop(taken);
            }
            Left::Gone => drop(taken),
        }
        for asked in std::mem::take(&mut self.waiting) {
            self.channel.say(&json!({ "ask": asked.number, "answer": "deny" }));
        }
        Some(())
    }

    /// Asks one question after the other there. None once the channel has ended.
    fn ask_all(&mut self, place: &mut dyn Place) -> Option<Left> {
        while let Some(asked) = self.waiting.front().cloned() {
            let number = asked.number;
            let mut exchange = Exchange::of(asked, &self.run.always);
            place.begin();
            place.show(number, &format!("\n{}", exchange.question()));
            let mut is_answered = false;
            while !exchange.is_over() {
                match place.typed(number, self.channel.as_fd()) {
                    Typed::Left(left) => return Some(left),
                    Typed::Nothing => {}
                    Typed::Again => place.show(number, &exchange.again()),
                    // It may be meant for the question that stood there.
                    Typed::Line(_) if self.withdrawn.is_some_and(|at| at.elapsed() < GLANCE) => {
                        place.show(number, &exchange.again());
                    }
                    Typed::Line(line) => {
                        let reply = exchange.heed(&line);
                        is_answered |= reply.answer.is_some();
                        place.show(number, &reply.shown);
                        // Whether it is closed, reading tells.
                        reply.answer.iter().for_each(|answer| {
                            self.channel.say(&json!({ "ask": number, "answer": answer }));
                        });
                    }
                }
                for line in self.channel.lines(Some(NOW))? {
                    exchange.hear(&line).iter().for_each(|text| place.show(number, text));
                    note(&mut self.waiting, &line);
                }
            }
            if !is_answered {
                self.withdrawn = Some(Instant::now());
            }
            place.end(number, is_answered);
            self.waiting.retain(|asked| asked.number != number);
        }
        Some(Left::Done)
    }

    /// Takes what the channel says, after this time at most. None once it has ended.
    fn hear(&mut self, limit: Option<Timespec>) -> Option<()> {
        let lines = self.channel.lines(limit)?;
        lines.iter().for_each(|line| note(&mut self.waiting, line));
        Some(())
    }
}

/// Notes a question, or that one is none any more.
fn note(waiting: &mut VecDeque<Asked>, line: &Value) {
    waiting.extend(Asked::of(line));
    if let Some(number) = line["settled"].as_u64()
        && line["by"] != "answered"
    {
        waiting.retain(|asked| asked.number != number);
    }
}

/// Waits for one of them, or for a while; whether the second is ready.
fn wait(sources: [BorrowedFd<'_>; 2]) -> io::Result<bool> {
    let mut sources = sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
    match poll(&mut sources, Some(&INTERVAL)) {
        Ok(_) | Err(Errno::INTR) => Ok(!sources[1].revents().is_empty()),
        Err(errno) => Err(errno),
    }
}

impl Place for Screen<'_> {
    fn begin(&mut self) {
        self.taken.settle();
        // Where that fails, reading does.
        let _ = self.taken.set_unit(Unit::Key);
        self.withheld = Some((String::new(), Instant::now()));
    }

    fn show(&mut self, _: u64, text: &str) {
        if let Some((withheld, _)) = &mut self.withheld {
            withheld.push_str(text);
        } else if !text.is_empty() {
            self.taken.drop_typed();
            self.tty.write(text);
        }
    }

    fn typed(&mut self, _: u64, channel: BorrowedFd<'_>) -> Typed {
        // An answer is one if all stood still until it came. That takes long to see of many threads: keys are read after it.
        let held = self.withheld.is_some().then(|| self.taken.holds());
        let is_ready = wait([channel, self.taken.as_fd()]);
        let read =
            is_ready.and_then(|is_ready| if is_ready { self.taken.read() } else { Ok(None) });
        let holds = held.unwrap_or_else(|| self.taken.holds());
        self.again += usize::from(!holds);
        match read {
            Ok(Some(line)) if line.contains(&INTERRUPT) => Typed::Left(Left::Key(Signal::INT)),
            Ok(Some(line)) if line.contains(&SUSPEND) => Typed::Left(Left::Key(Signal::TSTP)),
            Ok(_) if self.again > AGAIN_MAX => Typed::Left(Left::Refused("does not stand still")),
            Ok(None) if self.taken.is_to_end() => Typed::Left(Left::Refused("is to end")),
            Ok(typed) if self.withheld.is_some() => self.wait_for_quiet(typed.is_some()),
            Ok(_) if !holds => Typed::Again,
            Ok(Some(line)) => Typed::Line(line),
            Ok(None) => Typed::Nothing,
            Err(_) => Typed::Left(Left::Gone),
        }
    }

    fn end(&mut self, _: u64, _: bool) {}
}

impl Screen<'_> {
    /// Shows the question once no key was pressed for [`QUIET`]; `has_typed` says whether one was just now.
    fn wait_for_quiet(&mut self, has_typed: bool) -> Typed {
        if let Some((_, since)) = &mut self.withheld
            && has_typed
        {
            *since = Instant::now();
        }
        if let Some((text, _)) = self.withheld.take_if(|(_, since)| since.elapsed() >= QUIET) {
            if self.taken.set_unit(Unit::Line).is_err() {
                return Typed::Left(Left::Gone);
            }
            self.tty.write(&text);
        }
        Typed::Nothing
    }
}

impl Place for Wire {
    fn show(&mut self, number: u64, text: &str) {
        // Whether somebody is there, reading tells.
        self.say(&json!({ "ask": number, "text": text }));
    }

    fn typed(&mut self, number: u64, channel: BorrowedFd<'_>) -> Typed {
        if wait([channel, self.as_fd()]) != Ok(true) {
            return Typed::Nothing;
        }
        let Some(lines) = self.lines(Some(NOW)) else { return Typed::Left(Left::Gone) };
        // No other question is shown.
        let line = lines.iter().find(|line| line["ask"] == number);
        let text = line.and_then(|line| line["typed"].as_str());
        text.map_or(Typed::Nothing, |text| Typed::Line(text.as_bytes().to_vec()))
    }

    fn end(&mut self, number: u64, is_answered: bool) {
        self.say(&json!({ "over": number, "answered": is_answered }));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{BufRead, BufReader};

    /// A place in which an answer is typed, and that is there no more then.
    struct Keys(bool);

    impl Place for Keys {
        fn show(&mut self, _: u64, _: &str) {}

        fn typed(&mut self, _: u64, _: BorrowedFd<'_>) -> Typed {
            match std::mem::replace(&mut self.0, true) {
                false => Typed::Line(b"y".to_vec()),
                true => Typed::Left(Left::Gone),
            }
        }

        fn end(&mut self, _: u64, _: bool) {}
    }

    #[test]
    fn what_is_typed_as_a_question_is_replaced_answers_none() {
        let later = Instant::now() + Duration::from_secs(3600);
        for (withdrawn, answers) in [(None, 1), (Some(later), 0)] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let always = Err(String::new());
            let run = Run { command: Pid::INIT, guardian: None, proxy: None, always };
            let told = json!({
                "ask": 1, "report": {"Filesystem": ["write", "/a", "seccomp"]},
                "advice": ["filesystem.allowWrite", "/a"], "program": "p", "pid": 1, "arguments": ["p"], "directory": "/",
            });
            let waiting = Asked::of(&told).into_iter().collect();
            let channel = Wire::over(ours);
            let mut dialog = Dialog { channel, run, waiting, told: None, withdrawn, watcher: None };
            let left = dialog.ask_all(&mut Keys(false));
            drop(dialog);
            assert_eq!(BufReader::new(theirs).lines().count(), answers);
            assert!(left == Some(if answers > 0 { Left::Done } else { Left::Gone }));
        }
    }
}
