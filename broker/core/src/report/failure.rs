//! Why landstrip gave up: one line of JSON and an exit status each.

use crate::report::denials::line;
use crate::report::errno::strerror;
use common::exit;
use common::trap::Trap;
use common::wire::Step;
use rustix::io::Errno;
use std::io::Write;
use std::path::Path;

/// A failure of landstrip itself, before or while the command ran.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The policy cannot be used, or the command went over a limit of it: what is told of that, by key.
    Pairs(Vec<(&'static str, String)>),
    /// The tool cannot be executed.
    Launch(Vec<u8>, Errno),
    /// The child cannot be confined, or what it needs for that did not come.
    Step(Step, Errno),
    /// The platform or a system call does not let us.
    Internal(&'static str, String),
}

impl Failure {
    /// A failed system call.
    pub fn system(step: &'static str, errno: Errno) -> Self {
        Self::Internal(step, strerror(errno))
    }

    /// The command cannot be confined: what is to be done to `path` cannot.
    pub(crate) fn platform(what: &str, path: &Path, errno: Errno) -> Self {
        Self::Internal("platform", format!("{what} {}: {errno}", path.display()))
    }

    /// Something that was started could not be ended.
    pub fn left_behind() -> Self {
        let message = "a process of the command does not end: it waits inside the kernel";
        Self::Internal("teardown", message.to_owned())
    }

    /// The child ended without a word.
    pub fn died() -> Self {
        Self::Internal("launch", "the process that was to run the tool was killed".to_owned())
    }

    /// What the command uses cannot be limited.
    pub(crate) fn uncounted(errno: Errno) -> Self {
        match errno {
            Errno::NOSYS => {
                let message = "this kernel does not list children in /proc (CONFIG_PROC_CHILDREN)";
                Self::Internal("limits", message.to_owned())
            }
            errno => Self::system("limits", errno),
        }
    }

    /// The run was ended, for `limit` allows `most` and no more.
    pub(crate) fn limit(limit: &'static str, most: u64) -> Self {
        let message = format!(
            "the command was ended: with all that it had started it went over {limit} of the policy"
        );
        let pairs = [("source", "limits".to_owned()), ("limit", limit.to_owned())];
        let more = [("value", most.to_string()), ("message", message)];
        Self::Pairs(pairs.into_iter().chain(more).collect())
    }

    /// A failed step of the child.
    pub fn launch(tool: &[u8], step: Step, errno: Errno) -> Self {
        match step {
            Step::Execute => Self::Launch(tool.to_vec(), errno),
            _ => Self::Step(step, errno),
        }
    }

    /// The exit status that tells of it.
    pub fn status(&self) -> i32 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Pairs(_) | Self::Step(..) | Self::Internal(..) => exit::FAILED,
            Self::Launch(_, Errno::NOENT) => exit::NOT_FOUND,
            Self::Launch(..) => exit::CANNOT_EXECUTE,
        }
    }

    /// Prints it on standard error.
    pub fn print(&self) {
        self.print_with("");
    }

    /// The same, with what can be done about a tool that cannot be executed, or why a step failed.
    pub fn print_with(&self, advice: &str) {
        // A closed standard error leaves only the exit status to tell.
        let _ = std::io::stderr().write_all(self.line(advice).as_bytes());
    }

    /// The report of it.
    pub fn line(&self, advice: &str) -> String {
        match self {
            Self::Usage(message) => line(&Trap::Usage(message.as_bytes())),
            Self::Pairs(pairs) => {
                let pairs: Vec<(&str, &[u8])> =
                    pairs.iter().map(|(key, value)| (*key, value.as_bytes())).collect();
                line(&Trap::Internal(&pairs))
            }
            Self::Launch(tool, errno) => {
                let message = format!("{}{advice}", strerror(*errno));
                line(&Trap::Launch(tool, message.as_bytes()))
            }
            Self::Step(_, errno) => {
                let message = if advice.is_empty() { strerror(*errno) } else { advice.to_owned() };
                Self::Internal("platform", message).line("")
            }
            Self::Internal(source, message) => {
                let pairs = [("source", source.as_bytes()), ("message", message.as_bytes())];
                line(&Trap::Internal(&pairs))
            }
        }
    }
}

/// Prints a line for people.
pub fn say(text: &str) {
    // A closed standard error is the caller's choice.
    let _ = std::io::stderr().write_all(format!("landstrip: {text}\n").as_bytes());
}
