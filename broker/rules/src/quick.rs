//! A hash for the hundreds of names and paths that each launch looks up, which takes a few nanoseconds where that of the
//! standard library, made for keys that an attacker chooses, takes forty. Who makes names that collide slows down launches of
//! his own by some milliseconds: tables with names of the host have a few thousand at most.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;
pub type QuickSet<T> = HashSet<T, BuildHasherDefault<Quick>>;

/// Eight bytes a step: added, multiplied, and the halves mixed at the end.
#[derive(Debug, Default, Clone, Copy)]
pub struct Quick(u64);

/// Odd, with no pattern in its bits (2^64 by the golden ratio).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            self.write_u64(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
        self.write_u64(bytes.len() as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hash;

    #[test]
    fn names_that_differ_seldom_collide() {
        let mut found: HashSet<u64> = HashSet::new();
        let mut low: HashSet<u64> = HashSet::new();
        for number in 0..10_000 {
            let mut hasher = Quick::default();
            format!("/home/u/.config/entry-{number}").hash(&mut hasher);
            found.insert(hasher.finish());
            low.insert(hasher.finish() & 0xffff);
        }
        assert_eq!(found.len(), 10_000);
        // As many as chance leaves of 65 536 places.
        assert!(low.len() > 9_000, "{}", low.len());
    }
}
