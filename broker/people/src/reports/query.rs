//! Queries to a name server, as far as a report needs them: whose name is asked for (RFC 1035, section 4.1).

/// Identification, flags, and four counts.
const HEADER: usize = 12;
/// Most characters of a name.
const NAME_MAX: usize = 253;

/// The name that the query `message` asks for; none if it is no query, or one with a name that no host has.
pub(super) fn name(message: &[u8]) -> Option<String> {
    let (header, mut rest) = message.split_at_checked(HEADER)?;
    let is_answer = header[2] & 0x80 != 0;
    let questions = u16::from_be_bytes([header[4], header[5]]);
    if is_answer || questions != 1 {
        return None;
    }
    let mut name = String::new();
    while let (&length, after) = rest.split_first()?
        && length > 0
    {
        let (label, after) = after.split_at_checked(length.into())?;
        if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)) {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().copied().map(char::from));
        rest = after;
    }
    (1..=NAME_MAX).contains(&name.len()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(flags: u8, questions: u8, labels: &[u8]) -> Vec<u8> {
        let header = [0xab, 0xcd, flags, 0, 0, questions, 0, 0, 0, 0, 0, 0];
        [&header[..], labels, &[0, 1, 0, 1]].concat()
    }

    #[test]
    fn the_name_is_read_off_a_query_and_nothing_else() {
        let labels = b"\x04host\x04test\0";
        assert_eq!(name(&query(1, 1, labels)).as_deref(), Some("host.test"));
        assert_eq!(name(&query(1, 1, b"\x05_http\x04a-b1\0")).as_deref(), Some("_http.a-b1"));
        for message in [
            query(0x81, 1, labels),
            query(1, 0, labels),
            query(1, 2, labels),
            // The root, a pointer, a label that is cut off, characters that no host has.
            query(1, 1, b"\0"),
            query(1, 1, b"\xc0\x0c"),
            query(1, 1, b"\x3fhost\0"),
            query(1, 1, b"\x04ho\nt\0"),
            query(1, 1, b"\x04host\x04te\"t\0"),
            query(1, 1, &[&b"\x3f"[..], &[b'a'; 63]].concat().repeat(4)),
            query(1, 1, &[&[&b"\x3f"[..], &[b'a'; 63]].concat().repeat(4)[..], b"\0"].concat()),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        ] {
            assert_eq!(name(&message), None, "{message:?}");
        }
        let whole = query(1, 1, labels);
        for length in 0..whole.len() - 5 {
            assert_eq!(name(&whole[..length]), None, "{length}");
        }
    }
}
