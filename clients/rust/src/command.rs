//! The builder of a command, and the words and descriptors that it becomes.

use crate::asking::{Answer, Question};
use crate::policy::Policy;
use crate::report::Denial;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Which denials are reported: option --report of landstrip(1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// All, refused reads included.
    All,
    /// What would have changed something, and the network.
    Changes,
    /// The network.
    Network,
    /// Nothing.
    None,
}

/// Where a policy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The name of one that comes with landstrip, or the path of a file, from this process's working directory.
    Named(OsString),
    /// Data. An unknown key is an error of landstrip's, and nothing runs.
    Json(serde_json::Value),
}

impl From<&str> for Source {
    fn from(name: &str) -> Self {
        Self::Named(name.into())
    }
}

/// A path is never a preset.
impl From<&Path> for Source {
    fn from(path: &Path) -> Self {
        let is_word = path.parent() == Some(Path::new(""));
        Self::Named(if is_word { Path::new(".").join(path).into() } else { path.into() })
    }
}

impl From<Policy> for Source {
    fn from(policy: Policy) -> Self {
        Self::Json(policy.to_json())
    }
}

impl From<serde_json::Value> for Source {
    fn from(policy: serde_json::Value) -> Self {
        Self::Json(policy)
    }
}

impl Source {
    /// The text of one that is data.
    fn text(&self) -> Option<String> {
        match self {
            Self::Named(_) => None,
            Self::Json(value) => Some(value.to_string()),
        }
    }
}

/// What is told of each denial.
pub(crate) type OnDenial = Box<dyn FnMut(&Denial) + Send>;

/// What answers questions.
pub(crate) type OnAsk = Box<dyn FnMut(&Question) -> Answer + Send>;

/// What starts landstrip.
#[derive(Debug)]
pub(crate) enum Launcher {
    At(PathBuf),
    #[cfg(feature = "embedded")]
    Inside,
}

impl Launcher {
    /// The command that starts it, and what that is to keep open for as long as this process lives.
    fn command(&self) -> io::Result<(std::process::Command, Vec<RawFd>)> {
        match self {
            Self::At(path) if path.is_absolute() => {
                Ok((std::process::Command::new(path), Vec::new()))
            }
            Self::At(path) => {
                let text = format!("the launcher is no absolute path: {}", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
            #[cfg(feature = "embedded")]
            Self::Inside => crate::embedded::command(),
        }
    }
}

/// A command to be run in a sandbox, built as [`std::process::Command`] is.
pub struct Command {
    pub(crate) words: Vec<OsString>,
    pub(crate) launcher: Launcher,
    pub(crate) policies: Vec<Source>,
    pub(crate) report: Option<Report>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) cleared: bool,
    pub(crate) variables: Vec<(OsString, Option<OsString>)>,
    pub(crate) streams: [Option<Stdio>; 3],
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_denial: Option<OnDenial>,
    pub(crate) on_ask: Option<OnAsk>,
    /// Options of landstrip's own.
    pub(crate) more: Vec<OsString>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entry(&self.launcher).entries(&self.words).finish()
    }
}

impl Command {
    /// A command whose program is `program`, to be run by the launcher at an absolute path. PATH, which a command may have
    /// changed for later ones, is never asked for the launcher.
    pub fn new(launcher: impl Into<PathBuf>, program: impl Into<OsString>) -> Self {
        Self::by(Launcher::At(launcher.into()), program.into())
    }

    /// A command whose program is `program`, to be run by the launcher that this program carries.
    #[cfg(feature = "embedded")]
    pub fn embedded(program: impl Into<OsString>) -> Self {
        Self::by(Launcher::Inside, program.into())
    }

    fn by(launcher: Launcher, program: OsString) -> Self {
        Self {
            words: vec![program],
            launcher,
            policies: Vec::new(),
            report: None,
            directory: None,
            cleared: false,
            variables: Vec::new(),
            streams: [None, None, None],
            timeout: None,
            on_denial: None,
            on_ask: None,
            more: Vec::new(),
        }
    }

