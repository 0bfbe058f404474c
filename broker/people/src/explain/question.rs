//! A word of the command line that is asked about: a path, or a host with its port.

use super::answer::{Answer, Layer};
use super::{InForce, hosts, paths};
use proxy_hosts::domain::{Host, NAME_MAX, parse_port, split_port};
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::Path;

/// What is said of a word.
#[derive(Debug)]
pub struct Reply {
    /// The word, or the path that it leads to.
    pub subject: String,
    pub answers: Vec<Answer>,
}

pub(crate) use super::paths::about as about_path;

/// Answers each word.
pub fn answer(in_force: &InForce<'_>, words: &[OsString]) -> Result<Vec<Reply>, String> {
    words.iter().map(|word| answer_one(in_force, word)).collect()
}

fn answer_one(in_force: &InForce<'_>, word: &OsStr) -> Result<Reply, String> {
    let is_there = || in_force.caller.cwd.join(word).symlink_metadata().is_ok();
    if let Some(text) = word.to_str().filter(|text| text.is_empty() || !is_there()) {
        if let Some((host, port)) = host_and_port(text) {
            let answers =
                hosts::about(in_force, host, port).map_err(|why| format!("{host}: {why}"))?;
            return Ok(Reply { subject: format!("{host}:{port}"), answers });
        }
        if text.starts_with('@') {
            let answers = vec![about_abstract(in_force)];
            return Ok(Reply { subject: text.to_owned(), answers });
        }
        no_question(text).map_or(Ok(()), Err)?;
    }
    let (path, answers) = paths::about(in_force, Path::new(word))?;
    Ok(Reply { subject: path.display().to_string(), answers })
}

/// What may be done with a socket outside that has an abstract name: nothing, under every policy.
fn about_abstract(in_force: &InForce<'_>) -> Answer {
    let layer = match in_force.judges.addresses.unix.reach_abstract {
        true => Layer::Broker,
        false => Layer::Landlock,
    };
    Answer::no("connect", layer, "abstract sockets outside can never be reached")
}

/// What is wrong with a word that names neither a path nor a host with its port.
fn no_question(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let bare = text.trim_matches(['[', ']']);
    let wrong = match () {
        () if text.is_empty() => "a path, or a host and its port, is needed".to_owned(),
        () if text.contains("://") => {
            "it is a URL; ask about its host and port, as in example.com:443".to_owned()
        }
        () if bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) => {
            format!("write its port, too, as in [{bare}]:443")
        }
        () if bare.parse::<IpAddr>().is_ok() => format!("write its port, too, as in {bare}:443"),
        () if is_name_of_host(text) => {
            format!("for a host, write its port, too, as in {text}:443; for a path, ./{text}")
        }
        () if host.is_empty() && is_number => "there is no host before the port".to_owned(),
        () if is_number && !host.contains('/') => "a port is a number from 1 to 65535".to_owned(),
        () if text.starts_with('~') && !text.starts_with("~/") && text != "~" => {
            "'~user' is not supported; write the path itself".to_owned()
        }
        () => return None,
    };
    Some(format!("'{text}': {wrong}"))
}

/// Whether `text`, which is no path of anything that is there, ends as names of hosts and hardly of files do.
fn is_name_of_host(text: &str) -> bool {
    const ENDS: [&str; 8] = ["ai", "com", "dev", "edu", "gov", "io", "net", "org"];
    let is_end = |(name, end): (&str, &str)| !name.is_empty() && ENDS.contains(&end);
    let is_named = text == "localhost" || text.rsplit_once('.').is_some_and(is_end);
    is_named && Host::parse(text.as_bytes(), &mut [0; NAME_MAX]).is_ok()
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
    fn what_is_no_question_is_told_what_to_write() {
        for (word, expected) in [
            ("", Some("is needed")),
            ("https://example.com/x", Some("example.com:443")),
            ("example.com:99999", Some("from 1 to 65535")),
            ("example.com:0", Some("from 1 to 65535")),
            (":80", Some("no host")),
            ("::1", Some("[::1]:443")),
            ("127.0.0.1", Some("127.0.0.1:443")),
            ("~root/x", Some("'~user'")),
            ("~/x", None),
            ("~", None),
            ("a:b", None),
            ("./a:99999", None),
            ("example.com", Some("for a host, write its port, too, as in example.com:443")),
            ("localhost", Some("localhost:443; for a path, ./localhost")),
            ("./example.com", None),
            ("a/example.com", None),
            ("notes.txt", None),
            (".com", None),
        ] {
            let wrong = no_question(word);
            assert_eq!(wrong.is_some(), expected.is_some(), "{word}: {wrong:?}");
            assert!(wrong.unwrap_or_default().contains(expected.unwrap_or_default()), "{word}");
        }
    }

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
