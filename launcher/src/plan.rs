//! The child's end of the control socket: receive the plan, tell the progress.

use common::wire::{PLAN_MAX, Plan, Progress};
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno, IoSlice, IoSliceMut};
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Waits for the plan and its ruleset; `None` if the broker closed its end without one.
///
/// # Errors
/// Returns [`Errno::BADMSG`] for a message that is not a plan with exactly one descriptor, else what
/// recvmsg(2) returns.
pub(crate) fn receive(control: &OwnedFd) -> io::Result<Option<(Plan<'static>, OwnedFd)>> {
    let buffer = packet_buffer();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = retry(|| {
        net::recvmsg(
            control,
            &mut [IoSliceMut::new(buffer)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    if message.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let mut descriptors = descriptors.by_ref().flatten();
    let (Some(ruleset), None) = (descriptors.next(), descriptors.next()) else {
        return Err(Errno::BADMSG);
    };
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::BADMSG);
    }
    let plan = Plan::decode(&buffer[..message.bytes]).map_err(|_| Errno::BADMSG)?;
    Ok(Some((plan, ruleset)))
}

/// Sends `progress`, with the listener when there is one.
///
/// # Errors
/// Returns what sendmsg(2) returns.
pub(crate) fn tell(
    control: &OwnedFd,
    progress: Progress,
    listener: Option<&OwnedFd>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.map_or(control.as_fd(), OwnedFd::as_fd)];
    if listener.is_some() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    let packet = progress.encode();
    retry(|| net::sendmsg(control, &[IoSlice::new(&packet)], &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    io::retry_on_intr(&mut call)
}

/// The one buffer for the plan, which lives until the tool is executed. In .bss, so that the
/// pages that stay unused cost nothing.
#[allow(unsafe_code)]
fn packet_buffer() -> &'static mut [u8] {
    static mut BUFFER: [u8; PLAN_MAX] = [0; PLAN_MAX];
    let buffer = &raw mut BUFFER;
    // SAFETY: there is one thread, and `receive` runs once, so that no other reference exists.
    unsafe { &mut *buffer }
}