    /// One more word.
    pub fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.words.push(word.into());
        self
    }

    /// More words.
    pub fn args<S: Into<OsString>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// A policy; several are merged in order. Without one: as on the command line.
    pub fn policy(mut self, policy: impl Into<Source>) -> Self {
        self.policies.push(policy.into());
        self
    }

    /// Which denials are reported.
    pub fn report(mut self, report: Report) -> Self {
        self.report = Some(report);
        self
    }

    /// The working directory, to which the paths of a policy are relative.
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// A variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), Some(value.into())));
        self
    }

    /// Takes a variable of this process away.
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), None));
        self
    }

    /// Takes all variables away, those given so far included.
    pub fn env_clear(mut self) -> Self {
        self.cleared = true;
        self.variables.clear();
        self
    }

    /// Standard input.
    pub fn stdin(mut self, stream: impl Into<Stdio>) -> Self {
        self.streams[0] = Some(stream.into());
        self
    }

    /// Standard output.
    pub fn stdout(mut self, stream: impl Into<Stdio>) -> Self {
        self.streams[1] = Some(stream.into());
        self
    }

    /// Standard error.
    pub fn stderr(mut self, stream: impl Into<Stdio>) -> Self {
        self.streams[2] = Some(stream.into());
        self
    }

    /// Ends the command after this time: it is asked to end, and killed two seconds later.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Is told of each denial at once, in a thread of its own. If it panics, the command ends, and waiting for it panics.
    pub fn on_denial(mut self, told: impl FnMut(&Denial) + Send + 'static) -> Self {
        self.on_denial = Some(Box::new(told));
        self
    }

    /// Is asked before what no rule allows is refused, while the call of the command waits, a minute at most: in a thread of
    /// its own, one question at a time. If it panics, the command ends, and waiting for it panics.
    pub fn on_ask(mut self, asked: impl FnMut(&Question) -> Answer + Send + 'static) -> Self {
        self.on_ask = Some(Box::new(asked));
        self
    }

    /// The words by which a program of your own starts the command in a sandbox. Policies that are data stand in them, to
    /// be seen by other users of the host. Where this program carries landstrip, the first word is `landstrip`, the name by
    /// which it is to be started (`argv[0]`), and no path.
    pub fn wrap(&self) -> Vec<OsString> {
        let mut words = vec![match &self.launcher {
            Launcher::At(path) => path.clone().into_os_string(),
            #[cfg(feature = "embedded")]
            Launcher::Inside => "landstrip".into(),
        }];
        words.extend(self.reported());
        for policy in &self.policies {
            words.push("--policy".into());
            words.push(match policy {
                Source::Named(name) => name.clone(),
                data => data.text().unwrap_or_default().into(),
            });
        }
        words.push("--".into());
        words.extend(self.words.iter().cloned());
        words
    }

    fn reported(&self) -> Vec<OsString> {
        let word = match self.report {
            None => return Vec::new(),
            Some(Report::All) => "all",
            Some(Report::Changes) => "changes",
            Some(Report::Network) => "network",
            Some(Report::None) => "none",
        };
        vec!["--report".into(), word.into()]
    }

    /// The command of the standard library that starts landstrip, what it has to keep open, and the texts of policies with
    /// where to write them. A file would have a name by which another sandbox could rewrite it.
    pub(crate) fn launch(&self) -> io::Result<Launch> {
        let (mut command, inherited) = self.launcher.command()?;
        command.args(self.reported());
        if self.cleared {
            command.env_clear();
        }
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let (mut kept, mut texts) = (Vec::new(), Vec::new());
        for policy in &self.policies {
            command.arg("--policy");
            match policy {
                Source::Named(name) => command.arg(named(name)?),
                data => {
                    let (reader, writer) = io::pipe()?;
                    texts.push((writer, data.text().unwrap_or_default()));
                    let reader = OwnedFd::from(reader);
                    let path = format!("/dev/fd/{}", reader.as_raw_fd());
                    kept.push(reader);
                    command.arg(path)
                }
            };
        }
        Ok(Launch { command, inherited, kept, texts })
    }

    /// The words of the command, after an option that ends options.
    pub(crate) fn own_words(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(OsStr::new("--")).chain(self.words.iter().map(OsString::as_os_str))
    }
}

/// A preset, data, or a path, from the working directory of this process: from that of the command, which may be a work tree
/// that others made, a policy is not taken.
fn named(name: &OsStr) -> io::Result<OsString> {
    let bytes = name.as_bytes();
    let is_path = bytes.iter().any(|byte| b"./".contains(byte)) && !bytes.starts_with(b"{");
    if is_path { std::path::absolute(name).map(PathBuf::into_os_string) } else { Ok(name.into()) }
}

/// What starts landstrip.
pub(crate) struct Launch {
    pub(crate) command: std::process::Command,
    inherited: Vec<RawFd>,
    pub(crate) kept: Vec<OwnedFd>,
    pub(crate) texts: Vec<(PipeWriter, String)>,
}

impl Launch {
    /// Starts it, and hands policies over in threads, for they may be longer than a pipe. Landstrip says itself why it does
    /// not read one to its end.
    pub(crate) fn start(mut self) -> io::Result<std::process::Child> {
        let kept = self.kept.iter().map(AsRawFd::as_raw_fd);
        crate::sys::keep(&mut self.command, kept.chain(self.inherited).collect());
        let child = self.command.spawn()?;
        for (mut writer, text) in self.texts {
            std::thread::spawn(move || writer.write_all(text.as_bytes()));
        }
        Ok(child)
    }
}
