//! The user's terminal while somebody is asked there: landstrip has the foreground, the command stands still, and settings
//! and input are those of the question. All of that is given back as it was (termios(3), tcsetpgrp(3)).

use super::standstill::Standstill;
use kernel::kill::send;
use kernel::terminal::{self, foreground, set_foreground};
use kernel::{group, proc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, Signal};
use rustix::termios::{
    self, InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, SpecialCodeIndex,
    Termios,
};
use std::collections::HashSet;
use std::fmt;

/// What the key for an interruption gives, usually Ctrl-C: here it ends a line like any other.
pub(super) const INTERRUPT: u8 = 3;
/// What that for a stop gives, usually Ctrl-Z, which ends a line as well.
pub(super) const SUSPEND: u8 = 26;
/// Has the terminal show what follows, whatever the command had it do: ends a title or another string that swallows text,
/// the mode of a VT52, margins, updates that are held back, inserting and colours; wraps lines, and clears what stands below
/// (ECMA-48, console_codes(4), ctlseqs.txt of xterm). Saves and restores the cursor, which setting margins moves.
const SHOWING: &str = "\u{18}\u{1b}\\\u{1b}<\u{1b}7\u{1b}[r\u{1b}[?69l\u{1b}8\u{1b}[?6l\u{1b}[?7h\u{1b}[?2026l\u{1b}[4l\u{1b}[0m\u{1b}(B\u{f}\u{1b}[J";
/// How long a terminal that takes nothing is waited for.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What has the caller's terminal show what is written to it; nothing where escape sequences mean nothing.
pub(crate) fn showing() -> &'static str {
    let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb");
    if is_dumb { "" } else { SHOWING }
}

/// The controlling terminal.
#[derive(Debug)]
pub(super) struct Tty {
    file: OwnedFd,
    /// As they were at launch.
    settings: Termios,
    guardian: Option<Pid>,
    /// What is written first; nothing where escape sequences mean nothing.
    showing: &'static str,
}

/// The terminal as long as it is landstrip's.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    tty: &'a Tty,
    /// As the command had them.
    settings: Termios,
    /// The group in the foreground before.
    former: i32,
    standstill: Option<Standstill>,
    _told: Told,
}

/// The guardian gives the settings back should this process be killed meanwhile. It blocks the signal, which stays pending
/// there until SIGCONT discards it (signal(7)).
#[derive(Debug)]
struct Told(Option<Pid>);

impl Told {
    fn tell(guardian: Option<Pid>) -> Self {
        let told = Self(guardian);
        told.send(Signal::TSTP);
        told
    }

    fn send(&self, signal: Signal) {
        let _ = self.0.map(|guardian| process::kill_process(guardian, signal));
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.send(Signal::CONT);
    }
}

/// What is read at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Key,
    Line,
}

/// What the terminal is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    OtherJob,
    /// Another run asks there.
    OtherRun,
    /// More processes than can be stopped for a question.
    TooMany,
    Unusable,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherJob => "this job is in the foreground (fg)",
            Self::OtherRun => "another run has asked what it asks in this terminal",
            Self::TooMany => {
                "fewer processes have to stand still for it, or landstrip --watch asks it in another terminal"
            }
            Self::Unusable => {
                "the terminal can be used, or landstrip --watch asks it in another one"
            }
        })
    }
}

impl Tty {
    /// Opens it. What is open for the command is another description: so its flags stay as they are.
    ///
    /// # Errors
    /// Returns [`Errno::NXIO`] if there is none.
    pub(super) fn open(guardian: Option<Pid>) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::open(c"/dev/tty", flags, Mode::empty())?;
        let settings = termios::tcgetattr(&file)?;
        Ok(Self { file, settings, guardian, showing: showing() })
    }

    /// Takes it from the command, whose descendants but `spared` stand still meanwhile.
    ///
    /// # Errors
    /// Returns what it is to wait for.
    pub(super) fn take(&self, spared: &[Pid]) -> Result<Taken<'_>, Busy> {
        let failed = |_| Busy::Unusable;
        let told = Told::tell(self.guardian);
        let former = foreground(self.file.as_fd()).map_err(failed)?;
        if former != group::own() {
            if !is_of_sandbox(former) {
                return Err(Busy::OtherJob);
            }
            set_foreground(self.file.as_fd(), group::own()).map_err(failed)?;
        }
        let give_back = |why| (set_foreground(self.file.as_fd(), former), why).1;
        self.settings().map_err(give_back)?;
        let standstill = match terminal::streams().into_iter().any(may_lead_here) {
            false => None,
            true => Some(Standstill::begin(spared).ok_or(Busy::TooMany).map_err(give_back)?),
        };
        // As those have them who stand still now.
        let settings = self.settings().map_err(give_back)?;
        let taken = Taken { tty: self, settings, former, standstill, _told: told };
        taken.set_unit(Unit::Key).map_err(failed)?;
        self.write(self.showing);
        Ok(taken)
    }

    /// As they are, unless another run asks: one that took its settings for the command's would give them back.
    fn settings(&self) -> Result<Termios, Busy> {
        let settings = termios::tcgetattr(&self.file).map_err(|_| Busy::Unusable)?;
        let codes = &settings.special_codes;
        let is_of_question = !settings.local_modes.contains(LocalModes::ISIG)
            && codes[SpecialCodeIndex::VEOL] == INTERRUPT
            && codes[SpecialCodeIndex::VEOL2] == SUSPEND;
        if is_of_question { Err(Busy::OtherRun) } else { Ok(settings) }
    }

    /// Writes `text`, whoever has the terminal.
    pub(super) fn write(&self, text: &str) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match io::write(&self.file, rest) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut room = [PollFd::new(&self.file, PollFlags::OUT)];
                    if !matches!(poll(&mut room, Some(&PATIENCE)), Ok(1..)) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

