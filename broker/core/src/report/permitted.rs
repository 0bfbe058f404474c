//! What a run that permits lets through, for a reader outside of the core: it says what a policy would have to allow.
//! Nothing is decided by it, but which hosts a run that learns stays away from past the proxy.

use kernel::target::Target;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What was done for a target, or let through.
#[derive(Debug)]
pub enum Permitted<'a> {
    /// A file was made, changed or removed, which the policy of the run does not allow.
    Write(PathBuf),
    /// A connection was begun; the proxy takes it if it `is_led`.
    Connect { to: SocketAddr, from: u16, is_led: bool },
    /// A message was sent by UDP.
    Send(SocketAddr),
    /// A Unix socket was reached that is not the command's own.
    Peer(&'a Path),
    /// A socket was bound to what it asked for, and got this port.
    Bind { asked: SocketAddr, got: u16, is_udp: bool },
    /// A Unix socket was bound to this path.
    BindPath(&'a Path),
    /// A socket listens at this port.
    Listen(u16),
    /// The proxy reached a host that no rule names.
    Host { host: &'a [u8], port: u16, is_private: bool, client: u16 },
}

/// Who is told of it.
pub trait Witness: Debug + Send + Sync {
    /// Takes note of it; `by` whom, unless the proxy says so.
    fn note(&self, what: Permitted<'_>, by: Option<Target>);

    /// Whether the policy denies this address as a host: past the proxy there are no names.
    fn denies(&self, address: SocketAddr) -> bool;
}
