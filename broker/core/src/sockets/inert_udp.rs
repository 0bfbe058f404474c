//! Sockets of UDP that neither send nor receive, whatever becomes of them: shut down for sending, with a filter
//! that drops what comes and cannot be taken off.
//!
//! Whatever is sent on one, in whatever way, the kernel refuses (EPIPE), and nothing undoes that: no other connect,
//! no bind, no descriptor of it in another process. It can be connected, which sends nothing, and says which address
//! the host would send from. It is deaf as well, for the kernel gives it a port of its own before it refuses to send
//! (inet_autobind). Sources: shutdown(2), inet_shutdown and inet_send_prepare in net/ipv4/af_inet.c,
//! sock_alloc_send_pskb in net/core/sock.c, SO_ATTACH_FILTER and SO_LOCK_FILTER in socket(7).

use kernel::socket_filter::drop_all;
use rustix::fd::AsFd;
use rustix::io::{self, Errno};
use rustix::net::{self, Shutdown};

/// Has the kernel send nothing on `socket` from now on, and receive nothing.
///
/// # Errors
/// Returns what shutdown(2) and setsockopt(2) return.
pub(super) fn mute(socket: impl AsFd) -> io::Result<()> {
    drop_all(socket.as_fd())?;
    match net::shutdown(socket, Shutdown::Write) {
        // What is not connected is shut down all the same.
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::net::{AddressFamily, Ipv4Addr, SocketType};

    #[test]
    fn a_mute_socket_sends_nothing_though_it_is_connected_anew() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let there = receiver.local_addr().unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        mute(&sender).unwrap();
        for _ in 0..2 {
            assert!(sender.send_to(b"reached", there).is_err());
            sender.connect(there).unwrap();
            assert!(sender.send(b"reached").is_err());
            assert!(rustix::io::write(&sender, b"reached").is_err());
            net::connect_unspec(&sender).unwrap();
        }
        assert!(receiver.recv(&mut [0; 9]).is_err());
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"reached", there).unwrap();
        assert_eq!(receiver.recv(&mut [0; 9]).unwrap(), 7);
    }

    #[test]
    fn a_mute_socket_receives_nothing_at_a_port_that_the_kernel_gives_it() {
        for is_mute in [false, true] {
            let socket = net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
            if is_mute {
                mute(&socket).unwrap();
                // It can be asked for again.
                mute(&socket).unwrap();
            }
            assert!(rustix::io::write(&socket, b"x").is_err());
            let port = std::net::SocketAddr::try_from(net::getsockname(&socket).unwrap()).unwrap();
            assert_ne!(port.port(), 0);
            let there = (Ipv4Addr::LOCALHOST, port.port());
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"reached", there).unwrap();
            let got = net::recv(&socket, &mut [0; 9][..], net::RecvFlags::DONTWAIT);
            assert_eq!(got.is_ok(), !is_mute);
        }
    }
}
