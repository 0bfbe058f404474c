//! What is wrong with a policy, and where: one error, one line that a user can act on.

use common::trap::is_hidden;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A policy that cannot be used. Nothing runs.
///
/// Displayed, it is one line in which control characters are escaped: paths and keys may hold any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    /// The policy file at fault; `<stdin>` for standard input, none if no file is.
    pub file: Option<PathBuf>,
    /// The line in that file, counted from 1.
    pub line: Option<u64>,
    /// The field at fault, such as `filesystem.allowWrite[2]`.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl PolicyError {
    /// An error that concerns no file, such as a missing HOME.
    pub fn general(message: impl Into<String>) -> PolicyError {
        PolicyError { file: None, line: None, field: None, message: message.into() }
    }

    /// An error that concerns a file as a whole.
    pub fn in_file(file: &Path, message: impl Into<String>) -> PolicyError {
        PolicyError { file: Some(file.to_owned()), ..PolicyError::general(message) }
    }

    /// The key/value pairs of the `Internal` report; what is not known is left out.
    pub fn report(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("source", "policy".to_owned())];
        if let Some(file) = &self.file {
            pairs.push(("file", file.to_string_lossy().into_owned()));
        }
        if let Some(line) = self.line {
            pairs.push(("line", line.to_string()));
        }
        if let Some(field) = &self.field {
            pairs.push(("field", field.clone()));
        }
        pairs.push(("message", self.message.clone()));
        pairs
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map(|file| format!("{}:", file.display()));
        let line = self.line.map(|line| format!("{line}:"));
        let place = [file, line].into_iter().flatten().collect::<String>();
        let parts = [Some(place), self.field.as_ref().map(|field| format!("{field}:"))];
        let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
        for part in parts {
            write!(f, "{} ", Escaped(&part))?;
        }
        Escaped(&self.message).fmt(f)
    }
}

/// A text that may hold anything, on one line and without what a terminal would obey.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match is_hidden(character) {
            true => write!(f, "{}", character.escape_default()),
            false => write!(f, "{character}"),
        })
    }
}

/// Where a value of the policy was written, kept until it is resolved so that every error can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The policy file.
    pub file: Arc<Path>,
    /// The line, counted from 1.
    pub line: u64,
    /// The path of the field.
    pub key: Cow<'static, str>,
    /// Which item of that, if it is a list.
    pub index: Option<usize>,
}

impl Origin {
    /// The field path.
    pub fn field(&self) -> String {
        match self.index {
            Some(index) => format!("{}[{index}]", self.key),
            None => self.key.to_string(),
        }
    }

    /// The error that says `message` about this place.
    pub fn error(&self, message: impl Into<String>) -> PolicyError {
        PolicyError {
            file: Some(self.file.to_path_buf()),
            line: Some(self.line),
            field: (!self.key.is_empty()).then(|| self.field()),
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_from_the_place_to_the_reason() {
        let origin = Origin {
            file: Path::new("/p.json").into(),
            line: 3,
            key: "filesystem.denyRead".into(),
            index: Some(1),
        };
        let error = origin.error("empty path");
        assert_eq!(error.to_string(), "/p.json:3: filesystem.denyRead[1]: empty path");
        assert_eq!(
            error.report(),
            [
                ("source", "policy".to_owned()),
                ("file", "/p.json".to_owned()),
                ("line", "3".to_owned()),
                ("field", "filesystem.denyRead[1]".to_owned()),
                ("message", "empty path".to_owned()),
            ]
        );
        let error = PolicyError::in_file(Path::new("/a\x1b[31m\nb"), "gone");
        assert_eq!(error.to_string(), "/a\\u{1b}[31m\\nb: gone");
        let error = PolicyError::in_file(Path::new("/q"), "is a directory");
        assert_eq!(error.to_string(), "/q: is a directory");
        assert_eq!(PolicyError::general("no HOME").report().len(), 2);
    }
}
