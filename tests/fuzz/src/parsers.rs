//! The parsers that are functions of bytes, and what each promises.

use crate::tls::{Hello, HelloReader};
use crate::watch::Watch;
use crate::{dns as names, opening};
use common::{proxy, told, wire};
use paths::address::{self, Endpoint};
use paths::files::Files;
use paths::paths::Rules;
use paths::pattern::{Component, Pattern};
use policy::document::Format;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A policy's patterns, a line each, then an empty line and paths that are judged: never allowed by a rule that another
/// way of matching does not know.
pub(crate) fn paths(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n').take(64);
    let written: Vec<Vec<Component>> =
        lines.by_ref().take_while(|line| !line.is_empty()).filter_map(components).collect();
    let patterns: Vec<_> =
        written.iter().map(|list| Pattern::new(Path::new("/"), list.clone())).collect();
    let mut files = Files { allow_write: vec![PathBuf::from("/work")], ..Files::default() };
    files.deny_write.clone_from(&patterns);
    files.deny_read.clone_from(&patterns);
    let rules = Rules::new(&files);
    for line in lines {
        let path = Path::new(OsStr::from_bytes(line));
        if !path.is_absolute() || path.components().any(|part| part.as_os_str() == "..") {
            let _ = rules.access(path);
            continue;
        }
        let names: Vec<&[u8]> = line
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".")
            .collect();
        let mut is_denied = false;
        for (pattern, list) in patterns.iter().zip(&written) {
            let expected = stand_for(list, &names);
            assert_eq!(pattern.covers(&names), expected, "{list:?} {names:?}");
            is_denied |= expected;
        }
        let access = rules.access(path);
        assert!(!(is_denied && (access.read || access.write)), "{patterns:?} {path:?} {access:?}");
        assert!(is_denied || access.read, "{patterns:?} {path:?}");
    }
}

fn components(line: &[u8]) -> Option<Vec<Component>> {
    let names = line.split(|&byte| byte == b'/');
    let names = names.filter(|name| !name.is_empty() && *name != b"." && *name != b"..").take(16);
    names.map(|name| Component::parse(name).ok()).collect()
}

/// Whether the components match these names or a directory above: for each component in turn, the numbers of names that
/// the components so far can match.
fn stand_for(components: &[Component], names: &[&[u8]]) -> bool {
    let mut counts = vec![true];
    counts.resize(names.len() + 1, false);
    for component in components {
        let mut before = false;
        for count in 0..counts.len() {
            let stood = std::mem::replace(&mut before, counts[count]);
            counts[count] = match component {
                Component::AnyDepth => counts[count] || count > 0 && counts[count - 1],
                component => stood && component.matches(names[count - 1]),
            };
        }
    }
    counts.contains(&true)
}

/// A socket's address: what it is narrowed to is the same place.
pub(crate) fn addresses(bytes: &[u8]) {
    let Ok(endpoint) = Endpoint::parse(bytes) else { return };
    let _ = endpoint.describe();
    let written = address::written_out(bytes.to_vec());
    let _ = Endpoint::parse(&address::narrowed(bytes.to_vec(), bytes.len() % 2 == 0));
    if let Endpoint::Internet(found) = &endpoint {
        let canonical = address::canonical(*found);
        assert_eq!(address::canonical(canonical), canonical);
        assert_eq!(address::is_loopback(found.ip()), address::is_loopback(canonical.ip()));
        assert_eq!(
            proxy_hosts::address::classify(found.ip()),
            proxy_hosts::address::classify(canonical.ip())
        );
        if let (Some(other), Ok(Endpoint::Internet(_))) =
            (address::counterpart(*found), Endpoint::parse(&written))
        {
            let _ = address::is_reached_at(*found, other);
        }
    }
}

