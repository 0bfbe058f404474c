//! Connections that wait at the proxy while somebody is asked: what is heard of them, and what the proxy is told.
//!
//! A proxy that ends takes those that wait there with it, and the next one counts anew: so each is known by both. What
//! was granted is told to each.

use common::asking::{Decision, Granted, Outcome};
use common::passing;
use common::told::Told;
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::net::SendFlags;
use std::collections::VecDeque;

/// Most rules that are granted.
const GRANTED_MAX: usize = 4096;

/// A connection that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Which of the proxies of the run has it.
    proxy: u32,
    number: u32,
}

/// What the proxy says of those that wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// This one waits to be let to `host:port`; its client has this port.
    Asked(Connection, Vec<u8>, u16),
    /// This one does not wait any more.
    Withdrawn(Connection),
    /// None does.
    Ended,
}

/// What the proxy is told, beside its connections.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// How many proxies were started.
    proxy: u32,
    granted: Vec<Vec<u8>>,
    unsaid: VecDeque<Vec<u8>>,
}

impl Words {
    /// Another proxy has been started.
    pub(super) fn begin(&mut self) {
        self.proxy += 1;
        self.unsaid = self.granted.iter().cloned().collect();
    }

    /// What is `told`, if it is of those that wait.
    pub(super) fn heard(&self, told: Told<'_>) -> Option<Heard> {
        let connection = |number| Connection { proxy: self.proxy, number };
        match told {
            Told::Withdrawn(number) => Some(Heard::Withdrawn(connection(number))),
            Told::Asked { number, host, port, client } => {
                Some(Heard::Asked(connection(number), target(host, port), client))
            }
            _ => None,
        }
    }

    /// Has what `pattern` names permitted from now on.
    ///
    /// # Errors
    /// Returns why it cannot be.
    pub(super) fn grant(&mut self, pattern: &str) -> Result<(), String> {
        let mut packet = [0; Granted::MAX];
        let length = Granted(pattern.as_bytes()).encode(&mut packet);
        let told = packet[..length.map_err(|_| "it is too long")?].to_vec();
        if self.granted.contains(&told) {
            return Ok(());
        }
        if self.granted.len() >= GRANTED_MAX {
            return Err("there are too many".to_owned());
        }
        self.granted.push(told.clone());
        self.unsaid.push_back(told);
        Ok(())
    }

    /// Says what becomes of a connection, if its proxy has not ended.
    pub(super) fn decide(&mut self, Connection { proxy, number }: Connection, outcome: Outcome) {
        if proxy == self.proxy {
            self.unsaid.push_back(Decision { number, outcome }.encode().to_vec());
        }
    }

    /// Says what the proxy takes without being waited for; whether that is all.
    ///
    /// # Errors
    /// Returns what sendmsg(2) returns: the proxy has ended.
    pub(super) fn say(&mut self, control: &OwnedFd) -> io::Result<bool> {
        while let Some(packet) = self.unsaid.front() {
            match passing::send(control, packet, &[], SendFlags::DONTWAIT) {
                Ok(()) => drop(self.unsaid.pop_front()),
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }
}

/// As reports have it.
pub(super) fn target(host: &[u8], port: u16) -> Vec<u8> {
    [host, format!(":{port}").as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn said(words: &mut Words) -> Vec<Vec<u8>> {
        words.unsaid.drain(..).collect()
    }

    #[test]
    fn another_proxy_is_told_what_was_granted_and_nothing_of_what_one_before_was_asked() {
        let mut words = Words::default();
        words.begin();
        let asked = Told::Asked { number: 7, host: b"a.test", port: 80, client: 1 };
        let heard = words.heard(asked);
        let Some(Heard::Asked(connection, target, 1)) = heard else { unreachable!("{heard:?}") };
        assert_eq!(target, b"a.test:80");
        assert_eq!(words.heard(Told::Withdrawn(7)), Some(Heard::Withdrawn(connection)));
        assert_eq!(words.heard(Told::Unknown(b"x")), None);
        words.grant("a.test").unwrap();
        words.grant("a.test").unwrap();
        words.decide(connection, Outcome::Permitted);
        let granted = [&[8][..], b"a.test"].concat();
        let decided = Decision { number: 7, outcome: Outcome::Permitted }.encode().to_vec();
        assert_eq!(said(&mut words), [granted.clone(), decided]);
        words.begin();
        words.decide(connection, Outcome::Permitted);
        assert_eq!(said(&mut words), [granted]);
        assert!(words.grant(&"x".repeat(300)).is_err());
    }
}
