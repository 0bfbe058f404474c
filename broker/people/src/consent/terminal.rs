//! `--ask terminal`: a thread that speaks the protocol as any program at the other end would, and asks the user at the
//! controlling terminal. One question is shown at a time; the others wait, and so does the command.

use super::always::{PolicyFile, Proposal};
use super::prompt::{Asked, Word, line_of, shown, word};
use super::tty::{INTERRUPT, Taken, Tty};
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
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const STACK: usize = 512 * 1024;
/// How often it is looked whether the terminal can be had, and the command is to end.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
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
    stream: UnixStream,
    /// The beginning of a line of the channel's.
    input: Vec<u8>,
    run: Run,
    waiting: VecDeque<Asked>,
    /// It was said that the terminal is another job's.
    is_told: bool,
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
        let tty = Tty::open().map_err(|_| {
            let message = "--ask terminal: there is no terminal; give a socket with --ask FD, or add the rule to the policy";
            Failure::Usage(message.to_owned())
        })?;
        let failed = |error: &std::io::Error| {
            Failure::system("ask", io::Errno::from_io_error(error).unwrap_or(io::Errno::IO))
        };
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(&error))?;
        let stream = theirs.try_clone().map_err(|error| failed(&error))?;
        let (end, ended) = channel();
        let mut dialog = Dialog {
            stream: theirs,
            input: Vec::new(),
            run,
            waiting: VecDeque::new(),
            is_told: false,
        };
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
        let (stream, typed) = (self.stream.as_fd(), taken.as_fd());
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
            (Stage::Asked, Some(Word::Once)) => {
                self.settle(json!({ "ask": number, "answer": "once" }))
            }
            (Stage::Asked, Some(Word::No)) => {
                self.settle(json!({ "ask": number, "answer": "deny" }))
            }
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

    /// Answers, and forgets the question.
    fn settle(&mut self, answer: Value) -> Stage {
        self.waiting.pop_front();
        self.say(&answer);
        Stage::Over
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
        let _ = self.stream.write_all(format!("{line}\n").as_bytes());
    }

    /// Hears what the channel has to say while `asked` is shown.
    fn hear_while(&mut self, tty: &Tty, asked: &Asked, mut stage: Stage) -> Option<Stage> {
        for line in self.lines(Some(Timespec { tv_sec: 0, tv_nsec: 0 }))? {
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
            let is_rule =
                |outcome: &Value| outcome[0] == asked.rule.key && outcome[1] == asked.rule.value;
            if is_rule(&line["refused"]) {
                let why = line["refused"][2].as_str().unwrap_or_default();
                tty.write(&format!(
                    "landstrip: {} was not added: {}\n",
                    line_of(&asked.rule),
                    shown(why, 400)
                ));
                stage = self.over(asked);
            } else if is_rule(&line["granted"])
                && let Stage::Ruled(proposal, _) = &stage
            {
                self.tell(tty, &asked.rule, proposal.as_ref());
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

    /// Writes the rule if it is to be, and says so.
    fn tell(&self, tty: &Tty, rule: &Rule, proposal: Option<&Proposal>) {
        let (Some(proposal), Some(policy)) = (proposal, &self.run.policy) else { return };
        let path = shown(&policy.path.to_string_lossy(), 400);
        let said = match policy.write(proposal) {
            Ok(()) => format!("written to {path}"),
            Err(why) => {
                format!("{path} was not written: {}; add {} to it", shown(&why, 400), line_of(rule))
            }
        };
        tty.write(&format!("landstrip: {said}\n"));
    }

    /// Takes what the channel says, after this time at most. None once it has ended.
    fn hear(&mut self, limit: Option<Timespec>) -> Option<()> {
        self.lines(limit)?.iter().for_each(|line| self.note(line));
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

    /// The lines that the channel has said, waiting for that no longer than `limit`.
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
        let mut lines = Vec::new();
        while let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            lines.extend(serde_json::from_slice::<Value>(&line).ok());
        }
        Some(lines)
    }
}