/// What a client and a server say in turn: bytes that are cut elsewhere are read alike.
pub(crate) fn tls(bytes: &[u8]) {
    let Some((&cut, stream)) = bytes.split_first() else { return };
    let cut = stream.len() * usize::from(cut) / 256;
    let whole = HelloReader::default().read(stream);
    let mut reader = HelloReader::default();
    match reader.read(&stream[..cut]) {
        Hello::Incomplete => assert_eq!(reader.read(stream), whole, "cut at {cut}"),
        Hello::Complete(name) => assert!(
            matches!(&whole, Hello::Complete(other) if *other == name) || whole == Hello::Broken,
            "{name:?} {whole:?}"
        ),
        found => assert_eq!(found, whole),
    }
    let opening = opening::OpeningReader::default().read(stream);
    for opening in [opening, opening::Opening::Other, opening::Opening::Tls(None)] {
        let mut watch = Watch::after(&opening);
        for (turn, part) in stream.chunks(cut.max(1)).enumerate() {
            if turn % 3 == 2 {
                watch.read_server(part);
            } else {
                watch.read_client(part, &mut |_| true);
            }
        }
    }
}

/// A question, and an answer to one.
pub(crate) fn dns(bytes: &[u8]) {
    if let Ok(query) = names::Query::read(bytes) {
        let _ = query.is_for_address();
        assert!(query.name.len() <= 255, "{}", query.name);
        for found in [names::Found::Nothing, names::Found::Address(Ipv4Addr::new(198, 18, 0, 1))] {
            let response = query.response(found);
            // Who asked can read it.
            let _ = names::answer(
                &response,
                u16::from_be_bytes([bytes[0], bytes[1]]),
                &query.name,
                names::Kind::A,
            );
        }
    }
    for kind in [names::Kind::A, names::Kind::Aaaa] {
        let id = bytes.first_chunk().map_or(0, |&id| u16::from_be_bytes(id));
        let _ = names::answer(bytes, id, "good.test", kind);
    }
}

/// A policy file in both formats, and the languages in its values.
pub(crate) fn policy(bytes: &[u8]) {
    for format in [Format::Json, Format::Yaml] {
        if let Err(error) = policy::parse::parse(bytes, format, Path::new("policy")) {
            assert!(!error.to_string().contains('\n'), "one line: {error}");
        }
    }
}

/// The messages between the programs: what is understood can be written again, the same.
pub(crate) fn wire(bytes: &[u8]) {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; wire::MESSAGE_MAX]);
    }
    BUFFER.with_borrow_mut(|buffer| rewritten(bytes, buffer));
}

fn rewritten(bytes: &[u8], buffer: &mut [u8]) {
    if let Some(filter) = wire::Filter::decode(bytes) {
        let length = filter.encode(buffer).unwrap();
        assert_eq!(&buffer[..length], bytes);
    }
    if let Some(plan) = wire::Plan::decode(bytes) {
        let list = |strings: wire::Strings<'_>| {
            strings.iter().map(|s| s[..s.len() - 1].to_vec()).collect::<Vec<_>>()
        };
        let (paths, changes) = (list(plan.paths), list(plan.environment));
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let changes: Vec<&[u8]> = changes.iter().map(Vec::as_slice).collect();
        let length = wire::Plan::encode(buffer, plan.argv_index, &paths, &changes).unwrap();
        assert_eq!(&buffer[..length], bytes);
    }
    let _ = proxy::Setup::decode(bytes);
    if let Some(message) = told::Told::decode(bytes) {
        let length = message.encode(buffer).unwrap();
        assert_eq!(&buffer[..length], bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let mut name = [0; proxy_hosts::domain::NAME_MAX];
        if let Ok(pattern) = proxy_hosts::domain::Pattern::parse(text, &mut name) {
            let mut other = [0; proxy_hosts::domain::NAME_MAX];
            if let Ok(host) = proxy_hosts::domain::Host::parse(bytes, &mut other) {
                let _ = pattern.matches(&host, 443);
            }
        }
        let _ = proxy_hosts::hosts::line(text).map(|(_, names)| names.count());
    }
}

/// A line of the program that is asked.
pub(crate) fn ask(bytes: &[u8]) {
    let _ = people::consent::is_understood(bytes);
}
