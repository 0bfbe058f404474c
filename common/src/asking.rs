//! Messages between the broker and the proxy about connections that wait while somebody is asked, beside those of
//! [`crate::proxy`], and on the same socket.

use crate::domain::NAME_MAX;
use crate::proxy::Refused;
use crate::wire::{Encoder, WireError};

const ASKED: u8 = 5;
const WITHDRAWN: u8 = 6;
const DECISION: u8 = 7;
const GRANTED: u8 = 8;

/// Proxy to broker, where it asks: a connection waits because no list names this host and port.
///
/// ```text
/// offset 0   u8   5
///        1   1 byte zero
///        2   u16  port
///        4   u32  number of the connection, given once in the proxy's life
///        8   u16  port that its client has
///       10   the host as a rule would name it, 1 to 256 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The connection that waits.
    pub number: u32,
    /// The host; any bytes.
    pub host: &'a [u8],
    /// The port.
    pub port: u16,
    /// That of the client, by which the broker knows the program.
    pub client: u16,
}

impl<'a> Asked<'a> {
    /// Largest message.
    pub const MAX: usize = 10 + Refused::HOST_MAX;

    /// Encodes the message into `buffer` and returns its length.
    ///
    /// # Errors
    /// Returns [`WireError::TooLarge`] if it does not fit.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let mut out = Encoder::new(buffer);
        out.put(&[ASKED, 0])?;
        out.put(&self.port.to_ne_bytes())?;
        out.put(&self.number.to_ne_bytes())?;
        out.put(&self.client.to_ne_bytes())?;
        out.put(self.host)?;
        Ok(out.length())
    }

    /// Decodes a packet.
    ///
    /// # Errors
    /// Returns [`WireError::Malformed`] for anything else.
    pub fn decode(packet: &'a [u8]) -> Result<Self, WireError> {
        match packet {
            [ASKED, 0, p, q, a, b, c, d, e, f, host @ ..]
                if (1..=Refused::HOST_MAX).contains(&host.len()) =>
            {
                let number = u32::from_ne_bytes([*a, *b, *c, *d]);
                let [port, client] = [[*p, *q], [*e, *f]].map(u16::from_ne_bytes);
                Ok(Self { number, host, port, client })
            }
            _ => Err(WireError::Malformed),
        }
    }
}

/// Proxy to broker: this connection does not wait any more.
///
/// ```text
/// offset 0   u8   6
///        1   3 bytes zero
///        4   u32  its number
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawn(pub u32);

impl Withdrawn {
    /// Bytes of the message.
    pub const SIZE: usize = 8;

    /// Encodes the message.
    #[must_use]
    pub fn encode(self) -> [u8; Self::SIZE] {
        let [a, b, c, d] = self.0.to_ne_bytes();
        [WITHDRAWN, 0, 0, 0, a, b, c, d]
    }

    /// Decodes a packet.
    ///
    /// # Errors
    /// Returns [`WireError::Malformed`] for anything else.
    pub fn decode(packet: &[u8]) -> Result<Self, WireError> {
        match *packet {
            [WITHDRAWN, 0, 0, 0, a, b, c, d] => Ok(Self(u32::from_ne_bytes([a, b, c, d]))),
            _ => Err(WireError::Malformed),
        }
    }
}

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
    ///
    /// # Errors
    /// Returns [`WireError::Malformed`] for anything else.
    pub fn decode(packet: &[u8]) -> Result<Self, WireError> {
        let [DECISION, outcome, 0, 0, a, b, c, d] = *packet else {
            return Err(WireError::Malformed);
        };
        let outcome = match outcome {
            0 => Outcome::Refused,
            1 => Outcome::Permitted,
            2 => Outcome::Judged,
            _ => return Err(WireError::Malformed),
        };
        Ok(Self { number: u32::from_ne_bytes([a, b, c, d]), outcome })
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
    /// Longest pattern: a name, and a port.
    const PATTERN_MAX: usize = NAME_MAX + 7;
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
    ///
    /// # Errors
    /// Returns [`WireError::Malformed`] for anything else.
    pub fn decode(packet: &'a [u8]) -> Result<Self, WireError> {
        match packet {
            [GRANTED, pattern @ ..] if (1..=Self::PATTERN_MAX).contains(&pattern.len()) => {
                Ok(Self(pattern))
            }
            _ => Err(WireError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_and_answered_survives_the_wire_and_nothing_else_passes() {
        let mut buffer = [0; Asked::MAX];
        let asked = Asked { number: u32::MAX - 1, host: b"example.com", port: 443, client: 40_000 };
        let length = asked.encode(&mut buffer).unwrap();
        assert_eq!(Asked::decode(&buffer[..length]), Ok(asked));
        assert!(Asked::decode(&buffer[..10]).is_err());
        assert!(Withdrawn::decode(&buffer[..8]).is_err());
        assert_eq!(Withdrawn::decode(&Withdrawn(7).encode()), Ok(Withdrawn(7)));
        for outcome in [Outcome::Refused, Outcome::Permitted, Outcome::Judged] {
            let decision = Decision { number: 7, outcome };
            assert_eq!(Decision::decode(&decision.encode()), Ok(decision));
        }
        for packet in [&[][..], &[7, 3, 0, 0, 1, 0, 0, 0], &[7, 1, 0, 0, 1, 0, 0], &[0; 8]] {
            assert!(Decision::decode(packet).is_err(), "{packet:?}");
            assert!(Withdrawn::decode(packet).is_err(), "{packet:?}");
        }
        let mut buffer = [0; Granted::MAX];
        let length = Granted(b"example.com:8080").encode(&mut buffer).unwrap();
        assert_eq!(Granted::decode(&buffer[..length]), Ok(Granted(b"example.com:8080")));
        assert!(Granted(&[b'x'; Granted::MAX]).encode(&mut buffer).is_err());
        assert!(Granted::decode(&[8]).is_err() && Granted::decode(&[8; 300]).is_err());
    }
}
