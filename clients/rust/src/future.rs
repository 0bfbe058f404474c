//! Commands as futures, and streams, of tokio's: the feature `tokio`. The threads that wait are those of the rest.

use crate::asking::Granted;
use crate::command::Command;
use crate::process::{Child, GRACE, Output, Target, asked};
use crate::report::Outcome;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::{panic, thread};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::spawn_blocking;

/// Ends a command whose future is dropped; one that has ended is not there any more.
#[derive(Debug)]
struct Ending(Target);

impl Drop for Ending {
    fn drop(&mut self) {
        let target = self.0.clone();
        if target.held().is_some() {
            let _ = target.signal(sys::SIGTERM);
            thread::spawn(move || {
                thread::sleep(GRACE);
                target.signal(sys::SIGKILL)
            });
        }
    }
}

/// What `wait` gives, which blocks; what it panics with goes on here.
async fn waited<T: Send + 'static>(
    wait: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(wait).await.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panicked) => panic::resume_unwind(panicked),
        Err(error) => Err(io::Error::other(error)),
    })
}

/// A command that was started in a runtime of tokio's. Dropping it ends the command.
#[derive(Debug)]
pub struct AsyncChild {
    /// The command's standard input, if it is a pipe.
    pub stdin: Option<Sender>,
    /// The command's standard output, if it is a pipe.
    pub stdout: Option<Receiver>,
    /// The command's standard error, if it is a pipe.
    pub stderr: Option<Receiver>,
    child: Child,
    ending: Ending,
}

impl AsyncChild {
    /// Landstrip's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to landstrip, which hands it on to the command.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        self.child.signal(number)
    }

    /// Adds a rule for the rest of the run, and says what became of it.
    ///
    /// # Errors
    ///
    /// If the command was started without [`Command::on_ask`].
    pub async fn grant(&self, key: &str, value: &str) -> io::Result<Granted> {
        let asking = self.child.asking();
        let (key, value) = (key.to_owned(), value.to_owned());
        waited(move || Ok(asked(asking.as_ref())?.grant(&key, &value))).await
    }

    /// Waits until the command has ended, with all that it started. Its standard input is closed before. Where the future
    /// is dropped, the command ends.
    pub async fn wait(self) -> io::Result<Outcome> {
        let Self { stdin, child, ending, .. } = self;
        drop(stdin);
        let outcome = waited(move || child.wait()).await;
        drop(ending);
        outcome
    }
}

impl Command {
    /// Starts the command as [`Command::spawn`] does; its pipes are tokio's.
    ///
    /// # Errors
    ///
    /// As [`Command::spawn`] has them, or if there is no runtime that watches descriptors.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio's, as its pipes do.
    pub fn spawn_async(self) -> io::Result<AsyncChild> {
        let mut child = self.spawn()?;
        let ending = Ending(child.target());
        let receiver = |stream: Option<OwnedFd>| stream.map(Receiver::from_owned_fd).transpose();
        let stdin = child.stdin.take().map(OwnedFd::from).map(Sender::from_owned_fd).transpose()?;
        let stdout = receiver(child.stdout.take().map(OwnedFd::from))?;
        let stderr = receiver(child.stderr.take().map(OwnedFd::from))?;
        Ok(AsyncChild { stdin, stdout, stderr, child, ending })
    }

    /// Runs the command as [`Command::output`] does. Where the future is dropped, the command ends.
    ///
    /// # Errors
    ///
    /// As [`Command::spawn`] has them.
    pub async fn output_async(self) -> io::Result<Output> {
        let child = self.collected().spawn()?;
        let _ending = Ending(child.target());
        waited(move || child.wait_with_output()).await
    }
}
