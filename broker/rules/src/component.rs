//! One component of a path pattern: a name, a glob, or `**`. Pure.
//!
//! The language is that of glob(7): `*`, `?` and `[...]` never cross a slash, a backslash takes the next character literally.
//! Unlike in a shell, wildcards match a leading dot: a rule that denies `*` must not miss `.env`. Names are bytes; where
//! they are UTF-8, `?` and `[...]` match one character, else one byte.

use std::fmt::{self, Write};
use std::sync::Arc;

/// One component of a [`Pattern`](super::pattern::Pattern).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Component {
    /// Exactly this name, shared by the patterns of what lies side by side.
    Literal(Arc<[u8]>),
    /// Any name that the glob matches.
    Glob(Glob),
    /// `**`: zero or more components of any name.
    AnyDepth,
}

/// What a name within one directory must look like.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Glob {
    /// Shared by the patterns of what lies at one such name.
    tokens: Arc<[Token]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Token {
    One(u32),
    Any,
    Star,
    Class { negated: bool, ranges: Box<[(u32, u32)]> },
}

/// A component that is no valid pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternError {
    /// `[` that is never closed.
    UnclosedClass,
    /// `[z-a]`.
    BackwardRange,
    /// `[[:alpha:]]` and its kin.
    NamedClass,
    /// A backslash with nothing after it.
    TrailingBackslash,
    /// `a**b`: some programs let it cross directories, some do not, so neither is guessed.
    PartialAnyDepth,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnclosedClass => {
                "'[' without a closing ']' (write '\\[' for the character itself)"
            }
            Self::BackwardRange => "a range in '[...]' runs backwards",
            Self::NamedClass => "named classes such as '[:alpha:]' are not supported",
            Self::TrailingBackslash => {
                "a backslash at the end of a path component (write '\\\\' for the character itself)"
            }
            Self::PartialAnyDepth => "'**' must be a whole path component",
        })
    }
}

impl Component {
    /// Parses one component of a written path, which holds no slash.
    pub fn parse(written: &[u8]) -> Result<Component, PatternError> {
        if written == b"**" {
            return Ok(Component::AnyDepth);
        }
        if !written.iter().any(|byte| b"\\*?[".contains(byte)) {
            return Ok(Component::Literal(written.into()));
        }
        let mut tokens = Vec::with_capacity(written.len());
        let mut rest = written;
        while let Some((character, after)) = split_character(rest) {
            rest = after;
            let token = match character {
                BACKSLASH => {
                    let escaped = split_character(rest).ok_or(PatternError::TrailingBackslash)?;
                    rest = escaped.1;
                    Token::One(escaped.0)
                }
                STAR if tokens.last() == Some(&Token::Star) => {
                    return Err(PatternError::PartialAnyDepth);
                }
                STAR => Token::Star,
                QUESTION => Token::Any,
                OPEN => {
                    let (class, after) = parse_class(rest)?;
                    rest = after;
                    class
                }
                other => Token::One(other),
            };
            tokens.push(token);
        }
        if tokens.iter().all(|token| matches!(token, Token::One(_))) {
            return Ok(Component::Literal(unescape(written)));
        }
        Ok(Component::Glob(Glob { tokens: tokens.into() }))
    }

    /// Whether it stands for `name`, among others.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            Component::Literal(literal) => **literal == *name,
            Component::Glob(glob) => glob.matches(name),
            Component::AnyDepth => true,
        }
    }
}

const BACKSLASH: u32 = b'\\' as u32;
const STAR: u32 = b'*' as u32;
const QUESTION: u32 = b'?' as u32;
const OPEN: u32 = b'[' as u32;
const CLOSE: u32 = b']' as u32;
const BANG: u32 = b'!' as u32;
const CARET: u32 = b'^' as u32;
const DASH: u32 = b'-' as u32;

