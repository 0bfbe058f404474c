//! One DNS question and its answer. Pure: RFC 1035 sections 4.1 and 3.2, RFC 3596 for AAAA.
//!
//! Only what a stub needs that asks a recursive server: a query for one name and type, and the
//! addresses of its answer, at the end of a chain of aliases that the answer itself contains. And what the sandbox
//! needs, which asks this proxy: the other end of the same, with one address at the most.

use std::net::{IpAddr, Ipv4Addr};

/// Longest message over UDP without EDNS; a longer answer is cut and asked for over TCP.
pub(crate) const UDP_MAX: usize = 512;
/// Longest chain of aliases.
const CHAIN_MAX: usize = 16;
/// Longest name on the wire.
const WIRE_NAME_MAX: usize = 255;
const HEADER: usize = 12;
const CLASS_IN: u16 = 1;
const TYPE_CNAME: u16 = 5;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

impl Kind {
    fn number(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Aaaa => 28,
        }
    }

    fn address(self, data: &[u8]) -> Option<IpAddr> {
        match self {
            Self::A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
            Self::Aaaa => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
        }
    }
}

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// These addresses, perhaps none.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    NoName,
    /// It did not fit: ask over TCP.
    Truncated,
    /// The server cannot or will not say.
    Failed,
}

/// The query for `name`, which is in its one spelling.
pub(crate) fn query(id: u16, name: &str, kind: Kind) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEADER + name.len() + 6);
    packet.extend(id.to_be_bytes());
    // Recursion desired; one question.
    packet.extend([0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        // A label has at most 63 bytes.
        packet.push(u8::try_from(label.len()).unwrap_or(0));
        packet.extend(label.as_bytes());
    }
    packet.push(0);
    packet.extend(kind.number().to_be_bytes());
    packet.extend(CLASS_IN.to_be_bytes());
    packet
}

/// Reads the answer to the query for `id`, `name` and `kind`; `None` if it is none to that query,
/// or broken: it can be a forgery, and the true one may follow.
pub(crate) fn answer(packet: &[u8], id: u16, name: &str, kind: Kind) -> Option<Answer> {
    let mut reader = Reader { packet, at: 0 };
    let (given, flags) = (reader.short()?, reader.short()?);
    let (questions, answers) = (reader.short()?, reader.short()?);
    reader.at = HEADER;
    let is_response = flags & 0x8000 != 0 && flags & 0x7800 == 0;
    if given != id || !is_response || questions != 1 {
        return None;
    }
    let same_question =
        reader.name()? == name && reader.short()? == kind.number() && reader.short()? == CLASS_IN;
    if !same_question {
        return None;
    }
    match (flags & 0x000f, flags & 0x0200 != 0) {
        (0, true) => return Some(Answer::Truncated),
        (0, false) => {}
        (3, _) => return Some(Answer::NoName),
        _ => return Some(Answer::Failed),
    }
    let mut aliases = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..answers {
        let owner = reader.name()?;
        let (found, class) = (reader.short()?, reader.short()?);
        reader.skip(4)?;
        let length = usize::from(reader.short()?);
        let start = reader.at;
        let data = reader.take(length)?;
        if class == CLASS_IN && found == TYPE_CNAME {
            aliases.push((owner, Reader { packet, at: start }.name()?));
        } else if class == CLASS_IN && found == kind.number() {
            addresses.push((owner, kind.address(data)?));
        }
    }
    let last = end_of_chain(name, &aliases)?;
    let own = addresses.into_iter().filter(|(owner, _)| owner == last);
    Some(Answer::Addresses(own.map(|(_, address)| address).collect()))
}

fn end_of_chain<'a>(name: &'a str, aliases: &'a [(String, String)]) -> Option<&'a str> {
    let mut current = name;
    for _ in 0..CHAIN_MAX {
        match aliases.iter().find(|(owner, _)| owner == current) {
            Some((_, next)) => current = next,
            None => return Some(current),
        }
    }
    None
}

