//! A word of the command line that is asked about: a path, or a host with its port.

use super::answer::Answer;
use super::{InForce, hosts, paths};
use common::domain::{parse_port, split_port};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What is said of a word.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The word, or the path that it leads to.
    pub(crate) subject: String,
    pub(crate) answers: Vec<Answer>,
}

pub(crate) use super::paths::about as about_path;

/// Answers each word.
///
/// # Errors
/// Returns what is wrong with one that cannot be looked at.
pub(crate) fn answer(in_force: &InForce<'_>, words: &[OsString]) -> Result<Vec<Reply>, String> {
    words.iter().map(|word| answer_one(in_force, word)).collect()
}

fn answer_one(in_force: &InForce<'_>, word: &OsStr) -> Result<Reply, String> {
    let is_there = || in_force.caller.cwd.join(word).symlink_metadata().is_ok();
    if let Some((host, port)) = word.to_str().and_then(host_and_port)
        && !is_there()
    {
        let answers = hosts::about(in_force, host, port).map_err(|why| format!("{host}: {why}"))?;
        return Ok(Reply { subject: format!("{host}:{port}"), answers });
    }
    let (path, answers) = paths::about(in_force, Path::new(word))?;
    Ok(Reply { subject: path.display().to_string(), answers })
}

/// `HOST:PORT`, with an IPv6 address in brackets.
fn host_and_port(word: &str) -> Option<(&str, u16)> {
    let (host, port) = split_port(word);
    let is_host = !host.is_empty() && !host.contains('/');
    port.and_then(parse_port).filter(|_| is_host).map(|port| (host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port() {
        for (word, expected) in [
            ("example.com:443", Some(("example.com", 443))),
            ("[::1]:80", Some(("[::1]", 80))),
            ("127.0.0.1:1", Some(("127.0.0.1", 1))),
            ("example.com", None),
            ("/a:1", None),
            ("./a:1", None),
            ("a:b", None),
            ("a:0", None),
            (":1", None),
            ("~/x:1", None),
        ] {
            assert_eq!(host_and_port(word), expected, "{word}");
        }
    }
}
