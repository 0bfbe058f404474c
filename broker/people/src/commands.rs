//! What the command line asks for.

use crate::cli::{self, Command, Invocation};
use crate::consent::watch;
use crate::doctor::story;
use crate::{environment, examine, init, learn, store};
use landstrip_core::report::failure::Failure;
use landstrip_core::session::launch::Tool;
use landstrip_core::session::launch_channel::LaunchChannel;
use landstrip_core::session::process_tree::ProcessTree;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Runs a tool in the sandbox of an invocation, and returns its status.
pub type Run = fn(&Invocation, &Tool<'_>, LaunchChannel, &mut ProcessTree) -> Result<i32, Failure>;

/// Does what `arguments` ask for, a run by `run`; returns the exit status.
///
/// # Errors
/// Returns the [`Failure`] because of which it was not done.
pub fn perform(
    arguments: &[OsString],
    child: LaunchChannel,
    tree: &mut ProcessTree,
    run: Run,
) -> Result<i32, Failure> {
    let text = match cli::parse(arguments.iter().skip(1).cloned())? {
        Command::Help => cli::HELP.to_owned(),
        Command::Version => format!("landstrip {}\n", env!("CARGO_PKG_VERSION")),
        Command::Denials(form, since) => store::list(form, since.as_deref())?,
        Command::Watch(process) => {
            drop(child);
            watch::run(process, tree)?;
            return Ok(0);
        }
        Command::Init => init::policy_for(Path::new(".")),
        Command::Check(invocation) => examine::check(&invocation, &child)?,
        Command::Explain(invocation, extent, words) => {
            examine::explain(&invocation, &child, extent, &words)?
        }
        Command::Doctor(invocation, form) => {
            return story::run(&invocation, form, child, tree);
        }
        Command::Learn(invocation, policy, tool) => {
            let tool = Tool::of(arguments, tool, environment::words);
            return learn::run(&invocation, &policy, &tool, child, tree);
        }
        Command::Run(invocation, tool) => {
            let tool = Tool::of(arguments, tool, environment::words);
            return run(&invocation, &tool, child, tree);
        }
    };
    print(&text).map(|()| 0)
}

/// Prints `text` at once: the tool of a sandbox may write to the same place.
///
/// # Errors
/// Returns [`Failure::Internal`] if that place does not take it.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        // A closed standard output is the caller's choice, and who has read enough goes.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Internal("standard output", error.to_string()))
        }
        _ => Ok(()),
    }
}
