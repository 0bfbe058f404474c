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
    /// A line for proxies, behind which a server reads on as if nothing had been said.
    Proxied,
    /// A request of HTTP/1.
    Http,
    /// What only some servers take for one: it has bytes in it that no request has.
    BrokenHttp,
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
        if stream.starts_with(PROXY) {
            return Opening::Proxied;
        }
        if !stream.is_empty() && PROXY.starts_with(stream) {
            return Opening::Incomplete;
        }
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

    /// Whether some server may take what `stream`, which was read, ends with for a request: as it stands, or because it
    /// takes a CR for the end of the line.
    pub(crate) fn may_be_request(&self, stream: &[u8]) -> bool {
        of_line(&stream[self.start..]) == Opening::Http
    }

    fn read_line(&mut self, stream: &[u8]) -> Opening {
        while let Some(&byte) = stream.get(self.seen) {
            let line = &stream[self.start..self.seen];
            self.seen += 1;
            match byte {
                // Servers skip empty lines before a request (RFC 9112 section 2.2).
                b'\n' if line.iter().all(is_blank) => self.start = self.seen,
                b'\n' => return of_line(line),
                // Nobody reads such a request; it is refused as one.
                _ if line.len() >= LINE_MAX => return Opening::Http,
                // Not in a request; some server may have read one before it.
                0..=8 | 14..=27 | 127 => {
                    let may_be_one = is_request(line) || begins_like_request(line);
                    return if may_be_one { Opening::Http } else { Opening::Other };
                }
                _ => {}
            }
        }
        // What is not in ASCII may be a blank, or a part of one.
        let (method, _) = words(&stream[self.start..]);
        let may_be_one = method.iter().all(|byte| is_token(byte) || !byte.is_ascii());
        // That of no request that a server takes.
        if may_be_one { Opening::Incomplete } else { Opening::Other }
    }
}

const SSH: &[u8] = b"SSH-2.0-";
/// The signature of version 2 of the PROXY protocol; version 1 is a line
/// (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2).
const PROXY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A byte of a token, as methods are (RFC 9110 section 5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// A byte that some server takes for a blank: a CR (RFC 9112 section 3), and what is one in Latin-1.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 11 | 12 | 28..=31 | 0x85 | 0xa0)
}

/// The first word of `line`, and what follows it.
fn words(line: &[u8]) -> (&[u8], &[u8]) {
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let line = &line[start..];
    line.split_at(line.iter().position(is_blank).unwrap_or(line.len()))
}

/// Whether `line` is a method with something behind it.
fn begins_like_request(line: &[u8]) -> bool {
    // A request of git's own protocol, in which a NUL follows the path (gitprotocol-pack(5)).
    if line.get(4..8) == Some(b"git-") {
        return false;
    }
    let (method, rest) = words(line);
    !rest.is_empty() && method.iter().all(is_token)
}

fn of_line(line: &[u8]) -> Opening {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line == b"PRI * HTTP/2.0" {
        return Opening::Http2;
    }
    // Before ssh, the identification of which is a method, too.
    if is_request(line) || asks_without_version(line) || asks_without_version(&without_cr(line)) {
        return Opening::Http;
    }
    if words(line).0.eq_ignore_ascii_case(b"PROXY") {
        return Opening::Proxied;
    }
    let is_ssh = line.starts_with(SSH) && line.len() > SSH.len() && line.len() < SSH_LINE_MAX;
    if is_ssh && !line.contains(&b'\r') { Opening::Ssh } else { Opening::Other }
}

/// As a server reads it that passes over CRs.
fn without_cr(line: &[u8]) -> Vec<u8> {
    line.iter().copied().filter(|&byte| byte != b'\r').collect()
}

