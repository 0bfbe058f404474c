//! The child's end of the control socket: receive filter and plan, tell the progress.

use common::passing::{self, receive};
use common::wire::{Filter, MESSAGE_MAX, Plan, Progress};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{self, SendFlags};

/// Room for one message.
pub(crate) type Packet = [u8; MESSAGE_MAX];

/// Waits for the filter; `None` if the broker closed its end instead.
///
/// # Errors
/// Returns [`Errno::BADMSG`] for another message, else what recvmsg(2) returns.
pub(crate) fn receive_filter<'a>(
    control: &OwnedFd,
    packet: &'a mut Packet,
) -> io::Result<Option<Filter<'a>>> {
    match receive(control, packet)? {
        (0, None) => Ok(None),
        (length, None) => Filter::decode(&packet[..length]).map(Some).ok_or(Errno::BADMSG),
        (_, Some(_)) => Err(Errno::BADMSG),
    }
}

/// Waits for the plan and its ruleset; `None` if the broker closed its end instead.
pub(crate) fn receive_plan<'a>(
    control: &OwnedFd,
    packet: &'a mut Packet,
) -> io::Result<Option<(Plan<'a>, OwnedFd)>> {
    match receive(control, packet)? {
        (0, None) => Ok(None),
        (length, Some(ruleset)) => {
            let plan = Plan::decode(&packet[..length]).ok_or(Errno::BADMSG)?;
            Ok(Some((plan, ruleset)))
        }
        (_, None) => Err(Errno::BADMSG),
    }
}

/// Hands the listener over, or says that there is none.
///
/// Under a filter that notifies sendmsg(2) the child would wait in that for an answer that nobody
/// can give before the listener has arrived: then the broker is told its number, and takes it.
pub(crate) fn hand_over(
    control: &OwnedFd,
    listener: Option<&OwnedFd>,
    by_number: bool,
) -> io::Result<()> {
    match listener {
        None => tell(control, Progress::Alone),
        Some(listener) if by_number => tell(control, Progress::ListeningAs(listener.as_raw_fd())),
        Some(listener) => {
            let packet = Progress::Listening.encode();
            passing::send(control, &packet, &[listener.as_fd()], SendFlags::empty())
        }
    }
}

/// Sends `progress`, by a call that no filter of the broker's notifies.
pub(crate) fn tell(control: &OwnedFd, progress: Progress) -> io::Result<()> {
    io::retry_on_intr(|| net::send(control, &progress.encode(), SendFlags::NOSIGNAL))?;
    Ok(())
}

/// The one buffer for messages. It lies in .bss, so that the pages that stay unused cost nothing.
#[allow(unsafe_code)]
pub(crate) fn packet() -> &'static mut Packet {
    static mut PACKET: Packet = [0; MESSAGE_MAX];
    let packet = &raw mut PACKET;
    // SAFETY: `confine_and_execute` calls this once in the life of the child, and the launcher, which
    // may share the memory, never does: no other reference exists.
    unsafe { &mut *packet }
}
