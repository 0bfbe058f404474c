//! Traps: what was refused or went wrong, and its JSON line.
//!
//! The lines are what harnesses parse, so each is one line of valid JSON (RFC 8259) whatever bytes a
//! path holds: control characters are escaped, also DEL and the C1 range, which a terminal would
//! obey, and the line separators U+2028 and U+2029; bytes that are not UTF-8 become U+FFFD.

use core::fmt::{self, Write};

/// What was tried on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileOperation {
    /// Content or a listing would have been read.
    Read,
    /// Content, a directory entry or metadata would have been changed.
    Write,
}

/// What was tried on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetworkOperation {
    /// Reach a peer.
    Connect,
    /// Be reached: bind or listen.
    Bind,
}

/// Writes the line of what went wrong in landstrip itself: keys and values, `source` first.
pub fn write_internal(out: &mut impl Write, pairs: &[(&str, &[u8])]) -> fmt::Result {
    out.write_str("{\"Internal\":{")?;
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.write_char(',')?;
        }
        string(out, key.as_bytes())?;
        out.write_char(':')?;
        string(out, value)?;
    }
    out.write_str("}}\n")
}

/// Whether a terminal obeys a character, or does not show it, or shows others in another order because of it.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Writes a character as strings of JSON can have each (RFC 8259, 7).
pub fn escaped(out: &mut impl Write, character: char) -> fmt::Result {
    let mut units = [0; 2];
    let mut units = character.encode_utf16(&mut units).iter();
    units.try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

/// Writes a text as a JSON string, as the lines hold it.
pub fn string(out: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    out.write_char('"')?;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => out.write_str("\\\"")?,
                '\\' => out.write_str("\\\\")?,
                '\n' => out.write_str("\\n")?,
                '\t' => out.write_str("\\t")?,
                '\r' => out.write_str("\\r")?,
                hidden if is_hidden(hidden) => escaped(out, hidden)?,
                other => out.write_char(other)?,
            }
        }
        if !chunk.invalid().is_empty() {
            out.write_char('\u{fffd}')?;
        }
    }
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;

    #[test]
    fn a_failure_has_the_shape_of_the_contract() {
        let mut out = String::new();
        write_internal(&mut out, &[("source", b"policy"), ("file", b"/p.json")]).unwrap();
        assert_eq!(out, "{\"Internal\":{\"source\":\"policy\",\"file\":\"/p.json\"}}\n");
    }

    #[test]
    fn any_bytes_make_one_line_of_ascii_safe_json() {
        let hostile = b"a\x1b[31m\"\\\n\r\t\0\x7f\xff\xc2\x9b\xe2\x80\xa8z\xf3\xa0\x81\x81";
        let mut out = String::new();
        string(&mut out, hostile).unwrap();
        assert_eq!(
            out,
            "\"a\\u001b[31m\\\"\\\\\\n\\r\\t\\u0000\\u007f\u{fffd}\\u009b\\u2028z\\udb40\\udc41\""
        );
    }
}
