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
    Complete(Option<Vec<u8>>),
    /// TLS, but no ClientHello, or one that two servers could read in two ways.
    Broken,
    /// Anything else.
    Other,
}

/// Reads the beginning of a stream as it arrives, each byte once.
#[derive(Debug, Default)]
pub(crate) struct HelloReader {
    /// What was read of the stream.
    at: usize,
    /// What is left of the record there.
    record: usize,
    /// The first handshake message, put together from its records.
    message: Vec<u8>,
}

impl HelloReader {
    /// Reads on in `stream`, which begins with what it was before.
    pub(crate) fn read(&mut self, stream: &[u8]) -> Hello {
        loop {
            if let Some(hello) = self.finished() {
                return hello;
            }
            let rest = stream.get(self.at..).unwrap_or_default();
            if self.record > 0 && !rest.is_empty() {
                let part = &rest[..self.record.min(rest.len())];
                self.message.extend_from_slice(part);
                self.record -= part.len();
                self.at += part.len();
                continue;
            }
            match *rest {
                [HANDSHAKE, 3, 0..=4, high, low, ..] => {
                    self.record = usize::from(u16::from_be_bytes([high, low]));
                    self.at += 5;
                    // An empty handshake record is forbidden, and would be a way to go on for ever.
                    if self.record == 0 || self.record > HELLO_MAX {
                        return Hello::Broken;
                    }
                }
                []
                | [HANDSHAKE]
                | [HANDSHAKE, 3]
                | [HANDSHAKE, 3, 0..=4]
                | [HANDSHAKE, 3, 0..=4, _] => return Hello::Incomplete,
                _ if self.at == 0 => return Hello::Other,
                _ => return Hello::Broken,
            }
        }
    }

    /// What the message is, if enough of it is there.
    fn finished(&self) -> Option<Hello> {
        match *self.message.as_slice() {
            [] => None,
            [CLIENT_HELLO, a, b, c, ref body @ ..] => {
                let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(HELLO_MAX);
                if length >= HELLO_MAX {
                    return Some(Hello::Broken);
                }
                let body = body.get(..length)?;
                Some(server_name(body).map_or(Hello::Broken, Hello::Complete))
            }
            [CLIENT_HELLO, ..] => None,
            _ => Some(Hello::Broken),
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

    fn read(stream: &[u8]) -> Hello {
        HelloReader::default().read(stream)
    }

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
        let named = Hello::Complete(Some(b"a.test".to_vec()));
        assert_eq!(read(&record(&message)), named);
        let whole = record(&message);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Hello::Incomplete, "{length}");
        }
        for at in 1..message.len() {
            let two = [record(&message[..at]), record(&message[at..])].concat();
            assert_eq!(read(&two), named, "{at}");
        }
        assert_eq!(read(&record(&hello(&[]))), Hello::Complete(None));
    }

    #[test]
    fn what_is_not_one_hello_with_one_name_is_something_else() {
        let twice = [name_extension(b"a.test"), name_extension(b"b.test")].concat();
        let mut two_in_one = vec![0, 0];
        let entry = [&[0][..], &vector(b"a.test")].concat();
        two_in_one.extend(vector(&vector(&[entry.clone(), entry].concat())));
        for (stream, expected) in [
            (record(&hello(&twice)), Hello::Broken),
            (record(&hello(&two_in_one)), Hello::Broken),
            (record(&hello(&[0, 0, 0, 9])), Hello::Broken),
            (vec![22, 3, 1, 0, 0, 22], Hello::Broken),
            (record(&[2, 0, 0, 1, 0]), Hello::Broken),
            (record(&[1, 0, 0xff, 0xff]), Hello::Broken),
            (b"GET / HTTP/1.1\r\n".to_vec(), Hello::Other),
            (vec![22, 2, 0, 0, 1], Hello::Other),
            (vec![0x80, 46, 1, 3, 1], Hello::Other),
        ] {
            assert_eq!(read(&stream), expected, "{stream:?}");
        }
    }

    /// A hello of 16 KB byte by byte: 16 000 looks, each of which may cost what one byte costs.
    #[test]
    fn a_hello_that_comes_byte_by_byte_is_read_once() {
        let padding = [&[0, 21][..], &vector(&[0; 15_000])].concat();
        let message = hello(&[padding, name_extension(b"a.test")].concat());
        let stream: Vec<u8> = message.chunks(1).flat_map(record).collect();
        let mut reader = HelloReader::default();
        for length in 0..stream.len() {
            assert_eq!(reader.read(&stream[..length]), Hello::Incomplete, "{length}");
            assert!(reader.at + 5 > length && reader.message.capacity() <= 4 * message.len());
        }
        assert_eq!(reader.read(&stream), Hello::Complete(Some(b"a.test".to_vec())));
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
            if let Hello::Complete(Some(name)) = read(&stream) {
                assert!(stream.windows(name.len().max(1)).any(|part| part == name), "{name:?}");
            }
        }
    }
}
