//! What a run that learns needed beyond its policy, and which programs asked for it.
//!
//! A program is called by the file that it executes, which a process cannot change of itself as it can its name;
//! and by no more of that than letters, for it stands in a comment of the draft.

use crate::observe::{Change, process};
use kernel::target::Target;
use kernel::threads::lock;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Most different things that are remembered: a large build makes some ten thousand files.
const REMEMBERED_MAX: usize = 1 << 18;
/// Longest name of a program that is shown.
const NAME_MAX: usize = 24;

/// Something that some policy could allow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// This path is changed.
    Write(PathBuf),
    /// So is this one, which is a link, or a directory with something in it: a rule for it allows more than was done.
    Further(PathBuf),
    /// `host:port`, through the proxy.
    Host(String),
    /// The same at an address of a local network.
    PrivateHost(String),
    /// A server of the command's own.
    Server,
    /// A Unix socket of others, by its path.
    Socket(PathBuf),
    /// An address past the proxy.
    Address(String),
}

/// What was needed so far; shared by the threads that answer notifications.
#[derive(Debug, Default)]
pub struct Needs(Mutex<Found>);

/// Programs by their number in [`Found::programs`], the lowest first.
type Programs = Vec<usize>;

#[derive(Debug, Default)]
struct Found {
    needs: HashMap<Need, Programs>,
    programs: Vec<String>,
    /// What the proxy reached, and for which of `clients`.
    reached: Vec<Reached>,
    /// Who asked the proxy, by port.
    clients: HashMap<u16, usize>,
    /// The ports of servers of the command's own.
    own_ports: HashSet<u16>,
    forgotten: usize,
    /// What the run has made where nothing was.
    made: HashSet<PathBuf>,
    /// What it has removed or moved that was there before, and where it has put something of another name, or a link.
    removed: BTreeSet<PathBuf>,
}

/// A host that the proxy reached though no rule names it.
#[derive(Debug)]
pub struct Reached {
    /// As a rule would name it.
    pub host: String,
    pub port: u16,
    pub is_private: bool,
    /// The port from which it was asked for.
    pub client: u16,
}

/// All that was learned.
#[derive(Debug, Default)]
pub struct Lessons {
    /// Each need with the programs that had it.
    pub needs: BTreeMap<Need, BTreeSet<String>>,
    /// What of it takes more than a rule for the path.
    pub removed: BTreeSet<PathBuf>,
    /// How many are missing.
    pub forgotten: usize,
}

impl Needs {
    /// Takes note of what `target` needed.
    pub fn note(&self, target: Target, need: Need) {
        let name = program(target);
        let mut found = lock(&self.0);
        let program = found.number(name);
        found.add(need, Some(program));
    }

    /// Takes note of a change of `path`, which `leads_further` or does not. One that did not before is the command's own.
    pub fn note_write(&self, target: Target, path: PathBuf, leads_further: bool) {
        let write = Need::Write(path.clone());
        let is_own = lock(&self.0).needs.contains_key(&write);
        self.note(target, if leads_further && !is_own { Need::Further(path) } else { write });
    }

    /// Takes note of how `path` is about to be changed: what the run has made itself it can remove by a rule for that path.
    pub fn note_change(&self, path: &Path, change: Change) {
        let exists = path.symlink_metadata().is_ok();
        let Found { made, removed, forgotten, .. } = &mut *lock(&self.0);
        let is_own = made.contains(path);
        match change {
            Change::Content if exists => {}
            Change::Removal if is_own => {}
            _ if made.len() + removed.len() >= REMEMBERED_MAX => *forgotten += 1,
            Change::Content => drop(made.insert(path.to_owned())),
            Change::Removal | Change::Replacement => drop(removed.insert(path.to_owned())),
        }
    }

    /// Takes note of a server of the command's own.
    pub fn note_server(&self, port: u16) {
        lock(&self.0).own_ports.insert(port);
    }

    /// Whether the command has had a server on `port`.
    pub fn has_server(&self, port: u16) -> bool {
        lock(&self.0).own_ports.contains(&port)
    }

    /// Takes note of who asks the proxy from `port`.
    pub fn note_client(&self, target: Target, port: u16) {
        let name = program(target);
        let mut found = lock(&self.0);
        let program = found.number(name);
        found.clients.insert(port, program);
    }

    /// Takes note of what the proxy reached.
    pub fn note_reached(&self, reached: Reached) {
        let mut found = lock(&self.0);
        if found.reached.len() < REMEMBERED_MAX {
            found.reached.push(reached);
        } else {
            found.forgotten += 1;
        }
    }

