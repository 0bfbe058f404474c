//! What a client says first in a tunnel: TLS, HTTP, ssh, or something else. Pure.

use crate::tls::{Hello, HelloReader};

/// Longest first line that can be a request's.
const LINE_MAX: usize = 64 * 1024;
/// Longest identification string of ssh, with its end of line (RFC 4253 section 4.2).
const SSH_LINE_MAX: usize = 255;

/// The kind of a tunnel's first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Too few to tell.
    Incomplete,
    /// A ClientHello, with the server name in it.
    Tls(Option<Vec<u8>>),
    /// What nearly is one.
    BrokenTls,
    /// A request of HTTP/1.
    Http,
    /// The preface of HTTP/2 without TLS (RFC 9113 section 3.4).
    Http2,
    /// An ssh client, which many hosts serve on port 443 for those behind proxies.
    Ssh,
    /// Anything else.
    Other,
}

/// Reads the beginning of a stream as it arrives, each byte once.
#[derive(Debug, Default)]
pub(crate) struct OpeningReader {
    hello: HelloReader,
    /// Where the first line that is not empty begins.
    start: usize,
    /// Up to where no line ends.
    seen: usize,
}

impl OpeningReader {
    /// Reads on in `stream`, which begins with what it was before.
    pub(crate) fn read(&mut self, stream: &[u8]) -> Opening {
        match self.hello.read(stream) {
            Hello::Complete(name) => Opening::Tls(name),
            Hello::Broken => Opening::BrokenTls,
            Hello::Incomplete => Opening::Incomplete,
            Hello::Other => self.read_line(stream),
        }
    }

    /// Whether `stream`, which was read, ends inside of a line.
    pub(crate) fn is_in_line(&self, stream: &[u8]) -> bool {
        self.seen == stream.len() && self.start < self.seen
    }

    fn read_line(&mut self, stream: &[u8]) -> Opening {
        while let Some(&byte) = stream.get(self.seen) {
            let line = &stream[self.start..self.seen];
            // Some servers take a CR alone for the end of a line.
            if let Some(line) = line.strip_suffix(b"\r").filter(|_| byte != b'\n') {
                if line.is_empty() {
                    self.start = self.seen;
                    continue;
                }
                return of_odd_line(line, b'\r');
            }
            self.seen += 1;
            match byte {
                // Servers skip empty lines before a request (RFC 9112 section 2.2).
                b'\n' if matches!(line, b"" | b"\r") => self.start = self.seen,
                b'\n' => return of_line(line.strip_suffix(b"\r").unwrap_or(line)),
                // Not in a request; some server may have read one before it.
                0..=8 | 11..=12 | 14..=31 | 127 => return of_odd_line(line, byte),
                // Nobody reads such a request; it is refused as one.
                _ if line.len() >= LINE_MAX => return Opening::Http,
                _ => {}
            }
        }
        let line = &stream[self.start..];
        let method = line.split(|byte| b" \t\r".contains(byte)).next().unwrap_or(line);
        // That of no request that a server takes.
        if method.iter().all(is_token) { Opening::Incomplete } else { Opening::Other }
    }
}

const SSH: &[u8] = b"SSH-2.0-";

/// A byte of a token, as methods are (RFC 9110 section 5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Whether `line` is a method with something behind it, or with a byte that some servers take for a blank.
fn begins_like_request(line: &[u8], next: u8) -> bool {
    // A request of git's own protocol, in which a NUL follows the path (gitprotocol-pack(5)).
    if line.get(4..8) == Some(b"git-") {
        return false;
    }
    let blank = line.iter().position(|byte| b" \t".contains(byte));
    let is_blank = matches!(next, b'\x0b' | b'\x0c');
    let method = &line[..blank.unwrap_or(line.len())];
    (blank.is_some() || is_blank) && !method.is_empty() && method.iter().all(is_token)
}

/// What `line` is, which `next` follows: a byte that is in no request.
fn of_odd_line(line: &[u8], next: u8) -> Opening {
    let may_be_one = is_request(line) || begins_like_request(line, next);
    if may_be_one { Opening::Http } else { Opening::Other }
}

