//! Commands that run, and what became of them.

use crate::asking::{Asking, Granted};
use crate::command::{Command, OnDenial};
use crate::report::{Collector, Limit, Outcome};
use crate::sys;
use std::any::Any;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a command that was asked to end may take before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// What became of a command, and its output where it was piped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What became of it.
    pub outcome: Outcome,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Signals to landstrip, as long as it has not been waited for: later its number may be another process's.
#[derive(Debug, Clone)]
pub(crate) struct Target(Arc<Mutex<Option<u32>>>);

impl Target {
    pub(crate) fn held(&self) -> MutexGuard<'_, Option<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn signal(&self, number: i32) -> io::Result<()> {
        self.held().map_or(Ok(()), |process| sys::signal(process, number))
    }
}

/// What the thread that waits for a command has to say of it: also what the caller's function panicked with.
type Ended = Result<io::Result<Outcome>, Box<dyn Any + Send>>;

/// A command that was started. Dropping it does not end the command.
#[derive(Debug)]
pub struct Child {
    /// The command's standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The command's standard output, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The command's standard error, if it is a pipe.
    pub stderr: Option<ChildStderr>,
    id: u32,
    target: Target,
    ended: JoinHandle<Ended>,
    asking: Option<Asking>,
}

impl Child {
    /// Landstrip's process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends a signal to landstrip, which hands it on to the command.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        self.target.signal(number)
    }

    /// Kills landstrip, with which all ends that the command started.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(sys::SIGKILL)
    }

    /// Adds a rule for the rest of the run, and says what became of it.
    ///
    /// # Errors
    ///
    /// If the command was started without [`Command::on_ask`].
    pub fn grant(&self, key: &str, value: &str) -> io::Result<Granted> {
        Ok(asked(self.asking.as_ref())?.grant(key, value))
    }

    /// Waits until the command has ended, with all that it started. Its standard input is closed before.
    pub fn wait(mut self) -> io::Result<Outcome> {
        drop(self.stdin.take());
        match self.ended.join().unwrap_or_else(Err) {
            Ok(outcome) => outcome,
            Err(panicked) => panic::resume_unwind(panicked),
        }
    }

    /// Waits, and collects what is piped.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        fn collect(stream: Option<impl Read + Send + 'static>) -> JoinHandle<io::Result<Vec<u8>>> {
            thread::spawn(move || {
                let mut all = Vec::new();
                stream.map_or(Ok(0), |mut stream| stream.read_to_end(&mut all))?;
                Ok(all)
            })
        }
        let (stdout, stderr) = (collect(self.stdout.take()), collect(self.stderr.take()));
        let outcome = self.wait()?;
        let all = |thread: JoinHandle<io::Result<Vec<u8>>>| match thread.join() {
            Ok(read) => read,
            Err(panicked) => panic::resume_unwind(panicked),
        };
        Ok(Output { outcome, stdout: all(stdout)?, stderr: all(stderr)? })
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn target(&self) -> Target {
        self.target.clone()
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn asking(&self) -> Option<Asking> {
        self.asking.clone()
    }
}

/// The channel of a run that has one.
pub(crate) fn asked(asking: Option<&Asking>) -> io::Result<&Asking> {
    let without = "rules are granted in runs that have on_ask";
    asking.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, without))
}

impl Command {
    /// Starts the command. Its streams are this process's own unless they are given.
    ///
    /// # Errors
    ///
    /// If the launcher cannot be started. What is wrong with a policy or the command is told by the outcome.
    pub fn spawn(mut self) -> io::Result<Child> {
        let (reports, trap) = io::pipe()?;
        let trap = OwnedFd::from(trap);
        let mut launch = self.launch()?;
        launch.command.args(["--trap-fd", &trap.as_raw_fd().to_string()]).args(&self.more);
        launch.kept.push(trap);
        let on_ask = self.on_ask.take();
        let asking = on_ask.map(|on_ask| Ok::<_, io::Error>((on_ask, UnixStream::pair()?)));
        let asking = asking.transpose()?.map(|(on_ask, (ours, theirs))| {
            launch.command.args(["--ask", &theirs.as_raw_fd().to_string()]);
            launch.kept.push(theirs.into());
            (ours, on_ask)
        });
        launch.command.args(self.own_words());
        let [stdin, stdout, stderr] = self.streams.each_mut().map(Option::take);
        launch.command.stdin(stdin.unwrap_or_else(Stdio::inherit));
        launch.command.stdout(stdout.unwrap_or_else(Stdio::inherit));
        launch.command.stderr(stderr.unwrap_or_else(Stdio::inherit));
        let mut child = launch.start()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let id = child.id();
        let target = Target(Arc::new(Mutex::new(Some(id))));
        let supervisor = Supervisor {
            child,
            target: target.clone(),
            due: self.timeout.map(|time| Instant::now() + time),
            is_asked: false,
            collector: Collector::new(),
        };
        let on_denial = self.on_denial.take();
        let (sender, heard) = mpsc::channel();
        let fail = sender.clone();
        thread::spawn(move || lines(reports, &sender));
        let ended = thread::spawn(move || supervisor.supervise(&heard, on_denial));
        let asking = asking.map(|(channel, on_ask)| {
            Asking::start(channel, on_ask, move |panicked| drop(fail.send(Heard::Panic(panicked))))
        });
        Ok(Child { stdin, stdout, stderr, id, target, ended, asking })
    }

