//! The plan for the child: what to execute, with which environment (execvp(3)).

use common::wire::{MESSAGE_MAX, Plan, WireError};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Where tools are looked for without PATH, as glibc does (confstr(3), _CS_PATH).
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// The paths at which `tool` may be, in the order in which they are tried. An empty entry of `path`
/// is the working directory.
pub(crate) fn candidates(tool: &OsStr, path: Option<&OsStr>) -> Vec<Vec<u8>> {
    let tool = tool.as_bytes();
    if tool.is_empty() {
        // execve(2) of an empty path fails with ENOENT; the wire has no empty strings.
        return Vec::new();
    }
    if tool.contains(&b'/') {
        return vec![tool.to_vec()];
    }
    let path = path.map_or(DEFAULT_PATH, OsStrExt::as_bytes);
    path.split(|&byte| byte == b':')
        .map(|directory| match directory {
            [] => [b"./", tool].concat(),
            _ => [directory, b"/", tool].concat(),
        })
        .collect()
}

/// Encodes the plan; `environment` has values to set, and variables to remove.
///
/// # Errors
/// Returns [`WireError::TooLarge`] if paths and environment do not fit a message.
pub(crate) fn encode(
    argv_index: usize,
    candidates: &[Vec<u8>],
    environment: &[(impl AsRef<OsStr>, Option<impl AsRef<OsStr>>)],
) -> Result<Vec<u8>, WireError> {
    let paths: Vec<&[u8]> = candidates.iter().map(Vec::as_slice).collect();
    let bytes = OsStrExt::as_bytes;
    let changes: Vec<Vec<u8>> = environment
        .iter()
        .map(|(name, value)| match value {
            Some(value) => [bytes(name.as_ref()), b"=", bytes(value.as_ref())].concat(),
            None => bytes(name.as_ref()).to_vec(),
        })
        .collect();
    let changes: Vec<&[u8]> = changes.iter().map(Vec::as_slice).collect();
    // No more than is needed: each page of it that is cleared costs launch time.
    let size = paths.iter().chain(&changes).map(|string| string.len() + 1).sum::<usize>();
    let mut packet = vec![0; MESSAGE_MAX.min(Plan::HEADER + size)];
    let length = Plan::encode(&mut packet, argv_index, &paths, &changes)?;
    packet.truncate(length);
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tool: &str, path: Option<&str>) -> Vec<String> {
        candidates(OsStr::new(tool), path.map(OsStr::new))
            .into_iter()
            .map(|path| String::from_utf8(path).unwrap())
            .collect()
    }

    #[test]
    fn tools_are_looked_for_as_execvp_does() {
        assert_eq!(found("ls", Some("/a:/b")), ["/a/ls", "/b/ls"]);
        assert_eq!(found("ls", Some("/a::/b:")), ["/a/ls", "./ls", "/b/ls", "./ls"]);
        assert_eq!(found("ls", None), ["/bin/ls", "/usr/bin/ls"]);
        assert_eq!(found("./ls", Some("/a")), ["./ls"]);
        assert_eq!(found("/x/ls", None), ["/x/ls"]);
        assert!(found("", Some("/a")).is_empty());
    }
}
