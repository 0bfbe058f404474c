//! What a client sends after its first message, as long as it can still name a host in clear.
//!
//! A ClientHello is looked for also behind the beginnings of other protocols, which change to TLS in the middle
//! (STARTTLS of mail and directories, SSLRequest of databases): there by what one has to begin with. That it is ssh is
//! believed once the host says so: others pass over the client's line, and go on.

use crate::opening::{Lines, Opening};
use crate::tls::{Broken, Handshake, Name};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What there is to look for.
#[derive(Debug)]
pub(crate) enum Watch {
    /// A ClientHello, anywhere: until the server has taken one, what is TLS for the client can be anything for it.
    Search(Search),
    /// Another ClientHello in a handshake that both sides have begun.
    Handshake(Handshake),
    /// Nothing: no name in clear can follow.
    Over,
}

impl Watch {
    /// What to look for in a stream that begins so.
    pub(crate) fn after(opening: &Opening) -> Self {
        match opening {
            Opening::Tls(_) => Self::Search(Search::in_handshake()),
            Opening::Other | Opening::Ssh => Self::Search(Search::default()),
            _ => Self::Over,
        }
    }

    /// Reads on in what the client sends, and has `permits` judge what it finds; whether all was permitted.
    pub(crate) fn read_client(
        &mut self,
        bytes: &[u8],
        permits: &mut dyn FnMut(Opening) -> bool,
    ) -> bool {
        let mut is_permitted = true;
        let mut each = |name| is_permitted &= permits(Opening::Tls(name));
        let is_over = match self {
            Self::Over => return true,
            Self::Search(search) => {
                if search.lines.as_mut().is_some_and(|lines| lines.read(bytes)) {
                    return permits(Opening::BrokenHttp);
                }
                search.read(bytes, &mut each)
            }
            Self::Handshake(handshake) => handshake.read_client(bytes, &mut each),
        };
        match (is_over, self) {
            (Err(_), _) => return permits(Opening::BrokenTls),
            (Ok(true), watch) => *watch = Self::Over,
            _ => {}
        }
        is_permitted
    }

    /// What the server answers with `bytes` that the client had not begun here.
    fn answered(&self, bytes: &[u8]) -> Option<Opening> {
        let Self::Search(search) = self else { return None };
        // Of one that has asked for nothing, it is no answer.
        if !search.tail.is_empty() && left_of(search.answer, bytes) == Some(b"") {
            return Some(Opening::BrokenHttp);
        }
        let is_tls = || [&search.said, bytes].concat().windows(CHOICE).any(is_choice);
        let may_be_tls = search.hello.is_none() && search.may_have_begun;
        (may_be_tls && is_tls()).then_some(Opening::BrokenTls)
    }

    /// Reads on in what the server sends.
    pub(crate) fn read_server(&mut self, bytes: &[u8]) {
        match self {
            Self::Over => {}
            Self::Handshake(handshake) => handshake.read_server(bytes),
            Self::Search(search) => {
                if let Some(next) = search.read_server(bytes) {
                    *self = next;
                }
            }
        }
    }
}

/// What a host of ssh says first (RFC 4253 section 4.2).
const SSH: &[u8] = b"SSH-";
/// What one of HTTP answers (RFC 9112 section 4).
const HTTP: &[u8] = b"HTTP/";

