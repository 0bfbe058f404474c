//! Whether what is sent to an address gets to the socket that has it. A host can translate addresses, also those of the
//! loopback interface: netfilter, as Docker does for its name server, or a BPF program at connect(2), as Kubernetes does for
//! the ports of nodes. To what the command has at such an address the broker would connect, and reach somebody else.
//!
//! So before a socket is known as the command's own, the broker sends it something by itself: to a server the first
//! connection, which is accepted here. Where that does not arrive, the command does not reach it either. What begins to
//! translate later is not noticed.

use super::socket::{Socket, has_room_within, local_address, ready_within};
use super::unwaiting::without_waiting;
use kernel::proc;
use kernel::socket_filter::hear_only;
use rules::address::{canonical, looked_for_at};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::time::Duration;

/// How long something may take to arrive on this host. Only what is translated takes as long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most connections of others that may come before.
const OTHERS_MAX: usize = 64;

/// Where `listening`, which nobody in the sandbox can connect to yet, is reached if it has the canonical address `bound`.
pub(super) fn by_connecting(listening: &Socket, bound: SocketAddr) -> Vec<SocketAddr> {
    reached(bound, |to| is_connected_to(listening, to))
}

/// Where `receiving`, one of UDP that hears nobody and that nobody in the sandbox can send to yet, is reached if it has the
/// canonical address `bound`.
pub(super) fn by_sending(receiving: &Socket, bound: SocketAddr) -> Vec<SocketAddr> {
    reached(bound, |to| is_heard_at(receiving, to))
}

/// As addresses that sockets are bound to. Of all of loopback none but those that clients look for are tried, and the
/// others taken for the same where nothing translates.
fn reached(
    bound: SocketAddr,
    is_reached: impl Fn(SocketAddr) -> io::Result<bool>,
) -> Vec<SocketAddr> {
    let tried: Vec<_> = looked_for_at(bound).collect();
    let mut reached = tried.clone();
    reached.retain(|to| is_reached(*to).unwrap_or(false));
    let is_all = reached == tried && (tried == [bound] || !are_connections_tracked());
    if is_all { vec![bound] } else { reached }
}

/// Whether the kernel has tracked what was tried just now, as it does for netfilter to translate addresses.
fn are_connections_tracked() -> bool {
    match proc::read("/proc/sys/net/netfilter/nf_conntrack_count") {
        Err(errno) => errno != Errno::NOENT,
        Ok(count) => count.trim_ascii() != b"0",
    }
}

fn is_connected_to(listening: &Socket, to: SocketAddr) -> io::Result<bool> {
    let scout = scout(to, SocketType::STREAM)?;
    // It leaves nothing behind at this port (socket(7)).
    sockopt::set_socket_linger(&scout, Some(Duration::ZERO))?;
    match net::connect(&scout, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    has_room_within(&scout, PATIENCE)?;
    // A server can have asked for those alone that say something (TCP_DEFER_ACCEPT).
    net::send(&scout, b"\n", SendFlags::NOSIGNAL)?;
    let own = local_address(&scout)?;
    for _ in 0..OTHERS_MAX {
        if !ready_within(listening, PollFlags::IN, PATIENCE)? {
            break;
        }
        let (_, peer) = without_waiting(listening, || net::acceptfrom(listening))??;
        if peer.and_then(|peer| SocketAddr::try_from(peer).ok()).map(canonical) == Some(own) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_heard_at(receiving: &Socket, to: SocketAddr) -> io::Result<bool> {
    let scout = scout(to, SocketType::DGRAM)?;
    net::connect(&scout, &to)?;
    hear_only(receiving.as_fd(), &[local_address(&scout)?])?;
    net::send(&scout, b"\n", SendFlags::NOSIGNAL)?;
    let arrived = ready_within(receiving, PollFlags::IN, PATIENCE)
        .and_then(|_| net::recv(receiving, &mut [0; 1][..], RecvFlags::DONTWAIT));
    hear_only(receiving.as_fd(), &[])?;
    Ok(arrived.is_ok())
}

/// A socket to reach `to` by, which does not wait.
fn scout(to: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}
