//! Landlock domains that processes of the command put themselves in (landlock(7)), for which the broker must
//! not do what they forbid. The kernel tells of nobody which he is in.
//!
//! So before such a call goes on, the broker lowers a limit of the process that is inherited by all that it
//! makes, and that the kernel has had no use for since Linux 2.4.25 (RLIMIT_LOCKS, getrlimit(2)). Nothing in the
//! sandbox can raise that again, for the launcher gives CAP_SYS_RESOURCE up. The threads of a process share its
//! limits: one that confines itself alone counts for all.

use super::limits;
use super::request::Request;
use super::target::{Target, TargetFd};
use super::vfork_helper::{in_vfork_child, restrict};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, Ipv4Addr, SocketAddrV4, SocketFlags, SocketType};
use rustix::process::{self, Resource, Rlimit};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a domain of the target's own can forbid it beside what its sandbox does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NestedLandlock {
    /// There is none.
    None,
    /// Files and what else the broker does for it, but not the network.
    Files,
    /// All.
    Everything,
}

/// Whether there are any.
#[derive(Debug, Default)]
pub struct NestedLandlocks(AtomicBool);

impl NestedLandlocks {
    /// Notes that `request` is about to put its target under the ruleset that it has as descriptor `ruleset`.
    /// Whether that is about the network is tried on what is there now: the target confines itself.
    ///
    /// # Errors
    /// Returns [`Errno::PERM`] if that cannot be noted: nobody would know of the domain.
    pub fn note(&self, request: &Request<'_>, ruleset: TargetFd) -> io::Result<()> {
        let target = request.target();
        let own = match target.duplicate(ruleset) {
            // The kernel refuses the call, or makes no domain (LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF). If another
            // thread puts a ruleset there meanwhile, it forbids itself what the broker does for it still.
            Err(Errno::BADF) => return Ok(()),
            Ok(ruleset) if !is_about_network(ruleset.as_fd()) => NestedLandlock::Files,
            _ => NestedLandlock::Everything,
        };
        self.0.store(true, Ordering::SeqCst);
        let most = limits::own_locks().checked_sub(own as u64).ok_or(Errno::PERM)?;
        let [current, before] = limits::locks(target)?;
        let lowered = Rlimit { current: Some(current.min(most)), maximum: Some(before.min(most)) };
        // If it ends now, and another process of the user's gets its number, that one loses a limit that
        // nothing heeds. Of two threads that do this at a time, none raises what the other has lowered: the
        // broker lacks CAP_SYS_RESOURCE, and the call fails.
        request.confirm()?;
        let result = process::prlimit(Some(target.thread()), Resource::Locks, lowered);
        result.map(drop).map_err(|_| Errno::PERM)
    }

    /// What `target` is in.
    pub fn of(&self, target: Target) -> io::Result<NestedLandlock> {
        if !self.0.load(Ordering::SeqCst) {
            return Ok(NestedLandlock::None);
        }
        let [_, most] = limits::locks(target)?;
        Ok(match limits::own_locks().saturating_sub(most) {
            0 => NestedLandlock::None,
            1 => NestedLandlock::Files,
            _ => NestedLandlock::Everything,
        })
    }
}

/// Whether `ruleset` refuses a port of TCP: Landlock is asked before the kernel finds that these addresses lead
/// nowhere, and are nobody's (RFC 5737).
fn is_about_network(ruleset: BorrowedFd<'_>) -> bool {
    /// Any ports, and 0, to which nobody connects: a ruleset that is about TCP lets few of them through.
    const TRIES: usize = 4;
    let tried = in_vfork_child(|| {
        let mut random = [0; 2 * TRIES];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        restrict(ruleset)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        let any = random.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]]));
        for port in any.chain([0]) {
            let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, port);
            let nobody = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), port);
            let tried = [net::connect(&socket, &everybody), net::bind(&socket, &nobody)];
            if tried.contains(&Err(Errno::ACCESS)) {
                return Err(Errno::ACCESS);
            }
        }
        Ok(())
    });
    tried.is_err()
}
