//! Why landstrip gave up, and the exit status of each. What is said of it stands outside of the core.

use crate::report::errno::strerror;
use common::exit;
use common::trap::write_internal;
use common::wire::Step;
use kernel::features::Missing;
use run_limits::Uncounted;
use rustix::io::Errno;
use std::io::Write;
use std::path::Path;

/// A failure of landstrip itself, before or while the command ran.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The policy cannot be used: what is told of that, by key.
    Pairs(Vec<(&'static str, String)>),
    /// The tool cannot be executed, and what is known of the reason, as its message goes on.
    Launch(Vec<u8>, Errno, String),
    /// The child cannot be confined, or what it needs for that did not come.
    Step(Step, Errno),
    /// The kernel lacks this, without which nothing can be confined.
    Lacking(Missing),
    /// The platform or a system call does not let us.
    Internal(&'static str, String),
    /// The child ended without a word.
    Died,
    /// What the command uses cannot be limited.
    Uncounted(Uncounted),
    /// The run was ended, for the policy allows so much and no more.
    Limit(&'static str, u64),
    /// Something that was started could not be ended.
    LeftBehind,
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

    /// A failed step of the child.
    pub fn launch(tool: &[u8], step: Step, errno: Errno) -> Self {
        match step {
            Step::Execute => Self::Launch(tool.to_vec(), errno, String::new()),
            _ => Self::Step(step, errno),
        }
    }

    /// The exit status that tells of it.
    pub fn status(&self) -> i32 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Launch(_, Errno::NOENT, _) => exit::NOT_FOUND,
            Self::Launch(..) => exit::CANNOT_EXECUTE,
            _ => exit::FAILED,
        }
    }
}

/// Prints what went wrong and ends nothing.
pub(crate) fn warn(source: &str, message: &str) {
    let mut line = String::new();
    // Writing to a String cannot fail; a closed standard error is the caller's choice.
    let _ = write_internal(
        &mut line,
        &[("source", source.as_bytes()), ("message", message.as_bytes())],
    );
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints a line for people.
pub fn say(text: &str) {
    // A closed standard error is the caller's choice.
    let _ = std::io::stderr().write_all(format!("landstrip: {text}\n").as_bytes());
}
