//! The broker's end of the control socket: sends the plan, hears how the child fares.

#![allow(unsafe_code)] // to take over the descriptor that the launcher named

use common::wire::{Handover, Progress};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{self, Errno, FdFlags, IoSlice, IoSliceMut};
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::mem::MaybeUninit;

/// What the child said.
#[derive(Debug)]
pub(crate) enum Message {
    /// The filter is in force; this is the listener.
    Listening(OwnedFd),
    /// The filter for where there is no listener is in force.
    Alone,
    /// It failed and has ended.
    Failed(common::wire::Step, Errno),
    /// It executed the tool, or died.
    Closed,
}

/// The socket to the child that becomes the command.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Control {
    /// Takes over the socket that the launcher left open for the broker.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the launcher left none.
    pub(crate) fn take_over(handover: &Handover) -> io::Result<Self> {
        // SAFETY: the launcher opened it for this and named it to nobody else; if it is not open,
        // the next call says so and the process ends.
        let control = unsafe { OwnedFd::from_raw_fd(handover.control) };
        io::fcntl_setfd(&control, FdFlags::CLOEXEC)?;
        Ok(Self(control))
    }

    /// Sends the filter without, the plan with the ruleset. If the child is gone, what it said
    /// last is still to be received.
    ///
    /// # Errors
    /// Returns what sendmsg(2) returns.
    pub(crate) fn send(&self, packet: &[u8], ruleset: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = ruleset.as_slice();
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(Errno::MSGSIZE);
        }
        let sent = io::retry_on_intr(|| {
            net::sendmsg(&self.0, &[IoSlice::new(packet)], &mut ancillary, SendFlags::NOSIGNAL)
        });
        match sent {
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Receives one message.
    ///
    /// # Errors
    /// Returns [`Errno::BADMSG`] for a message that the wire does not know.
    pub(crate) fn receive(&self) -> io::Result<Message> {
        let mut packet = [0; Progress::SIZE + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut receive = || {
            io::retry_on_intr(|| {
                let mut slices = [IoSliceMut::new(&mut packet)];
                net::recvmsg(&self.0, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            })
        };
        let received = match receive() {
            // The child ended before it read the plan. What it said before follows.
            Err(Errno::CONNRESET) => receive(),
            other => other,
        }?;
        let mut descriptors: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Errno::BADMSG);
        }
        if received.bytes == 0 {
            return Ok(Message::Closed);
        }
        match (Progress::decode(&packet[..received.bytes]), descriptors.pop()) {
            (Ok(Progress::Listening), Some(listener)) if descriptors.is_empty() => {
                Ok(Message::Listening(listener))
            }
            (Ok(Progress::Alone), None) => Ok(Message::Alone),
            (Ok(Progress::Failed(step, errno)), None) => {
                Ok(Message::Failed(step, Errno::from_raw_os_error(errno)))
            }
            _ => Err(Errno::BADMSG),
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
