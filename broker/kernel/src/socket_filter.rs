//! From whom a socket of UDP receives: a filter of the classic kind on it (socket(7), SO_ATTACH_FILTER), which
//! the command can neither change nor take off, for the system call filter keeps it from those options.
//!
//! Source: Documentation/networking/filter.rst; the header of UDP is at 0, that of IP at SKF_NET_OFF.

#![allow(unsafe_code)]

use super::options::{number, set};
use nix::libc::{self, sock_filter};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{self, Errno};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// linux/filter.h and linux/bpf_common.h: load a byte, a half word, a word; mask, compare, jump, return.
const LDB: u16 = 0x30;
const LDH: u16 = 0x28;
const LDW: u16 = 0x20;
const AND: u16 = 0x54;
const JEQ: u16 = 0x15;
const JA: u16 = 0x05;
const RET: u16 = 0x06;
/// The header of IP (SKF_NET_OFF), and where the sender stands in it.
const IP: u32 = 0xfff0_0000;
const V4_SENDER: u32 = 12;
const V6_SENDER: u32 = 8;
/// Most instructions (BPF_MAXINSNS).
const LENGTH_MAX: usize = 4096;

/// Has `socket` receive nothing from now on; nobody can change that (SO_LOCK_FILTER in socket(7)).
pub fn drop_all(socket: BorrowedFd<'_>) -> io::Result<()> {
    match attach(socket, &mut [instruction(RET, 0)]) {
        // It is locked: this was done before.
        Err(Errno::PERM) => return Ok(()),
        result => result?,
    }
    let locked: libc::c_int = 1;
    // SAFETY: the kernel reads one number.
    unsafe { set(socket, (libc::SOL_SOCKET, libc::SO_LOCK_FILTER), &locked) }
}

/// Has `socket` receive what comes from one of `senders`, and nothing else, until it is called again.
///
/// # Errors
/// Returns [`Errno::NOBUFS`] for too many, and what setsockopt(2) returns.
pub fn hear_only(socket: BorrowedFd<'_>, senders: &[SocketAddr]) -> io::Result<()> {
    let mut program = program(senders);
    if program.len() > LENGTH_MAX {
        return Err(Errno::NOBUFS);
    }
    attach(socket, &mut program)
}

/// Whether `socket` has a filter that can still be changed: not that of [`drop_all`].
pub fn can_hear(socket: BorrowedFd<'_>) -> bool {
    let mut count = 0;
    // SAFETY: of a filter the kernel tells the number of instructions where there is room for none (SO_GET_FILTER).
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_GET_FILTER,
            std::ptr::null_mut(),
            &raw mut count,
        )
    };
    result == 0 && count > 0 && number(socket, libc::SO_LOCK_FILTER) == Ok(0)
}

fn attach(socket: BorrowedFd<'_>, program: &mut [sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| Errno::NOBUFS)?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, and the instructions that it points to.
    unsafe { set(socket, (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER), &program) }
}

/// First by the kind of IP, then by address, then by port.
fn program(senders: &[SocketAddr]) -> Vec<sock_filter> {
    let mut ports: BTreeMap<IpAddr, Vec<u16>> = BTreeMap::new();
    for sender in senders {
        ports.entry(sender.ip().to_canonical()).or_default().push(sender.port());
    }
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for (ip, ports) in ports {
        match ip {
            IpAddr::V4(ip) => v4.extend(group(V4_SENDER, &ip.octets(), &ports)),
            IpAddr::V6(ip) => v6.extend(group(V6_SENDER, &ip.octets(), &ports)),
        }
    }
    v4.push(instruction(RET, 0));
    v6.push(instruction(RET, 0));
    let mut program = vec![instruction(LDB, IP), instruction(AND, 0xf0)];
    program.extend(unless_equal(0x40, v4.len()));
    program.extend(v4);
    program.extend(v6);
    program
}

/// Lets through what comes from one of `ports` at the address of these octets, which stands at `at`.
fn group(at: u32, octets: &[u8], ports: &[u16]) -> Vec<sock_filter> {
    let mut group = vec![instruction(LDH, 0)];
    for &port in ports {
        group.push(sock_filter { code: JEQ, jt: 0, jf: 1, k: port.into() });
        group.push(instruction(RET, u32::MAX));
    }
    group.push(instruction(RET, 0));
    let words = octets.as_chunks().0.iter().copied().map(u32::from_be_bytes);
    for (word, at) in words.zip((at..).step_by(4)).collect::<Vec<_>>().into_iter().rev() {
        let mut outer = vec![instruction(LDW, IP + at)];
        outer.extend(unless_equal(word, group.len()));
        outer.append(&mut group);
        group = outer;
    }
    group
}

/// Skips what follows, of this length, unless the value that was loaded is `value`.
fn unless_equal(value: u32, length: usize) -> [sock_filter; 2] {
    // No program is as long as that.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    [sock_filter { code: JEQ, jt: 1, jf: 0, k: value }, instruction(JA, length)]
}

fn instruction(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn only_those_that_are_named_are_heard() {
        for (at, from, beside) in [
            ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.2:0"),
            ("[::1]:0", "[::1]:0", "[::1]:0"),
            ("[::]:0", "127.0.0.3:0", "[::1]:0"),
        ] {
            let receiver = UdpSocket::bind(at).unwrap();
            receiver.set_nonblocking(true).unwrap();
            let (named, other) = (UdpSocket::bind(from).unwrap(), UdpSocket::bind(beside).unwrap());
            let heard = |senders: &[SocketAddr], sender: &UdpSocket| {
                hear_only(receiver.as_fd(), senders).unwrap();
                let mut there = receiver.local_addr().unwrap();
                if there.ip().is_unspecified() {
                    there.set_ip(sender.local_addr().unwrap().ip());
                }
                sender.send_to(b"heard", there).unwrap();
                receiver.recv(&mut [0; 9]).is_ok()
            };
            assert!(!can_hear(receiver.as_fd()));
            let name = named.local_addr().unwrap();
            let mut same_port = other.local_addr().unwrap();
            same_port.set_port(name.port());
            let many: Vec<_> = (1..1500).map(|port| SocketAddr::new(name.ip(), port)).collect();
            assert!(!heard(&[], &named));
            assert!(can_hear(receiver.as_fd()));
            assert!(heard(&[name], &named));
            assert!(!heard(&[name], &other), "{at}");
            assert!(heard(&[other.local_addr().unwrap(), name], &named));
            assert_eq!(heard(&[same_port], &named), same_port == name, "{at}");
            assert!(!heard(&many, &named) || name.port() < 1500);
            assert!(heard(&[&many[..], &[name]].concat(), &named));
            assert_eq!(hear_only(receiver.as_fd(), &many.repeat(2)), Err(Errno::NOBUFS));
            drop_all(receiver.as_fd()).unwrap();
            assert!(!can_hear(receiver.as_fd()));
        }
    }
}
