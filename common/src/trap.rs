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

/// The layer that detected a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mechanism {
    /// The broker observed or refused it.
    Seccomp,
    /// The filtering proxy refused a domain.
    Proxy,
    /// Only the kernel's own Landlock log showed it.
    Landlock,
}

/// One report. Texts are bytes: paths need not be UTF-8.
#[derive(Clone, Copy, Debug)]
pub enum Trap<'a> {
    /// A refused file operation and its path.
    Filesystem(FileOperation, &'a [u8], Mechanism),
    /// A refused socket operation and its `address:port` or path.
    Network(NetworkOperation, &'a [u8], Mechanism),
    /// The tool could not be executed: program and message.
    Launch(&'a [u8], &'a [u8]),
    /// The command line was wrong.
    Usage(&'a [u8]),
    /// landstrip itself failed: key and value pairs, `source` first.
    Internal(&'a [(&'a str, &'a [u8])]),
    /// A rule that would have let refused things through: key and value.
    Advice(&'a [u8], &'a [u8]),
    /// A rule that refused: key, value, its file or preset, and the line there.
    DeniedBy(&'a [u8], &'a [u8], &'a [u8], &'a [u8]),
    /// The last one: whose status it is, `tool` or `landstrip`, and the status.
    Exit(&'a [u8], &'a [u8]),
}

impl Trap<'_> {
    /// Writes the JSON object and a newline.
    pub fn write_line(&self, out: &mut impl Write) -> fmt::Result {
        match *self {
            Trap::Filesystem(operation, path, mechanism) => {
                let operation = match operation {
                    FileOperation::Read => "read",
                    FileOperation::Write => "write",
                };
                array(out, "Filesystem", &[operation.as_bytes(), path, mechanism.name()])
            }
            Trap::Network(operation, target, mechanism) => {
                let operation = match operation {
                    NetworkOperation::Connect => "connect",
                    NetworkOperation::Bind => "bind",
                };
                array(out, "Network", &[operation.as_bytes(), target, mechanism.name()])
            }
            Trap::Launch(program, message) => array(out, "Launch", &[program, message]),
            Trap::Advice(key, value) => array(out, "Advice", &[key, value]),
            Trap::DeniedBy(key, value, file, line) => {
                array(out, "DeniedBy", &[key, value, file, line])
            }
            Trap::Exit(whose, status) => array(out, "Exit", &[whose, status]),
            Trap::Usage(message) => {
                out.write_str("{\"Usage\":")?;
                string(out, message)?;
                out.write_str("}\n")
            }
            Trap::Internal(pairs) => {
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
        }
    }
}

impl Mechanism {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Seccomp => b"seccomp",
            Self::Proxy => b"proxy",
            Self::Landlock => b"landlock",
        }
    }
}

fn array(out: &mut impl Write, kind: &str, items: &[&[u8]]) -> fmt::Result {
    write!(out, "{{\"{kind}\":[")?;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.write_char(',')?;
        }
        string(out, item)?;
    }
    out.write_str("]}\n")
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
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    )
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
                hidden if is_hidden(hidden) => write!(out, "\\u{:04x}", u32::from(hidden))?,
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

    fn line(trap: &Trap<'_>) -> String {
        let mut out = String::new();
        trap.write_line(&mut out).unwrap();
        out
    }

    #[test]
    fn each_kind_has_the_shape_of_the_contract() {
        use super::{FileOperation::Write, Mechanism::Seccomp, NetworkOperation::Connect};
        let cases: [(Trap<'_>, &str); 5] = [
            (
                Trap::Filesystem(Write, b"/repo/out", Seccomp),
                "{\"Filesystem\":[\"write\",\"/repo/out\",\"seccomp\"]}\n",
            ),
            (
                Trap::Network(Connect, b"93.184.216.34:443", Seccomp),
                "{\"Network\":[\"connect\",\"93.184.216.34:443\",\"seccomp\"]}\n",
            ),
            (
                Trap::Launch(b"prog", b"No such file or directory"),
                "{\"Launch\":[\"prog\",\"No such file or directory\"]}\n",
            ),
            (
                Trap::Usage(b"unknown option '--bogus'"),
                "{\"Usage\":\"unknown option '--bogus'\"}\n",
            ),
            (
                Trap::Internal(&[("source", b"policy"), ("file", b"/p.json")]),
                "{\"Internal\":{\"source\":\"policy\",\"file\":\"/p.json\"}}\n",
            ),
        ];
        for (trap, expected) in &cases {
            assert_eq!(line(trap), *expected);
        }
    }

    #[test]
    fn any_bytes_make_one_line_of_ascii_safe_json() {
        let hostile = b"a\x1b[31m\"\\\n\r\t\0\x7f\xff\xc2\x9b\xe2\x80\xa8z";
        let out = line(&Trap::Usage(hostile));
        assert_eq!(
            out,
            "{\"Usage\":\"a\\u001b[31m\\\"\\\\\\n\\r\\t\\u0000\\u007f\u{fffd}\\u009b\\u2028z\"}\n"
        );
    }
}
