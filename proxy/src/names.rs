//! Which name each address stands for in this run: what lookups answer, and what connects ask for.
//!
//! An address is given once, and never to another name; so the table only grows, and has an end.

use crate::error::ProxyError;
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Most names of a run.
const NAMES_MAX: u32 = 10_000;
/// 198.18.0.0/15 (RFC 2544), which belongs to no host.
const NETWORK: u32 = 0xc612_0000;
const SIZE: u32 = 1 << 17;

#[derive(Debug)]
pub(crate) struct Names {
    /// Where the addresses begin: elsewhere in each run, so that one of another run is hardly one of this.
    start: u32,
    /// By how many were given before.
    names: Vec<String>,
    known: HashMap<String, u32>,
}

impl Names {
    /// An empty table.
    ///
    /// # Errors
    /// Returns [`ProxyError::Runtime`] if there is no randomness.
    pub(crate) fn new() -> Result<Self, ProxyError> {
        let mut start = [0; 4];
        rustix::rand::getrandom(&mut start[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| ProxyError::Runtime(errno.into()))?;
        let start = u32::from_ne_bytes(start) % SIZE;
        Ok(Self { start, names: Vec::new(), known: HashMap::new() })
    }

    /// The address that stands for `name`; none if there are too many names.
    pub(crate) fn address_of(&mut self, name: &str) -> Option<Ipv4Addr> {
        let number = match self.known.get(name) {
            Some(number) => *number,
            None => {
                let next = u32::try_from(self.names.len()).ok().filter(|next| *next < NAMES_MAX)?;
                self.names.push(name.to_owned());
                self.known.insert(name.to_owned(), next);
                next
            }
        };
        Some((NETWORK + (self.start + number) % SIZE).into())
    }

    /// The name that `address` was given for.
    pub(crate) fn at(&self, address: Ipv4Addr) -> Option<&str> {
        let place = address.to_bits().checked_sub(NETWORK).filter(|place| *place < SIZE)?;
        let number = (place + SIZE - self.start) % SIZE;
        self.names.get(usize::try_from(number).ok()?).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_name_has_an_address_of_its_own_for_good_and_there_is_an_end() {
        for start in [0, SIZE - 1, SIZE - 5000] {
            let mut names = Names { start, ..Names::new().unwrap() };
            let name = |number: u32| format!("{number}.test");
            let given: Vec<_> =
                (0..NAMES_MAX).map(|number| names.address_of(&name(number)).unwrap()).collect();
            assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len());
            assert!(given.iter().all(|at| common::proxy::stands_for_name((*at).into())));
            assert_eq!(names.address_of("one.more.test"), None);
            for (number, address) in (0..).zip(&given) {
                assert_eq!(names.address_of(&name(number)), Some(*address));
                assert_eq!(names.at(*address), Some(&*name(number)));
            }
        }
    }

    #[test]
    fn what_was_not_given_stands_for_nothing() {
        let mut names = Names { start: 7, ..Names::new().unwrap() };
        let given = names.address_of("a.test").unwrap();
        for address in
            [given.to_bits() - 1, given.to_bits() + 1, NETWORK - 1, NETWORK + SIZE, 0, u32::MAX]
        {
            assert_eq!(names.at(address.into()), None);
        }
    }
}
