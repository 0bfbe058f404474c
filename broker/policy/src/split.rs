//! A path as it is written in a policy, taken apart: where it begins, and the globs that follow. Pure.

use super::callers::{Caller, NO_HOME};
use super::error::PolicyError;
use super::keys::Item;
use super::unexpanded;
use rules::pattern::Component;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A written path: a literal beginning, and what follows from the first glob on.
pub(super) struct Split {
    pub(super) prefix: PathBuf,
    pub(super) rest: Vec<Component>,
}

impl Split {
    /// Makes a written path absolute, a relative one beneath `base`, and splits it at its first glob.
    pub(super) fn of(
        item: &Item,
        text: &str,
        base: &Path,
        caller: &Caller,
    ) -> Result<Self, PolicyError> {
        let error = |message: &str| Err(item.origin.error(message));
        if text.is_empty() {
            return error("empty path");
        }
        if text.contains('\0') {
            return error("a path cannot contain a NUL byte");
        }
        let is_plain = are_plain(text.as_bytes());
        if !is_plain {
            unexpanded::check(text).map_err(|message| item.origin.error(message))?;
        }
        let (start, relative) = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => match &caller.home {
                Some(home) => (home.as_path(), rest),
                None => return error(NO_HOME),
            },
            Some(_) => {
                return error("'~user' is not supported; write './~...' for a file of that name");
            }
            None if text.starts_with('/') => (Path::new("/"), text),
            None => (base, text),
        };
        if !relative.is_empty() && (is_plain || !relative.contains(['*', '?', '[', '\\'])) {
            let name = relative.trim_start_matches('/');
            let mut prefix = PathBuf::with_capacity(start.as_os_str().len() + 1 + name.len());
            prefix.push(start);
            prefix.push(name);
            return Ok(Split { prefix, rest: Vec::new() });
        }
        let mut split = Split { prefix: start.to_owned(), rest: Vec::new() };
        for part in relative.split('/').filter(|part| !part.is_empty() && *part != ".") {
            let component = Component::parse(part.as_bytes())
                .map_err(|error| item.origin.error(format!("'{part}': {error}")))?;
            match component {
                Component::Literal(name) if *name == *b"." => {}
                Component::Literal(name) if split.rest.is_empty() => {
                    split.prefix.push(OsStr::from_bytes(&name));
                }
                Component::Literal(name) if *name == *b".." => {
                    return error("'..' cannot follow a glob");
                }
                component => split.rest.push(component),
            }
        }
        Ok(split)
    }
}

/// Whether each means nothing but itself anywhere in a path, as nearly all do.
pub(super) fn are_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| PLAIN[usize::from(byte)])
}

const PLAIN: [bool; 256] = {
    let (mut plain, mut byte) = ([false; 256], 0_u8);
    while byte < 0x80 {
        plain[byte as usize] =
            byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-' | b'~');
        byte += 1;
    }
    plain
};
