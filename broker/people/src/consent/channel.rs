//! The channel to a program that answers: a stream socket of the caller's, with one JSON object a line both ways. Who
//! is at its other end is not trusted to be quick, to speak well or to be there: nothing here waits, and what is kept is
//! bounded.

use super::lines::{self, LINE_MAX};
use super::{Question, Said};
use kernel::threads::lock;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::sockopt::socket_type;
use rustix::net::{self, RecvFlags, SendFlags, SocketType};
use std::sync::Mutex;

/// Most that waits to be taken before nothing more is asked, and nothing more is heard.
const WAITING_MAX: usize = 256 * 1024;

/// One.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    events: OwnedFd,
    buffers: Mutex<Buffers>,
}

#[derive(Debug, Default)]
struct Buffers {
    /// The beginning of a line.
    input: Vec<u8>,
    /// What was not taken yet.
    output: Vec<u8>,
    is_closed: bool,
}

impl Channel {
    /// One over `socket`.
    ///
    /// # Errors
    /// Returns [`Errno::NOTSOCK`] or [`Errno::NOTCONN`] if it is no connected stream socket.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        if socket_type(&socket)? != SocketType::STREAM || net::getpeername(&socket)?.is_none() {
            return Err(Errno::NOTCONN);
        }
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&events, &socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self { socket, events, buffers: Mutex::default() })
    }

    /// What is readable when there is something to hear, or to say the rest of.
    pub(super) fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Asks, if the other end takes what it is told.
    pub(super) fn ask(&self, question: &Question<'_>) -> bool {
        let Some(line) = lines::question(question) else { return false };
        let mut buffers = lock(&self.buffers);
        let may_ask = !buffers.is_closed && buffers.output.len() < WAITING_MAX;
        if may_ask {
            self.put(&mut buffers, &line);
        }
        may_ask
    }

    /// Says something that follows from a question, or from what was heard: so that there is an end to it.
    pub(super) fn say(&self, line: &str) {
        self.put(&mut lock(&self.buffers), line);
    }

    fn put(&self, buffers: &mut Buffers, line: &str) {
        buffers.output.extend_from_slice(line.as_bytes());
        self.flush(buffers);
    }

    /// Writes what goes without waiting. Whether the other end is gone, reading tells.
    fn flush(&self, buffers: &mut Buffers) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while !buffers.output.is_empty() {
            match net::send(&self.socket, &buffers.output, flags) {
                Ok(count) => drop(buffers.output.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => buffers.output.clear(),
            }
        }
        self.listen_for(buffers);
    }

    /// Listens for room to write if some is wanted, and for input unless too much waits.
    fn listen_for(&self, buffers: &Buffers) {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, buffers.output.len() < WAITING_MAX);
        flags.set(EventFlags::OUT, !buffers.output.is_empty());
        if !buffers.is_closed {
            let _ = epoll::modify(&self.events, &self.socket, EventData::new_u64(0), flags);
        }
    }

    /// What the other end has said, as far as it is there.
    pub(super) fn hear(&self) -> Vec<Said> {
        let mut buffers = lock(&self.buffers);
        if buffers.is_closed {
            return Vec::new();
        }
        self.flush(&mut buffers);
        if buffers.output.len() >= WAITING_MAX {
            return Vec::new();
        }
        let mut chunk = vec![0; LINE_MAX];
        let is_open = match net::recv(&self.socket, &mut chunk, RecvFlags::DONTWAIT) {
            Ok((count, _)) => {
                buffers.input.extend_from_slice(&chunk[..count]);
                count > 0
            }
            Err(errno) => matches!(errno, Errno::AGAIN | Errno::INTR),
        };
        let mut said = Vec::new();
        while let Some(end) = buffers.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = buffers.input.drain(..=end).collect();
            match lines::parse(&line) {
                Ok(what) => said.push(what),
                Err(why) => self.put(&mut buffers, &lines::not_understood(why)),
            }
        }
        // Such a line has no end, or means harm.
        if !is_open || buffers.input.len() > LINE_MAX {
            buffers.is_closed = true;
            let _ = epoll::delete(&self.events, &self.socket);
            said.push(Said::Closed);
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Asker, End};
    use super::*;
    use common::trap::FileOperation;
    use landstrip_core::ask::Rule;
    use landstrip_core::report::denials::Denial;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    fn pair() -> (Channel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Channel::new(ours.into()).unwrap(), theirs)
    }

    fn ask(channel: &Channel) -> bool {
        let denial = Denial::file(FileOperation::Write, Path::new("/a"));
        let rule = Rule { key: "filesystem.allowWrite".to_owned(), value: "/a".to_owned() };
        channel.ask(&Question {
            number: 1,
            denial: &denial,
            rule: &rule,
            lasts: true,
            asker: &Asker::default(),
        })
    }

    #[test]
    fn only_a_connected_stream_socket_will_do() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert!(Channel::new(reader).is_err());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Channel::new(listener.into()).is_err());
        let (one, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        assert!(Channel::new(one.into()).is_err());
    }

    #[test]
    fn lines_are_heard_however_they_arrive() {
        let (channel, mut theirs) = pair();
        theirs.write_all(b"{\"ask\":1,\"answer\":\"once\"}\n{\"ask\":2,").unwrap();
        assert_eq!(channel.hear(), [Said::Answer(1, Answer::Once)]);
        assert_eq!(channel.hear(), []);
        theirs.write_all(b"\"answer\":\"deny\"}\nx\n").unwrap();
        assert_eq!(channel.hear(), [Said::Answer(2, Answer::Deny)]);
        let mut said = [0; 13];
        theirs.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"{\"refused\":[\"");
        drop(theirs);
        assert_eq!(channel.hear(), [Said::Closed]);
        assert_eq!(channel.hear(), []);
        assert!(!ask(&channel));
    }

    #[test]
    fn a_line_without_an_end_closes_the_channel() {
        let (channel, mut theirs) = pair();
        theirs.set_nonblocking(true).unwrap();
        let mut heard = Vec::new();
        for _ in 0..100 {
            let _ = theirs.write(&[b'x'; 4096]);
            heard.extend(channel.hear());
        }
        assert_eq!(heard, [Said::Closed]);
    }

    #[test]
    fn one_that_takes_nothing_is_not_asked_any_more_nor_heard() {
        let (channel, mut theirs) = pair();
        let asked = (0..1_000_000).take_while(|_| ask(&channel)).count();
        assert!(asked > 100, "{asked}");
        for _ in 0..64 {
            channel.say(&lines::settled(1, End::Time));
        }
        assert!(lock(&channel.buffers).output.len() < WAITING_MAX + 2 * LINE_MAX);
        theirs.write_all(b"{\"ask\":1,\"answer\":\"once\"}\n").unwrap();
        assert_eq!(channel.hear(), []);
        theirs.set_nonblocking(true).unwrap();
        let mut taken = vec![0; 1 << 20];
        let mut heard = Vec::new();
        while heard.is_empty() {
            let _ = theirs.read(&mut taken);
            heard = channel.hear();
        }
        assert_eq!(heard, [Said::Answer(1, Answer::Once)]);
        assert!(ask(&channel));
    }
}
