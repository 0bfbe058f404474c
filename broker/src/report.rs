//! Reports: denials are collected and printed at the end, or written to --trap-fd at once.
//!
//! A denial that cannot be written is dropped; enforcement never waits for a reader.

#![allow(unsafe_code)] // for the descriptor that the caller names by its number

use crate::failure::Failure;
use common::trap::{FileOperation, Mechanism, NetworkOperation, Trap};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::{self, Errno, ReadWriteFlags};
use rustix::net::{self, SendFlags};
use std::collections::HashSet;
use std::io::{IoSlice, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most lines that are printed at the end.
const LINES_MAX: usize = 64;
/// Most distinct denials that are remembered; more are only counted.
const REMEMBERED_MAX: usize = 4096;
/// What a pipe has room for if it is writable (pipe(7)).
const PIPE_BUF: usize = 4096;
/// What a pseudoterminal has room for if it is writable: the smallest of the buffers that it fills
/// one after the other (drivers/tty/tty_buffer.c).
const TERMINAL_ROOM: usize = 256;

/// How long the end of a run waits for reports of calls that were let through last.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);

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

/// Where denials go; shared by the threads that answer notifications.
#[derive(Debug)]
pub(crate) struct Traps {
    sink: Mutex<Sink>,
    /// Standard error, if --debug was given.
    debug: Option<Mutex<Stream>>,
    /// Calls that were let through and are still looked at.
    undecided: AtomicUsize,
}

/// While this lives, a denial may still be reported.
#[derive(Debug)]
pub(crate) struct Undecided<'a>(&'a AtomicUsize);

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
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
        // A closed standard error is the caller's choice.
        let debug = debug.then(|| Stream::of_standard_error().ok()).flatten();
        Self {
            sink: Mutex::new(sink),
            debug: debug.map(Mutex::new),
            undecided: AtomicUsize::new(0),
        }
    }

    /// Says that a denial may follow of a call that is about to be let through.
    pub(crate) fn undecided(&self) -> Undecided<'_> {
        self.undecided.fetch_add(1, Ordering::Relaxed);
        Undecided(&self.undecided)
    }

    /// Waits for the denials that are still to come, though not for a file system that hangs.
    fn settle(&self) {
        let deadline = Instant::now() + SETTLE_LIMIT;
        while self.undecided.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Reports one denial; `reason` is for --debug.
    pub(crate) fn report(&self, denial: Denial, reason: &str) {
        if self.debug.is_some() {
            self.log(&format!("refused ({reason}): {}", line(&denial.trap()).trim_end()));
        }
        match &mut *self.sink() {
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

    /// Logs `message` if --debug was given and standard error takes it now.
    pub(crate) fn log(&self, message: &str) {
        if let Some(stream) = &self.debug {
            lock(stream).write(format!("landstrip: {message}\n").as_bytes());
        }
    }

    /// Ends the reports. Prints what was collected: writes always, the rest only if the command failed.
    pub(crate) fn print(&self, failed: bool) {
        self.settle();
        let sink = self.sink();
        let Sink::Collected { order, uncounted, .. } = &*sink else { return };
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

    fn sink(&self) -> MutexGuard<'_, Sink> {
        lock(&self.sink)
    }
}

/// Held while one line is added or written, so that lines stay whole; never while waiting.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked left at worst a line without its end.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A descriptor of the caller's, never written to in a way that could block.
#[derive(Debug)]
pub(crate) struct Stream {
    descriptor: OwnedFd,
    kind: FileType,
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

    /// # Errors
    /// Returns what fcntl(2) returns if standard error is closed.
    fn of_standard_error() -> io::Result<Self> {
        Self::new(io::fcntl_dupfd_cloexec(std::io::stderr(), 3)?)
    }

    /// Uses the caller's descriptor. A pipe is opened anew, because O_NONBLOCK on the caller's
    /// own open file description would change it for the caller too. A pipe that another user made
    /// cannot be opened: there the descriptor itself has to do.
    ///
    /// # Errors
    /// Returns what fstat(2) returns.
    fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fs::fstat(&descriptor)?.st_mode);
        let reopened = (kind == FileType::Fifo).then(|| {
            let link = crate::kernel::object::own_link(&descriptor);
            fs::open(link, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        });
        let descriptor = reopened.and_then(Result::ok).unwrap_or(descriptor);
        Ok(Self { descriptor, kind, pending: Vec::new() })
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
            let written = if self.kind == FileType::Socket {
                net::send(&self.descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            } else if is_writable(&self.descriptor) {
                self.write_chunk(&bytes[..bytes.len().min(self.chunk())])
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

    /// How much can be written without waiting to what is writable.
    fn chunk(&self) -> usize {
        if self.kind == FileType::CharacterDevice { TERMINAL_ROOM } else { PIPE_BUF }
    }

    /// Between poll(2) and the write, another writer can fill what has no O_NONBLOCK. A pipe takes
    /// the flag for one write (Linux 6.4), unless it has a name or was opened anew.
    fn write_chunk(&self, chunk: &[u8]) -> io::Result<usize> {
        const AT_ITS_POSITION: u64 = u64::MAX;
        if self.kind == FileType::Fifo {
            let flags = ReadWriteFlags::NOWAIT;
            let bytes = [IoSlice::new(chunk)];
            match io::pwritev2(&self.descriptor, &bytes, AT_ITS_POSITION, flags) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                result => return result,
            }
        }
        io::write(&self.descriptor, chunk)
    }
}

/// Whether writing a chunk would not wait: for terminals and the like, which have no per-call flag.
fn is_writable(descriptor: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::OUT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;
    use rustix::fd::{AsRawFd, FromRawFd};
    use std::io::Read;

    fn denial(path: &str) -> Denial {
        Denial::file(FileOperation::Write, Path::new(path))
    }

    fn report_many_long(stream: Stream) {
        let traps = Traps::new(Some(stream), false);
        let long = "x".repeat(3000);
        for index in 0..100 {
            traps.report(denial(&format!("/{index}/{long}")), "test");
        }
    }

    fn assert_lines_were_dropped_whole(text: &str) {
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        assert!(lines.len() > 5 && lines.len() < 100, "{}", lines.len());
        let (last, whole) = lines.split_last().unwrap();
        assert!(whole.iter().all(|line| line.starts_with("{\"F") && line.ends_with("]}\n")));
        assert!(last.starts_with("{\"F"));
    }

    #[test]
    fn a_full_pipe_drops_whole_lines_and_never_blocks() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        report_many_long(Stream::new(writer).unwrap());
        let mut text = String::new();
        std::fs::File::from(reader).read_to_string(&mut text).unwrap();
        assert_lines_were_dropped_whole(&text);
    }

    #[test]
    fn a_pipe_that_cannot_be_opened_anew_never_blocks_either() {
        // Unknown: a pipe as on a kernel that has no flag for one write.
        for kind in [FileType::Fifo, FileType::Unknown] {
            // Without O_NONBLOCK, as the caller made it.
            let (reader, descriptor) = rustix::pipe::pipe().unwrap();
            report_many_long(Stream { descriptor, kind, pending: Vec::new() });
            let mut text = String::new();
            std::fs::File::from(reader).read_to_string(&mut text).unwrap();
            assert_lines_were_dropped_whole(&text);
        }
    }

    #[test]
    fn a_terminal_that_nobody_reads_never_blocks() {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let master = fs::open("/dev/ptmx", flags, Mode::empty()).unwrap();
        let unlocked = 0i32;
        let number = master.as_raw_fd();
        // SAFETY: TIOCSPTLCK reads the integer.
        assert_eq!(unsafe { libc::ioctl(number, libc::TIOCSPTLCK, &unlocked) }, 0);
        // SAFETY: TIOCGPTPEER takes the flags of open(2).
        let terminal = unsafe { libc::ioctl(number, libc::TIOCGPTPEER, flags.bits()) };
        assert!(terminal >= 0);
        // SAFETY: just opened, and nobody else's.
        let terminal = unsafe { OwnedFd::from_raw_fd(terminal) };
        let mut stream = Stream::new(terminal).unwrap();
        assert!(stream.write_some(b"begins").is_empty());
        for _ in 0..100 {
            stream.write(&[b'x'; 3000]);
        }
        assert!(!stream.pending.is_empty(), "the terminal has room for everything");
    }

    #[test]
    fn each_denial_is_collected_once_and_probes_not_at_all() {
        let traps = Traps::new(None, false);
        for path in ["/a", "/a", "/b", "/lib/__pycache__/x.pyc", "/lib/__pycache__"] {
            traps.report(denial(path), "test");
        }
        let sink = traps.sink();
        let Sink::Collected { order, .. } = &*sink else { unreachable!("collects") };
        assert_eq!(*order, [denial("/a"), denial("/b")]);
    }
}
