//! The server name in a TLS ClientHello, read without decrypting anything. Pure: RFC 8446 sections
//! 4.1.2 and 5.1, RFC 6066 section 3.

/// Longest beginning of a stream that is looked at: hellos with post-quantum keys have 2 KiB.
pub(crate) const HELLO_MAX: usize = 16 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// What the first bytes of a client are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// Too few to tell.
    Incomplete,
    /// A ClientHello, and the name in it if there is one.
    Tls(Option<Vec<u8>>),
    /// An ssh client, which many hosts serve on port 443 for those behind proxies.
    Ssh,
    /// Anything else, broken TLS too.
    Other,
}

/// Reads the beginning of a stream.
pub(crate) fn read(stream: &[u8]) -> Hello {
    const SSH: &[u8] = b"SSH-";
    if stream.starts_with(SSH) {
        return Hello::Ssh;
    }
    if stream.len() < SSH.len() && SSH.starts_with(stream) {
        return Hello::Incomplete;
    }
    match handshake(stream) {
        Err(hello) => hello,
        Ok(message) => server_name(&message).map_or(Hello::Other, Hello::Tls),
    }
}

/// The first handshake message, put together from its records.
fn handshake(mut stream: &[u8]) -> Result<Vec<u8>, Hello> {
    let mut message = Vec::new();
    loop {
        if let [kind, a, b, c, body @ ..] = message.as_slice() {
            if *kind != CLIENT_HELLO {
                return Err(Hello::Other);
            }
            let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap_or(HELLO_MAX);
            if length >= HELLO_MAX {
                return Err(Hello::Other);
            }
            if body.len() >= length {
                return Ok(body[..length].to_vec());
            }
        }
        match stream {
            [HANDSHAKE, 3, 0..=4, high, low, rest @ ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                // An empty handshake record is forbidden, and would be a way to go on for ever.
                if length == 0 || length > HELLO_MAX {
                    return Err(Hello::Other);
                }
                let part = &rest[..length.min(rest.len())];
                message.extend_from_slice(part);
                let complete = rest.len() >= length;
                stream = &rest[part.len()..];
                if !complete && message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
                    return Err(Hello::Other);
                }
                if !complete {
                    return Err(Hello::Incomplete);
                }
            }
            []
            | [HANDSHAKE]
            | [HANDSHAKE, 3]
            | [HANDSHAKE, 3, 0..=4]
            | [HANDSHAKE, 3, 0..=4, _] => {
                return Err(Hello::Incomplete);
            }
            _ => return Err(Hello::Other),
        }
    }
}

/// The name in the body of a ClientHello; the outer `None` is for one that is malformed, or has
/// more than one name: servers may differ about which one counts.
fn server_name(hello: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut reader = Reader(hello);
    reader.take(2 + 32)?;
    let session = reader.byte()?;
    reader.take(usize::from(session))?;
    reader.vector()?;
    let compressions = reader.byte()?;
    reader.take(usize::from(compressions))?;
    if reader.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Reader(reader.vector()?);
    if !reader.0.is_empty() {
        return None;
    }
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.short()?;
        let data = extensions.vector()?;
        if kind != SERVER_NAME {
            continue;
        }
        let mut outer = Reader(data);
        let mut list = Reader(outer.vector()?);
        if !outer.0.is_empty() || name.is_some() || list.byte()? != HOST_NAME {
            return None;
        }
        name = Some(list.vector()?.to_vec());
        if !list.0.is_empty() {
            return None;
        }
    }
    Some(name)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector(&mut self) -> Option<&'a [u8]> {
        let length = self.short()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    fn name_extension(name: &[u8]) -> Vec<u8> {
        [&[0, 0][..], &vector(&vector(&[&[0][..], &vector(name)].concat()))].concat()
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend(vector(&[0x13, 0x01]));
        body.extend([1, 0]);
        body.extend(vector(extensions));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1][..], &length[1..], &body].concat()
    }

    fn record(message: &[u8]) -> Vec<u8> {
        [&[22, 3, 1][..], &vector(message)].concat()
    }

    #[test]
    fn the_name_is_found_however_the_hello_is_cut() {
        let message = hello(&[&[0, 5, 0, 1, 9][..], &name_extension(b"a.test")].concat());
        let named = Hello::Tls(Some(b"a.test".to_vec()));
        assert_eq!(read(&record(&message)), named);
        let whole = record(&message);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Hello::Incomplete, "{length}");
        }
        for at in 1..message.len() {
            let two = [record(&message[..at]), record(&message[at..])].concat();
            assert_eq!(read(&two), named, "{at}");
        }
        assert_eq!(read(&record(&hello(&[]))), Hello::Tls(None));
    }

    #[test]
    fn what_is_not_one_hello_with_one_name_is_something_else() {
        let twice = [name_extension(b"a.test"), name_extension(b"b.test")].concat();
        let mut two_in_one = vec![0, 0];
        let entry = [&[0][..], &vector(b"a.test")].concat();
        two_in_one.extend(vector(&vector(&[entry.clone(), entry].concat())));
        for stream in [
            record(&hello(&twice)),
            record(&hello(&two_in_one)),
            record(&hello(&[0, 0, 0, 9])),
            b"GET / HTTP/1.1\r\n".to_vec(),
            vec![22, 3, 1, 0, 0, 22],
            vec![22, 2, 0, 0, 1],
            record(&[2, 0, 0, 1, 0]),
            record(&[1, 0, 0xff, 0xff]),
            vec![0x80, 46, 1, 3, 1],
        ] {
            assert_eq!(read(&stream), Hello::Other, "{stream:?}");
        }
        assert_eq!(read(b"SSH-2.0-x\r\n"), Hello::Ssh);
        assert_eq!(read(b"SS"), Hello::Incomplete);
    }

    #[test]
    fn no_bytes_make_the_reader_panic_or_find_a_name_that_is_not_there() {
        let good = record(&hello(&[&[0, 5, 0, 1, 9][..], &name_extension(b"a.test")].concat()));
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap()
        };
        for _ in 0..100_000 {
            let mut stream = good.clone();
            for _ in 0..=next() % 3 {
                let at = next() % stream.len();
                stream[at] = u8::try_from(next() % 256).unwrap();
            }
            stream.truncate(next() % (2 * stream.len()));
            if let Hello::Tls(Some(name)) = read(&stream) {
                assert!(stream.windows(name.len().max(1)).any(|part| part == name), "{name:?}");
            }
        }
    }
}