/// Splits off the first UTF-8 character, or the first byte where there is none. Such a byte is told apart from
/// every character by a value above the last one.
#[inline]
fn split_character(bytes: &[u8]) -> Option<(u32, &[u8])> {
    const ABOVE_UNICODE: u32 = 0x11_0000;
    let first = *bytes.first()?;
    let length = match first {
        0x00..=0x7f => return Some((u32::from(first), &bytes[1..])),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let character = bytes
        .get(..length)
        .and_then(|head| std::str::from_utf8(head).ok())
        .and_then(|text| text.chars().next());
    match character {
        Some(character) => Some((u32::from(character), &bytes[length..])),
        None => Some((ABOVE_UNICODE + u32::from(first), &bytes[1..])),
    }
}

/// Parses what follows `[` up to and including `]`, and returns what follows that.
fn parse_class(written: &[u8]) -> Result<(Token, &[u8]), PatternError> {
    let next = |rest| split_character(rest).ok_or(PatternError::UnclosedClass);
    let take_member = |rest| {
        let (character, after) = next(rest)?;
        if character == BACKSLASH { next(after) } else { Ok((character, after)) }
    };
    let (first, after) = next(written)?;
    let negated = first == BANG || first == CARET;
    let mut rest = if negated { after } else { written };
    let mut ranges = Vec::new();
    loop {
        let (character, after) = next(rest)?;
        // As in glob(7), a bracket that closes an empty class is a member of it.
        if character == CLOSE && !ranges.is_empty() {
            return Ok((Token::Class { negated, ranges: ranges.into() }, after));
        }
        if character == OPEN && matches!(after.first(), Some(b':' | b'.' | b'=')) {
            return Err(PatternError::NamedClass);
        }
        let (low, after) = take_member(rest)?;
        let (dash, upper) = next(after)?;
        if dash != DASH || upper.first() == Some(&b']') {
            ranges.push((low, low));
            rest = after;
            continue;
        }
        let (high, after) = take_member(upper)?;
        if high < low {
            return Err(PatternError::BackwardRange);
        }
        ranges.push((low, high));
        rest = after;
    }
}

/// The name that is meant, without the backslashes that take characters literally.
fn unescape(written: &[u8]) -> Arc<[u8]> {
    let mut bytes = written.iter().copied();
    let next = || bytes.next().filter(|&byte| byte != b'\\').or_else(|| bytes.next());
    std::iter::from_fn(next).collect()
}

impl Glob {
    /// Whether the glob matches the whole of `name`. Only the last star is ever tried again, since an earlier
    /// one could gain nothing: time is at most the product of both lengths, whatever the pattern.
    fn matches(&self, name: &[u8]) -> bool {
        // Most names begin or end otherwise; of ASCII alone a byte is a character.
        let differs = |token: Option<&Token>, byte: Option<&u8>| match token {
            Some(Token::One(one @ ..0x80)) => byte.map(|byte| u32::from(*byte)) != Some(*one),
            _ => false,
        };
        if differs(self.tokens.first(), name.first()) || differs(self.tokens.last(), name.last()) {
            return false;
        }
        let mut rest = name;
        let mut at = 0;
        let mut last_star: Option<(usize, &[u8])> = None;
        while let Some((character, after)) = split_character(rest) {
            match self.tokens.get(at) {
                Some(Token::Star) => {
                    last_star = Some((at, rest));
                    at += 1;
                }
                Some(token) if token.matches(character) => {
                    rest = after;
                    at += 1;
                }
                _ => {
                    let Some((star, from)) = last_star else { return false };
                    let Some((_, longer)) = split_character(from) else { return false };
                    last_star = Some((star, longer));
                    rest = longer;
                    at = star + 1;
                }
            }
        }
        self.tokens[at..].iter().all(|token| *token == Token::Star)
    }
}

impl Token {
    fn matches(&self, character: u32) -> bool {
        match self {
            Token::One(one) => *one == character,
            Token::Any => true,
            Token::Star => false,
            Token::Class { negated, ranges } => {
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                inside != *negated
            }
        }
    }
}

impl fmt::Display for Glob {
    /// As it could have been written.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let character = |code: u32| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        for token in self.tokens.iter() {
            match token {
                Token::One(code) => match character(*code) {
                    special @ ('*' | '?' | '[' | '\\') => write!(out, "\\{special}")?,
                    other => out.write_char(other)?,
                },
                Token::Any => out.write_char('?')?,
                Token::Star => out.write_char('*')?,
                Token::Class { negated, ranges } => {
                    out.write_str(if *negated { "[!" } else { "[" })?;
                    for &(low, high) in ranges.iter() {
                        out.write_char(character(low))?;
                        if low != high {
                            write!(out, "-{}", character(high))?;
                        }
                    }
                    out.write_char(']')?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::{Duration, Instant};

    use super::*;

    fn component(text: &str) -> Component {
        Component::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn globs_match_what_glob_7_says() {
        for (glob, matching, other) in [
            ("*", &["", "a", ".env", "a b"][..], &[][..]),
            ("*.key", &[".key", "a.key", "a.key.key"], &["key", "a.keys", "a.key "]),
            ("a*b*c", &["abc", "axbxc", "abbcc"], &["ab", "acb", "abcd"]),
            ("?", &["a", "é", ".", "€", "😀"], &["", "ab"]),
            ("a?", &["ab", "aé"], &["a", "abc"]),
            ("[abc]", &["a", "b", "c"], &["d", "", "ab", "A"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "-x"]),
            ("[!a-c]", &["d", "é"], &["a", "b", ""]),
            ("[^a]", &["b", "^"], &["a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[!]a]", &["b"], &["]", "a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[-a]", &["a", "-"], &["b"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[\\a-\\c]", &["b"], &["\\"]),
            ("[é]", &["é"], &["\u{c3}", "e"]),
            ("[à-ö]*", &["é", "éa"], &["e"]),
            ("\\**", &["*", "*a"], &["a"]),
            ("[*]", &["*"], &["a"]),
            ("[[]", &["["], &["]"]),
            (".*", &[".", ".env"], &["env"]),
            ("{a,b}?", &["{a,b}c"], &["ac"]),
        ] {
            let component = component(glob);
            assert!(matches!(component, Component::Glob(_)), "{glob}");
            for name in matching {
                assert!(component.matches(name.as_bytes()), "{glob} must match {name}");
            }
            for name in other {
                assert!(!component.matches(name.as_bytes()), "{glob} must not match {name}");
            }
        }
    }

    #[test]
    fn names_that_are_not_utf_8_are_matched_byte_by_byte() {
        assert!(component("?").matches(b"\xff"));
        assert!(component("a*z").matches(b"a\xff\xc3z"));
        assert!(!component("?").matches(b"\xff\xfe"));
        assert!(!component("[\u{80}-\u{10ffff}]").matches(b"\xff"));
        assert!(component("[!a]").matches(b"\xff"));
    }

    #[test]
    fn escapes_make_literals() {
        for (written, literal) in [
            ("a", &b"a"[..]),
            ("a\\*b", b"a*b"),
            ("\\[x\\]", b"[x]"),
            ("a\\\\b", b"a\\b"),
            ("\\~", b"~"),
            ("{a,b}", b"{a,b}"),
            ("]", b"]"),
            ("\\é", "é".as_bytes()),
        ] {
            assert_eq!(component(written), Component::Literal(literal.into()), "{written}");
        }
    }

    #[test]
    fn malformed_components_are_errors() {
        for (written, expected) in [
            ("[", PatternError::UnclosedClass),
            ("[]", PatternError::UnclosedClass),
            ("[!", PatternError::UnclosedClass),
            ("[!]", PatternError::UnclosedClass),
            ("[a", PatternError::UnclosedClass),
            ("[a-", PatternError::UnclosedClass),
            ("[a-b", PatternError::UnclosedClass),
            ("[\\]", PatternError::UnclosedClass),
            ("x[z-a]", PatternError::BackwardRange),
            ("[[:alpha:]]", PatternError::NamedClass),
            ("[a[.x.]]", PatternError::NamedClass),
            ("a\\", PatternError::TrailingBackslash),
            ("**.env", PatternError::PartialAnyDepth),
            ("a**", PatternError::PartialAnyDepth),
            ("***", PatternError::PartialAnyDepth),
        ] {
            assert_eq!(Component::parse(written.as_bytes()), Err(expected), "{written}");
        }
    }

    #[test]
    fn matching_stays_fast_on_patterns_made_to_explode() {
        let glob = component(&"*a".repeat(120));
        let name = format!("{}b", "a".repeat(250));
        let begin = Instant::now();
        assert!(!glob.matches(name.as_bytes()));
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}