/// Other methods that llhttp knows, the parser of Node.js (its docs/api/http.md, http.METHODS; src/llhttp/constants.ts).
const RARE: [&[u8]; 38] = [
    b"ACL",
    b"ANNOUNCE",
    b"BIND",
    b"CHECKOUT",
    b"COPY",
    b"DESCRIBE",
    b"FLUSH",
    b"GET_PARAMETER",
    b"LINK",
    b"LOCK",
    b"M-SEARCH",
    b"MERGE",
    b"MKACTIVITY",
    b"MKCALENDAR",
    b"MKCOL",
    b"MOVE",
    b"NOTIFY",
    b"PAUSE",
    b"PLAY",
    b"PRI",
    b"PROPFIND",
    b"PROPPATCH",
    b"PURGE",
    b"QUERY",
    b"REBIND",
    b"RECORD",
    b"REDIRECT",
    b"REPORT",
    b"SEARCH",
    b"SETUP",
    b"SET_PARAMETER",
    b"SOURCE",
    b"SUBSCRIBE",
    b"TEARDOWN",
    b"UNBIND",
    b"UNLINK",
    b"UNLOCK",
    b"UNSUBSCRIBE",
];

/// Whether `line` is a request without a version. Some servers take that for one of HTTP/0.9, and read on
/// as of a later one. In lower case only what looks like a path or a URI is one: caches are asked so (`get key`).
fn asks_without_version(line: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] =
        [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
    let (method, rest) = words(line);
    let (rest, _) = words(rest);
    !rest.is_empty() && METHODS.contains(&method)
        || is_target(rest) && METHODS.iter().any(|known| method.eq_ignore_ascii_case(known))
        || (is_target(rest) || rest == b"*") && RARE.contains(&method)
}

/// Whether `word` looks like a path or a URI.
fn is_target(word: &[u8]) -> bool {
    word.starts_with(b"/") || is_uri(word)
}

fn is_uri(word: &[u8]) -> bool {
    word.windows(3).any(|part| part == b"://")
}

/// A server may take less than what RFC 9112 calls a request line; what cannot be understood here is
/// then refused here.
fn is_request(line: &[u8]) -> bool {
    let line = without_cr(line);
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/")) || has_parts_of_request(&line)
}

/// Whether `line` is made as a request is, of HTTP or a protocol like it (RTSP, Icecast's). There are servers that heed
/// no method, as those of Python, and servers that heed no version.
fn has_parts_of_request(line: &[u8]) -> bool {
    let (_, rest) = words(line);
    let (target, rest) = words(rest);
    let (version, _) = words(rest);
    let mut parts = version.split(|&byte| byte == b'/');
    let is_http = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"HTTP"));
    let has_number = parts.next().and_then(<[u8]>::first).is_some_and(u8::is_ascii_digit);
    has_number && (is_http || is_target(target))
}

/// The lines of a stream that is none of the protocols above, in which a server may still see a request: after some that
/// it passes over, or that only it takes for one.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The one that has not ended.
    line: Vec<u8>,
    /// It is STOMP, by its first line, which has a field of that name as well (STOMP 1.2, CONNECT). For HTTP it is nothing.
    is_stomp: Option<bool>,
}

impl Lines {
    /// Reads on; whether a line was of a request.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|&byte| {
            let is_of_request = matches!(byte, b'\r' | b'\n') && self.is_of_request(byte == b'\n');
            match byte {
                b'\n' => self.line.clear(),
                _ if self.line.len() >= LINE_MAX => {}
                _ => self.line.push(byte),
            }
            is_of_request
        })
    }

    /// Whether the line is, which ends here, or does for servers that take a CR for its end.
    fn is_of_request(&mut self, ends: bool) -> bool {
        let after_cr = self.line.rsplit(|&byte| byte == b'\r').next().unwrap_or_default();
        let whole = if ends { without_cr(&self.line) } else { Vec::new() };
        if !whole.is_empty() {
            self.is_stomp.get_or_insert(matches!(&whole[..], b"CONNECT" | b"STOMP"));
        }
        [after_cr, &whole].into_iter().any(|line| {
            has_parts_of_request(line)
                || names_host_in_target(line)
                || self.is_stomp != Some(true) && is_host_field(line)
        })
    }
}

/// Whether the second word of `line` is a URI, as in a request to a proxy.
fn names_host_in_target(line: &[u8]) -> bool {
    let (first, rest) = words(line);
    !first.is_empty() && is_uri(words(rest).0)
}

