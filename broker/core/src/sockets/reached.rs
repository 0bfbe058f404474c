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
use rules::address::{canonical, is_reached_at, looked_for_at};
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

/// Where a socket of the command's own is reached.
#[derive(Debug)]
pub(super) struct Reached {
    /// What it is bound to, as a canonical address; the unspecified one is that of the loopback interface.
    pub(super) bound: SocketAddr,
    /// As addresses that sockets are bound to.
    at: Vec<SocketAddr>,
}

impl Reached {
    /// What comes of trying it for `socket`. Of all of loopback none but the addresses that clients look for are tried, and
    /// the others taken for the same where nothing translates.
    ///
    /// # Errors
    /// As [`Socket::reached_at`].
    pub(super) fn of(
        socket: &Socket,
        is_reached: impl Fn(&Socket, SocketAddr) -> io::Result<bool>,
    ) -> io::Result<Self> {
        let bound = socket.reached_at()?;
        let tried: Vec<_> = looked_for_at(bound).collect();
        let mut at = tried.clone();
        at.retain(|to| is_reached(socket, *to).unwrap_or(false));
        if at == tried && (tried == [bound] || !are_connections_tracked()) {
            at = vec![bound];
        }
        Ok(Self { bound, at })
    }

    /// Whether it is reached at `address`, a canonical one.
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.at.iter().any(|there| is_reached_at(*there, address))
    }
}

/// Whether the kernel has tracked what was tried just now, as it does for netfilter to translate addresses.
fn are_connections_tracked() -> bool {
    match proc::read("/proc/sys/net/netfilter/nf_conntrack_count") {
        Err(errno) => errno != Errno::NOENT,
        Ok(count) => count.trim_ascii() != b"0",
    }
}

/// Whether a connect to `to` comes to `listening`, which nobody in the sandbox can connect to yet.
pub(super) fn is_connected_to(listening: &Socket, to: SocketAddr) -> io::Result<bool> {
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

/// Whether `receiving`, one of UDP that hears nobody and that nobody in the sandbox can send to yet, gets what is sent to `to`.
pub(super) fn is_heard_at(receiving: &Socket, to: SocketAddr) -> io::Result<bool> {
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
