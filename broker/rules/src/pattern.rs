//! Path patterns: an absolute path in which components may be globs. Pure.
//!
//! The language is that of glob(7) with `**` added: `*`, `?` and `[...]` never cross a slash, `**` as a whole
//! component stands for any number of components, a backslash takes the next character literally. Unlike in a
//! shell, wildcards match a leading dot: a rule that denies `*` must not miss `.env`. Names are bytes; where
//! they are UTF-8, `?` and `[...]` match one character, else one byte.

use super::quick::Quick;
use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An absolute path, component by component. It stands for what it names and, in a rule, all beneath.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Of the components: a policy has hundreds of patterns, and each is looked up in several sets.
    hash: u64,
    /// All components but the last, shared by the patterns of what lies side by side.
    stem: Arc<Stem>,
    /// None of the root directory.
    last: Option<Component>,
}

#[derive(Debug, PartialEq, Eq)]
struct Stem {
    hash: u64,
    components: Vec<Component>,
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// One component of a [`Pattern`].
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
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Token {
    One(u32),
    Any,
    Star,
    Class { negated: bool, ranges: Vec<(u32, u32)> },
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
        let mut tokens = Vec::new();
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
            return Ok(Component::Literal(unescape(written).into()));
        }
        Ok(Component::Glob(Glob { tokens }))
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
            return Ok((Token::Class { negated, ranges }, after));
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

fn unescape(written: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(written.len());
    let mut bytes = written.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => plain.extend(bytes.next()),
            other => plain.push(*other),
        }
    }
    plain
}

