//! The descriptors that reports are written to: standard error, and that of --trap-fd.
//!
//! A line that cannot be written is dropped; nothing waits for a reader but the last lines, when the command has ended:
//! on the descriptor of --trap-fd not for long, and on standard error until a signal says to end.

use kernel::inherited;
use kernel::self_proc::own_link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::{self, Errno, ReadWriteFlags};
use rustix::net::{self, SendFlags};
use rustix::process::Signal;
use std::io::IoSlice;
use std::time::{Duration, Instant};

/// What a pipe has room for if it is writable (pipe(7)).
const PIPE_BUF: usize = 4096;
/// What a pseudoterminal has room for if it is writable: the smallest of the buffers that it fills
/// one after the other (drivers/tty/tty_buffer.c).
const TERMINAL_ROOM: usize = 256;
/// How long the last lines wait for a reader.
const LAST_LIMIT: Duration = Duration::from_secs(1);

/// A descriptor of the caller's, never written to in a way that could block.
#[derive(Debug)]
pub struct Stream {
    descriptor: OwnedFd,
    kind: FileType,
    /// The end of a line of which the reader has taken only the beginning.
    pending: Vec<u8>,
}

impl Stream {
    /// Takes over descriptor `number` of the caller.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if it is not open for writing, or one of the standard streams.
    pub fn take_over(number: RawFd) -> io::Result<Self> {
        if number < 3 {
            return Err(Errno::BADF);
        }
        let descriptor = inherited::duplicate(number)?;
        let mode = fs::fcntl_getfl(&descriptor)?;
        let access = mode & OFlags::RWMODE;
        if mode.contains(OFlags::PATH) || access == OFlags::RDONLY {
            return Err(Errno::BADF);
        }
        Self::new(descriptor)
    }

    /// # Errors
    /// Returns what fcntl(2) returns if standard error is closed.
    pub(super) fn of_standard_error() -> io::Result<Self> {
        Self::new(io::fcntl_dupfd_cloexec(std::io::stderr(), 3)?)
    }

