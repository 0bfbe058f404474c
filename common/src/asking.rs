//! What the broker tells the proxy about connections that wait while somebody is asked, beside [`crate::proxy`], and on the
//! same socket.

use crate::wire::{Encoder, WireError};

const DECISION: u8 = 7;
const GRANTED: u8 = 8;

/// What is to become of a connection that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is refused.
    Refused = 0,
    /// It may go on, and no other.
    Permitted = 1,
    /// It is judged again by the rules of now.
    Judged = 2,
}

/// Broker to proxy: what is to become of a connection that waits.
///
/// ```text
/// offset 0   u8   7
///        1   u8   an [`Outcome`]
///        2   2 bytes zero
///        4   u32  its number
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The connection's number.
    pub number: u32,
    /// What is to become of it.
    pub outcome: Outcome,
}

impl Decision {
    /// Bytes of the message.
    pub const SIZE: usize = 8;

    /// Encodes the message.
    #[must_use]
    pub fn encode(self) -> [u8; Self::SIZE] {
        let [a, b, c, d] = self.number.to_ne_bytes();
        [DECISION, self.outcome as u8, 0, 0, a, b, c, d]
    }

    /// Decodes a packet.
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let [DECISION, outcome, 0, 0, a, b, c, d] = *packet else { return None };
        let mut outcomes = [Outcome::Refused, Outcome::Permitted, Outcome::Judged].into_iter();
        let outcome = outcomes.find(|known| *known as u8 == outcome)?;
        Some(Self { number: u32::from_ne_bytes([a, b, c, d]), outcome })
    }
}

/// Broker to proxy, where it asks: what this pattern names may be reached from now on, unless a rule denies it.
///
/// ```text
/// offset 0   u8   8
///        1   the pattern, 1 to 260 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted<'a>(pub &'a [u8]);

impl<'a> Granted<'a> {
    /// Longest pattern: a name of 253 bytes (RFC 1035), and a port.
    const PATTERN_MAX: usize = 253 + 7;
    /// Largest message.
    pub const MAX: usize = 1 + Self::PATTERN_MAX;

    /// Encodes the message into `buffer` and returns its length.
    ///
    /// # Errors
    /// Returns [`WireError::TooLarge`] if it does not fit.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let mut out = Encoder::new(buffer);
        out.put(&[GRANTED])?;
        out.put(self.0)?;
        Ok(out.length())
    }

    /// Decodes a packet.
    pub fn decode(packet: &'a [u8]) -> Option<Self> {
        match packet {
            [GRANTED, pattern @ ..] if (1..=Self::PATTERN_MAX).contains(&pattern.len()) => {
                Some(Self(pattern))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_survives_the_wire_and_nothing_else_passes() {
        for outcome in [Outcome::Refused, Outcome::Permitted, Outcome::Judged] {
            let decision = Decision { number: 7, outcome };
            assert_eq!(Decision::decode(&decision.encode()), Some(decision));
        }
        for packet in [&[][..], &[7, 3, 0, 0, 1, 0, 0, 0], &[7, 1, 0, 0, 1, 0, 0], &[0; 8]] {
            assert!(Decision::decode(packet).is_none(), "{packet:?}");
        }
        let mut buffer = [0; Granted::MAX];
        let length = Granted(b"example.com:8080").encode(&mut buffer).unwrap();
        assert_eq!(Granted::decode(&buffer[..length]), Some(Granted(b"example.com:8080")));
        assert!(Granted(&[b'x'; Granted::MAX]).encode(&mut buffer).is_err());
        assert!(Granted::decode(&[8]).is_none() && Granted::decode(&[8; 300]).is_none());
    }
}
