//! The broker: loads the policy, launches the command, answers its notifications, reaps it.
//!
//! It runs as the process that the caller started, with the launcher's arguments: the launcher
//! forks, one side becomes the broker, the other waits for the plan and becomes the command.

mod cli;
mod compile;
mod control;
mod decide;
mod failure;
mod hard_links;
mod notify;
mod perform;
mod policy;
mod protect;
mod proxy;
mod removal;
mod report;
mod run;
mod sandbox;
mod scratch;
mod supervise;
mod upstream;
mod view;

use cli::Command;
use common::wire::Handover;
use control::Control;
use failure::Failure;
use sandbox::Sandbox;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use supervise::{Family, Signals};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let status = supervise(&arguments).unwrap_or_else(|failure| {
        failure.print();
        failure.status()
    });
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}

/// Takes over from the launcher, does what the command line asks, and ends what is left.
fn supervise(arguments: &[OsString]) -> Result<i32, Failure> {
    let handover = arguments
        .first()
        .and_then(|name| name.to_str())
        .and_then(|name| Handover::parse(name).ok())
        .ok_or_else(|| {
            Failure::Usage("landstrip-broker is started by landstrip only".to_owned())
        })?;
    let control = Control::take_over(&handover).map_err(|e| Failure::system("control", e))?;
    let signals = Signals::block().map_err(|e| Failure::system("signalfd", e))?;
    let mut family = Family::adopt(&handover).map_err(|e| Failure::system("subreaper", e))?;

    let outcome = obey(arguments, control, &signals, &mut family);
    let nothing_left = family.end(&signals);
    let status = match outcome? {
        Outcome::Ran(sandbox, status) => {
            sandbox.report(status);
            status
        }
        Outcome::Said(text) => {
            // A closed standard output is the caller's choice.
            let _ = std::io::stdout().write_all(text.as_bytes());
            0
        }
    };
    if nothing_left { Ok(status) } else { Err(Failure::left_behind()) }
}

/// What is left to say when nothing of the command runs any more.
enum Outcome {
    /// The tool ran and ended with this status.
    Ran(Box<Sandbox>, i32),
    /// landstrip was asked for a text.
    Said(String),
}

fn obey(
    arguments: &[OsString],
    control: Control,
    signals: &Signals,
    family: &mut Family,
) -> Result<Outcome, Failure> {
    match cli::parse(arguments.iter().skip(1).cloned())? {
        Command::Help => Ok(Outcome::Said(cli::HELP.to_owned())),
        Command::Version => Ok(Outcome::Said(format!("landstrip {}\n", env!("CARGO_PKG_VERSION")))),
        Command::Check(options) => Ok(Outcome::Said(Sandbox::compile(&options, None)?.check())),
        Command::Run(options, tool) => {
            let sandbox = Box::new(Sandbox::compile(&options, Some(&control))?);
            let status = sandbox.run(arguments, tool, control, signals, family)?;
            Ok(Outcome::Ran(sandbox, status))
        }
    }
}
