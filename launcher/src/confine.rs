//! What confines the command, in the order in which it is applied.
//!
//! Capabilities and the signal scope D0 hold for launcher, broker and command alike; the ruleset D1
//! and the filter for the command only. Sources: capabilities(7), landlock(7), seccomp(2).

use crate::sys;
use common::landlock::{RulesetAttributes, is_lacking};
use common::wire::{Filter, OF_LAUNCHER};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::thread::{self, CapabilitySet};

/// What root keeps: power over the user's files, processes and low ports.
///
/// The others are power over the machine. Some of it no Landlock rule or filter row can take back
/// (route sockets with NET_ADMIN, /proc/kcore with SYS_RAWIO, device nodes with MKNOD). With FSETID a set-user-ID program
/// would stay one that is written to. The broker gives them up too: it acts for the command and must not have more rights
/// than it.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::IPC_LOCK);

/// What the broker has besides, as root: it reads the memory of processes of the sandbox that hide it,
/// as those do that change their user. D0 confines that to them (landlock(7), ptrace restrictions).
pub(crate) const PTRACE_CAPABILITY: CapabilitySet = CapabilitySet::SYS_PTRACE;

/// Gives up the capabilities outside [`KEPT`] and `besides`, for good: no_new_privs keeps execve(2) from
/// restoring them even for root.
pub(crate) fn drop_capabilities(besides: CapabilitySet) -> io::Result<()> {
    let mut sets = thread::capabilities(None)?;
    let kept = KEPT | besides;
    if sets.permitted.is_empty() {
        return Ok(());
    }
    sets.permitted &= kept;
    sets.effective &= kept;
    sets.inheritable &= KEPT;
    thread::set_capabilities(None, sets)
}

/// Enters D0, a domain that only scopes signals (Landlock ABI 6, Linux 6.12). It confines the
/// broker's kill(-1) to what it started; the command's own domain nests inside. Older kernels have no
/// scopes: there it only tells what is of the sandbox, which alone may be traced from in it.
///
/// A domain that does not allow moving and linking between directories denies it, even if it
/// handles no file access (landlock(7), LANDLOCK_ACCESS_FS_REFER), and so would take it from the
/// command's domain too: it is allowed here everywhere.
///
/// # Errors
/// Returns the errno of the kernel that cannot scope; the broker decides what follows from it.
pub(crate) fn enter_common_domain() -> io::Result<()> {
    const LANDLOCK_SCOPE_SIGNAL: u64 = 1 << 1;
    match enter(LANDLOCK_SCOPE_SIGNAL) {
        Err(errno) if is_lacking(errno.raw_os_error()) => enter(0).and(Err(errno)),
        entered => entered,
    }
}

fn enter(scoped: u64) -> io::Result<()> {
    const LANDLOCK_ACCESS_FS_REFER: u64 = 1 << 13;
    let ruleset = sys::landlock_create_ruleset(&RulesetAttributes {
        handled_access_fs: LANDLOCK_ACCESS_FS_REFER,
        scoped,
        ..RulesetAttributes::default()
    })?;
    let root = fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    sys::landlock_allow_beneath(ruleset.as_fd(), root.as_fd(), LANDLOCK_ACCESS_FS_REFER)?;
    restrict(ruleset, true)
}

/// Enters the domain of `ruleset`. A broker is told of it, which must not do what that forbids, unless it
/// `is_known`: the own broker knows the command's, and D0 forbids nothing that one does.
pub(crate) fn restrict(ruleset: OwnedFd, is_known: bool) -> io::Result<()> {
    sys::landlock_restrict_self(ruleset.as_fd(), if is_known { OF_LAUNCHER } else { 0 })
}

/// Installs the filter and returns its listener; without one where the kernel gives none, because
/// one exists already or the surrounding sandbox forbids it, and the broker has a filter for that.
pub(crate) fn install_filter(filter: &Filter<'_>) -> io::Result<Option<OwnedFd>> {
    match sys::seccomp_listener(filter.program) {
        Err(Errno::BUSY | Errno::PERM) if !filter.alone.is_empty() => {
            sys::seccomp_filter(filter.alone).map(|()| None)
        }
        installed => installed.map(Some),
    }
}