/// Whether `line` is the field of a request that names its host, whatever is in front of it: some servers pass over that.
fn is_host_field(line: &[u8]) -> bool {
    let Some(end) = line.iter().position(|&byte| byte == b':') else { return false };
    let name = line[..end].iter().skip_while(|byte| !byte.is_ascii_alphanumeric());
    name.take_while(|byte| !is_blank(byte)).map(u8::to_ascii_lowercase).eq(*b"host")
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
            (b"GET / HTTP/1.1\rHost: other\r\r", Opening::Incomplete),
            (b"\r\rGET / HTTP/1.1\r\r\n", Opening::Http),
            (b"\r\r\n\rGET / HTTP/1.1\r\n", Opening::Http),
            (b"\r\rGET / HTTP/1.1", Opening::Incomplete),
            (b"SSH-2.0-x\rGET / HTTP/1.1\n", Opening::Http),
            (b"SSH-2.0-x\ry\n", Opening::Other),
            (b"PING\rx\n", Opening::Other),
            (b"GET\r/x\rHTTP/1.1\r\nHost: b\r\n", Opening::Http),
            (b"GET\r / HTTP/1.1\n", Opening::Http),
            (b"G\rET / HT\rTP/1.1\r\n", Opening::Http),
            (b"G\rET /x\n", Opening::Http),
            (b"GET\r/x\r\n", Opening::Http),
            (b"\x0bGET /x HTTP/1.1\n", Opening::Http),
            (b"\x1cGET /x HTTP/1.1\n", Opening::Http),
            (b"GET\x1c/x\x1cHTTP/1.1\n", Opening::Http),
            (b"\x85GET /x HTTP/1.1\n", Opening::Http),
            (b"\xa0GET /x\n", Opening::Http),
            (b"\xc2\x85GET /x HTTP/1.1\n", Opening::Http),
            (b"GET\xa0/x\xa0HTTP/1.1\n", Opening::Http),
            (b"GET\xa0/x\0", Opening::Http),
            (b" \t\r\nGET / HTTP/1.1\n", Opening::Http),
            (b"\x93A", Opening::Incomplete),
            (b"\x93\x01\0\n", Opening::Other),
            (b"{\"a\": 1}", Opening::Other),
            (b"SSH-2.0- / HTTP/1.1\r\n", Opening::Http),
            (b"A1", Opening::Incomplete),
            (b"A1!~ / HTTP/1.1\r\n", Opening::Http),
            (b"GET /\x01 HTTP/1.1\r\n", Opening::Http),
            (b"GET\x0b/vt\x0bHTTP/1.1\r\n", Opening::Http),
            (b"GET /\r\n", Opening::Http),
            (b"get  /09\n", Opening::Http),
            (b"GET http://b/\r\n", Opening::Http),
            (b"GET x\r\n", Opening::Http),
            (b"SOURCE /x ICE/1.0\r\n", Opening::Http),
            (b"a1 SELECT /x/y z\r\n", Opening::Other),
            (b"SET /x 1/2\r\n", Opening::Http),
            (b"GET ?x\n", Opening::Http),
            (b"OPTIONS *\n", Opening::Http),
            (b"PRI http://good@b/\r\n", Opening::Http),
            (b"M-SEARCH *\r\n", Opening::Http),
            (b"COPY a b\r\n", Opening::Other),
            (b"search /x\r\n", Opening::Other),
            (b"GET\n", Opening::Other),
            (b"CONNECT\n", Opening::Other),
            (b"get key\r\n", Opening::Other),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", Opening::Proxied),
            (b"PROXY UNKNOWN\r\nGET / HTTP/1.1\r\n", Opening::Proxied),
            (b"\r\n\r\n\0\r\nQUIT\n\x21\x11", Opening::Proxied),
            (b"\r\n\r\n\0\r\nQUIT", Opening::Incomplete),
            (b"\r\n\r\n\0\r\nQUIX", Opening::Other),
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
        for (stream, expected) in [
            (&b"GET / HTTP/1.1\rHost: other\r\r"[..], true),
            (b"GET http://b/\r", true),
            (b"GET x", true),
            (b"GET ", false),
            (b"\r\rGET /x", true),
            (b"\r", false),
            (b"GET", false),
            (b"ls -l /\r", false),
        ] {
            let mut reader = OpeningReader::default();
            assert_eq!(reader.read(stream), Opening::Incomplete);
            assert_eq!(reader.may_be_request(stream), expected, "{}", stream.escape_ascii());
        }
        let long = [b"SSH-2.0-", &[b'x'; 300][..], b"\r\n"].concat();
        assert_eq!(OpeningReader::default().read(&long), Opening::Other);
    }
}
