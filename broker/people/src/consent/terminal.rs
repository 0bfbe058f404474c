//! `--ask terminal`: a thread that speaks the protocol as any program at the other end would, and asks the user at the
//! controlling terminal. One question is shown at a time; the others wait, and so does the command.

use super::always::{PolicyFile, Proposal};
use super::prompt::{Asked, Word, line_of, shown, take_lines, word};
use super::tty::{INTERRUPT, Taken, Tty};
use super::watcher;
use kernel::threads::spawn;
use landstrip_core::ask::Rule;
use landstrip_core::domains::proxy::Proxy;
use landstrip_core::report::failure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io;
use rustix::process::Pid;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const STACK: usize = 512 * 1024;
/// How often it is looked whether the terminal can be had, and the command is to end.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Most that comes without an end of a line.
const INPUT_MAX: usize = 1 << 20;
/// How long is waited for what comes of a rule.
const RULE_LIMIT: Duration = Duration::from_secs(2);

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
    pub(super) policy: Option<PolicyFile>,
}

/// The other end of the channel.
struct Dialog {
    channel: Lines,
    run: Run,
    waiting: VecDeque<Asked>,
    /// It was said that the terminal is another job's.
    is_told: bool,
    /// Who asks in another terminal instead.
    watcher: Option<Lines>,
}

/// A stream that lines come by.
struct Lines {
    stream: UnixStream,
    /// The beginning of one.
    input: Vec<u8>,
}