impl Taken<'_> {
    /// Sets whether input is read by keys, or by lines as at launch. Keys give no signals: nobody who could take one is to
    /// stop or end in the middle of an answer. Drops what was typed before.
    pub(super) fn set_unit(&self, unit: Unit) -> io::Result<()> {
        let mut settings = self.tty.settings.clone();
        let of_lines =
            LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHOE | LocalModes::ECHOK;
        match unit {
            Unit::Key => {
                settings.local_modes -= of_lines;
                settings.special_codes[SpecialCodeIndex::VMIN] = 1;
                settings.special_codes[SpecialCodeIndex::VTIME] = 0;
            }
            Unit::Line => settings.local_modes |= of_lines,
        }
        settings.local_modes -= LocalModes::ISIG | LocalModes::TOSTOP | LocalModes::ECHONL;
        settings.input_modes |= InputModes::ICRNL;
        settings.input_modes -= InputModes::IGNCR | InputModes::INLCR | InputModes::ISTRIP;
        settings.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
        settings.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        settings.special_codes[SpecialCodeIndex::VEOL2] = SUSPEND;
        termios::tcsetattr(&self.tty.file, OptionalActions::Now, &settings)?;
        termios::tcflush(&self.tty.file, QueueSelector::IFlush)
    }

    /// What was typed, if there is any of it.
    ///
    /// # Errors
    /// Returns an error if nothing more can be typed.
    pub(super) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let mut line = vec![0; 4096];
        match io::read(&self.tty.file, &mut line) {
            // Ctrl-D, or a terminal that is gone.
            Ok(0) => Err(Errno::IO),
            Ok(count) => {
                line.truncate(count);
                Ok(Some(line))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether nobody was there but landstrip since the question was shown. If not, the terminal is made ready to show it
    /// again.
    pub(super) fn holds(&mut self) -> bool {
        let holds = self.standstill.as_mut().is_none_or(Standstill::holds);
        if !holds {
            self.tty.write(self.tty.showing);
        }
        holds
    }

    /// Waits for those to stand still who were answered.
    pub(super) fn settle(&mut self) {
        let _ = self.standstill.as_mut().and_then(Standstill::stop_all);
    }

    /// Drops what was typed before something is shown: it is not meant for that.
    pub(super) fn drop_typed(&self) {
        let _ = termios::tcflush(&self.tty.file, QueueSelector::IFlush);
    }

    /// Whether the command is to end, and waits for that.
    pub(super) fn is_to_end(&self) -> bool {
        self.standstill.as_ref().is_some_and(Standstill::is_to_end)
    }

    /// Gives it back, and sends who had it what the key would have; the group of `command` as well where it is not in the
    /// foreground but its caller's is.
    pub(super) fn signal(self, command: Pid, signal: Signal) {
        let (former, number) = (self.former, signal.as_raw());
        drop(self);
        let _ = send(-former, number);
        // This process heeds no signal of its own.
        if former == group::own() && send(-command.as_raw_pid(), number).is_err() {
            let _ = send(command.as_raw_pid(), number);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let file = self.tty.file.as_fd();
        let is_own = self.former == group::own();
        let is_left = is_own || group::lives(self.former) == Ok(true);
        let settings = if is_left { &self.settings } else { &self.tty.settings };
        let _ = termios::tcflush(file, QueueSelector::IFlush);
        let _ = termios::tcsetattr(file, OptionalActions::Now, settings);
        // It goes on before it has the foreground: one that is stopped there stops landstrip (session/job.rs in the core).
        drop(self.standstill.take());
        if !is_own && is_left {
            let _ = set_foreground(file, self.former);
        }
        if !settings.local_modes.contains(LocalModes::ICANON) {
            // A program that draws the whole screen draws it anew.
            let _ = send(-self.former, Signal::WINCH.as_raw());
        }
    }
}

impl AsFd for Taken<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tty.file.as_fd()
    }
}

/// Whether what the command has as `stream` is a terminal, or may lead to this one by way of others, as a pipe of `tee`.
fn may_lead_here(stream: BorrowedFd<'_>) -> bool {
    let null = fs::makedev(1, 3);
    fs::fstat(stream).is_ok_and(|found| match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => false,
        FileType::CharacterDevice => found.st_rdev != null,
        _ => true,
    })
}

/// Whether a descendant of this process is in `group`.
fn is_of_sandbox(wanted: i32) -> bool {
    let mut known = HashSet::new();
    let mut parents = vec![rustix::process::getpid()];
    while let Some(parent) = parents.pop() {
        for child in proc::children(parent.as_raw_pid()) {
            if group::of(child.as_raw_pid()) == Some(wanted) {
                return true;
            }
            if known.insert(child) {
                parents.push(child);
            }
        }
    }
    false
}
