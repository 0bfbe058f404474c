//! Reports: denials are collected and printed at the end, or written to --trap-fd at once.
//!
//! A denial that cannot be written is dropped; enforcement never waits for a reader.

#![allow(unsafe_code)] // for the descriptor that the caller names by its number

use crate::failure::Failure;
use common::trap::{FileOperation, Mechanism, NetworkOperation, Trap};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::net::{self, SendFlags};
use std::collections::HashSet;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most lines that are printed at the end.
const LINES_MAX: usize = 64;
/// Most distinct denials that are remembered; more are only counted.
const REMEMBERED_MAX: usize = 4096;

/// A refused operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Denial {
    /// On a file: its path.
    File(FileOperation, Vec<u8>),
    /// On a socket: `address:port` or path.
    Network(NetworkOperation, Vec<u8>),
    /// By the proxy: `host:port`.
    Domain(Vec<u8>),
}

impl Denial {
    fn trap(&self) -> Trap<'_> {
        match self {
            Self::File(operation, path) => Trap::Filesystem(*operation, path, Mechanism::Seccomp),
            Self::Network(operation, target) => {
                Trap::Network(*operation, target, Mechanism::Seccomp)
            }
            Self::Domain(target) => {
                Trap::Network(NetworkOperation::Connect, target, Mechanism::Proxy)
            }
        }
    }

    /// Whether it is shown for a command that succeeded: it may have tried and gone another way.
    fn is_write(&self) -> bool {
        matches!(self, Self::File(FileOperation::Write, _))
    }

    /// Python writes its bytecode cache wherever it can and does without where it cannot.
    fn is_probe(&self) -> bool {
        matches!(self, Self::File(FileOperation::Write, path)
            if path.windows(13).any(|part| part == b"/__pycache__/")
                || path.ends_with(b"/__pycache__"))
    }
}

/// Where denials go.
#[derive(Debug)]
pub(crate) struct Traps {
    sink: Sink,
    debug: bool,
}

#[derive(Debug)]
enum Sink {
    /// Kept until the end.
    Collected { seen: HashSet<Denial>, order: Vec<Denial>, uncounted: usize },
    /// Written at once.
    Stream(Stream),
}

impl Traps {
    /// Collects, or writes to `stream`; `debug` also logs each at once.
    pub(crate) fn new(stream: Option<Stream>, debug: bool) -> Self {
        let sink = stream.map_or_else(
            || Sink::Collected { seen: HashSet::new(), order: Vec::new(), uncounted: 0 },
            Sink::Stream,
        );
        Self { sink, debug }
    }

    /// Reports one denial; `reason` is for --debug.
    pub(crate) fn report(&mut self, denial: Denial, reason: &str) {
        if self.debug {
            self.log(&format!("refused ({reason}): {}", line(&denial.trap()).trim_end()));
        }
        match &mut self.sink {
            Sink::Stream(stream) => stream.write(line(&denial.trap()).as_bytes()),
            Sink::Collected { seen, order, uncounted } => {
                if denial.is_probe() || seen.contains(&denial) {
                    return;
                }
                if seen.len() < REMEMBERED_MAX {
                    seen.insert(denial.clone());
                    order.push(denial);
                } else {
                    *uncounted += 1;
                }
            }
        }
    }

    /// Logs `message` if --debug was given.
    pub(crate) fn log(&self, message: &str) {
        if self.debug {
            let _ = writeln!(std::io::stderr(), "landstrip: {message}");
        }
    }