/// How far the question has come that is shown.
enum Stage {
    Asked,
    /// The rule is to be written if that is what was meant.
    Shown(Proposal),
    /// The answer was given: what becomes of the rule is to be seen.
    Ruled(Option<Proposal>, Instant),
    Over,
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
            Failure::system("ask", io::Errno::from_io_error(error).unwrap_or(io::Errno::IO))
        };
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(&error))?;
        let stream = theirs.try_clone().map_err(|error| failed(&error))?;
        let (end, ended) = mpsc::channel();
        let channel = Lines { stream: theirs, input: Vec::new() };
        let waiting = VecDeque::new();
        let mut dialog = Dialog { channel, run, waiting, is_told: false, watcher: None };
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
    /// Asks what there is to ask, and gives the terminal back. None once the channel has ended.
    fn serve(&mut self, tty: &Tty) -> Option<()> {
        let Some(asked) = self.waiting.front() else {
            return self.hear(None);
        };
        let number = asked.number;
        if let Some(watcher) = self.watcher.take().or_else(Lines::of_watcher)
            && self.ask_elsewhere(watcher)?
        {
            return Some(());
        }
        let proxy = self.run.proxy.as_ref().and_then(|proxy| proxy.process());
        let spared: Vec<_> = [self.run.guardian, proxy].into_iter().flatten().collect();
        let Some(taken) = tty.take(&spared) else {
            if !std::mem::replace(&mut self.is_told, true) {
                tty.write("landstrip: a question waits until this job is in the foreground (fg)\n");
            }
            return self.hear(Some(INTERVAL));
        };
        self.is_told = false;
        if self.waiting.iter().any(|asked| asked.number == number) {
            self.ask_all(tty, taken)?;
        }
        Some(())
    }

    /// Asks one question after the other.
    fn ask_all(&mut self, tty: &Tty, taken: Taken<'_>) -> Option<()> {
        while let Some(asked) = self.waiting.front().cloned() {
            let mut stage = Stage::Asked;
            tty.write("\n");
            self.show(tty, &asked);
            while !matches!(stage, Stage::Over) {
                match self.wait_for_line(&taken) {
                    Ok(Some(line)) if line.contains(&INTERRUPT) => {
                        tty.write("^C\n");
                        taken.interrupt(self.run.command);
                        return self.deny_all();
                    }
                    Ok(Some(line)) => stage = self.heed(tty, &asked, stage, &line),
                    Ok(None) if taken.is_to_end() => {
                        tty.write("\nlandstrip: refused, as the command is to end\n");
                        drop(taken);
                        return self.deny_all();
                    }
                    Ok(None) => {}
                    Err(_) => {
                        drop(taken);
                        return self.deny_all();
                    }
                }
                let Some(next) = self.hear_while(tty, &asked, stage) else {
                    tty.write("\n");
                    return None;
                };
                stage = next;
            }
        }
        Some(())
    }

    fn show(&self, tty: &Tty, asked: &Asked) {
        let policy = self.run.policy.as_ref().map(|policy| policy.path.to_string_lossy());
        tty.write(&asked.text(policy.as_deref()));
    }

    /// Waits for the channel, or for what is typed, which is returned.
    fn wait_for_line(&self, taken: &Taken<'_>) -> io::Result<Option<Vec<u8>>> {
        let (stream, typed) = (self.channel.stream.as_fd(), taken.as_fd());
        let mut sources =
            [stream, typed].map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
        match poll(&mut sources, Some(&INTERVAL)) {
            Ok(_) | Err(io::Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if sources[1].revents().is_empty() { Ok(None) } else { taken.read() }
    }

    /// What follows from a line that was typed.
    fn heed(&mut self, tty: &Tty, asked: &Asked, stage: Stage, line: &[u8]) -> Stage {
        let number = asked.number;
        match (stage, word(line)) {
            (Stage::Asked, Some(Word::Once)) => self.settled(number, "once"),
            (Stage::Asked, Some(Word::No)) => self.settled(number, "deny"),
            (Stage::Asked, Some(Word::Run)) => self.add_rule(number, None),
            (Stage::Asked, Some(Word::Always)) => match self.propose(asked) {
                Ok(proposal) => {
                    tty.write("  this is to be written:\n");
                    for line in &proposal.amended.lines {
                        tty.write(&format!("  {}\n", shown(line, 400)));
                    }
                    tty.write("  y write it, n ask again? ");
                    Stage::Shown(proposal)
                }
                Err(why) => {
                    tty.write(&format!("landstrip: it cannot be written: {}\n", shown(&why, 400)));
                    self.show(tty, asked);
                    Stage::Asked
                }
            },
            (Stage::Shown(proposal), Some(Word::Once)) => self.add_rule(number, Some(proposal)),
            (Stage::Shown(_), Some(Word::No)) | (Stage::Asked, None) => {
                self.show(tty, asked);
                Stage::Asked
            }
            (Stage::Shown(proposal), _) => {
                tty.write("  y write it, n ask again? ");
                Stage::Shown(proposal)
            }
            (stage, _) => stage,
        }
    }

    fn propose(&self, asked: &Asked) -> Result<Proposal, String> {
        let policy =
            self.run.policy.as_ref().ok_or("this run has no policy file: name one with -p")?;
        policy.propose(&asked.rule, &asked.program)
    }

    fn settled(&mut self, number: u64, answer: &str) -> Stage {
        self.settle(number, answer);
        Stage::Over
    }

    /// Answers, and forgets the question.
    fn settle(&mut self, number: u64, answer: &str) {
        self.waiting.retain(|asked| asked.number != number);
        self.say(&json!({ "ask": number, "answer": answer }));
    }

    fn add_rule(&mut self, number: u64, proposal: Option<Proposal>) -> Stage {
        self.say(&json!({ "ask": number, "answer": "run" }));
        Stage::Ruled(proposal, Instant::now() + RULE_LIMIT)
    }

    /// Refuses what was asked so far.
    fn deny_all(&mut self) -> Option<()> {
        for asked in std::mem::take(&mut self.waiting) {
            self.say(&json!({ "ask": asked.number, "answer": "deny" }));
        }
        Some(())
    }

    /// A channel that is closed, reading tells of.
    fn say(&mut self, line: &Value) {
        self.channel.say(line);
    }

    /// Hears what the channel has to say while `asked` is shown.
    fn hear_while(&mut self, tty: &Tty, asked: &Asked, mut stage: Stage) -> Option<Stage> {
        for line in self.channel.lines(Some(NOW))? {
            let is_ours = line["settled"].as_u64() == Some(asked.number);
            if is_ours && line["by"] != "answered" {
                let why = if line["by"] == "time" {
                    "nobody answered in time"
                } else {
                    "nobody waits for it any more"
                };
                tty.write(&format!("\nlandstrip: the question is over: {why}\n"));
                stage = Stage::Over;
            }
            if asked.is_decided_by(&line["refused"]) {
                let why = line["refused"][2].as_str().unwrap_or_default();
                tty.write(&format!(
                    "landstrip: {} was not added: {}\n",
                    line_of(&asked.rule),
                    shown(why, 400)
                ));
                stage = self.over(asked);
            } else if asked.is_decided_by(&line["granted"])
                && let Stage::Ruled(proposal, _) = &stage
            {
                if let Some(told) = self.written(&asked.rule, proposal.as_ref()) {
                    tty.write(&format!("landstrip: {told}\n"));
                }
                stage = self.over(asked);
            }
            self.note(&line);
        }
        Some(match stage {
            Stage::Ruled(_, deadline) if Instant::now() > deadline => self.over(asked),
            stage => stage,
        })
    }

    fn over(&mut self, asked: &Asked) -> Stage {
        self.waiting.retain(|waiting| waiting.number != asked.number);
        Stage::Over
    }

    /// Writes the rule if it is to be; what is to be said of that.
    fn written(&self, rule: &Rule, proposal: Option<&Proposal>) -> Option<String> {
        let (proposal, policy) = (proposal?, self.run.policy.as_ref()?);
        let path = shown(&policy.path.to_string_lossy(), 400);
        Some(match policy.write(proposal) {
            Ok(()) => format!("written to {path}"),
            Err(why) => {
                format!("{path} was not written: {}; add {} to it", shown(&why, 400), line_of(rule))
            }
        })
    }

    /// Takes what the channel says, after this time at most. None once it has ended.
    fn hear(&mut self, limit: Option<Timespec>) -> Option<()> {
        self.channel.lines(limit)?.iter().for_each(|line| self.note(line));
        Some(())
    }

    /// Notes a question, or that one is none any more.
    fn note(&mut self, line: &Value) {
        self.waiting.extend(Asked::of(line));
        if let Some(number) = line["settled"].as_u64()
            && line["by"] != "answered"
        {
            self.waiting.retain(|asked| asked.number != number);
        }
    }
}

impl Dialog {
    /// Asks in the other terminal as long as somebody is there, and there is something to ask: the command goes on
    /// meanwhile, and its terminal is its own. Whether all was answered; else it is to be asked at the terminal.
    fn ask_elsewhere(&mut self, mut watcher: Lines) -> Option<bool> {
        let mut shown: Vec<u64> = Vec::new();
        let mut proposals: Vec<(Asked, Proposal)> = Vec::new();
        let mut ruled: Vec<(Asked, Proposal)> = Vec::new();
        while !self.waiting.is_empty() || !ruled.is_empty() {
            for asked in self.waiting.iter().filter(|asked| !shown.contains(&asked.number)) {
                let mut line = asked.line.clone();
                line["policy"] = self.run.policy.as_ref().map(|p| p.path.to_string_lossy()).into();
                if !watcher.say(&line) {
                    return Some(false);
                }
            }
            shown = self.waiting.iter().map(|asked| asked.number).collect();
            let mut sources = [&self.channel.stream, &watcher.stream]
                .map(|stream| PollFd::new(stream, PollFlags::IN));
            let _ = poll(&mut sources, None);
            for line in self.channel.lines(Some(NOW))? {
                let decided = |outcome: &Value, ruled: &[(Asked, Proposal)]| {
                    ruled.iter().position(|(asked, _)| asked.is_decided_by(outcome))
                };
                if let Some(at) = decided(&line["granted"], &ruled) {
                    let (asked, proposal) = ruled.remove(at);
                    let told = self.written(&asked.rule, Some(&proposal)).unwrap_or_default();
                    watcher.say(&json!({ "told": told }));
                }
                if let Some(at) = decided(&line["refused"], &ruled) {
                    ruled.remove(at);
                }
                if line["settled"].is_u64() {
                    watcher.say(&line);
                }
                self.note(&line);
            }
            let Some(said) = watcher.lines(Some(NOW)) else { return Some(false) };
            for line in said {
                let number = line["ask"].as_u64();
                let Some(asked) =
                    self.waiting.iter().find(|asked| Some(asked.number) == number).cloned()
                else {
                    continue;
                };
                match line["answer"].as_str() {
                    Some("propose") => match self.propose(&asked) {
                        Ok(proposal) => {
                            watcher.say(&json!({ "lines": proposal.amended.lines }));
                            proposals.push((asked, proposal));
                        }
                        Err(why) => {
                            let told = format!("it cannot be written: {why}");
                            watcher.say(&json!({ "told": told }));
                        }
                    },
                    Some("always") => {
                        let is_its = |one: &(Asked, Proposal)| one.0.number == asked.number;
                        let Some(at) = proposals.iter().rposition(is_its) else { continue };
                        let (asked, proposal) = proposals.remove(at);
                        self.settle(asked.number, "run");
                        ruled.push((asked, proposal));
                    }
                    Some(answer @ ("once" | "run" | "deny")) => self.settle(asked.number, answer),
                    _ => {}
                }
            }
        }
        self.watcher = Some(watcher);
        Some(true)
    }
}

impl Lines {
    /// That of whoever watches, if somebody does.
    fn of_watcher() -> Option<Self> {
        let stream = watcher::find()?;
        // Who does not read is not waited for long.
        stream.set_nonblocking(false).ok()?;
        stream.set_write_timeout(Some(RULE_LIMIT)).ok()?;
        Some(Self { stream, input: Vec::new() })
    }

    /// Says a line. Whether that could be said.
    fn say(&mut self, line: &Value) -> bool {
        self.stream.write_all(format!("{line}\n").as_bytes()).is_ok()
    }

    /// The lines that came, waiting for some no longer than `limit`. None once there is an end.
    fn lines(&mut self, limit: Option<Timespec>) -> Option<Vec<Value>> {
        let mut sources = [PollFd::new(&self.stream, PollFlags::IN)];
        if matches!(poll(&mut sources, limit.as_ref()), Ok(1..)) {
            let mut chunk = vec![0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(count @ 1..) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                _ => return None,
            }
        }
        if self.input.len() > INPUT_MAX {
            return None;
        }
        Some(take_lines(&mut self.input))
    }
}