    /// All of it. What the command reached of itself through the proxy, it reaches without one as well.
    pub fn take(&self) -> Lessons {
        let mut found = std::mem::take(&mut *lock(&self.0));
        for Reached { host, port, is_private, client } in std::mem::take(&mut found.reached) {
            let text = host.trim_matches(['[', ']']);
            let is_here = text == "localhost"
                || text.parse().is_ok_and(|address: IpAddr| address.is_loopback());
            if is_here && found.own_ports.contains(&port) {
                continue;
            }
            let target = format!("{host}:{port}");
            let program = found.clients.get(&client).copied();
            found.add(Need::Host(target.clone()), program);
            if is_private {
                found.add(Need::PrivateHost(target), program);
            }
        }
        let Found { needs, programs, forgotten, mut removed, .. } = found;
        let written = needs.keys().filter_map(|need| match need {
            Need::Write(path) | Need::Further(path) => Some(path),
            _ => None,
        });
        removed.extend(written.filter(|path| path.is_symlink()).cloned());
        let named = |numbers: Programs| numbers.iter().map(|&at| programs[at].clone()).collect();
        let needs = needs.into_iter().map(|(need, numbers)| (need, named(numbers))).collect();
        Lessons { needs, removed, forgotten }
    }
}

impl Found {
    fn add(&mut self, need: Need, program: Option<usize>) {
        if self.needs.len() >= REMEMBERED_MAX && !self.needs.contains_key(&need) {
            self.forgotten += 1;
            return;
        }
        let programs = self.needs.entry(need).or_default();
        if let Some(program) = program
            && let Err(at) = programs.binary_search(&program)
        {
            programs.insert(at, program);
        }
    }

    /// The number of the program of this name.
    fn number(&mut self, name: String) -> usize {
        let known = self.programs.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            self.programs.push(name);
            self.programs.len() - 1
        })
    }
}

/// What the target's program is called.
fn program(target: Target) -> String {
    let path = process::program(target).unwrap_or_default();
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    plain(name.strip_suffix(b" (deleted)").unwrap_or(name))
}

/// A name in which nothing has a meaning, whatever a file is called.
pub fn plain(name: &[u8]) -> String {
    let letter = |&byte: &u8| match byte {
        b'+' | b'-' | b'.' | b'_' => char::from(byte),
        _ if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '_',
    };
    let shown: String = name.iter().take(NAME_MAX).map(letter).collect();
    if shown.is_empty() { "unknown".to_owned() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(host: &str, port: u16, is_private: bool, client: u16) -> Reached {
        Reached { host: host.to_owned(), port, is_private, client }
    }

    #[test]
    fn names_are_letters_whatever_a_file_is_called() {
        for (name, expected) in [
            (&b"python3.11"[..], "python3.11"),
            (b"c++", "c++"),
            (b"a\n    - /", "a_____-__"),
            (b"x # [*] \"'", "x_______"),
            (b"\xff\xe2\x80\xae", "____"),
            (b"", "unknown"),
        ] {
            assert!(plain(name).starts_with(expected), "{name:?}: {}", plain(name));
        }
        assert_eq!(plain(&[b'x'; 300]).len(), NAME_MAX);
    }

    #[test]
    fn who_asked_the_proxy_is_told_by_the_port() {
        let needs = Needs::default();
        let own = Target::new(rustix::process::getpid());
        needs.note_client(own, 4711);
        needs.note_server(8080);
        for reached in [
            reached("a.test", 443, false, 4711),
            reached("a.test", 443, true, 4711),
            reached("b.test", 80, false, 1),
            // The command's own.
            reached("127.0.0.1", 8080, false, 4711),
            reached("localhost", 8080, false, 4711),
            reached("[::1]", 8080, false, 4711),
            reached("127.0.0.1", 8081, false, 4711),
        ] {
            needs.note_reached(reached);
        }
        let lessons = needs.take();
        let name = program(own);
        let told: Vec<_> = lessons.needs.into_iter().collect();
        let host = |text: &str| Need::Host(text.to_owned());
        let by = |names: &[&String]| names.iter().map(|name| (*name).clone()).collect();
        let expected: [(Need, BTreeSet<String>); 4] = [
            (host("127.0.0.1:8081"), by(&[&name])),
            (host("a.test:443"), by(&[&name])),
            (host("b.test:80"), by(&[])),
            (Need::PrivateHost("a.test:443".to_owned()), by(&[&name])),
        ];
        assert_eq!(told, expected);
        assert!(needs.take().needs.is_empty());
    }
}
