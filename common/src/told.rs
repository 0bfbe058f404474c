//! What the proxy tells the broker, on the socket of [`crate::proxy`]: one layout for all, in which what is not said of a
//! kind is zero.

use crate::wire::{Encoder, WireError};

/// One message.
///
/// ```text
/// offset 0   u8   2 refused, 3 reached, 4 unknown, 5 asked, 6 withdrawn
///        1   u8   1 if it was reached at a private address, else 0
///        2   u16  port
///        4   u16  port that the client has, 0 if that is not known
///        6   2 bytes zero
///        8   u32  number of the connection, given once in the proxy's life
///       12   the host, 1 to 256 bytes; of what is withdrawn none
/// ```
#[allow(missing_docs, reason = "the table says what the fields are")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// This host, as the request named it, and port was refused.
    Refused { host: &'a [u8], port: u16 },
    /// Where it learns: this was reached though no list names it.
    Reached { host: &'a [u8], port: u16, is_private: bool, client: u16 },
    /// This name was looked up, and no rule permits it.
    Unknown(&'a [u8]),
    /// Where it asks: a connection waits because no list names this host and port.
    Asked { number: u32, host: &'a [u8], port: u16, client: u16 },
    /// This connection does not wait any more.
    Withdrawn(u32),
}

/// A message as it lies in the packet: kind, whether it is private, port, client, number, host.
type Fields<'a> = (u8, bool, u16, u16, u32, &'a [u8]);

impl<'a> Told<'a> {
    /// Longest host; a longer one that was refused is cut.
    pub const HOST_MAX: usize = 256;
    /// Largest message.
    pub const MAX: usize = 12 + Self::HOST_MAX;

    fn fields(&self) -> Fields<'a> {
        match *self {
            Self::Refused { host, port } => {
                (2, false, port, 0, 0, &host[..host.len().min(Self::HOST_MAX)])
            }
            Self::Reached { host, port, is_private, client } => {
                (3, is_private, port, client, 0, host)
            }
            Self::Unknown(host) => (4, false, 0, 0, 0, host),
            Self::Asked { number, host, port, client } => (5, false, port, client, number, host),
            Self::Withdrawn(number) => (6, false, 0, 0, number, &[]),
        }
    }

    /// Encodes the message into `buffer` and returns its length.
    ///
    /// # Errors
    /// Returns [`WireError::TooLarge`] if it does not fit.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let (kind, is_private, port, client, number, host) = self.fields();
        let mut out = Encoder::new(buffer);
        out.put(&[kind, is_private.into()])?;
        out.put(&port.to_ne_bytes())?;
        out.put(&client.to_ne_bytes())?;
        out.put(&[0; 2])?;
        out.put(&number.to_ne_bytes())?;
        out.put(host)?;
        Ok(out.length())
    }

    /// Decodes a packet.
    pub fn decode(packet: &'a [u8]) -> Option<Self> {
        let (header, host) = packet.split_first_chunk()?;
        let [kind, private @ (0 | 1), p, q, c, d, 0, 0, a, b, e, f] = *header else {
            return None;
        };
        let [port, client] = [[p, q], [c, d]].map(u16::from_ne_bytes);
        let (is_private, number) = (private == 1, u32::from_ne_bytes([a, b, e, f]));
        let told = match kind {
            2 => Self::Refused { host, port },
            3 => Self::Reached { host, port, is_private, client },
            4 => Self::Unknown(host),
            5 => Self::Asked { number, host, port, client },
            6 => Self::Withdrawn(number),
            _ => return None,
        };
        let has_host = (1..=Self::HOST_MAX).contains(&host.len()) || kind == 6;
        let is_whole = told.fields() == (kind, is_private, port, client, number, host);
        (has_host && is_whole).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_survives_the_wire_and_nothing_else_passes() {
        let host = &b"example.com"[..];
        let all = [
            Told::Refused { host, port: 443 },
            Told::Reached { host, port: 80, is_private: true, client: 4711 },
            Told::Unknown(host),
            Told::Asked { number: u32::MAX - 1, host, port: 443, client: 40_000 },
            Told::Withdrawn(7),
        ];
        let mut buffer = [0; Told::MAX];
        for told in all {
            let length = told.encode(&mut buffer).unwrap();
            assert_eq!(Told::decode(&buffer[..length]), Some(told));
            for shorter in 0..length.min(13) {
                assert!(Told::decode(&buffer[..shorter]).is_none(), "{told:?} {shorter}");
            }
            // What is said of no such message.
            for at in [0, 1, 6, 7] {
                let mut other = buffer;
                other[at] = 9;
                assert!(Told::decode(&other[..length]).is_none(), "{told:?} {at}");
            }
            buffer[12..].fill(b'x');
            let is_long = matches!(told, Told::Withdrawn(_));
            assert_eq!(Told::decode(&buffer).is_none(), is_long, "{told:?}");
            assert!(Told::decode(&[buffer.as_slice(), b"x"].concat()).is_none(), "{told:?}");
        }
        for (kind, at) in [(2, 4), (2, 8), (3, 8), (4, 2), (4, 4), (4, 8), (6, 2), (6, 4), (2, 1)] {
            let mut packet = [0; 13];
            (packet[0], packet[12], packet[at]) = (kind, b'x', 1);
            assert!(Told::decode(&packet[..12 + usize::from(kind != 6)]).is_none(), "{kind} {at}");
        }
        let long = [b'x'; 300];
        let length = Told::Refused { host: &long, port: 1 }.encode(&mut buffer).unwrap();
        let cut = Told::Refused { host: &long[..Told::HOST_MAX], port: 1 };
        assert_eq!(Told::decode(&buffer[..length]), Some(cut));
        assert_eq!(Told::Unknown(&long).encode(&mut buffer), Err(WireError::TooLarge));
    }
}