/// What is said to the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Address(Ipv4Addr),
    /// The name exists, and has nothing of the kind.
    Nothing,
    NoName,
    Failed,
}

/// Response codes (RFC 1035 section 4.1.1).
mod code {
    pub(super) const FORMAT: u8 = 1;
    pub(super) const FAILURE: u8 = 2;
    pub(super) const NO_NAME: u8 = 3;
    pub(super) const NOT_IMPLEMENTED: u8 = 4;
}

/// How long an answer may be kept, in seconds.
const LIFETIME: u32 = 30;

/// The query of somebody for one name.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    packet: &'a [u8],
    /// Where its question ends.
    end: usize,
    /// In lower case.
    pub(crate) name: String,
    kind: u16,
}

impl<'a> Query<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// Returns the response to what is no such query, if somebody waits for one.
    pub(crate) fn read(packet: &'a [u8]) -> Result<Self, Option<Vec<u8>>> {
        let mut reader = Reader { packet, at: HEADER };
        let &[_, _, high, _, a, b, ..] = packet else { return Err(None) };
        if packet.len() < HEADER || high & 0x80 != 0 {
            return Err(None);
        }
        if high & 0x78 != 0 {
            return Err(Some(begin(packet, code::NOT_IMPLEMENTED, [0, 0])));
        }
        match reader.question().filter(|_| [a, b] == [0, 1]) {
            Some((name, kind)) => Ok(Self { packet, end: reader.at, name, kind }),
            None => Err(Some(begin(packet, code::FORMAT, [0, 0]))),
        }
    }

    /// Whether IPv4 addresses are asked for.
    pub(crate) fn is_for_address(&self) -> bool {
        self.kind == Kind::A.number()
    }

    /// The response that says what was found.
    pub(crate) fn response(&self, found: Found) -> Vec<u8> {
        let (code, answers) = match found {
            Found::Address(_) => (0, 1),
            Found::Nothing => (0, 0),
            Found::NoName => (code::NO_NAME, 0),
            Found::Failed => (code::FAILURE, 0),
        };
        let mut response = begin(self.packet, code, [1, answers]);
        response.extend(&self.packet[HEADER..self.end]);
        if let Found::Address(address) = found {
            // The name of the question, which is at a known place.
            response.extend([0xc0, 12]);
            response.extend(Kind::A.number().to_be_bytes());
            response.extend(CLASS_IN.to_be_bytes());
            response.extend(LIFETIME.to_be_bytes());
            response.extend([0, 4]);
            response.extend(address.octets());
        }
        response
    }
}

/// The header of the response to `query`, with so many questions and answers.
fn begin(query: &[u8], code: u8, [questions, answers]: [u8; 2]) -> Vec<u8> {
    let mut header = query[..2].to_vec();
    // A response; the question's operation and wish for recursion; recursion is available.
    header.extend([0x80 | query[2] & 0x79, 0x80 | code, 0, questions, 0, answers, 0, 0, 0, 0]);
    header
}