/// What of `expected` is left if a server goes on with `bytes`.
fn left_of(expected: Option<&'static [u8]>, bytes: &[u8]) -> Option<&'static [u8]> {
    let (now, later) = expected?.split_at(expected?.len().min(bytes.len()));
    bytes.starts_with(now).then_some(later)
}

/// What a ClientHello begins with: the headers of the record and the message, its version, its random, and the length
/// of a session's identifier. By chance, that is seen once in 2^31 bytes.
const BEGINNING: usize = 44;
/// Shortest first record that has all of it for certain.
const FIRST_MIN: u8 = 64;
/// What is looked at to tell that there is a shorter one: it, and the beginning of the next.
const CUT_MAX: usize = 5 + FIRST_MIN as usize + 1;

/// Looks for a ClientHello.
#[derive(Debug)]
pub(crate) struct Search {
    /// The end of what was read, in which one may have begun.
    tail: Vec<u8>,
    /// One that has begun.
    hello: Option<Handshake>,
    /// There was what some server may take for one, whatever else it holds.
    may_have_begun: bool,
    /// The end of what the server said, in which it may have begun to answer that.
    said: Vec<u8>,
    /// All that comes first was judged before anything of it was sent: what is in it is no other beginning.
    is_judged: bool,
    /// What comes before the server speaks.
    lines: Option<Lines>,
    /// What of [`SSH`] the server still has to say first for the search to end.
    greeting: Option<&'static [u8]>,
    /// What of [`HTTP`] it has to say first to have taken something for a request.
    answer: Option<&'static [u8]>,
}

impl Default for Search {
    fn default() -> Self {
        let (lines, tail) = (Some(Lines::default()), Vec::new());
        let (greeting, answer) = (Some(SSH), Some(HTTP));
        let (said, may_have_begun) = (Vec::new(), false);
        Self { tail, hello: None, may_have_begun, said, is_judged: false, lines, greeting, answer }
    }
}

impl Search {
    /// In a stream that begins with a ClientHello.
    fn in_handshake() -> Self {
        let hello = Some(Handshake::default());
        // A server that speaks HTTP instead says no more than that.
        Self { hello, is_judged: true, answer: None, ..Self::default() }
    }

    /// Reads on in what the server sends; what there is to look for instead, once that tells.
    fn read_server(&mut self, bytes: &[u8]) -> Option<Watch> {
        if self.may_have_begun {
            self.said.extend_from_slice(bytes);
            self.said.drain(..self.said.len().saturating_sub(CHOICE - 1));
        }
        self.greeting = left_of(self.greeting, bytes);
        self.answer = left_of(self.answer, bytes);
        if self.greeting == Some(b"") {
            return Some(Watch::Over);
        }
        // What speaks otherwise is no server of HTTP.
        self.lines = self.lines.take().filter(|_| self.answer.is_some());
        let hello = self.hello.as_mut()?;
        hello.read_server(bytes);
        if hello.is_answered() { self.hello.take().map(Watch::Handshake) } else { None }
    }

    fn read(&mut self, bytes: &[u8], each: &mut dyn FnMut(Name)) -> Result<bool, Broken> {
        let known = self.tail.len();
        let mut fresh = known;
        let all = [&self.tail, bytes].concat();
        let is_judged = std::mem::take(&mut self.is_judged);
        self.may_have_begun =
            self.may_have_begun || beginnings(&all).any(|at| may_begin_hello(&all[at..]));
        let mut beginnings = beginnings(&all)
            .filter(|_| !is_judged)
            .filter(|&at| is_cut(&all[at..]) || begins_hello(&all[at..]) && at + BEGINNING > known);
        match (&mut self.hello, beginnings.next(), beginnings.next()) {
            (_, None, _) => {}
            (hello @ None, Some(at), None) if !is_cut(&all[at..]) => {
                *hello = Some(Handshake::default());
                fresh = at;
            }
            // One inside of another: which of them a server reads depends on where it begins.
            _ => return Err(Broken),
        }
        self.tail = all[all.len().saturating_sub(CUT_MAX)..].to_vec();
        match &mut self.hello {
            Some(hello) => hello.read_client(&all[fresh..], each),
            None => Ok(false),
        }
    }
}

/// Where a handshake record may begin in `bytes`.
fn beginnings(bytes: &[u8]) -> impl Iterator<Item = usize> {
    // Where there is none, which is soon found out for many bytes at a time, nothing else is looked at.
    const BLOCK: usize = 64;
    let blocks = bytes.chunks(BLOCK).enumerate().filter(|(_, block)| block.contains(&22));
    blocks
        .flat_map(|(number, block)| (number * BLOCK..).take(block.len()))
        .filter(|&at| bytes[at] == 22)
}

/// Whether `bytes` begin with a ClientHello, in a record of any version that some server takes, and no longer than
/// one takes. Those that find the version in an extension heed no other (RFC 8446 section 4.1.2).
fn begins_hello(bytes: &[u8]) -> bool {
    let session = bytes.get(BEGINNING - 1);
    matches!(*bytes, [22, 0..=15, _, 0..=0x48, _, 1, 0..=2, ..])
        && session.is_some_and(|&length| length <= 32)
}

/// Whether `bytes` begin as a ClientHello does of any kind: there are servers that heed neither the version of a record
/// nor the longest identifier of a session.
fn may_begin_hello(bytes: &[u8]) -> bool {
    matches!(*bytes, [22, _, _, 0..=0x48, _, 1, ..])
}

/// What a ServerHello begins with: the headers of the record and the message, and its version.
const CHOICE: usize = 11;

fn is_choice(bytes: &[u8]) -> bool {
    matches!(*bytes, [22, 3, 0..=4, 0..=0x48, _, 2, 0, _, _, 3, 0..=4])
}

/// Whether `bytes` begin with one that is cut into tiny records.
fn is_cut(bytes: &[u8]) -> bool {
    let [22, 0..=15, _, 0, length @ 1..FIRST_MIN, 1, ..] = *bytes else { return false };
    matches!(bytes.get(5 + usize::from(length)..), Some([20..=23, 0..=15, ..]))
}

/// A client that is watched, as far as that is needed: the rest of what it sends passes unseen.
pub(crate) struct Watched<C, J> {
    pub(crate) client: C,
    pub(crate) watch: Watch,
    /// Whether what was found may be said.
    pub(crate) permits: J,
}

impl<C: AsyncRead + Unpin, J: FnMut(Opening) -> bool + Unpin> AsyncRead for Watched<C, J> {
    /// What completes a ClientHello is not passed on before that is permitted.
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { client, watch, permits } = self.get_mut();
        let before = space.filled().len();
        ready!(Pin::new(client).poll_read(context, space))?;
        if watch.read_client(&space.filled()[before..], permits) {
            return Poll::Ready(Ok(()));
        }
        space.set_filled(before);
        Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()))
    }
}

