//! The clear part of a TLS handshake, read without decrypting anything. Pure: RFC 8446 sections 4.1 and 5, RFC 6066
//! section 3.
//!
//! A server can ask for a second ClientHello (HelloRetryRequest), which the client brings about by the keys that it
//! offers: so each is read until the server has chosen, and what is clear after that until the keys are changed.

/// Longest ClientHello that is understood: those with post-quantum keys have 2 KiB.
pub(crate) const HELLO_MAX: usize = 16 * 1024;
/// Longest record with what encryption may add in any version (RFC 5246 section 6.2.3).
const RECORD_MAX: usize = (1 << 14) + 2048;

const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// The random of a ServerHello that asks for another ClientHello (RFC 8446 section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// No TLS, or TLS that two servers could read in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The server name in a ClientHello, if there is one.
pub(crate) type Name = Option<Vec<u8>>;

/// What the first bytes of a client are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// Too few to tell.
    Incomplete,
    /// A ClientHello.
    Complete(Name),
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
    handshake: Handshake,
}

impl HelloReader {
    /// Reads on in `stream`, which begins with what it was before.
    pub(crate) fn read(&mut self, stream: &[u8]) -> Hello {
        match *stream {
            // Whatever version a record has: servers differ about those that they take.
            [20..=23, ..] => {}
            // A ClientHello in a record of SSL 2.0 (RFC 5246 appendix E.2), which has no name.
            [0x80..=0xff, _, 1, 3, ..] => return Hello::Broken,
            [] | [0x80..=0xff] | [0x80..=0xff, _] | [0x80..=0xff, _, 1] => {
                return Hello::Incomplete;
            }
            _ => return Hello::Other,
        }
        let rest = stream.get(self.at..).unwrap_or_default();
        self.at = stream.len();
        let mut first = None;
        let read = self.handshake.read_client(rest, &mut |name| {
            first.get_or_insert(name);
        });
        match (read, first) {
            (Err(Broken), _) => Hello::Broken,
            (Ok(_), Some(name)) => Hello::Complete(name),
            (Ok(_), None) => Hello::Incomplete,
        }
    }
}

/// A handshake, as far as it is clear.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    client: Side,
    server: Side,
    /// What the server sends is not understood: it is never seen to choose.
    is_server_lost: bool,
    /// The server has taken a ClientHello.
    is_answered: bool,
    /// And it asks for no other.
    has_chosen: bool,
}

impl Handshake {
    /// Reads on in what the client sends, and calls `each` for each ClientHello; whether no other can follow.
    ///
    /// # Errors
    /// Returns [`Broken`] for what no client sends. All that is not encrypted before the server has chosen are
    /// ClientHellos, changes of ciphers that mean nothing, and alerts.
    pub(crate) fn read_client(
        &mut self,
        mut stream: &[u8],
        each: &mut dyn FnMut(Name),
    ) -> Result<bool, Broken> {
        while let Some((kind, mut part)) = self.client.next_part(&mut stream)? {
            match kind {
                HANDSHAKE => {
                    while let Some((message, body)) = self.client.next_message(&mut part)? {
                        match message {
                            CLIENT_HELLO => each(server_name(&body).ok_or(Broken)?),
                            _ if self.has_chosen => {}
                            _ => return Err(Broken),
                        }
                    }
                }
                // What follows is encrypted.
                CHANGE_CIPHER_SPEC | APPLICATION_DATA if self.has_chosen => return Ok(true),
                // Early data, which a server that asks for another hello passes over, is not the end.
                _ if self.client.has_begun => {}
                _ => return Err(Broken),
            }
        }
        Ok(false)
    }

    /// Whether the server has taken a ClientHello: so it is TLS for the server, too.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Reads on in what the server sends.
    pub(crate) fn read_server(&mut self, stream: &[u8]) {
        if !self.has_chosen && !self.is_server_lost {
            self.is_server_lost = self.look_for_choice(stream).is_err();
        }
    }

