//! Datagrams of UDP: races between those who send on a socket and those who connect it.

use crate::net::{connect, send_to, socket, v4};
use crate::older;
use crate::sys::{addr, call};
use crate::{number, tell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// The descriptor that all threads use.
const SHARED: usize = 200;
const UDP: usize = libc::SOCK_DGRAM as usize;
const INET: usize = libc::AF_INET as usize;

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
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