impl<C: AsyncWrite + Unpin, J: FnMut(Opening) -> bool + Unpin> AsyncWrite for Watched<C, J> {
    /// What answers what was no request, or no ClientHello, for this proxy is not passed on.
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { client, watch, permits } = self.get_mut();
        if watch.answered(bytes).is_some_and(|opening| !permits(opening)) {
            return Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()));
        }
        let written = ready!(Pin::new(client).poll_write(context, bytes))?;
        watch.read_server(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().client).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().client).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &str) -> Vec<u8> {
        let vector =
            |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
        let entry = [&[0][..], &vector(name.as_bytes())].concat();
        let extensions = [&[0, 0][..], &vector(&vector(&entry))].concat();
        let body =
            [&[3, 3][..], &[7; 32], &[32], &[8; 32], &[0, 2, 0x13, 1, 1, 0], &vector(&extensions)]
                .concat();
        [&[1, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat()
    }

    fn record(part: &[u8]) -> Vec<u8> {
        [&[22, 3, 1, 0, u8::try_from(part.len()).unwrap()][..], part].concat()
    }

    /// What is found, read in pieces of this size.
    fn found(stream: &[u8], size: usize) -> Vec<Opening> {
        let mut watch = Watch::after(&Opening::Other);
        let mut found = Vec::new();
        for bytes in stream.chunks(size) {
            watch.read_client(bytes, &mut |opening| {
                found.push(opening);
                true
            });
        }
        found
    }

    #[test]
    fn a_hello_in_the_middle_of_another_protocol_is_found() {
        let (a, b) = (hello("a.test"), hello("b.test"));
        let named = |name: &[u8]| Opening::Tls(Some(name.to_vec()));
        let decoy: &[u8] = &[22, 3, 1, 0x20, 0, 1, 0, 0x1f, 0xf0, 3, 3];
        // Of any version, since a server may heed the extension alone.
        let mut odd = a.clone();
        odd[4..6].copy_from_slice(&[9, 5]);
        for (stream, expected) in [
            ([b"EHLO x\r\nSTARTTLS\r\n", &record(&a)[..]].concat(), vec![named(b"a.test")]),
            ([b"EHLO x\r\nSTARTTLS\r\n", &record(&odd)[..]].concat(), vec![named(b"a.test")]),
            (b"\x01GET /x HTTP/1.1\r\nHost: b\r\n".to_vec(), vec![Opening::BrokenHttp]),
            (b"\r\n{GET x http/1.1\n".to_vec(), vec![Opening::BrokenHttp]),
            (b"{\"a\": \"GET /x HTTP/1.1\"}\n".to_vec(), vec![]),
            // What comes first some servers pass over, or take for a request.
            (b"\x01\r\nGET /x HTTP/1.1\r\nHost: b\r\n".to_vec(), vec![Opening::BrokenHttp]),
            (b"\x01 \nGET /x HTTP/1.1\r".to_vec(), vec![Opening::BrokenHttp]),
            (b"A /x 1.1\r\nHost: b\r\n".to_vec(), vec![Opening::BrokenHttp]),
            (b"FOO /x\r\n\0 host : b\n".to_vec(), vec![Opening::BrokenHttp]),
            (b"FOO http://b/x\r\n".to_vec(), vec![Opening::BrokenHttp]),
            (b"\nCONNECT\naccept-version:1.2\nhost:b\n\n\0".to_vec(), vec![]),
            (b"CONNECT\r\nGET /x HTTP/1.1\n".to_vec(), vec![Opening::BrokenHttp]),
            (b"*1\r\n$4\r\nPING\r\nGET key\r\nlocalhost: x\r\n".to_vec(), vec![]),
            ([b"\0\0\0\x08\x04\xd2\x16\x2f", &record(&a)[..]].concat(), vec![named(b"a.test")]),
            ([b"\x16\x03\x16\x03\x01", &record(&a)[..]].concat(), vec![Opening::BrokenTls]),
            (
                [b"STARTTLS\r\n", &record(&a[..70])[..], &record(&a[70..])].concat(),
                vec![named(b"a.test")],
            ),
            (
                [b"STARTTLS\r\n", &record(&a)[..], &[20, 3, 3, 0, 1, 1], &record(&b)].concat(),
                vec![named(b"a.test"), Opening::BrokenTls],
            ),
            // The server takes the record for a line, and what is in it for a hello.
            (
                [&record(&a)[..], &[23, 3, 3, 1, 0], b"\r\nSTARTTLS\r\n", &record(&b)].concat(),
                vec![named(b"a.test"), Opening::BrokenTls],
            ),
            (
                [b"STARTTLS\r\n", &record(&a[..1])[..], &record(&a[1..])].concat(),
                vec![Opening::BrokenTls],
            ),
            (
                [b"NOOP ", decoy, b"\r\nSTARTTLS\r\n", &record(&a)].concat(),
                vec![Opening::BrokenTls],
            ),
            ([b"STARTTLS\r\n\x16\x09\x09", &record(&a)[3..]].concat(), vec![Opening::BrokenTls]),
            (
                [
                    b"STARTTLS\r\n",
                    &record(&a[..50])[..],
                    &[21, 3, 1, 0, 2, 1, 0],
                    &record(&a[50..]),
                ]
                .concat(),
                vec![Opening::BrokenTls],
            ),
            (b"MAIL FROM:<a@b.test>\r\n\x16\x03\x01".to_vec(), vec![]),
        ] {
            for size in [1, 2, 7, 10, 11, 12, 1000] {
                let mut found = found(&stream, size);
                // A refusal ends the stream.
                let broken = [Opening::BrokenTls, Opening::BrokenHttp];
                let end = found.iter().position(|opening| broken.contains(opening));
                found.truncate(end.map_or(found.len(), |at| at + 1));
                let is_refused = found.last() == Some(&Opening::BrokenTls);
                let shown = stream.escape_ascii();
                assert!(
                    found == expected || is_refused && size == 1000,
                    "{size} {shown}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn an_answer_to_a_request_that_was_none_is_not_passed_on_and_lines_matter_until_there_is_one() {
        for (opening, said, greetings, [is_refused, is_over]) in [
            (Opening::Other, "\x01", &[&b"HTTP/1.1 400 Bad Request\r\n"[..]][..], [true, false]),
            (Opening::Other, "\x01", &[b"HT", b"TP/1.0 200 OK\r\n"], [true, false]),
            (Opening::Other, "", &[b"HTTP/1.1 408 Request Timeout\r\n"], [false, false]),
            (Opening::Tls(None), "", &[b"HTTP/1.1 400 Bad Request\r\n"], [false, true]),
            (Opening::Other, "\x01", &[b"220 mail\r\n", b"HTTP/1.1"], [false, true]),
            (Opening::Ssh, "SSH-2.0-x\r\n", &[b"SSH-2.0-y\r\n", b"HTTP/1.1"], [false, true]),
        ] {
            let mut watch = Watch::after(&opening);
            assert!(watch.read_client(said.as_bytes(), &mut |_| false));
            let is_answer = greetings.iter().any(|greeting| {
                let answered = watch.answered(greeting);
                watch.read_server(greeting);
                answered == Some(Opening::BrokenHttp)
            });
            assert_eq!(is_answer, is_refused, "{opening:?} {greetings:?}");
            let is_permitted = watch.read_client(b"\r\nHost: b\r\n", &mut |_| false);
            // What begins as TLS goes on so.
            let is_tls = matches!(opening, Opening::Tls(_));
            assert_eq!(is_permitted, is_over && !is_tls, "{opening:?} {greetings:?}");
        }
    }

    #[test]
    fn a_server_answers_no_hello_that_was_not_seen() {
        let (usual, choice) = (record(&hello("a.test")), [22, 3, 3, 0, 90, 2, 0, 0, 86, 3, 3, 7]);
        let mut session = usual.clone();
        session[43] = 33;
        let mut version = usual.clone();
        version[1..3].copy_from_slice(&[16, 2]);
        for (client, is_refused) in
            [(&usual, false), (&session, true), (&version, true), (&b"x\n".to_vec(), false)]
        {
            for size in [1, 5, 12] {
                let mut watch = Watch::after(&Opening::Other);
                watch.read_server(b"S");
                watch.read_client(client, &mut |_| true);
                let said = choice.chunks(size).find_map(|said| {
                    let answered = watch.answered(said);
                    watch.read_server(said);
                    answered
                });
                let expected = is_refused.then_some(Opening::BrokenTls);
                assert_eq!(said, expected, "{size} {}", client.escape_ascii());
            }
        }
    }

    #[test]
    fn what_says_that_it_is_ssh_is_believed_once_the_host_says_so_too() {
        let decided = |opening, greetings: &[&[u8]]| {
            let mut watch = Watch::after(&opening);
            for greeting in greetings {
                watch.read_server(greeting);
            }
            matches!(watch, Watch::Over)
        };
        for opening in [Opening::Ssh, Opening::Other] {
            assert!(decided(opening.clone(), &[b"SSH-2.0-y\r\n"]));
            assert!(decided(opening.clone(), &[b"SS", b"H-", b"2.0-y"]));
            for greetings in [&[&b"220 mail\r\n"[..]][..], &[b"SS", b"L", b"SSH-"], &[b"\r\nSSH-"]]
            {
                assert!(!decided(opening.clone(), greetings), "{greetings:?}");
            }
        }
        let mut found = Vec::new();
        let mut watch = Watch::after(&Opening::Ssh);
        watch.read_server(b"500 unknown\r\n");
        let stream = [b"SSH-2.0-x\r\nSTARTTLS\r\n", &record(&hello("a.test"))[..]].concat();
        watch.read_client(&stream, &mut |opening| {
            found.push(opening);
            true
        });
        assert_eq!(found, [Opening::Tls(Some(b"a.test".to_vec()))]);
    }

    #[test]
    fn records_are_believed_once_the_server_has_taken_a_hello() {
        let (a, b) = (record(&hello("a.test")), record(&hello("b.test")));
        let answer = |random: u8| {
            let body = [&[3, 3][..], &[random; 32], &[0, 0x13, 1, 0, 0, 0]].concat();
            record(&[&[2, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat())
        };
        let wrapped = [&[23, 3, 3, 1, 0][..], &b].concat();
        for (server, client, expected) in [
            (b"500 unknown\r\n".to_vec(), &wrapped, Some(Opening::BrokenTls)),
            (b"500 unknown\r\n".to_vec(), &b, Some(Opening::BrokenTls)),
            (Vec::new(), &wrapped, Some(Opening::BrokenTls)),
            // What the server has chosen is encrypted from here on.
            (answer(7), &wrapped, None),
        ] {
            let mut found = Vec::new();
            let mut permits = |opening| {
                found.push(opening);
                true
            };
            let mut watch = Watch::after(&Opening::Tls(None));
            watch.read_client(&a, &mut permits);
            watch.read_server(&server);
            watch.read_client(client, &mut permits);
            assert_eq!(found.get(1), expected.as_ref(), "{}", server.escape_ascii());
        }
    }
}