    fn look_for_choice(&mut self, mut stream: &[u8]) -> Result<(), Broken> {
        while let Some((kind, mut part)) = self.server.next_part(&mut stream)? {
            if kind != HANDSHAKE {
                continue;
            }
            while let Some((message, body)) = self.server.next_message(&mut part)? {
                // Behind its version.
                let random = body.get(2..2 + RETRY.len());
                if message == SERVER_HELLO && random.is_some() {
                    self.is_answered = true;
                    self.has_chosen = random != Some(&RETRY);
                }
                if self.has_chosen {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// One direction: its records, and the handshake messages in them, however they are cut.
#[derive(Debug, Default)]
struct Side {
    record: [u8; 5],
    /// How much of `record` is there.
    record_filled: usize,
    /// What is left of the record.
    record_left: usize,
    message: [u8; 4],
    message_filled: usize,
    message_left: usize,
    /// Of the message, no more than can be understood.
    body: Vec<u8>,
    /// There was a handshake record.
    has_begun: bool,
}

impl Side {
    /// The next part of `stream` that lies in one record, with the record's type.
    fn next_part<'a>(&mut self, stream: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, Broken> {
        while self.record_left == 0 {
            let Some(&byte) = stream.split_off_first() else { return Ok(None) };
            let is_possible = match self.record_filled {
                0 => (CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&byte),
                1 => byte == 3,
                2 => byte <= 4,
                _ => true,
            };
            if !is_possible {
                return Err(Broken);
            }
            self.record[self.record_filled] = byte;
            self.record_filled += 1;
            if let [kind, _, _, high, low] = self.record
                && self.record_filled == self.record.len()
            {
                self.record_filled = 0;
                self.record_left = usize::from(u16::from_be_bytes([high, low]));
                self.has_begun |= kind == HANDSHAKE;
                // An empty one is forbidden, or would be a way to go on for ever.
                if self.record_left == 0 || self.record_left > RECORD_MAX {
                    return Err(Broken);
                }
            }
        }
        let part = take_up_to(stream, self.record_left);
        self.record_left -= part.len();
        Ok((!part.is_empty()).then_some((self.record[0], part)))
    }

    /// The next handshake message that ends in `part`: its type and body.
    fn next_message(&mut self, part: &mut &[u8]) -> Result<Option<(u8, Vec<u8>)>, Broken> {
        while self.message_filled < self.message.len() {
            let Some(&byte) = part.split_off_first() else { return Ok(None) };
            self.message[self.message_filled] = byte;
            self.message_filled += 1;
            let [kind, a, b, c] = self.message;
            let length = u32::from_be_bytes([0, a, b, c]);
            self.message_left = usize::try_from(length).map_err(|_| Broken)?;
            let is_whole = self.message_filled == self.message.len();
            if is_whole && kind == CLIENT_HELLO && self.message_left > HELLO_MAX {
                return Err(Broken);
            }
        }
        let more = take_up_to(part, self.message_left);
        self.message_left -= more.len();
        let room = HELLO_MAX - self.body.len();
        self.body.extend_from_slice(&more[..more.len().min(room)]);
        if self.message_left > 0 {
            return Ok(None);
        }
        self.message_filled = 0;
        Ok(Some((self.message[0], std::mem::take(&mut self.body))))
    }
}

fn take_up_to<'a>(stream: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (part, rest) = stream.split_at(length.min(stream.len()));
    *stream = rest;
    part
}

/// The name in the body of a ClientHello; the outer `None` is for one that is malformed, or has
/// more than one name: servers may differ about which one counts.
fn server_name(hello: &[u8]) -> Option<Name> {
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
            (b"\x13BitTorrent".to_vec(), Hello::Other),
            (vec![24, 3, 1, 0, 1, 1], Hello::Other),
            // Go takes a first record of any version below 16.0, and passes over alerts before it.
            (vec![22, 2, 0, 0, 1], Hello::Broken),
            (vec![22, 3, 9, 0, 1], Hello::Broken),
            ([&[21, 3, 1, 0, 2, 1, 0][..], &record(&hello(&[]))].concat(), Hello::Broken),
            ([&[20, 3, 3, 0, 1, 1][..], &record(&hello(&[]))].concat(), Hello::Broken),
            (vec![23, 3, 3, 0, 1, 1], Hello::Broken),
            (vec![0x80, 46, 1, 3, 1], Hello::Broken),
            (vec![0x80, 46, 1], Hello::Incomplete),
            (vec![0xff, 0xfd, 3, 0xff], Hello::Other),
            (vec![0xff, 0xfb, 1, 0xff], Hello::Other),
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
            let body = &reader.handshake.client.body;
            assert!(reader.at == length && body.capacity() <= 4 * message.len());
        }
        assert_eq!(reader.read(&stream), Hello::Complete(Some(b"a.test".to_vec())));
    }

    fn answer(random: [u8; 32]) -> Vec<u8> {
        let body = [&[3, 3][..], &random, &[0, 0x13, 1, 0, 0, 0]].concat();
        record(&[&[2, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat())
    }

    /// Client and server by turns, client first: the names that are found, and how it ends.
    fn converse(turns: &[Vec<u8>]) -> (Vec<Name>, Result<bool, Broken>) {
        let mut handshake = Handshake::default();
        let mut names = Vec::new();
        let mut end = Ok(false);
        for (turn, bytes) in turns.iter().enumerate() {
            for byte in bytes.chunks(1) {
                if turn % 2 == 1 {
                    handshake.read_server(byte);
                } else if end == Ok(false) {
                    end = handshake.read_client(byte, &mut |name| names.push(name));
                }
            }
        }
        (names, end)
    }

    #[test]
    fn every_hello_that_can_follow_in_clear_is_found() {
        let named = |name: &[u8]| hello(&name_extension(name));
        let (a, b) = (record(&named(b"a.test")), record(&named(b"b.test")));
        let change = vec![20, 3, 3, 0, 1, 1];
        let alert = vec![21, 3, 3, 0, 2, 1, 112];
        let data = vec![23, 3, 3, 0, 2, 1, 1];
        let (retry, choice) = (answer(RETRY), answer([7; 32]));
        let both = [named(b"a.test"), named(b"b.test")].concat();
        let keys = record(&[16, 0, 0, 1, 9]);
        let two = || vec![Some(b"a.test".to_vec()), Some(b"b.test".to_vec())];
        let one = || vec![Some(b"a.test".to_vec())];
        for (turns, names, end) in [
            (vec![a.clone(), retry.clone(), b.clone()], two(), Ok(false)),
            (vec![[a.clone(), b.clone()].concat()], two(), Ok(false)),
            (vec![record(&both)], two(), Ok(false)),
            (
                vec![[record(&both[..both.len() - 9]), record(&both[both.len() - 9..])].concat()],
                two(),
                Ok(false),
            ),
            (
                vec![a.clone(), retry.clone(), [change.clone(), b.clone()].concat()],
                two(),
                Ok(false),
            ),
            (
                vec![a.clone(), [alert.clone(), retry.clone(), change.clone()].concat(), b.clone()],
                two(),
                Ok(false),
            ),
            // Early data, which a server that asks again passes over.
            (
                vec![[a.clone(), change.clone(), data.clone()].concat(), retry.clone(), b.clone()],
                two(),
                Ok(false),
            ),
            // The server has chosen, and then all is encrypted.
            (
                vec![a.clone(), choice.clone(), [change.clone(), vec![99; 9]].concat()],
                one(),
                Ok(true),
            ),
            (
                vec![a.clone(), choice.clone(), [data.clone(), vec![99; 9]].concat()],
                one(),
                Ok(true),
            ),
            (
                vec![a.clone(), retry, a.clone(), choice.clone(), change.clone()],
                [one(), one()].concat(),
                Ok(true),
            ),
            // TLS 1.2, in which some old servers take another one before the keys.
            (
                vec![a.clone(), choice.clone(), [keys.clone(), change.clone()].concat()],
                one(),
                Ok(true),
            ),
            (
                vec![a.clone(), choice.clone(), [alert.clone(), b.clone()].concat()],
                two(),
                Ok(false),
            ),
            // Nothing that a client sends before.
            (vec![[a.clone(), keys].concat()], one(), Err(Broken)),
            (vec![[a.clone(), b"GET /".to_vec()].concat()], one(), Err(Broken)),
            // What is no TLS is no choice.
            (
                vec![
                    a.clone(),
                    [b"HTTP/1.1 400\r\n".to_vec(), choice].concat(),
                    [change, b].concat(),
                ],
                two(),
                Ok(false),
            ),
        ] {
            assert_eq!(converse(&turns), (names, end), "{turns:?}");
        }
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