    /// Uses the caller's descriptor. A pipe is opened anew, because O_NONBLOCK on the caller's
    /// own open file description would change it for the caller too. A pipe that another user made
    /// cannot be opened: there the descriptor itself has to do.
    fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fs::fstat(&descriptor)?.st_mode);
        let reopened = (kind == FileType::Fifo).then(|| {
            let link = own_link(&descriptor);
            fs::open(link, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        });
        let descriptor = reopened.and_then(Result::ok).unwrap_or(descriptor);
        Ok(Self { descriptor, kind, pending: Vec::new() })
    }

    pub fn write(&mut self, line: &[u8]) {
        self.offer(line);
    }

    /// Writes lines once the command has ended: a reader who is behind gets some time for all of them.
    pub fn write_last<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        let deadline = Instant::now() + LAST_LIMIT;
        for line in lines {
            while let (false, true) = self.offer(line.as_bytes()) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || !is_writable(&self.descriptor, left) {
                    return;
                }
            }
        }
    }

    /// Writes what is left of the line before, and then `line`, without waiting. Returns whether that is out, or some of it,
    /// and whether more can follow.
    fn offer(&mut self, line: &[u8]) -> (bool, bool) {
        let pending = std::mem::take(&mut self.pending);
        let (rest, can_go_on) = self.write_some(&pending);
        self.pending = rest;
        if !self.pending.is_empty() {
            return (false, can_go_on);
        }
        let (rest, can_go_on) = self.write_some(line);
        // Nothing of it is out: dropped whole. Else the rest must follow before another line.
        let is_begun = rest.len() < line.len();
        if is_begun {
            self.pending = rest;
        }
        (is_begun, can_go_on)
    }

    /// Writes the last lines. The command has ended, and whose the status is depends on them: a reader who is behind
    /// gets some time.
    pub fn finish(&mut self, text: &[u8]) {
        let deadline = Instant::now() + LAST_LIMIT;
        self.pending.extend_from_slice(text);
        loop {
            let pending = std::mem::take(&mut self.pending);
            let (rest, can_go_on) = self.write_some(&pending);
            self.pending = rest;
            let left = deadline.saturating_duration_since(Instant::now());
            if !can_go_on || left.is_zero() || !is_writable(&self.descriptor, left) {
                return;
            }
        }
    }

    /// Writes all of `text`, however long that takes, unless a signal that ends programs comes in by `signals`
    /// (signalfd(2)), or nothing can be written any more.
    pub(super) fn write_whole(&self, text: &[u8], signals: BorrowedFd<'_>) {
        let mut pending = text.to_vec();
        loop {
            let (rest, can_go_on) = self.write_some(&pending);
            if !can_go_on {
                return;
            }
            pending = rest;
            let mut fds = [
                PollFd::new(&self.descriptor, PollFlags::OUT),
                PollFd::from_borrowed_fd(signals, PollFlags::IN),
            ];
            let polled = poll(&mut fds, None);
            let [output, told] = fds.map(|fd| fd.revents());
            let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
            let is_over = polled.is_ok() && output.intersects(gone);
            if is_over || !told.is_empty() && is_told_to_end(signals) {
                return;
            }
        }
    }

    /// Writes what goes without waiting; returns the rest, and whether that can be written once there is room. What is
    /// full for good (a device, a file system), or fails, can be writable all the same.
    fn write_some(&self, mut bytes: &[u8]) -> (Vec<u8>, bool) {
        while !bytes.is_empty() {
            let written = if self.kind == FileType::Socket {
                net::send(&self.descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            } else if is_writable(&self.descriptor, Duration::ZERO) {
                self.write_chunk(&bytes[..bytes.len().min(self.chunk())])
            } else {
                Err(Errno::AGAIN)
            };
            match written {
                Ok(count) if count > 0 => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return (bytes.to_vec(), true),
                _ => break,
            }
        }
        (bytes.to_vec(), false)
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

/// Whether a signal that ends programs has come in by `signals` (signalfd(2)).
pub(crate) fn is_told_to_end(signals: BorrowedFd<'_>) -> bool {
    let mut info = [0; 128];
    let ending = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    let mut is_to_end = false;
    while let Ok(128) = io::read(signals, &mut info) {
        let number = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
        is_to_end |= ending.contains(&number);
    }
    is_to_end
}

/// Whether writing a chunk would not wait: for terminals and the like, which have no per-call flag.
/// Whether something can be written to it, and somebody is there to read, before `limit`.
fn is_writable(descriptor: &OwnedFd, limit: Duration) -> bool {
    let mut fds = [PollFd::new(descriptor, PollFlags::OUT)];
    let limit = Timespec::try_from(limit).ok();
    poll(&mut fds, limit.as_ref()).is_ok() && fds[0].revents() == PollFlags::OUT
}

#[cfg(test)]
mod tests {
    use super::super::lines::denial_line;
    use super::*;
    use common::trap::FileOperation;
    use landstrip_core::report::denials::Denial;
    use rustix::pty::{self, OpenptFlags};
    use std::io::Read;

    fn write_many_long(mut stream: Stream) {
        let long = "x".repeat(3000);
        for index in 0..100 {
            let path = format!("/{index}/{long}");
            let denial = Denial::file(FileOperation::Write, path.as_ref());
            stream.write(denial_line(&denial).as_bytes());
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
        write_many_long(Stream::new(writer).unwrap());
        let mut text = String::new();
        std::fs::File::from(reader).read_to_string(&mut text).unwrap();
        assert_lines_were_dropped_whole(&text);
    }

    #[test]
    fn the_last_lines_wait_for_a_reader_who_is_behind() {
        // More than a pipe holds.
        let line = "x".repeat(2999) + "\n";
        let lines = || std::iter::repeat_n(line.as_str(), 30);
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut stream = Stream::new(writer).unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            std::fs::File::from(reader).read_to_string(&mut text).map(|_| text)
        });
        stream.write_last(lines());
        drop(stream);
        assert_eq!(reading.join().unwrap().unwrap(), lines().collect::<String>());
        // Where nobody reads any more, they go nowhere.
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut stream = Stream::new(writer).unwrap();
        drop(reader);
        stream.write_last(lines());
    }

    #[test]
    fn a_pipe_that_cannot_be_opened_anew_never_blocks_either() {
        // Unknown: a pipe as on a kernel that has no flag for one write.
        for kind in [FileType::Fifo, FileType::Unknown] {
            // Without O_NONBLOCK, as the caller made it.
            let (reader, descriptor) = rustix::pipe::pipe().unwrap();
            write_many_long(Stream { descriptor, kind, pending: Vec::new() });
            let mut text = String::new();
            std::fs::File::from(reader).read_to_string(&mut text).unwrap();
            assert_lines_were_dropped_whole(&text);
        }
    }

    #[test]
    fn a_terminal_that_nobody_reads_never_blocks() {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = pty::openpt(flags).unwrap();
        pty::unlockpt(&master).unwrap();
        let terminal = pty::ioctl_tiocgptpeer(&master, flags).unwrap();
        let mut stream = Stream::new(terminal).unwrap();
        assert_eq!(stream.write_some(b"begins"), (Vec::new(), false));
        for _ in 0..100 {
            stream.write(&[b'x'; 3000]);
        }
        let (rest, can_go_on) = stream.write_some(&[b'x'; 300_000]);
        assert!(can_go_on && !rest.is_empty(), "the terminal has room for everything");
    }
}
