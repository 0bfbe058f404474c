//! Messages between the broker and the proxy: one packet each over a SOCK_SEQPACKET pair, which is
//! the proxy's standard input.
//!
//! Integers are native-endian, as in [`crate::wire`]. A message of another type, too short or too
//! long, ends the proxy; the broker drops it. At the end of file the run has ended, or the broker has gone: the proxy ends
//! once it has sent on what it got of the command, after [`END_LIMIT`] at the latest.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use crate::wire::{Encoder, MESSAGE_MAX, Strings, WireError};

const SETUP_MAGIC: u32 = u32::from_ne_bytes(*b"LSX5");
/// The lists of a [`Setup`].
pub const LISTS: usize = 6;
const CLIENT: u8 = 1;

/// What becomes of a host that no list names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// It is refused.
    Refused = 0,
    /// It may be reached too, and is told: see [`Reached`](crate::told::Told::Reached).
    Learned = 1,
    /// The connection waits while somebody is asked: see [`Asked`](crate::told::Told::Asked).
    Asked = 2,
}

/// Broker to proxy, first, with a descriptor: a file with what /etc/resolv.conf said at launch, a NUL, the policy's own
/// lines of a hosts file, a NUL, and what /etc/hosts said.
///
/// ```text
/// offset 0   u32  magic "LSX5"
///        4   u16  number of allowed domains
///        6   u16  number of denied domains
///        8   u16  number of domains that may have private addresses
///       10   u16  number of upstreams of plain requests, 0 or 1
///       12   u16  number of upstreams of tunnels, 0 or 1
///       14   u16  number of lists of hosts without upstream, 0 or 1
///       16   u16  what becomes of what no list names, an [`Unlisted`]
///       18   the six lists, each string ended by NUL
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// What becomes of what no list names.
    pub unlisted: Unlisted,
    /// Patterns of what may be reached.
    pub allowed: Strings<'a>,
    /// Patterns of what may not, whatever allows it.
    pub denied: Strings<'a>,
    /// Patterns of what may have private addresses.
    pub private: Strings<'a>,
    /// The URL of the proxy that plain requests go through.
    pub requests: Strings<'a>,
    /// The URL of the proxy that everything else goes through.
    pub tunnels: Strings<'a>,
    /// NO_PROXY: what goes through neither.
    pub direct: Strings<'a>,
}

impl<'a> Setup<'a> {
    /// Bytes before the lists.
    pub const HEADER: usize = 4 + 2 * LISTS + 2;

    /// Decodes a packet.
    pub fn decode(packet: &'a [u8]) -> Option<Self> {
        let (header, rest) = packet.split_at_checked(Self::HEADER)?;
        let (magic, counts) = header.split_first_chunk()?;
        if u32::from_ne_bytes(*magic) != SETUP_MAGIC {
            return None;
        }
        let count = |at: usize| usize::from(u16::from_ne_bytes([counts[at], counts[at + 1]]));
        let mut unlisted = [Unlisted::Refused, Unlisted::Learned, Unlisted::Asked].into_iter();
        let unlisted = unlisted.find(|known| *known as usize == count(2 * LISTS))?;
        let (allowed, rest) = Strings::split_off(count(0), rest)?;
        let (denied, rest) = Strings::split_off(count(2), rest)?;
        let (private, rest) = Strings::split_off(count(4), rest)?;
        let (requests, rest) = Strings::split_off(count(6), rest)?;
        let (tunnels, rest) = Strings::split_off(count(8), rest)?;
        let (direct, rest) = Strings::split_off(count(10), rest)?;
        let setup = Self { unlisted, allowed, denied, private, requests, tunnels, direct };
        rest.is_empty().then_some(setup)
    }

    /// Encodes the message into `buffer` and returns its length. The strings come without NUL.
    ///
    /// # Errors
    /// Returns [`WireError::TooLarge`] if it does not fit, [`WireError::Malformed`] for an empty
    /// string or one with a NUL inside.
    pub fn encode<S: AsRef<[u8]>>(
        buffer: &mut [u8],
        unlisted: Unlisted,
        lists: [&[S]; LISTS],
    ) -> Result<usize, WireError> {
        let mut out = Encoder::new(buffer);
        out.put(&SETUP_MAGIC.to_ne_bytes())?;
        for list in lists {
            let count = u16::try_from(list.len()).map_err(|_| WireError::TooLarge)?;
            out.put(&count.to_ne_bytes())?;
        }
        out.put(&(unlisted as u16).to_ne_bytes())?;
        for string in lists.into_iter().flatten() {
            out.put_string(string.as_ref())?;
        }
        Ok(out.length())
    }
}

/// How long the proxy goes on after the last message: what was sent to it until then is on its way to the hosts.
pub const END_LIMIT: Duration = Duration::from_secs(1);

/// Largest message to the proxy.
pub const SETUP_MAX: usize = MESSAGE_MAX;

/// Whether names of a run stand for `address`, of which 198.18.0.0/15 has one for each: it is of no host (RFC 2544).
#[must_use]
pub fn stands_for_name(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V4(address) if matches!(address.octets(), [198, 18 | 19, ..]))
}

