//! Calls on terminals that reach beyond the caller: ioctl_tty(2).

use kernel::listener::Notification;
use kernel::target::TargetAddress;

/// What is asked of the terminal that a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalCall {
    /// TIOCSPGRP: puts the group with the number at this address into the foreground.
    SetForeground(TargetAddress),
    /// TIOCGPGRP: writes the number of the group in the foreground to this address.
    Foreground(TargetAddress),
    /// TIOCSWINSZ: sets the size at this address, of which the kernel signals the group in the foreground.
    SetSize(TargetAddress),
    /// TIOCEXCL, TIOCNXCL: whether others can open it.
    Exclusive(bool),
    /// TCXONC with TCOOFF: holds back output.
    Suspend,
}

impl TerminalCall {
    /// Reads an ioctl off `notification`; none if it is one that the filter should not notify.
    pub(super) fn decode(notification: &Notification) -> Option<Self> {
        let address = notification.address(2);
        // include/uapi/asm-generic/ioctls.h; C libraries differ about the type.
        Some(match notification.unsigned(1) {
            0x5410 => Self::SetForeground(address),
            0x540f => Self::Foreground(address),
            0x5414 => Self::SetSize(address),
            0x540c => Self::Exclusive(true),
            0x540d => Self::Exclusive(false),
            0x540a => Self::Suspend,
            _ => return None,
        })
    }
}