impl Glob {
    /// Whether the glob matches the whole of `name`. Only the last star is ever tried again, since an earlier
    /// one could gain nothing: time is at most the product of both lengths, whatever the pattern.
    fn matches(&self, name: &[u8]) -> bool {
        // Most names end otherwise; of ASCII alone a byte is a character.
        if let Some(Token::One(last @ ..0x80)) = self.tokens.last()
            && name.last().map(|byte| u32::from(*byte)) != Some(*last)
        {
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
        for token in &self.tokens {
            match token {
                Token::One(code) => match character(*code) {
                    special @ ('*' | '?' | '[' | '\\') => write!(out, "\\{special}")?,
                    other => out.write_char(other)?,
                },
                Token::Any => out.write_char('?')?,
                Token::Star => out.write_char('*')?,
                Token::Class { negated, ranges } => {
                    out.write_str(if *negated { "[!" } else { "[" })?;
                    for &(low, high) in ranges {
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

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for component in self.components() {
            match component {
                Component::Literal(name) => write!(out, "/{}", String::from_utf8_lossy(name))?,
                Component::Glob(glob) => write!(out, "/{glob}")?,
                Component::AnyDepth => out.write_str("/**")?,
            }
        }
        Ok(())
    }
}

impl Pattern {
    /// The pattern of an absolute path that stands for itself only. `.` and a trailing slash mean nothing.
    pub fn literal(path: &Path) -> Pattern {
        Pattern::new(path, Vec::new())
    }

    /// The pattern of everything that `rest` matches beneath the absolute path `prefix`.
    ///
    /// A trailing `**` is dropped and repeated ones become one: a pattern stands for all beneath it anyway, and
    /// `a/**` must not deny again what a rule further inside allows.
    pub fn new(prefix: &Path, rest: Vec<Component>) -> Pattern {
        Pattern::beside(None, prefix, rest)
    }

    /// The same as [`Pattern::new`], that shares with `other` what both begin with: most paths of a policy lie in a few
    /// directories, and an allocation takes longer than to compare.
    pub fn beside(other: Option<&Pattern>, prefix: &Path, rest: Vec<Component>) -> Pattern {
        let names = prefix.as_os_str().as_bytes().split(|&byte| byte == b'/');
        let names = names.filter(|name| !name.is_empty() && *name != b"." && *name != b"..");
        if rest.is_empty()
            && let Some(other) = other
            && let Some(last) = other.stem.rest_of(names.clone())
        {
            return Pattern::of(Arc::clone(&other.stem), Some(Component::Literal(last.into())));
        }
        let mut others = other.map_or(&[][..], |other| &other.stem.components).iter();
        let mut components = Vec::with_capacity(prefix.as_os_str().len() / 8 + 2 + rest.len());
        components.extend(names.map(|name| match others.next() {
            Some(Component::Literal(same)) if **same == *name => Component::Literal(same.clone()),
            _ => Component::Literal(name.into()),
        }));
        components.extend(rest);
        components.dedup_by(|a, b| *a == Component::AnyDepth && *b == Component::AnyDepth);
        if components.last() == Some(&Component::AnyDepth) {
            components.pop();
        }
        let last = components.pop();
        let mut hasher = Quick::default();
        components.hash(&mut hasher);
        Pattern::of(Arc::new(Stem { hash: hasher.finish(), components }), last)
    }

    fn of(stem: Arc<Stem>, last: Option<Component>) -> Pattern {
        let mut hasher = Quick::default();
        hasher.write_u64(stem.hash);
        last.hash(&mut hasher);
        Pattern { hash: hasher.finish(), stem, last }
    }

    fn components(&self) -> impl Iterator<Item = &Component> {
        self.stem.components.iter().chain(&self.last)
    }

    /// The pattern of an absolute path with globs, none of them in front of a symbolic link.
    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub fn of_globs(path: &str) -> Pattern {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let components = parts.map(|part| Component::parse(part.as_bytes()).unwrap());
        Pattern::new(Path::new("/"), components.collect())
    }

    /// The path, if it stands for itself only.
    pub fn as_path(&self) -> Option<PathBuf> {
        let mut path = PathBuf::from("/");
        for component in self.components() {
            let Component::Literal(name) = component else { return None };
            path.push(OsStr::from_bytes(name));
        }
        Some(path)
    }

    /// How many components there are; a position of that value has matched the whole pattern.
    pub fn length(&self) -> usize {
        self.stem.components.len() + usize::from(self.last.is_some())
    }

    /// The component that a name must match at `position`, if the pattern does not end there.
    pub fn component(&self, position: usize) -> Option<&Component> {
        let stem = &self.stem.components;
        stem.get(position).or_else(|| self.last.as_ref().filter(|_| position == stem.len()))
    }

    /// Whether it has a `**` that begins inside of one of `trees`, so that there are places in that tree for which
    /// it does not stand.
    pub fn begins_inside(&self, trees: &[PathBuf]) -> bool {
        let any_depth = |component: &Component| *component == Component::AnyDepth;
        let Some(end) = self.components().position(any_depth) else { return false };
        // What no name can be singles out nothing by its name.
        if matches!(&self.last, Some(Component::Literal(name)) if name.contains(&b'/')) {
            return false;
        }
        let mut beginning = PathBuf::from("/");
        for component in self.components().take(end) {
            let Component::Literal(name) = component else { return true };
            beginning.push(OsStr::from_bytes(name));
        }
        trees.iter().any(|tree| beginning != *tree && beginning.starts_with(tree))
    }

    /// Whether it has no `**`, so that what it stands for is found without looking through a tree.
    pub fn has_fixed_depth(&self) -> bool {
        self.components().all(|component| *component != Component::AnyDepth)
    }

    /// Whether it stands for the absolute path of these `names`, or something above that.
    pub fn covers(&self, names: &[&[u8]]) -> bool {
        if self.has_fixed_depth() {
            let mut pairs = self.components().zip(names);
            return self.length() <= names.len() && pairs.all(|(part, name)| part.matches(name));
        }
        let (mut positions, mut next) = (Vec::new(), Vec::new());
        self.start(|position| positions.push(position));
        for name in names {
            if positions.contains(&self.length()) {
                return true;
            }
            positions.drain(..).for_each(|position| {
                self.advance(position, name, |reached| {
                    if !next.contains(&reached) {
                        next.push(reached);
                    }
                });
            });
            std::mem::swap(&mut positions, &mut next);
        }
        positions.contains(&self.length())
    }

    /// Whether it stands for something beneath `root`, at a known depth.
    pub fn leads_into(&self, root: &Pattern) -> bool {
        self.length() > root.length()
            && self.components().zip(root.components()).all(|(own, its)| own == its)
            && self.has_fixed_depth()
    }

    /// The positions at the root directory, before any name.
    pub fn start(&self, mut reach: impl FnMut(usize)) {
        self.reach_through_any_depth(0, &mut reach);
    }

    /// The positions after going from `position` into `name`.
    pub fn advance(&self, position: usize, name: &[u8], mut reach: impl FnMut(usize)) {
        match self.component(position) {
            Some(Component::AnyDepth) => self.reach_through_any_depth(position, &mut reach),
            Some(component) if component.matches(name) => {
                self.reach_through_any_depth(position + 1, &mut reach);
            }
            _ => {}
        }
    }

    /// `**` may stand for nothing, so that what follows it is reached too.
    fn reach_through_any_depth(&self, position: usize, reach: &mut impl FnMut(usize)) {
        reach(position);
        if self.component(position) == Some(&Component::AnyDepth) {
            reach(position + 1);
        }
    }
}

impl Stem {
    /// The last of `names`, if these are the names here and one more.
    fn rest_of<'a>(&self, mut names: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
        let mut last = names.next()?;
        for component in &self.components {
            let next = names.next()?;
            if !matches!(component, Component::Literal(same) if **same == *last) {
                return None;
            }
            last = next;
        }
        names.next().is_none().then_some(last)
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

    #[test]
    fn any_depth_is_normalised() {
        let parse = |text: &str| text.split('/').map(component).collect::<Vec<_>>();
        let pattern = |rest: &str| Pattern::new(Path::new("/a/./b/"), parse(rest));
        assert_eq!(pattern("**"), Pattern::literal(Path::new("/a/b")));
        assert_eq!(pattern("**/**/x"), pattern("**/x"));
        assert_eq!(pattern("x/**/**"), pattern("x"));
        assert_eq!(pattern("x").length(), 3);
        assert_eq!(Pattern::literal(Path::new("/")).length(), 0);
    }
}
