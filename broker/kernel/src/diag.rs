//! Questions about sockets, of the kernel and not of /proc/net: sock_diag(7), netlink(7).

use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::net::{
    self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, netlink,
};
use std::net::{IpAddr, SocketAddr};

/// The kind of a question, and of an answer that is no error (SOCK_DIAG_BY_FAMILY in linux/sock_diag.h).
pub(super) const ANSWER: u16 = 20;
/// The length of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;
/// In a question: whatever state a socket is in, and whatever its cookie, which has two words.
pub(super) const ANY_STATE: u32 = u32::MAX;
pub(super) const NO_COOKIE: u32 = u32::MAX;
/// linux/netlink.h
pub(super) const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_DUMP: u16 = 0x300;

/// Asks for one socket, or for all that fit; what is answered can be received.
pub(super) fn ask(question: &[u8], flags: u16) -> io::Result<OwnedFd> {
    let (of, diag) = (SocketFlags::CLOEXEC, netlink::SOCK_DIAG);
    let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, of, Some(diag))?;
    // `struct nlmsghdr { length u32, type u16, flags u16, sequence u32, port u32 }`, and what is asked.
    let length = u32::try_from(HEADER + question.len()).map_err(|_| Errno::MSGSIZE)?;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend([ANSWER.to_ne_bytes(), flags.to_ne_bytes()].as_flattened());
    message.extend([0; 8]);
    message.extend(question);
    net::send(&socket, &message, SendFlags::empty())?;
    Ok(socket)
}

/// Whether anybody listens where a connect to `address` would arrive: refusing that is worth a report.
/// Nothing rests on the answer but the report and the error.
///
/// Asked by sock_diag(7), about that one address: reading /proc/net/tcp takes milliseconds, for it
/// lists all connections of the host.
pub fn anybody_listens(address: SocketAddr) -> bool {
    // Without an answer the report is made.
    is_there(address, ipproto::TCP).unwrap_or(true)
}

/// Whether anybody has a socket of UDP there. As [`anybody_listens`].
pub fn anybody_receives(address: SocketAddr) -> bool {
    is_there(address, ipproto::UDP).unwrap_or(true)
}

fn is_there(address: SocketAddr, protocol: Protocol) -> io::Result<bool> {
    let socket = ask(&question(address, protocol), NLM_F_REQUEST)?;
    let mut answer = [0; 1024];
    let (length, _) = net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    let kind = answer[..length].get(4..6).and_then(|bytes| bytes.try_into().ok());
    // What is not there is told by an error message.
    Ok(kind.map(u16::from_ne_bytes) == Some(ANSWER))
}

/// `struct inet_diag_req_v2` after its header: the socket that has this address as its own.
fn question(address: SocketAddr, protocol: Protocol) -> Vec<u8> {
    let (family, mut ip) = match address.ip() {
        IpAddr::V4(ip) => (AddressFamily::INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AddressFamily::INET6, ip.octets().to_vec()),
    };
    ip.resize(16, 0);
    let [number, ..] = protocol.as_raw().get().to_le_bytes();
    let mut question = vec![u8::try_from(family.as_raw()).unwrap_or(0), number, 0, 0];
    question.extend(ANY_STATE.to_ne_bytes());
    // The kernel looks for one of UDP by the other end (udp_dump_one in net/ipv4/udp_diag.c).
    let (own, none) = ((address.port(), ip), (0, vec![0; 16]));
    let (source, destination) = if protocol == ipproto::UDP { (none, own) } else { (own, none) };
    question.extend([source.0.to_be_bytes(), destination.0.to_be_bytes()].as_flattened());
    question.extend(source.1);
    question.extend(destination.1);
    question.extend(1_u32.to_ne_bytes()); // by the loopback interface
    question.extend([NO_COOKIE.to_ne_bytes(); 2].as_flattened());
    question
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_of_this_host_are_seen_where_they_are() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        assert!(anybody_listens(there));
        for ip in ["127.0.0.2", "::1"] {
            let elsewhere = SocketAddr::new(ip.parse().unwrap(), there.port());
            assert!(!anybody_listens(elsewhere), "{elsewhere}");
        }
        drop(listener);
        assert!(!anybody_listens(there));
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let receiver = std::net::UdpSocket::bind(ip).unwrap();
            let there = receiver.local_addr().unwrap();
            assert!(anybody_receives(there));
            drop(receiver);
            assert!(!anybody_receives(there));
        }
    }
}
