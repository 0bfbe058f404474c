//! Datagrams of UDP: races between those who send on a socket and those who connect it.

use crate::net::{connect, send_to, socket, v4};
use crate::older;
use crate::sys::{addr, call};
use crate::{number, tell};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

/// The descriptor that all threads use.
const SHARED: usize = 200;
const UDP: usize = libc::SOCK_DGRAM as usize;
const INET: usize = libc::AF_INET as usize;

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
        ("race-own-udp", [port, tries]) => race_own(v4("127.0.0.1", port), number(tries)),
        ("race-udp", [port, tries]) => race(&v4("127.0.0.1", port), number(tries)),
        _ => return false,
    }
    true
}

/// Makes, connects, dissolves and replaces a socket again and again, while others send on it in each way
/// there is, `tries` times; says how many did.
fn race(there: &[u8], tries: usize) {
    let stop = AtomicBool::new(false);
    let renew = || {
        socket(INET, UDP, 0).map(|fd| {
            let _ = call(older::SYS_dup2, &[fd, SHARED]);
            let _ = call(libc::SYS_close, &[fd]);
        })
    };
    let _ = renew();
    let left = AtomicUsize::new(tries);
    let part = [addr(b"reached"), 7];
    let message = [addr(there), there.len(), addr(&part), 1, 0, 0, 0];
    let sent = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let _ = connect(SHARED, there);
                let _ = connect(SHARED, &[0; 16]);
                let _ = renew();
            }
        });
        let senders = [0, 1].map(|offset| {
            let (left, sent, message) = (&left, &sent, &message);
            scope.spawn(move || {
                while let Ok(turn) = left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)) {
                    let done = match (turn + offset) % 16 {
                        0 => send_to(SHARED, 0, there),
                        1..=5 => call(libc::SYS_write, &[SHARED, addr(b"reached"), 7]),
                        6..=10 => call(libc::SYS_sendmsg, &[SHARED, addr(message), 0]),
                        _ => call(libc::SYS_sendto, &[SHARED, addr(b"reached"), 7, 0, 0, 0]),
                    };
                    sent.fetch_add(usize::from(done.is_ok()), Relaxed);
                }
            })
        });
        for sender in senders {
            let _ = sender.join();
        }
        stop.store(true, Relaxed);
    });
    tell("sent", &sent.load(Relaxed).to_string());
}

/// Sends to a socket of its own, and connects to it, again and again in each way there is, `tries` times, while
/// others put the address of a stranger into the place of its own, and another socket into that of the first; says
/// how much came. Afterwards it sends to the stranger.
fn race_own(there: Vec<u8>, tries: usize) {
    let Ok(server) = std::net::UdpSocket::bind("127.0.0.1:0") else { return };
    let _ = server.set_nonblocking(true);
    let own = v4("127.0.0.1", &server.local_addr().map_or(0, |own| own.port()).to_string());
    let made = |address: Option<&[u8]>| {
        let fd = socket(INET, UDP, 0)?;
        address.map_or(Ok(0), |address| send_to(fd, 0, address))?;
        Ok::<_, i32>(fd)
    };
    // One that was used, one that was not, one that is connected, and the server.
    let connected = made(None).and_then(|fd| connect(fd, &own).map(|_| fd));
    let all =
        [made(Some(&own)), made(None), connected, Ok(server.as_raw_fd().cast_unsigned() as usize)];
    let all: Vec<usize> = all.into_iter().flatten().collect();
    let put = |turn: usize| call(older::SYS_dup2, &[all[turn % all.len()], SHARED]);
    let _ = put(0);
    let address = std::array::from_fn::<_, 16, _>(|at| AtomicU8::new(own[at]));
    let (stop, left, came) = (AtomicBool::new(false), AtomicUsize::new(tries), AtomicUsize::new(0));
    let part = [addr(b"reached"), 7];
    let message = [addr(&address), 16, addr(&part), 1, 0, 0, 0, 0];
    let drain = || {
        while server.recv(&mut [0; 16]).is_ok() {
            came.fetch_add(1, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0;
            while !stop.load(Relaxed) {
                for from in [&there, &own] {
                    address.iter().zip(from).for_each(|(to, &byte)| to.store(byte, Relaxed));
                }
                turn += 1;
                if turn % 16 == 0 {
                    let _ = put(turn / 16);
                    drain();
                }
            }
        });
        let senders = [0, 1].map(|offset| {
            let (left, message, address) = (&left, &message, &address);
            scope.spawn(move || {
                while let Ok(turn) = left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)) {
                    let to = [SHARED, addr(b"reached"), 7, 0, addr(address), 16];
                    let _ = match (turn + offset) % 8 {
                        0 | 1 => call(libc::SYS_sendto, &to),
                        2 => call(libc::SYS_sendmsg, &[SHARED, addr(message), 0]),
                        3 => call(libc::SYS_sendmmsg, &[SHARED, addr(message), 1, 0]),
                        4 => call(libc::SYS_connect, &[SHARED, addr(address), 16]),
                        5 => call(libc::SYS_write, &[SHARED, addr(b"reached"), 7]),
                        6 => call(libc::SYS_sendto, &[SHARED, addr(b"reached"), 7, 0, 0, 0]),
                        _ => connect(SHARED, &[0; 16]),
                    };
                }
            })
        });
        for sender in senders {
            let _ = sender.join();
        }
        stop.store(true, Relaxed);
    });
    drain();
    // Nobody changes the address any more.
    let _ = made(Some(&there));
    tell("came", &came.load(Relaxed).to_string());
}
