//! Calls on terminals that reach beyond the caller: ioctl_tty(2).

use kernel::listener::Notification;
use kernel::target::TargetAddress;
use rustix::termios::QueueSelector;

/// What is asked of the terminal that a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalCall {
    /// TIOCSPGRP: puts the group with the number at this address into the foreground.
    SetForeground(TargetAddress),
    /// TIOCGPGRP: writes the number of the group in the foreground to this address.
    Foreground(TargetAddress),
    /// TIOCSCTTY: makes it the controlling one.
    Control,
    /// TIOCEXCL, TIOCNXCL: whether others can open it.
    Exclusive(bool),
    /// TCXONC with TCOOFF: holds back output.
    Suspend,
    /// TIOCSWINSZ: sets the size, of which the kernel signals the group in the foreground.
    SetSize(Value),
    /// TCSETS and its kin: sets the modes, and may throw away what was typed.
    SetModes(Value, Option<QueueSelector>),
    /// TCFLSH: throws away what waits.
    Flush(QueueSelector),
}

/// What is set: the call that does it at once, and the size and place of what that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) call: u32,
    pub(crate) size: usize,
    pub(crate) address: TargetAddress,
}

impl TerminalCall {
    /// Reads an ioctl off `notification`; none if it is one that the filter should not notify.
    pub(super) fn decode(notification: &Notification) -> Option<Self> {
        let (call, address) = (notification.unsigned(1), notification.address(2));
        // A pseudoterminal has sent what was written, after which the second and the third of them are to be made.
        let modes = |first, size| {
            let queue = (call - first == 2).then_some(QueueSelector::IFlush);
            Self::SetModes(Value { call: first, size, address }, queue)
        };
        // include/uapi/asm-generic/ioctls.h; C libraries differ about the type.
        Some(match call {
            0x5410 => Self::SetForeground(address),
            0x540f => Self::Foreground(address),
            0x540e => Self::Control,
            0x540c => Self::Exclusive(true),
            0x540d => Self::Exclusive(false),
            0x540a => Self::Suspend,
            0x5414 => Self::SetSize(Value { call, size: 8, address }),
            // Of a `struct termios`, `termio` and `termios2`.
            0x5402..=0x5404 => modes(0x5402, 36),
            0x5406..=0x5408 => modes(0x5406, 18),
            0x402c_542b..=0x402c_542d => modes(0x402c_542b, 44),
            0x540b => Self::Flush(match notification.unsigned(2) {
                0 => QueueSelector::IFlush,
                1 => QueueSelector::OFlush,
                2 => QueueSelector::IOFlush,
                _ => return None,
            }),
            _ => return None,
        })
    }
}
