//! Why landstrip gave up: one line of JSON and an exit status each.

use crate::report::errno::strerror;
use crate::report::stream::line;
use common::exit;
use common::trap::Trap;
use common::wire::Step;
use kernel::features::{self, Features};
use rustix::io::Errno;
use std::io::Write;

/// A failure of landstrip itself, before or while the command ran.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The policy cannot be used, or the command went over a limit of it: what is told of that, by key.
    Pairs(Vec<(&'static str, String)>),
    /// The tool cannot be executed.
    Launch(Vec<u8>, Errno),
    /// The platform or a system call does not let us.
    Internal(&'static str, String),
}

impl Failure {
    /// A failed system call.
    pub fn system(step: &'static str, errno: Errno) -> Self {
        Self::Internal(step, strerror(errno))
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
            _ => Self::Internal("platform", explain(step, errno)),
        }
    }

    /// The exit status that tells of it.
    pub fn status(&self) -> i32 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Pairs(_) | Self::Internal(..) => exit::FAILED,
            Self::Launch(_, Errno::NOENT) => exit::NOT_FOUND,
            Self::Launch(..) => exit::CANNOT_EXECUTE,
        }
    }

    /// Prints it on standard error.
    pub fn print(&self) {
        self.print_with("");
    }

    /// The same, with what can be done about a tool that cannot be executed.
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

/// Whether signals are the broker's to judge.
fn lacks_scopes() -> bool {
    Features::probe().is_ok_and(|features| !features.contains(Features::SCOPES))
}

/// The step of the child in words that a user can act on.
fn explain(step: Step, errno: Errno) -> String {
    let reason = match (step, errno) {
        (Step::Filter, Errno::BUSY) => {
            "a seccomp listener exists already, as on WSL2 or under another supervisor"
        }
        (Step::Filter, Errno::PERM) => {
            "the surrounding sandbox, such as another landstrip, lets no listener be installed"
        }
        (Step::Filter, Errno::INVAL | Errno::NOSYS) => match features::missing_of_notification() {
            Some(missing) => return format!("this kernel lacks {missing}"),
            None => "the filter could not be installed",
        },
        (Step::Filter, _) => "the filter could not be installed",
        (Step::Restrict, Errno::TOOBIG) => "too many Landlock domains are nested already",
        (Step::Restrict, _) => "the Landlock domain could not be entered",
        (Step::Plan, _) => "the plan did not arrive",
        (Step::Environment, _) => "there is no memory for the environment",
        (Step::Execute, _) => "the tool could not be executed",
    };
    let advice = match (step, errno) {
        (Step::Filter, Errno::BUSY | Errno::PERM) if lacks_scopes() => {
            ", and without one nothing keeps signals inside on this kernel (Linux 6.12 does)"
        }
        (Step::Filter, Errno::BUSY | Errno::PERM) => {
            ", and without one only a policy can be enforced that allows no writing and no network \
             and denies no reading, or with enableWeakerNestedSandbox one that lists no hosts, has no servers of \
             its own, and denies no reading inside what may be written"
        }
        _ => "",
    };
    format!("{reason}{advice}: {}", strerror(errno))
}