    /// Runs the command until it has ended.
    ///
    /// # Errors
    ///
    /// As [`Command::spawn`] has them.
    pub fn status(self) -> io::Result<Outcome> {
        self.spawn()?.wait()
    }

    /// Runs the command until it has ended, and collects its output. Its standard input is empty unless it is given.
    ///
    /// # Errors
    ///
    /// As [`Command::spawn`] has them.
    pub fn output(self) -> io::Result<Output> {
        self.collected().spawn()?.wait_with_output()
    }

    /// The same with these bytes as standard input. A command that does not read them all is no failure.
    ///
    /// # Errors
    ///
    /// As [`Command::spawn`] has them.
    pub fn output_of(self, input: impl Into<Vec<u8>>) -> io::Result<Output> {
        let mut child = self.stdin(Stdio::piped()).collected().spawn()?;
        let (stdin, input) = (child.stdin.take(), input.into());
        thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
        child.wait_with_output()
    }

    pub(crate) fn collected(mut self) -> Self {
        self.streams[0].get_or_insert_with(Stdio::null);
        self.stdout(Stdio::piped()).stderr(Stdio::piped())
    }
}

/// What the thread that waits for a command is told by others, so that it can wait for it until a time.
enum Heard {
    /// A line of landstrip's reports.
    Line(Vec<u8>),
    /// What the caller's function panicked with.
    Panic(Box<dyn Any + Send>),
    /// Landstrip has closed its end.
    End,
}

fn lines(reports: PipeReader, sender: &Sender<Heard>) {
    let lines = BufReader::new(reports).split(b'\n').map_while(Result::ok);
    // Who does not hear of them any more has ended.
    let _ = lines.map(Heard::Line).chain([Heard::End]).try_for_each(|heard| sender.send(heard));
}

/// Waits for a command, collects what is reported, and ends it when its time is over.
struct Supervisor {
    child: std::process::Child,
    target: Target,
    /// When it is asked to end; when it is killed, once it was.
    due: Option<Instant>,
    is_asked: bool,
    collector: Collector,
}

impl Supervisor {
    fn supervise(mut self, heard: &Receiver<Heard>, mut on_denial: Option<OnDenial>) -> Ended {
        let mut panicked = None;
        loop {
            let error = match self.next(heard) {
                Heard::End => break,
                Heard::Panic(error) => error,
                Heard::Line(line) => {
                    let Ok(report) = serde_json::from_slice(&line) else { continue };
                    let denial = self.collector.collect(&report);
                    let (Some(denial), Some(told)) = (denial, &mut on_denial) else { continue };
                    match panic::catch_unwind(AssertUnwindSafe(|| told(&denial))) {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
            };
            // Nobody hears of denials any more.
            on_denial = None;
            panicked.get_or_insert(error);
            self.ask_to_end();
        }
        // Landstrip is ending, and its number may soon be another process's.
        self.target.held().take();
        let status = self.child.wait();
        let outcome = status.map(|status| {
            let signal = status.signal().map_or(125, |signal| 128 + signal);
            Outcome { status: status.code().unwrap_or(signal), ..self.collector.outcome }
        });
        panicked.map_or(Ok(outcome), Err)
    }

    fn next(&mut self, heard: &Receiver<Heard>) -> Heard {
        loop {
            let Some(due) = self.due else { return heard.recv().unwrap_or(Heard::End) };
            match heard.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(heard) => return heard,
                Err(RecvTimeoutError::Disconnected) => return Heard::End,
                Err(RecvTimeoutError::Timeout) if self.is_asked => {
                    let _ = self.target.signal(sys::SIGKILL);
                    self.due = None;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.collector.outcome.limit = Some(Limit::Deadline);
                    self.ask_to_end();
                }
            }
        }
    }

    fn ask_to_end(&mut self) {
        // It may have ended by itself.
        let _ = self.target.signal(sys::SIGTERM);
        self.is_asked = true;
        self.due = Some(Instant::now() + GRACE);
    }
}