/// Broker to proxy: a connection of the sandbox's, and what is spoken there. Its descriptor comes with it.
///
/// A [`Client::Direct`] can be one that is still to be made: then its descriptor is of a socket that listens and answers
/// nobody; the second is the socket that connects there, and is to be met or refused; the third is of a pipe, by the end of
/// which the broker knows that this was done, or that nobody is left to do it. Who waits for that call has a fourth,
/// a stream: before either the proxy says one byte there, 0 once the place is reached, else an errno. Its end says that the
/// caller is gone; any byte before that, that nobody waits any more, and the connect goes on.
///
/// ```text
/// offset 0   u8   1
///        1   u8   0 for HTTP, 1 for SOCKS, 2 for lookups in a stream, 3 for lookups in messages, 4 for a place
///        2   u16  the port of a place, else 0
///        4   16 bytes, its address, of IPv6 or mapped, else 0
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// HTTP/1.1.
    Http,
    /// SOCKS5.
    Socks,
    /// DNS over TCP (RFC 7766).
    Lookups,
    /// DNS, a message each.
    LookupMessages,
    /// Whatever is spoken at the place that it was about to connect to.
    Direct(SocketAddr),
}

impl Client {
    /// Bytes of the message.
    pub const SIZE: usize = 20;

    /// Encodes the message.
    #[must_use]
    pub fn encode(self) -> [u8; Self::SIZE] {
        let mut packet = [0; Self::SIZE];
        packet[0] = CLIENT;
        packet[1] = match self {
            Self::Http => 0,
            Self::Socks => 1,
            Self::Lookups => 2,
            Self::LookupMessages => 3,
            Self::Direct(place) => {
                packet[2..4].copy_from_slice(&place.port().to_ne_bytes());
                let address = match place.ip() {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                packet[4..].copy_from_slice(&address.octets());
                4
            }
        };
        packet
    }

    /// Decodes a packet.
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let placeless = [Self::Http, Self::Socks, Self::Lookups, Self::LookupMessages];
        match *<&[u8; Self::SIZE]>::try_from(packet).ok()? {
            [CLIENT, 4, p, q, ref address @ ..] => {
                let address = Ipv6Addr::from(*address).to_canonical();
                Some(Self::Direct(SocketAddr::new(address, u16::from_ne_bytes([p, q]))))
            }
            other => placeless.into_iter().find(|client| client.encode() == other),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn a_setup_survives_the_wire_whole_or_not_at_all() {
        let mut buffer = vec![0; SETUP_MAX];
        let lists: [&[&str]; LISTS] =
            [&["a.example", "*.b.example:443"], &["c.example"], &[], &["http://p"], &[], &["*"]];
        let length = Setup::encode(&mut buffer, Unlisted::Asked, lists).unwrap();
        let setup = Setup::decode(&buffer[..length]).unwrap();
        assert_eq!(setup.unlisted, Unlisted::Asked);
        let allowed: Vec<_> = setup.allowed.iter().collect();
        assert_eq!(allowed, [&b"a.example\0"[..], b"*.b.example:443\0"]);
        assert_eq!(setup.denied.iter().collect::<Vec<_>>(), [&b"c.example\0"[..]]);
        assert!(setup.private.is_empty() && setup.tunnels.is_empty());
        assert_eq!(setup.requests.iter().collect::<Vec<_>>(), [&b"http://p\0"[..]]);
        assert_eq!(setup.direct.iter().collect::<Vec<_>>(), [&b"*\0"[..]]);
        for length in 0..length {
            assert!(Setup::decode(&buffer[..length]).is_none(), "{length}");
        }
        assert!(Setup::decode(&buffer[..=length]).is_none());
        assert_eq!(
            Setup::encode(&mut buffer, Unlisted::Refused, [&[""], &[], &[], &[], &[], &[]]),
            Err(WireError::Malformed)
        );
        let long = "x".repeat(SETUP_MAX);
        assert_eq!(
            Setup::encode(&mut buffer, Unlisted::Refused, [&[long], &[], &[], &[], &[], &[]]),
            Err(WireError::TooLarge)
        );
    }

    #[test]
    fn later_messages_survive_the_wire_and_nothing_else_passes() {
        let place = |text: &str| Client::Direct(text.parse().unwrap());
        for client in [
            Client::Http,
            Client::Socks,
            Client::Lookups,
            Client::LookupMessages,
            place("198.18.0.1:5432"),
            place("[2001:db8::1]:65535"),
        ] {
            assert_eq!(Client::decode(&client.encode()), Some(client));
        }
        let mut packet = Client::Http.encode();
        packet[19] = 1;
        assert!(Client::decode(&packet).is_none());
        for packet in [&[][..], &[1; 8], &[1], &[1, 2], &[1, 0, 0], &[2, 0, 0, 0], &[0; 9]] {
            assert!(Client::decode(packet).is_none(), "{packet:?}");
        }
    }
}
