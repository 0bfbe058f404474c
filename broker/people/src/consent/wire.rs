//! A stream by which lines of JSON come and go: to the run's questions, and between a run and who watches it.

use super::prompt::take_lines;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long somebody is waited for who does not read.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most that comes without an end of a line.
const INPUT_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Wire {
    stream: UnixStream,
    /// The beginning of a line.
    input: Vec<u8>,
}

impl Wire {
    pub(super) fn over(stream: UnixStream) -> Self {
        // It fails for no stream of this process's own (socket(7)).
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_write_timeout(Some(PATIENCE));
        Self { stream, input: Vec::new() }
    }

    /// Says a line. Whether that could be said.
    pub(super) fn say(&mut self, line: &Value) -> bool {
        self.stream.write_all(format!("{line}\n").as_bytes()).is_ok()
    }

    /// The lines that came, waiting for some no longer than `limit`. None once there is an end.
    pub(super) fn lines(&mut self, limit: Option<Timespec>) -> Option<Vec<Value>> {
        let mut sources = [PollFd::new(&self.stream, PollFlags::IN)];
        if matches!(poll(&mut sources, limit.as_ref()), Ok(1..)) {
            let mut chunk = vec![0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(count @ 1..) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return None,
            }
        }
        (self.input.len() <= INPUT_MAX).then(|| take_lines(&mut self.input))
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
