//! Why landstrip gave up: one line of JSON and an exit status each.

use crate::cli::UsageError;
use crate::compile::grants::GrantError;
use crate::policy::error::PolicyError;
use common::exit;
use common::trap::Trap;
use common::wire::Step;
use rustix::io::Errno;

/// A failure of landstrip itself, before or while the command ran.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The policy cannot be used.
    Policy(PolicyError),
    /// The tool cannot be executed.
    Launch(Vec<u8>, Errno),
    /// The platform or a system call does not let us.
    Internal(&'static str, String),
}

impl Failure {
    /// A failed system call.
    pub(crate) fn system(step: &'static str, errno: Errno) -> Self {
        Self::Internal(step, strerror(errno))
    }

    /// Something that was started could not be ended.
    pub(crate) fn left_behind() -> Self {
        let message = "a process of the command does not end: it waits inside the kernel";
        Self::Internal("teardown", message.to_owned())
    }

    /// The child ended without a word.
    pub(crate) fn died() -> Self {
        Self::Internal("launch", "the process that was to run the tool was killed".to_owned())
    }

    /// A failed step of the child.
    pub(crate) fn launch(tool: &[u8], step: Step, errno: Errno) -> Self {
        match step {
            Step::Execute => Self::Launch(tool.to_vec(), errno),
            _ => Self::Internal("platform", crate::run::explain(step, errno)),
        }
    }

    /// The exit status that tells of it.
    pub(crate) fn status(&self) -> i32 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Policy(_) | Self::Internal(..) => exit::FAILED,
            Self::Launch(_, Errno::NOENT) => exit::NOT_FOUND,
            Self::Launch(..) => exit::CANNOT_EXECUTE,
        }
    }

    /// Prints it on standard error.
    pub(crate) fn print(&self) {
        match self {
            Self::Usage(message) => crate::report::print(&Trap::Usage(message.as_bytes())),
            Self::Policy(error) => {
                let pairs = error.report();
                let pairs: Vec<(&str, &[u8])> =
                    pairs.iter().map(|(key, value)| (*key, value.as_bytes())).collect();
                crate::report::print(&Trap::Internal(&pairs));
            }
            Self::Launch(tool, errno) => {
                let message = strerror(*errno);
                crate::report::print(&Trap::Launch(tool, message.as_bytes()));
            }
            Self::Internal(source, message) => {
                let pairs = [("source", source.as_bytes()), ("message", message.as_bytes())];
                crate::report::print(&Trap::Internal(&pairs));
            }
        }
    }
}

/// The text of `errno` without Rust's `(os error N)`.
pub(crate) fn strerror(errno: Errno) -> String {
    let mut text = std::io::Error::from(errno).to_string();
    text.truncate(text.find(" (os error").unwrap_or(text.len()));
    text
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error)
    }
}

impl From<GrantError> for Failure {
    fn from(error: GrantError) -> Self {
        Self::Internal("platform", error.to_string())
    }
}