    /// Prints what was collected: writes always, the rest only if the command failed.
    pub(crate) fn print(&self, failed: bool) {
        let Sink::Collected { order, uncounted, .. } = &self.sink else { return };
        let shown: Vec<_> = order.iter().filter(|denial| failed || denial.is_write()).collect();
        let mut text = String::new();
        for denial in shown.iter().take(LINES_MAX) {
            text.push_str(&line(&denial.trap()));
        }
        let rest = shown.len().saturating_sub(LINES_MAX) + uncounted;
        if rest > 0 {
            let rest = rest.to_string();
            let pairs = [("source", &b"report"[..]), ("unreported", rest.as_bytes())];
            text.push_str(&line(&Trap::Internal(&pairs)));
        }
        if !text.is_empty() {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

/// Prints a trap of landstrip's own on standard error.
pub(crate) fn print(trap: &Trap<'_>) {
    // A closed standard error leaves only the exit status to tell.
    let _ = std::io::stderr().write_all(line(trap).as_bytes());
}

fn line(trap: &Trap<'_>) -> String {
    let mut line = String::new();
    // Writing to a String cannot fail.
    let _ = trap.write_line(&mut line);
    line
}

impl Denial {
    /// A denial on the file at `path`.
    pub(crate) fn file(operation: FileOperation, path: &Path) -> Self {
        Self::File(operation, path.as_os_str().as_bytes().to_vec())
    }
}

/// The caller's descriptor for traps, never written to in a way that could block.
#[derive(Debug)]
pub(crate) struct Stream {
    descriptor: OwnedFd,
    is_socket: bool,
    /// The end of a line of which the reader has taken only the beginning.
    pending: Vec<u8>,
}

impl Stream {
    /// Takes over descriptor `number` of the caller.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if it is not open for writing.
    pub(crate) fn take_over(number: RawFd) -> Result<Self, Failure> {
        let unusable = || Failure::Usage(format!("--trap-fd {number} is not open for writing"));
        if number < 3 {
            return Err(unusable());
        }
        // SAFETY: only looked at; whether it is open is just what is asked.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let mode = fs::fcntl_getfl(descriptor).map_err(|_| unusable())?;
        let access = mode & OFlags::RWMODE;
        if mode.contains(OFlags::PATH) || access == OFlags::RDONLY {
            return Err(unusable());
        }
        let descriptor = io::fcntl_dupfd_cloexec(descriptor, 3).map_err(|_| unusable())?;
        Self::new(descriptor).map_err(|_| unusable())
    }

    /// Uses the caller's descriptor. A pipe is opened anew, because O_NONBLOCK on the caller's
    /// own open file description would change it for the caller too.
    ///
    /// # Errors
    /// Returns what fstat(2) or open(2) returns.
    fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fs::fstat(&descriptor)?.st_mode);
        let descriptor = if kind == FileType::Fifo {
            let link = crate::perform::path::own_link(&descriptor);
            fs::open(link, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?
        } else {
            descriptor
        };
        Ok(Self { descriptor, is_socket: kind == FileType::Socket, pending: Vec::new() })
    }

    fn write(&mut self, line: &[u8]) {
        let pending = std::mem::take(&mut self.pending);
        self.pending = self.write_some(&pending);
        if self.pending.is_empty() {
            let rest = self.write_some(line);
            // Nothing of it is out: dropped whole. Else the rest must follow before another line.
            if rest.len() < line.len() {
                self.pending = rest;
            }
        }
    }

    /// Writes what goes without waiting; returns the rest.
    fn write_some(&self, mut bytes: &[u8]) -> Vec<u8> {
        while !bytes.is_empty() {
            let written = if self.is_socket {
                net::send(&self.descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            } else if is_writable(&self.descriptor) {
                io::write(&self.descriptor, bytes)
            } else {
                Err(Errno::AGAIN)
            };
            match written {
                Ok(count) if count > 0 => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        bytes.to_vec()
    }
}

/// Whether a write would not wait: for terminals and the like, which have no per-call flag.
fn is_writable(descriptor: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::OUT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn denial(path: &str) -> Denial {
        Denial::file(FileOperation::Write, Path::new(path))
    }

    #[test]
    fn a_full_pipe_drops_whole_lines_and_never_blocks() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut traps = Traps::new(Some(Stream::new(writer).unwrap()), false);
        let long = "x".repeat(3000);
        for index in 0..100 {
            traps.report(denial(&format!("/{index}/{long}")), "test");
        }
        drop(traps);
        let mut text = String::new();
        std::fs::File::from(reader).read_to_string(&mut text).unwrap();
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        assert!(lines.len() > 5 && lines.len() < 100, "{}", lines.len());
        let (last, whole) = lines.split_last().unwrap();
        assert!(whole.iter().all(|line| line.starts_with("{\"F") && line.ends_with("]}\n")));
        assert!(last.starts_with("{\"F"));
    }

    #[test]
    fn each_denial_is_collected_once_and_probes_not_at_all() {
        let mut traps = Traps::new(None, false);
        for path in ["/a", "/a", "/b", "/lib/__pycache__/x.pyc", "/lib/__pycache__"] {
            traps.report(denial(path), "test");
        }
        let Sink::Collected { order, .. } = &traps.sink else { unreachable!("collects") };
        assert_eq!(*order, [denial("/a"), denial("/b")]);
    }
}
