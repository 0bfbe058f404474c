//! Packets with descriptors, over the sockets between landstrip's own programs (unix(7), SCM_RIGHTS).

use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno, IoSlice, IoSliceMut};
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Sends `packet`, and `descriptors` with it, of which there are four at the most.
pub fn send(
    socket: impl AsFd,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    let flags = flags | SendFlags::NOSIGNAL;
    let parts = [IoSlice::new(packet)];
    io::retry_on_intr(|| net::sendmsg(&socket, &parts, &mut ancillary, flags)).map(drop)
}

/// Receives a packet into `packet`, and at most one descriptor; returns the packet's length, which is 0
/// when the other end is closed.
///
/// # Errors
/// Returns [`Errno::BADMSG`] if there is more of either, or what recvmsg(2) returns.
pub fn receive(socket: impl AsFd, packet: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(packet)];
        net::recvmsg(&socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let messages = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors = messages.flatten();
    match (descriptors.next(), descriptors.next()) {
        _ if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) => {
            Err(Errno::BADMSG)
        }
        (descriptor, None) => Ok((received.bytes, descriptor)),
        _ => Err(Errno::BADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn one_descriptor_goes_with_a_packet_and_no_more() {
        let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
        let (other, _) = socketpair(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
        let mut packet = [0; 4];
        for descriptors in [&[][..], &[other.as_fd()]] {
            send(&ours, b"abc", descriptors, SendFlags::empty()).unwrap();
            let (length, received) = receive(&theirs, &mut packet).unwrap();
            assert_eq!(
                (&packet[..length], received.is_some()),
                (&b"abc"[..], !descriptors.is_empty())
            );
        }
        send(&ours, b"abcde", &[], SendFlags::empty()).unwrap();
        assert_eq!(receive(&theirs, &mut packet).err(), Some(Errno::BADMSG));
        send(&ours, b"x", &[other.as_fd(), other.as_fd()], SendFlags::empty()).unwrap();
        assert_eq!(receive(&theirs, &mut packet).err(), Some(Errno::BADMSG));
        drop(ours);
        assert!(matches!(receive(&theirs, &mut packet), Ok((0, None))));
    }
}