fn of_line(line: &[u8]) -> Opening {
    if line == b"PRI * HTTP/2.0" {
        return Opening::Http2;
    }
    // Before ssh, the identification of which is a method, too.
    if is_request(line) {
        return Opening::Http;
    }
    if asks_without_version(line) {
        return Opening::Http;
    }
    let is_ssh = line.starts_with(SSH) && line.len() > SSH.len() && line.len() < SSH_LINE_MAX;
    if is_ssh { Opening::Ssh } else { Opening::Other }
}

/// Whether `line` is a request without a version. Some servers take that for one of HTTP/0.9, and read on
/// as of a later one.
fn asks_without_version(line: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] =
        [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
    let Some(blank) = line.iter().position(|byte| b" \t".contains(byte)) else { return false };
    let (method, rest) = (&line[..blank], line[blank..].trim_ascii_start());
    let is_target = rest.starts_with(b"/") || rest.windows(3).any(|part| part == b"://");
    is_target && METHODS.iter().any(|known| method.eq_ignore_ascii_case(known))
}

/// A server may take less than what RFC 9112 calls a request line; what cannot be understood here is
/// then refused here.
fn is_request(line: &[u8]) -> bool {
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_what_it_is() {
        for (stream, expected) in [
            (&b""[..], Opening::Incomplete),
            (b"GET / HT", Opening::Incomplete),
            (b"\r\n\nGET / HTTP/1.1\r", Opening::Incomplete),
            (b"GET / HTTP/1.1\r\n", Opening::Http),
            (b"\r\n\nGET / HTTP/1.1\n", Opening::Http),
            (b"ODD-method  /  http/1.0\r\n", Opening::Http),
            (b"PRI * HTTP/2.0\r\n\r\nSM", Opening::Http2),
            (b"GET / HTTP/1.1\rHost: a\0", Opening::Http),
            (b"GET / HTTP/1.1\rHost: other\r\r", Opening::Http),
            (b"GET /\rHost: other\r\r", Opening::Http),
            (b"\r\rGET / HTTP/1.1\r\r", Opening::Http),
            (b"\r\r\n\rGET / HTTP/1.1\r\n", Opening::Http),
            (b"\r\rGET / HTTP/1.1", Opening::Incomplete),
            (b"SSH-2.0-x\rGET / HTTP/1.1\n", Opening::Other),
            (b"PING\rx", Opening::Other),
            (b"SSH-2.0- / HTTP/1.1\r\n", Opening::Http),
            (b"A1", Opening::Incomplete),
            (b"A1!~ / HTTP/1.1\r\n", Opening::Http),
            (b"GET /\x01 HTTP/1.1\r\n", Opening::Http),
            (b"GET\x0b/vt\x0bHTTP/1.1\r\n", Opening::Http),
            (b"GET /\r\n", Opening::Http),
            (b"get  /09\n", Opening::Http),
            (b"GET http://b/\r\n", Opening::Http),
            (b"GET key\r\n", Opening::Other),
            (b"HELO /me\r\n", Opening::Other),
            (b"EHLO me\r\n", Opening::Other),
            (b"*1\r", Opening::Incomplete),
            (b"*1\r\n$4\r\nPING\r\n", Opening::Other),
            (b"\0\0\0\x08", Opening::Other),
            (b"0032git-upload-pack /a\0", Opening::Other),
            (b"SSH-2.0-", Opening::Incomplete),
            (b"SSH-2.0-x\r\n", Opening::Ssh),
            (b"SSH-2.0-\r\n", Opening::Other),
            (b"SSH-x\r\n", Opening::Other),
            (b"\x16", Opening::Incomplete),
        ] {
            assert_eq!(
                OpeningReader::default().read(stream),
                expected,
                "{}",
                stream.escape_ascii()
            );
            let mut reader = OpeningReader::default();
            let mut piecewise = (0..=stream.len()).map(|length| reader.read(&stream[..length]));
            let decided = piecewise.find(|opening| *opening != Opening::Incomplete);
            assert_eq!(
                decided.unwrap_or(Opening::Incomplete),
                expected,
                "{}",
                stream.escape_ascii()
            );
        }
        let long = [b"SSH-2.0-", &[b'x'; 300][..], b"\r\n"].concat();
        assert_eq!(OpeningReader::default().read(&long), Opening::Other);
    }
}