struct Reader<'a> {
    packet: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let bytes = self.packet.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        self.take(length).map(drop)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// The name and type of a question of the internet's class, in which the name is written out.
    fn question(&mut self) -> Option<(String, u16)> {
        let start = self.at;
        let name = self.name()?;
        let written = if name.is_empty() { 1 } else { name.len() + 2 };
        let (kind, class) = (self.short()?, self.short()?);
        (self.at == start + written + 4 && class == CLASS_IN).then_some((name, kind))
    }

    /// A name in lower case; bytes that a host name cannot have make it unequal to every one.
    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut length = 0;
        // Where to go on after the first pointer.
        let mut after = None;
        loop {
            let here = self.at;
            match self.byte()? {
                0 => break,
                size @ 1..=63 => {
                    length += usize::from(size) + 1;
                    if length > WIRE_NAME_MAX {
                        return None;
                    }
                    if !name.is_empty() {
                        name.push('.');
                    }
                    let label = self.take(usize::from(size))?;
                    let shown = |byte: &u8| match byte {
                        b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte),
                        _ => '?',
                    };
                    name.extend(label.iter().map(shown));
                }
                high @ 0xc0..=0xff => {
                    let low = self.byte()?;
                    let target = usize::from(u16::from_be_bytes([high & 0x3f, low]));
                    after.get_or_insert(self.at);
                    // Backwards only, so that there is an end.
                    if target >= here {
                        return None;
                    }
                    self.at = target;
                }
                _ => return None,
            }
        }
        if let Some(after) = after {
            self.at = after;
        }
        name.make_ascii_lowercase();
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTER_TO_QUESTION: [u8; 2] = [0xc0, 12];

    fn response(flags: u16, records: &[(&[u8], u16, &[u8])]) -> Vec<u8> {
        let mut packet = query(7, "a.test", Kind::A);
        packet[2..4].copy_from_slice(&(0x8180 | flags).to_be_bytes());
        packet[7] = u8::try_from(records.len()).unwrap();
        for (owner, kind, data) in records {
            packet.extend(*owner);
            packet.extend(kind.to_be_bytes());
            packet.extend([0, 1, 0, 0, 0, 60]);
            packet.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            packet.extend(*data);
        }
        packet
    }

    fn read(packet: &[u8]) -> Option<Answer> {
        answer(packet, 7, "a.test", Kind::A)
    }

    fn addresses(list: &[[u8; 4]]) -> Option<Answer> {
        Some(Answer::Addresses(list.iter().map(|&octets| IpAddr::from(octets)).collect()))
    }

    #[test]
    fn addresses_are_those_at_the_end_of_the_chain() {
        let own = &POINTER_TO_QUESTION[..];
        let plain = response(0, &[(own, 1, &[192, 0, 2, 1]), (own, 1, &[192, 0, 2, 2])]);
        assert_eq!(read(&plain), addresses(&[[192, 0, 2, 1], [192, 0, 2, 2]]));
        let alias =
            response(0, &[(own, 5, b"\x01B\xc0\x0e"), (b"\x01b\x04test\0", 1, &[192, 0, 2, 3])]);
        assert_eq!(read(&alias), addresses(&[[192, 0, 2, 3]]));
        let stranger =
            response(0, &[(b"\x04evil\0", 1, &[192, 0, 2, 9]), (own, 1, &[192, 0, 2, 1])]);
        assert_eq!(read(&stranger), addresses(&[[192, 0, 2, 1]]));
        assert_eq!(read(&response(0, &[])), addresses(&[]));
    }

    #[test]
    fn errors_are_told_from_answers_to_something_else() {
        assert_eq!(read(&response(3, &[])), Some(Answer::NoName));
        assert_eq!(read(&response(2, &[])), Some(Answer::Failed));
        assert_eq!(read(&response(0x0200, &[])), Some(Answer::Truncated));
        let good = response(0, &[(&POINTER_TO_QUESTION, 1, &[192, 0, 2, 1])]);
        assert_eq!(answer(&good, 8, "a.test", Kind::A), None);
        assert_eq!(answer(&good, 7, "b.test", Kind::A), None);
        assert_eq!(answer(&good, 7, "a.test", Kind::Aaaa), None);
        assert_eq!(read(&query(7, "a.test", Kind::A)), None, "a query is no answer");
    }

    fn asked(packet: &[u8]) -> (Option<(String, bool)>, Option<Vec<u8>>) {
        let mut seen = None;
        let response = Query::read(packet).map(|query| {
            seen = Some((query.name.clone(), query.is_for_address()));
            query.response(Found::Address([198, 18, 0, 1].into()))
        });
        let response = response.map_or_else(|response| response, Some);
        (seen, response)
    }

    #[test]
    fn questions_are_answered_so_that_who_asks_understands() {
        let (seen, response) = asked(&query(7, "a.test", Kind::A));
        assert_eq!(seen, Some(("a.test".to_owned(), true)));
        let response = response.unwrap();
        assert_eq!(answer(&response, 7, "a.test", Kind::A), addresses(&[[198, 18, 0, 1]]));
        assert_eq!(asked(&query(7, "a.test", Kind::Aaaa)).0, Some(("a.test".to_owned(), false)));
        let said = |found| {
            let packet = query(7, "a.test", Kind::A);
            let packet = Query::read(&packet).unwrap().response(found);
            answer(&packet, 7, "a.test", Kind::A)
        };
        assert_eq!(said(Found::Nothing), addresses(&[]));
        assert_eq!(said(Found::NoName), Some(Answer::NoName));
        assert_eq!(said(Found::Failed), Some(Answer::Failed));
    }

    #[test]
    fn what_is_no_plain_question_looks_nothing_up() {
        let good = query(7, "a.test", Kind::A);
        for length in 0..good.len() {
            let (seen, response) = asked(&good[..length]);
            assert_eq!((seen, response.is_some()), (None, length >= HEADER), "{length}");
        }
        let code = |at: usize, value: u8| {
            let mut packet = good.clone();
            packet[at] = value;
            let (seen, response) = asked(&packet);
            assert_eq!(seen, None, "{at} {value}");
            response.map(|response| response[3] & 0x0f)
        };
        assert_eq!(code(2, 0x81), None, "a response");
        assert_eq!(code(2, 0x29), Some(code::NOT_IMPLEMENTED), "another operation");
        assert_eq!(code(5, 0), Some(code::FORMAT), "no question");
        assert_eq!(code(5, 2), Some(code::FORMAT), "two questions");
        assert_eq!(code(good.len() - 1, 3), Some(code::FORMAT), "another class");
        assert_eq!(code(HEADER, 0xc0), Some(code::FORMAT), "a pointer");
        // A dot inside of a label, and bytes that no host has, are not those of a name.
        let mut packet = good;
        packet[HEADER..HEADER + 8].copy_from_slice(b"\x06a.test\0");
        assert_eq!(asked(&packet).0, Some(("a?test".to_owned(), true)));
    }

    #[test]
    fn broken_answers_are_no_answers() {
        let own = &POINTER_TO_QUESTION[..];
        let good = response(0, &[(own, 5, b"\x01b\xc0\x0e"), (own, 1, &[192, 0, 2, 1])]);
        for length in 0..good.len() {
            assert_eq!(read(&good[..length]), None, "{length}");
        }
        assert_eq!(read(&response(0, &[(b"\xc0\x18", 1, &[1, 2, 3, 4])])), None, "to itself");
        assert_eq!(read(&response(0, &[(b"\xc0\xff", 1, &[1, 2, 3, 4])])), None, "forwards");
        assert_eq!(read(&response(0, &[(own, 1, &[1, 2, 3])])), None, "short address");
        assert_eq!(read(&response(0, &[(own, 5, own)])), None, "an alias of itself");
    }

    #[test]
    fn no_bytes_make_the_reader_panic_or_loop() {
        let own = &POINTER_TO_QUESTION[..];
        let good = response(0, &[(own, 5, b"\x01b\xc0\x0e"), (b"\x01b\xc0\x0e", 1, &[1, 2, 3, 4])]);
        let mut state = 1_u64;
        for _ in 0..100_000 {
            let mut packet = good.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = usize::try_from(state >> 40).unwrap() % packet.len();
                packet[at] = u8::try_from(state >> 32 & 0xff).unwrap();
            }
            let _ = read(&packet);
            packet[2] &= 0x7f;
            let (seen, response) = asked(&packet);
            assert!(response.is_some_and(|bytes| bytes.len() <= packet.len() + 16));
            assert!(seen.is_none_or(|(name, _)| name.len() <= WIRE_NAME_MAX));
        }
    }
}
