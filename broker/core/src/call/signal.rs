//! Calls that send signals, or have the kernel send them: kill(2), tkill(2), rt_sigqueueinfo(2), pidfd_send_signal(2),
//! fcntl(2).

use kernel::listener::Notification;
use kernel::target::{TargetAddress, TargetFd};
use landstrip_filter::Syscall;
use rustix::fs::OFlags;

/// A signal to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalCall {
    pub(crate) to: Addressee,
    /// Its number; 0 only asks whether there is anybody.
    pub(crate) number: i32,
    /// Where the information that goes with it lies (`siginfo_t`); null if the kernel makes it.
    pub(crate) info: TargetAddress,
}

/// To whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressee {
    /// The process that this is the id of, or of a thread of.
    Process(i32),
    /// The thread with this id.
    Thread(i32),
    /// The thread with the second id, if it is of the process with the first.
    ThreadOf(i32, i32),
    /// Everybody (-1), a process group (its negative id), or the caller's own (0).
    Several(i32),
    /// The process that a descriptor stands for, with the flags of the call.
    Handle(TargetFd, u32),
}

/// What is asked for of the signals that tell what happens on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerCall {
    /// F_SETOWN: they are for this process; for nobody, if it is 0.
    Owner(i32),
    /// F_SETFL of these flags, with O_ASYNC: that they are sent.
    Flags(OFlags),
    /// FIOASYNC: whether they are, which the number at this address says.
    Switch(TargetAddress),
}

impl SignalCall {
    /// Reads it off `notification`; none if it is another call.
    pub(super) fn decode(call: Syscall, notification: &Notification) -> Option<Self> {
        let n = notification;
        let (to, number, info) = match call {
            Syscall::kill => (Addressee::of_kill(n.int(0)), 1, None),
            Syscall::tkill => (Addressee::Thread(n.int(0)), 1, None),
            Syscall::tgkill => (Addressee::ThreadOf(n.int(0), n.int(1)), 2, None),
            Syscall::rt_sigqueueinfo => (Addressee::Process(n.int(0)), 1, Some(2)),
            Syscall::rt_tgsigqueueinfo => (Addressee::ThreadOf(n.int(0), n.int(1)), 2, Some(3)),
            Syscall::pidfd_send_signal => {
                (Addressee::Handle(n.descriptor(0), n.unsigned(3)), 1, Some(2))
            }
            _ => return None,
        };
        let info = info.map_or(TargetAddress::new(0), |index| n.address(index));
        Some(Self { to, number: n.int(number), info })
    }
}

impl Addressee {
    /// As kill(2) takes it.
    pub(crate) fn of_kill(id: i32) -> Self {
        if id > 0 { Self::Process(id) } else { Self::Several(id) }
    }
}
